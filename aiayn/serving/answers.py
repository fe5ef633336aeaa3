"""What a client gets for its texts, from what their lines gave."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from aiayn.serving.queries import TranslateQuery
from aiayn.serving.worker import TranslatedLine


def split_lines(texts: Sequence[str]) -> list[list[str]]:
    """Return the lines of each text; only a line feed ends one, as in a file."""
    return [text.split("\n") for text in texts]


def describe_translations(
    query: TranslateQuery, texts: Sequence[Sequence[str]], found: Sequence[TranslatedLine]
) -> dict[str, Any]:
    """Return the answer to a query, whose texts have these lines."""
    left = iter(found)
    of_texts = [list(islice(left, len(lines))) for lines in texts]
    ranked = [join_translations(lines) for lines in of_texts]
    columns: dict[str, list[Any]] = {"translatedText": [ranks[0] for ranks in ranked]}
    if query.alternatives:
        columns["alternatives"] = [ranks[1:] for ranks in ranked]
    if query.scores:
        columns["scores"] = [join_scores(lines) for lines in of_texts]
    if query.alignments:
        columns["alignments"] = [join_words(lines) for lines in of_texts]
    # One text has values in place of lists.
    answer = columns if query.is_list else {name: values[0] for name, values in columns.items()}
    if query.detected:
        return {**answer, "detectedLanguage": {"confidence": 0.0, "language": query.pair[0]}}
    return answer


def join_translations(lines: Sequence[TranslatedLine]) -> list[str]:
    """Return the translations of a text: the best of its lines, the second best, and so on."""
    return [
        "\n".join(line.texts[min(rank, len(line.texts) - 1)] for line in lines)
        for rank in _ranks(lines)
    ]


def join_scores(lines: Sequence[TranslatedLine]) -> list[float]:
    """Return the scores of these translations."""
    return [
        sum(line.scores[min(rank, len(line.scores) - 1)] for line in lines)
        for rank in _ranks(lines)
    ]


def _ranks(lines: Sequence[TranslatedLine]) -> range:
    """Return the ranks of a text's translations; a line with few repeats its last."""
    return range(max(len(line.texts) for line in lines))


def join_words(lines: Sequence[TranslatedLine]) -> dict[str, Any]:
    """Return the words of all lines and of their translations, and which belong together."""
    source: list[str] = []
    target: list[str] = []
    pairs: list[tuple[int, int]] = []
    for words in (line.words for line in lines if line.words is not None):
        pairs += [(x + len(source), y + len(target)) for x, y in words.pairs]
        source += words.source
        target += words.target
    return {"source": source, "target": target, "pairs": pairs}
