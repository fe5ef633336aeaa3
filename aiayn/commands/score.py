"""`aiayn score`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from aiayn import console
from aiayn.data.text import STDIN, read_lines, stdin_is_terminal
from aiayn.errors import UsageError
from aiayn.scoring.score import MetricName, Score, aligned, parse_band, require_same_count

if TYPE_CHECKING:
    from aiayn.scoring.bleu import Bucket

EXAMPLES = (
    "aiayn generate RUN -i test.en | aiayn score test.de --paper --expect 27.3+-0.5",
    "aiayn score --trees gold.mrg -i parsed.mrg --json",
)

_text = partial(typer.Option, show_default=False, rich_help_panel="Text")
_number = partial(typer.Option, show_default=False, rich_help_panel="Numbers")
_paper = partial(typer.Option, show_default=False, rich_help_panel="The paper's number")
_trees = partial(typer.Option, show_default=False, rich_help_panel="Trees")
_model = partial(typer.Option, show_default=False, rich_help_panel="A model's opinion")

References = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[REF]...",
        help="Reference translations, a line for each of HYP; several files for several.",
        show_default=False,
    ),
]
Hypothesis = Annotated[
    Path,
    _text(
        "-i", "--input", metavar="HYP", help="What to score, as raw text.", show_default="stdin"
    ),
]
TEST_SET = (
    "In place of REF, a test set by sacreBLEU's name. The paper's newstest2014 is wmt14/full"
    " (3,003 lines); wmt14 is the filtered one (2,737)."
)
TestSet = Annotated[str, _text("-t", "--test-set", metavar="NAME", help=TEST_SET)]
LANGUAGES = "Language pair, such as en-de: chooses the side of the test set and tokenizers."
Languages = Annotated[str, _text("-l", "--languages", metavar="SRC-TGT", help=LANGUAGES)]
METRICS = "What sacreBLEU computes; may be given several times."
Metrics = Annotated[
    list[MetricName] | None, _number("-m", "--metric", help=METRICS, show_default="bleu")
]
CI = "Add a mean and its 95% interval over 1,000 bootstrap resamples."
Intervals = Annotated[bool, _number("--ci", help=CI)]
OTHER = (
    "Another system's output: add its score, and p of a paired bootstrap test. Below 0.05, the"
    " difference is hardly chance."
)
Other = Annotated[Path | None, _number("--vs", metavar="OTHER_HYP", help=OTHER)]
BY_LENGTH = "Add a table of scores by the number of words in the first reference."
ByLength = Annotated[bool, _number("--by-length", help=BY_LENGTH)]
EXPECT = (
    "Exit with 6 unless the main score lies in this band: paper-BLEU with --paper, F1 with"
    " --trees, else the first -m."
)
Expect = Annotated[str, _number("--expect", metavar="27.3+-0.5", help=EXPECT)]
Json = Annotated[bool, _number("--json", help="Write JSON, the numbers unrounded.")]
PAPER = (
    "Add paper-BLEU, computed as the paper's 27.3 and 28.4 were: Moses tokens, hyphens split,"
    " multi-bleu.perl. On newstest2014 it lies 0.7 to 1.5 above BLEU. The text is taken for"
    " German unless -l says otherwise."
)
Paper = Annotated[bool, _paper("--paper", help=PAPER)]
COMPOUND = "Split hyphenated words around ##AT##-##AT##."
Compound = Annotated[
    bool | None, _paper("--compound/--no-compound", help=COMPOUND, show_default="for German")
]
PRETOKENIZED = "HYP and REF are Moses tokens already; take them as they are."
Pretokenized = Annotated[bool, _paper("--pretokenized", help=PRETOKENIZED)]
TREES = (
    "Score HYP, a bracketed tree on each line, against these trees as EVALB does. They may be"
    " over several lines, as the Penn Treebank ships."
)
Trees = Annotated[Path | None, _trees("--trees", metavar="GOLD.mrg", help=TREES)]
PARAMETERS = "EVALB's parameter file; COLLINS.prm is built in."
EvalbParameters = Annotated[
    Path | None,
    _trees("--evalb-params", metavar="FILE.prm", help=PARAMETERS, show_default="COLLINS.prm"),
]
MODEL = (
    "How probable a model finds given translations: log P of each line of TGT, given SRC; then"
    " the perplexity, on standard error; --json has both. The two files stand in place of REF."
)
Model = Annotated[Path | None, _model("--model", metavar="MODEL SRC TGT", help=MODEL)]
Tokens = Annotated[bool, _model("--tokens", help="With --model: log P of each subword.")]
Device = Annotated[
    str, _model("--device", help="With --model: auto, cpu, cuda or mps.", show_default="auto")
]


def score(
    references: References = None,
    *,
    hypothesis: Hypothesis = STDIN,
    test_set: TestSet = "",
    languages: Languages = "",
    metrics: Metrics = None,
    ci: Intervals = False,
    vs: Other = None,
    by_length: ByLength = False,
    expect: Expect = "",
    as_json: Json = False,
    paper: Paper = False,
    compound: Compound = None,
    pretokenized: Pretokenized = False,
    trees: Trees = None,
    evalb_params: EvalbParameters = None,
    model: Model = None,
    tokens: Tokens = False,
    device: Device = "auto",
) -> None:
    """Score translations or parses: the number, and the signature that says which number."""
    band = parse_band(expect) if expect else None
    text = {"-t": test_set, "-l": languages, "-m": metrics}
    numbers = {"--ci": ci, "--vs": vs, "--by-length": by_length, "--paper": paper}
    choices = {"--compound": compound is not None, "--pretokenized": pretokenized}
    if model is not None:
        others = {"-i": hypothesis != STDIN, "--trees": trees, "--evalb-params": evalb_params}
        strangers: dict[str, object] = {**text, **numbers, **choices, **others}
        _refuse("--model does not go with", strangers, fix="leave one of them out")
        scores = _score_by_model(
            model, references or [], device, tokens=tokens, as_json=as_json
        )
        if band is not None:
            band.check(scores[0])
        return
    needed = {"--tokens": tokens, "--device": device != "auto"}
    _refuse("--model is needed for", needed, fix="add --model")
    buckets: list[Bucket] = []
    if not paper:
        _refuse("--paper is needed for", choices, fix="add --paper")
    if trees is not None:
        strangers = {"REF": references, **text, **numbers}
        _refuse("--trees does not go with", strangers, fix="leave one of them out")
        scores = _score_trees(hypothesis, trees, evalb_params)
    else:
        _refuse("--trees is needed for", {"--evalb-params": evalb_params}, fix="add --trees")
        texts = _read_texts(hypothesis, references or [], vs, test_set, languages)
        wanted = metrics or [MetricName.BLEU]
        if paper and MetricName.BLEU not in wanted:
            # The paper's number stands beside the one that can be compared, never alone.
            wanted.insert(0, MetricName.BLEU)
        scores, buckets = _score_text(texts, wanted, ci, by_length)
        if paper:
            scores.append(_score_paper(texts, compound, pretokenized))
    _print(scores, buckets, as_json=as_json)
    if band is not None:
        band.check(scores[-1] if paper else scores[0])


class _Texts(NamedTuple):
    hypotheses: list[str]
    others: list[str] | None
    references: list[list[str]]
    test_set: str
    languages: str


def _read_texts(
    hypothesis: Path, references: list[Path], other: Path | None, test_set: str, languages: str
) -> _Texts:
    from aiayn.scoring.checks import doubts

    if test_set:
        from aiayn.scoring.testsets import reference_files

        _refuse("-t does not go with", {"REF": references}, fix="leave one of them out")
        references = reference_files(test_set, languages)
    if not references:
        raise UsageError(
            "there is no reference to score against",
            fix="aiayn score REF < HYP, or -t wmt14/full -l en-de in place of REF",
        )
    systems = [hypothesis, other] if other else [hypothesis]
    if [*systems, *references].count(STDIN) > 1:
        raise UsageError("only one file can be standard input", fix="give HYP by -i HYP")
    lines = {path: _read(path) for path in [*systems, *references]}
    for system in systems:
        for path in references:
            names = (_name(system), _name(path))
            require_same_count(lines[system], lines[path], names=names)
    streams = [lines[path] for path in references]
    for doubt in doubts(lines[hypothesis], streams, name=_name(hypothesis)):
        console.warn(doubt)
    others = lines[other] if other else None
    return _Texts(lines[hypothesis], others, streams, test_set, languages)


def _score_text(
    texts: _Texts, metrics: list[MetricName], intervals: bool, by_length: bool
) -> "tuple[list[Score], list[Bucket]]":
    from aiayn.scoring.bleu import score_by_length, score_text

    hypotheses, others, references, *about = texts
    buckets = score_by_length(hypotheses, references, metrics, *about) if by_length else []
    if others is None:
        scores = score_text(hypotheses, references, metrics, *about, intervals=intervals)
        return scores, buckets
    from aiayn.scoring.compare import compare_text

    return compare_text(hypotheses, others, references, metrics, *about), buckets


def _score_paper(texts: _Texts, compound: bool | None, pretokenized: bool) -> Score:
    from aiayn.scoring.checks import doubts_about_hyphens
    from aiayn.scoring.paper import score_paper

    for doubt in [] if compound is False else doubts_about_hyphens(texts.hypotheses):
        console.warn(doubt)
    return score_paper(
        texts.hypotheses,
        texts.references,
        languages=texts.languages,
        compound=compound,
        pretokenized=pretokenized,
    )


def _score_trees(hypothesis: Path, gold: Path, parameters_file: Path | None) -> list[Score]:
    from aiayn.scoring.brackets import score_trees
    from aiayn.scoring.checks import doubts_about_trees
    from aiayn.scoring.parameters import COLLINS, read_parameters
    from aiayn.scoring.reading import split_trees

    parameters = COLLINS
    if parameters_file is not None:
        parameters = read_parameters(read_lines(parameters_file), parameters_file.name)
    names = (_name(hypothesis), _name(gold))
    tested = split_trees(_read(hypothesis), names[0])
    wanted = split_trees(_read(gold), names[1])
    require_same_count(tested, wanted, names=names, unit="trees")
    report = score_trees(wanted, tested, parameters)
    for message in report.messages():
        console.say(message)
    for doubt in doubts_about_trees(tested + wanted, report.broken):
        console.warn(doubt)
    return report.scores()


def _score_by_model(
    path: Path, files: list[Path], device: str, *, tokens: bool, as_json: bool
) -> list[Score]:
    if len(files) != 2:
        raise UsageError(
            f"--model wants 2 files, and {len(files)} were given",
            fix="aiayn score --model MODEL SRC TGT",
        )
    from aiayn.checkpoint import load_model
    from aiayn.device import choose_device
    from aiayn.generation.force import force
    from aiayn.run_folder import find_model
    from aiayn.scoring.perplexity import score_perplexity

    sources, targets = (_read(file) for file in files)
    require_same_count(targets, sources, names=(_name(files[1]), _name(files[0])))
    file = load_model(find_model(path))
    found = force(file.build().to(choose_device(device)), file.codec, sources, targets)
    scores = score_perplexity([one.log_p for one in found], targets)
    if as_json:
        document = {"scores": [record for score in scores for record in score.records()]}
        document["sentences"] = [
            {"log_p": one.total, "tokens": list(zip(one.pieces, one.log_p, strict=True))}
            if tokens
            else {"log_p": one.total}
            for one in found
        ]
        console.result_json(document)
        return scores
    for one in found:
        each = (f"{p}:{x:.4f}" for p, x in zip(one.pieces, one.log_p, strict=True))
        console.result(" ".join(each) if tokens else f"{one.total:.4f}")
    for line in aligned(scores):
        console.say(line)
    return scores


def _print(scores: list[Score], buckets: "list[Bucket]", *, as_json: bool) -> None:
    if as_json:
        document = {"scores": [record for score in scores for record in score.records()]}
        if buckets:
            document["by_length"] = [bucket.record() for bucket in buckets]
        console.result_json(document)
        return
    for line in aligned(scores):
        console.result(line)
    if buckets:
        console.result_table(
            ["reference words", "sentences", *(score.name for score in buckets[0].scores)],
            [[b.words, b.sentences, *(f"{s.value:.2f}" for s in b.scores)] for b in buckets],
        )


def _refuse(reason: str, options: Mapping[str, object], *, fix: str) -> None:
    """Raise a UsageError that names the first of the options that was given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{reason} {name}", fix=fix)


def _read(path: Path) -> list[str]:
    if path == STDIN and stdin_is_terminal():
        console.say("reading standard input; end it with Ctrl-D, or give a file by -i HYP")
    return list(read_lines(path))


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)
