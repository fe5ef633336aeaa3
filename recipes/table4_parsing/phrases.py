"""Print the constituents of trees as trees of their own: more to learn from a small treebank.

phrases.py TREES [SHORTEST]      SHORTEST: words of a constituent that is printed (default: 3)

Each is printed once, without the whole trees.
"""

import sys
from pathlib import Path

from aiayn.data.trees import Tree, clean, read_trees, walk, write


def phrases(tree: Tree, shortest: int) -> list[Tree]:
    """Return the constituents of a cleaned tree below its root that have enough words."""
    roots = {id(tree), *(id(child) for child in tree.children)}
    return [
        node
        for node, opens in walk(tree)
        if opens and not node.word and id(node) not in roots and length(node) >= shortest
    ]


def length(tree: Tree) -> int:
    """Return the number of words."""
    return sum(bool(node.word) for node, _ in walk(tree))


def main() -> None:
    shortest = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    cleaned = (clean(tree) for tree in read_trees(Path(sys.argv[1])))
    found = (write(each) for tree in cleaned if tree for each in phrases(tree, shortest))
    for line in dict.fromkeys(found):
        print(f"( {line} )")


if __name__ == "__main__":
    main()
