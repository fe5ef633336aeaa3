"""Labelled bracketing scores, figure for figure as EVALB computes them, without its limits.

EVALB leaves a broken tree out of every figure, so one right tree and three broken ones score
100. The same happens here, but the broken ones are counted beside the figures, and F1 is also
given with every bracket of theirs counted as wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiayn.scoring.parameters import COLLINS, Parameters
from aiayn.scoring.reading import Reading, read_tree, restore_quotes
from aiayn.scoring.score import Score, require_same_count

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One tree against its gold tree; `problems` are what EVALB says on standard error."""

    length: int
    gold: int
    """Brackets in the gold tree."""
    test: int
    """Brackets in the tree under test."""
    problems: tuple[str, ...] = ()
    skipped: bool = False
    matched: int = 0
    crossing: int = 0
    words: int = 0
    tagged: int = 0
    """Words whose tag is right."""

    @property
    def valid(self) -> bool:
        """Whether EVALB takes the sentence into its figures."""
        return not self.problems and not self.skipped


@dataclass(frozen=True, slots=True)
class Report:
    """Every sentence, and the parameters it was scored by."""

    sentences: list[Sentence]
    parameters: Parameters

    @property
    def broken(self) -> int:
        """Trees that EVALB leaves out."""
        return sum(not sentence.valid for sentence in self.sentences)

    def messages(self, limit: int = 20) -> list[str]:
        """Return what EVALB says about broken trees: the number of the tree, and why."""
        messages = [
            f"{number} : {problem}"
            for number, sentence in enumerate(self.sentences, start=1)
            for problem in sentence.problems
        ]
        more = len(messages) - limit
        return [*messages[:limit], f"and {more:,} more"] if more > 0 else messages

    def scores(self) -> list[Score]:
        """Return F1 of all sentences, and of those up to the cut-off, with its parts."""
        cutoff = self.parameters.cutoff
        short = [sentence for sentence in self.sentences if sentence.length <= cutoff]
        labeled = "yes" if self.parameters.labeled else "no"
        signature = f"params:{self.parameters.name}|labeled:{labeled}|length:"
        return [
            _score(_figures(self.sentences), f"{signature}all", ""),
            _score(_figures(short), f"{signature}<={cutoff}", f"@{cutoff}"),
        ]


def score_trees(
    gold: Sequence[str], test: Sequence[str], parameters: Parameters = COLLINS
) -> Report:
    """Compare each tree with its gold tree; a string holds a whole tree."""
    require_same_count(test, gold, names=("the test", "the gold"), unit="trees")
    sentences = [
        _compare(read_tree(one, parameters), read_tree(other, parameters), parameters)
        for one, other in zip(gold, test, strict=True)
    ]
    return Report(sentences, parameters)


def _compare(gold: Reading, test: Reading, parameters: Parameters) -> Sentence:
    skipped = not test.leaves
    problems = [*gold.problems, *test.problems]
    if not skipped:
        if len(gold.leaves) != len(test.leaves):
            restore_quotes(gold, test, parameters)
        problems += _unequal_words(gold, test, parameters)
    gold_brackets = _counted(gold, parameters)
    test_brackets = _counted(test, parameters)
    sentence = Sentence(
        length=gold.length,
        gold=len(gold_brackets),
        test=len(test_brackets),
        problems=tuple(problems),
        skipped=skipped,
    )
    if not sentence.valid:
        return sentence
    return replace(
        sentence,
        matched=_matches(gold_brackets, test_brackets, parameters),
        crossing=_crossings(gold_brackets, test_brackets),
        words=len(gold.leaves),
        tagged=sum(
            parameters.same_label(one.label, other.label)
            for one, other in zip(gold.leaves, test.leaves, strict=True)
        ),
    )


def _unequal_words(gold: Reading, test: Reading, parameters: Parameters) -> list[str]:
    if len(gold.leaves) != len(test.leaves):
        return [f"Length unmatch ({len(gold.leaves)}|{len(test.leaves)})"]
    for one, other in zip(gold.leaves, test.leaves, strict=True):
        if not parameters.same_word(one.word, other.word):
            return [f"Words unmatch ({one.word}|{other.word})"]
    return []


def _counted(reading: Reading, parameters: Parameters) -> list[tuple[Span, str]]:
    """Return the spans and bare labels of the brackets that count, in order of opening."""
    counted = []
    for bracket in reading.brackets:
        # `NP-SBJ-1` and `NP=2` are NP.
        label = bracket.label.partition("-")[0].partition("=")[0]
        if bracket.start < bracket.end and not parameters.deletes_label(label):
            counted.append(((bracket.start, bracket.end), label))
    return counted


def _matches(
    gold: list[tuple[Span, str]], test: list[tuple[Span, str]], parameters: Parameters
) -> int:
    """Pair each gold bracket with the first free one of the same span and label."""
    free: dict[Span, list[str]] = {}
    for span, label in test:
        free.setdefault(span, []).append(label)
    matched = 0
    for span, label in gold:
        candidates = free.get(span, [])
        for place, candidate in enumerate(candidates):
            if not parameters.labeled or parameters.same_label(label, candidate):
                del candidates[place]
                matched += 1
                break
    return matched


def _crossings(gold: list[tuple[Span, str]], test: list[tuple[Span, str]]) -> int:
    """Count the brackets under test that overlap some gold bracket without nesting."""
    spans = {span for span, _ in gold}
    return sum(
        any(a < start < b < end or start < a < end < b for a, b in spans)
        for (start, end), _ in test
    )


def _figures(sentences: list[Sentence]) -> dict[str, float]:
    """Return every figure by its name; counts are whole numbers."""
    valid = [sentence for sentence in sentences if sentence.valid]
    errors = sum(bool(sentence.problems) and not sentence.skipped for sentence in sentences)
    matched = sum(sentence.matched for sentence in valid)
    recall = _percent(matched, sum(sentence.gold for sentence in valid))
    precision = _percent(matched, sum(sentence.test for sentence in valid))
    strict_recall = _percent(matched, sum(sentence.gold for sentence in sentences))
    strict_precision = _percent(matched, sum(sentence.test for sentence in sentences))
    crossing = [sentence.crossing for sentence in valid]
    return {
        "F1": _harmonic(precision, recall),
        "LR": recall,
        "LP": precision,
        "errors": errors,
        "skipped": len(sentences) - len(valid) - errors,
        "sentences": len(sentences),
        "F1-strict": _harmonic(strict_precision, strict_recall),
        "exact": _percent(sum(s.gold == s.test == s.matched for s in valid), len(valid)),
        "crossing": sum(crossing) / max(1, len(valid)),
        "no-crossing": _percent(sum(count == 0 for count in crossing), len(valid)),
        "crossing<=2": _percent(sum(count <= 2 for count in crossing), len(valid)),
        "tagging": _percent(sum(s.tagged for s in valid), sum(s.words for s in valid)),
    }


def _score(figures: dict[str, float], signature: str, suffix: str) -> Score:
    """Return F1 with the other figures as its parts."""
    f1, *parts = [
        Score(name=name + suffix, value=value, signature=signature)
        for name, value in figures.items()
    ]
    shown = [
        f"{name} = {value:.2f}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in figures.items()
        if name != "F1"
    ]
    return replace(f1, detail=f"({' '.join(shown)})", parts=tuple(parts))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _harmonic(precision: float, recall: float) -> float:
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0
