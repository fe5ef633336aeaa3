"""`python -m aiayn` and `torchrun -m aiayn` are the same program as `aiayn`."""

from aiayn.cli import program

if __name__ == "__main__":
    program()
