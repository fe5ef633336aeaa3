"""Print trees of a toy grammar, one per line, as the Penn Treebank writes them: for rehearsals.

make_trees.py COUNT SEED
"""

import random
import sys

GRAMMAR = {
    "S": ["NP VP ."],
    "NP": ["DT NN", "DT JJ NN", "NNS", "NP PP"],
    "VP": ["VBD NP", "VBD NP PP", "VBD SBAR"],
    "PP": ["IN NP"],
    "SBAR": ["IN S2"],
    "S2": ["NP VP"],
}
WORDS = {
    "DT": ["the", "a", "every", "this"],
    "NN": ["dog", "market", "trader", "bond", "house", "price"],
    "NNS": ["traders", "prices", "shares", "banks"],
    "JJ": ["old", "small", "volatile", "new"],
    "VBD": ["saw", "said", "bought", "raised", "knew"],
    "IN": ["in", "of", "with", "near", "that"],
    ".": ["."],
}
DEEPEST = 6
"""Below it, a symbol takes its first rule; the first rules have no recursion."""


def grow(symbol: str, draw: random.Random, depth: int = 0) -> str:
    """Return a tree below a symbol."""
    if symbol in WORDS:
        return f"({symbol} {draw.choice(WORDS[symbol])})"
    rules = GRAMMAR[symbol]
    rule = draw.choice(rules) if depth < DEEPEST else rules[0]
    children = " ".join(grow(child, draw, depth + 1) for child in rule.split())
    return f"({symbol.rstrip('2')} {children})"


def main() -> None:
    count, seed = map(int, sys.argv[1:])
    draw = random.Random(seed)
    for _ in range(count):
        print(f"( {grow('S', draw)} )")


if __name__ == "__main__":
    main()
