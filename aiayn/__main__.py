"""`python -m aiayn` and `torchrun -m aiayn` are the same program as `aiayn`."""

from aiayn.cli import main

if __name__ == "__main__":
    main()
