"""chrF of every pair of some texts at once, as sacreBLEU scores a sentence: for `--mbr`.

sacreBLEU counts the n-grams of both texts anew for each pair. Here those of each text are
counted once: a text is the set of its n-grams, the second occurrence being another member than
the first, so that the matches of two texts are the size of what their sets have in common.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# sacreBLEU's defaults: characters of an n-gram, and the weight of recall.
ORDER, BETA = 6, 2


def chrf_of_pairs(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return chrF2 of each text, a row, against each as its reference, a column."""
    size = len(texts)
    characters = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((size, size)) for _ in range(3))
    for order in range(1, ORDER + 1):
        counts = np.array([float(max(len(text) - order + 1, 0)) for text in characters])
        matches = _matches(characters, order)
        both = (counts[:, None] > 0) & (counts[None, :] > 0)
        orders += both
        # Where a text has no n-grams, it has no matches either.
        precision += matches / np.maximum(counts[:, None], 1)
        recall += matches / np.maximum(counts[None, :], 1)
    precision /= np.maximum(orders, 1)
    recall /= np.maximum(orders, 1)
    weight = BETA**2
    total = weight * precision + recall
    score = (1 + weight) * precision * recall / np.where(total > 0, total, 1)
    return 100 * score


def _matches(texts: Sequence[str], order: int) -> NDArray[np.float64]:
    """Return how many n-grams of that order each two texts have in common."""
    # Members are numbered as they come.
    number: defaultdict[tuple[str, int], int] = defaultdict()
    number.default_factory = number.__len__
    members = []
    for text in texts:
        seen: Counter[str] = Counter()
        for start in range(len(text) - order + 1):
            ngram = text[start : start + order]
            seen[ngram] += 1
            members.append(number[ngram, seen[ngram]])
    lengths = [max(len(text) - order + 1, 0) for text in texts]
    has = np.zeros((len(texts), len(number)), np.float32)
    has[np.repeat(np.arange(len(texts)), lengths), members] = 1
    return (has @ has.T).astype(np.float64)


def expected_chrf(texts: Sequence[str]) -> list[float]:
    """Return the mean chrF of each text against all of them, itself included."""
    times = Counter(texts)
    different = list(times)
    weights = np.array(list(times.values())) / len(texts)
    means = (chrf_of_pairs(different) * weights).sum(axis=1)
    found: dict[str, float] = dict(zip(different, means.tolist(), strict=True))
    return [found[text] for text in texts]
