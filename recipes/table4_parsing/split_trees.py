"""Split a treebank in two: nothing is trained or chosen on the last trees, the test part.

split_trees.py TREES COUNT TRAIN TEST      COUNT: trees of the test part
"""

import sys
from pathlib import Path

from aiayn.data.atomic import write_bytes
from aiayn.data.trees import read_trees, write


def main() -> None:
    source, count, train, test = sys.argv[1:]
    # The last ones together: neighbors are of the same article, and share its words.
    lines = [f"{write(tree)}\n" for tree in read_trees(Path(source))]
    for part, path in ((lines[: -int(count)], train), (lines[-int(count) :], test)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_bytes(Path(path), "".join(part).encode())


if __name__ == "__main__":
    main()
