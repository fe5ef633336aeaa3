"""Labeled bracketing scores as EVALB computes them, without its limits.

EVALB leaves a broken tree out of every figure, so one right tree and three broken ones score
100. The same happens here, but the broken ones are counted beside the figures, and F1-strict
counts every bracket of theirs as wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiayn.scoring.evalb_parameters import COLLINS, EvalbParameters
from aiayn.scoring.evalb_trees import EvalbTree, read_tree, restore_quotes
from aiayn.scoring.score import Score, require_same_count

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class BracketCounts:
    """One tree against its gold tree."""

    length: int
    gold: int
    """Brackets in the gold tree."""
    test: int
    """Brackets in the tree under test."""
    problems: tuple[str, ...] = ()
    """What is broken, in EVALB's words."""
    skipped: bool = False
    """Whether the tree under test is empty."""
    matched: int = 0
    crossing: int = 0
    words: int = 0
    tagged: int = 0
    """Words whose tag is right."""

    @property
    def valid(self) -> bool:
        """Whether the sentence counts in EVALB's figures."""
        return not self.problems and not self.skipped


@dataclass(frozen=True, slots=True)
class BracketingReport:
    """The counts of every sentence, and the figures that they sum up to."""

    sentences: list[BracketCounts]
    parameters: EvalbParameters

    @property
    def broken(self) -> int:
        """Trees that EVALB leaves out."""
        return sum(not sentence.valid for sentence in self.sentences)

    def messages(self, limit: int = 20) -> list[str]:
        """Return EVALB's messages about broken trees: the number of the tree, and why."""
        numbered = enumerate(self.sentences, start=1)
        messages = [f"{number} : {problem}" for number, s in numbered for problem in s.problems]
        more = len(messages) - limit
        return [*messages[:limit], f"and {more:,} more"] if more > 0 else messages

    def scores(self) -> list[Score]:
        """Return F1 with its parts, of all sentences and of those up to the cutoff length."""
        cutoff = self.parameters.cutoff
        short = [sentence for sentence in self.sentences if sentence.length <= cutoff]
        labeled = "yes" if self.parameters.labeled else "no"
        signature = f"params:{self.parameters.name}|labeled:{labeled}|length:"
        return [
            _score(_figures(self.sentences), f"{signature}all", ""),
            _score(_figures(short), f"{signature}<={cutoff}", f"@{cutoff}"),
        ]


def score_trees(
    gold: Sequence[str], test: Sequence[str], parameters: EvalbParameters = COLLINS
) -> BracketingReport:
    """Compare each tree with its gold tree; a string holds a whole tree."""
    require_same_count(test, gold, names=("the test", "the gold"), unit="trees")
    sentences = [
        _compare(read_tree(one, parameters), read_tree(other, parameters), parameters)
        for one, other in zip(gold, test, strict=True)
    ]
    return BracketingReport(sentences, parameters)


def _compare(gold: EvalbTree, test: EvalbTree, parameters: EvalbParameters) -> BracketCounts:
    skipped = not test.leaves
    problems = [*gold.problems, *test.problems]
    if not skipped:
        # EVALB restores quotes only where the numbers of words differ.
        if len(gold.leaves) != len(test.leaves):
            restore_quotes(gold, test, parameters)
        problems += _unequal_words(gold, test, parameters)
    gold_brackets = _counted(gold, parameters)
    test_brackets = _counted(test, parameters)
    counts = BracketCounts(
        length=gold.length,
        gold=len(gold_brackets),
        test=len(test_brackets),
        problems=tuple(problems),
        skipped=skipped,
    )
    if not counts.valid:
        return counts
    return replace(
        counts,
        matched=_matches(gold_brackets, test_brackets, parameters),
        crossing=_crossings(gold_brackets, test_brackets),
        words=len(gold.leaves),
        tagged=sum(
            parameters.same_label(one.label, other.label)
            for one, other in zip(gold.leaves, test.leaves, strict=True)
        ),
    )


def _unequal_words(gold: EvalbTree, test: EvalbTree, parameters: EvalbParameters) -> list[str]:
    if len(gold.leaves) != len(test.leaves):
        return [f"Length unmatch ({len(gold.leaves)}|{len(test.leaves)})"]
    for one, other in zip(gold.leaves, test.leaves, strict=True):
        if not parameters.same_word(one.word, other.word):
            return [f"Words unmatch ({one.word}|{other.word})"]
    return []


def _counted(tree: EvalbTree, parameters: EvalbParameters) -> list[tuple[Span, str]]:
    """Return the spans and bare labels of the brackets that count, in order of opening."""
    counted = []
    for bracket in tree.brackets:
        # Function tags and indices are not compared: `NP-SBJ-1` and `NP=2` are NP.
        label = bracket.label.partition("-")[0].partition("=")[0]
        if bracket.start < bracket.end and not parameters.deletes_label(label):
            counted.append(((bracket.start, bracket.end), label))
    return counted


def _matches(
    gold: list[tuple[Span, str]], test: list[tuple[Span, str]], parameters: EvalbParameters
) -> int:
    """Count the gold brackets that have one of the same span and label, each used once."""
    # Not a Counter of labels: that ADVP equals PRT does not make equality transitive.
    free: dict[Span, list[str]] = {}
    for span, label in test:
        free.setdefault(span, []).append(label)
    matched = 0
    for span, label in gold:
        candidates = free.get(span, [])
        for index, candidate in enumerate(candidates):
            if not parameters.labeled or parameters.same_label(label, candidate):
                del candidates[index]
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


def _figures(sentences: list[BracketCounts]) -> dict[str, float]:
    """Return every figure by its name; counts are whole numbers."""
    valid = [s for s in sentences if s.valid]
    errors = sum(bool(s.problems) and not s.skipped for s in sentences)
    matched = sum(s.matched for s in valid)
    recall = _percent(matched, sum(s.gold for s in valid))
    precision = _percent(matched, sum(s.test for s in valid))
    strict_recall = _percent(matched, sum(s.gold for s in sentences))
    strict_precision = _percent(matched, sum(s.test for s in sentences))
    crossing = [s.crossing for s in valid]
    return {
        # In the order of JSON and of the printed detail; F1 has the others as its parts.
        "F1": _harmonic_mean(precision, recall),
        "LR": recall,
        "LP": precision,
        "errors": errors,
        "skipped": len(sentences) - len(valid) - errors,
        "sentences": len(sentences),
        "F1-strict": _harmonic_mean(strict_precision, strict_recall),
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
    _, *shown = [
        f"{name} = {value:.2f}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in figures.items()
    ]
    return replace(f1, detail=f"({' '.join(shown)})", parts=tuple(parts))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _harmonic_mean(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0
