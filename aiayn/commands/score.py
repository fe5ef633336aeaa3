"""`aiayn score`: text, trees or alignments against others, or a model's perplexity."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiayn import console
from aiayn.commands.options import command
from aiayn.data.text import STDIN, read_lines, stdin_is_terminal
from aiayn.errors import DataError, UsageError
from aiayn.scoring.score import MetricName, Score, aligned, parse_band, require_same_count

if TYPE_CHECKING:
    from aiayn.data.codec import Codec
    from aiayn.scoring.bleu import LengthBucket

# What files of translations are called.
OUTPUT_SUFFIXES = (".hyp", ".out", ".output", ".sys", ".pred", ".mt", ".trans")

EXAMPLES = (
    "aiayn generate RUN -i test.en | aiayn score test.de --paper --expect 27.3+-0.5",
    "aiayn score --trees gold.mrg -i parsed.mrg --json",
    "aiayn score --model RUN test.en test.de --align | aiayn score --alignments test.align",
)

_text = partial(typer.Option, show_default=False, rich_help_panel="Text")
_number = partial(typer.Option, show_default=False, rich_help_panel="Numbers")
_paper = partial(typer.Option, show_default=False, rich_help_panel="The paper's number")
_trees = partial(typer.Option, show_default=False, rich_help_panel="Trees")
_links = partial(typer.Option, show_default=False, rich_help_panel="Word alignments")
_model = partial(typer.Option, show_default=False, rich_help_panel="A model's perplexity")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreOptions:
    """The command line of `aiayn score`."""

    references: Annotated[
        list[Path] | None, typer.Argument(metavar="[REF]...", show_default=False)
    ] = None
    """Reference translations, a line for each of HYP; several files for several."""
    hypothesis: Annotated[Path, _text("-i", "--input", metavar="HYP", show_default="stdin")] = (
        STDIN
    )
    """What to score, as raw text."""
    test_set: Annotated[str, _text("-t", "--test-set", metavar="NAME")] = ""
    """In place of REF, a test set by sacreBLEU's name. The paper's newstest2014 is
    wmt14/full (3,003 lines); wmt14 is the filtered one (2,737)."""
    languages: Annotated[str, _text("-l", "--languages", metavar="SRC-TGT")] = ""
    """Language pair, such as en-de: chooses the side of the test set and tokenizers."""
    metrics: Annotated[
        list[MetricName] | None, _number("-m", "--metric", show_default="bleu")
    ] = None
    """What sacreBLEU computes; may be given several times."""
    ci: Annotated[bool, _number("--ci")] = False
    """Add a mean and its 95% interval over 1,000 bootstrap resamples."""
    vs: Annotated[Path | None, _number("--vs", metavar="OTHER_HYP")] = None
    """Another system's output: add its score, and p of a paired bootstrap test. Below 0.05,
    the difference is hardly chance."""
    by_length: Annotated[bool, _number("--by-length")] = False
    """Add a table of scores by the number of words in the first reference."""
    expect: Annotated[str, _number("--expect", metavar="27.3+-0.5")] = ""
    """Exit with 6 unless the main score lies in this band: paper-BLEU with --paper, F1 with
    --trees, AER with --alignments, else the first -m."""
    as_json: Annotated[bool, _number("--json")] = False
    """Write unrounded numbers as JSON."""
    paper: Annotated[bool, _paper("--paper")] = False
    """Add paper-BLEU, computed as the paper's 27.3 and 28.4 were: Moses tokens, hyphens
    split, multi-bleu.perl. On newstest2014 it lies 0.7 to 1.5 above BLEU. The text is
    taken for German unless -l says otherwise."""
    compound: Annotated[
        bool | None, _paper("--compound/--no-compound", show_default="for German")
    ] = None
    """Split hyphenated words around ##AT##-##AT##."""
    pretokenized: Annotated[bool, _paper("--pretokenized")] = False
    """HYP and REF are Moses tokens already; take them as they are."""
    trees: Annotated[Path | None, _trees("--trees", metavar="GOLD.mrg")] = None
    """Score HYP, a bracketed tree on each line, against these trees as EVALB does. They may
    be over several lines, as the Penn Treebank ships."""
    evalb_params: Annotated[
        Path | None, _trees(metavar="FILE.prm", show_default="COLLINS.prm")
    ] = None
    """EVALB's parameter file; COLLINS.prm is built in."""
    alignments: Annotated[Path | None, _links("--alignments", metavar="GOLD")] = None
    """Score HYP, a word alignment on each line (0-0 1-2, source-target, from 0), against these:
    alignment error rate, precision and recall. GOLD may have links that are possible rather
    than sure: 1p2 or 1?2."""
    model: Annotated[Path | None, _model("--model", metavar="MODEL SRC TGT")] = None
    """How probable a model finds given translations: log P of each line of TGT, given SRC;
    then the perplexity, on standard error; --json has both. The two files stand in place
    of REF."""
    tokens: Annotated[bool, _model("--tokens")] = False
    """With --model: log P of each subword."""
    align: Annotated[bool, _model("--align")] = False
    """With --model: in place of log P, the word alignment of each line, as generate --align
    has it for translations of its own."""
    to: Annotated[str | None, _model("--to", metavar="LANGUAGE")] = None
    """With --model: the language of TGT, of a model that knows several by tags, as generate
    --to has it."""
    device: Annotated[str, _model("--device", show_default="auto")] = "auto"
    """With --model: auto, cpu, cuda or mps."""


@command(ScoreOptions, EXAMPLES)
def score(options: ScoreOptions) -> None:
    """Score translations or parses: the number, and the signature that defines it."""
    # First what costs nothing: a mistake in an option should not cost the time of a score.
    band = parse_band(options.expect) if options.expect else None
    refuse_combinations(options)
    if options.model is not None:
        main = score_by_model(options, options.model)
    elif options.trees is not None:
        main = score_parses(options, options.trees)
    elif options.alignments is not None:
        main = score_links(options, options.alignments)
    else:
        main = score_translations(options)
    if band is not None:
        band.check(main)


def refuse_combinations(given: ScoreOptions) -> None:
    """Raise a UsageError for options that belong to different kinds of scoring."""
    text: dict[str, object] = {"-t": given.test_set, "-l": given.languages, "-m": given.metrics}
    text |= {"--ci": given.ci, "--vs": given.vs, "--by-length": given.by_length}
    text |= {"--paper": given.paper}
    paper = {"--compound": given.compound is not None, "--pretokenized": given.pretokenized}
    parameters = {"--evalb-params": given.evalb_params}
    if given.model is not None:
        rest = {"-i": given.hypothesis != STDIN, "--trees": given.trees, **parameters}
        rest |= {"--alignments": given.alignments}
        _refuse("--model does not go with", {**text, **paper, **rest})
        if given.tokens:
            _refuse("--tokens does not go with", {"--align": given.align})
        return
    model = {"--tokens": given.tokens, "--align": given.align, "--to": given.to is not None}
    model["--device"] = given.device != "auto"
    _refuse("--model is needed for", model, fix="add --model")
    if not given.paper:
        _refuse("--paper is needed for", paper, fix="add --paper")
    if given.alignments is not None:
        others = {"REF": given.references, "--trees": given.trees, **text, **paper}
        _refuse("--alignments does not go with", others)
    if given.trees is not None:
        _refuse("--trees does not go with", {"REF": given.references, **text})
    else:
        _refuse("--trees is needed for", parameters, fix="add --trees")
    if given.test_set:
        _refuse("-t does not go with", {"REF": given.references})


def _refuse(reason: str, options: Mapping[str, object], *, fix: str = "leave one out") -> None:
    """Raise a UsageError that names the first of the options that was given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{reason} {name}", fix=fix)


def score_translations(options: ScoreOptions) -> Score:
    """Print what sacreBLEU and the paper's method give; return the main score."""
    from aiayn.scoring.bleu import score_by_length, score_text

    hypotheses, others, references = read_texts(options)
    metrics = list(options.metrics or [MetricName.BLEU])
    if options.paper and MetricName.BLEU not in metrics:
        # The paper's number stands beside the one that can be compared, never alone.
        metrics.insert(0, MetricName.BLEU)
    about = (metrics, options.test_set, options.languages)
    if others is None:
        scores = score_text(hypotheses, references, *about, intervals=options.ci)
    else:
        from aiayn.scoring.compare import compare_text

        scores = compare_text(hypotheses, others, references, *about)
    buckets = score_by_length(hypotheses, references, *about) if options.by_length else []
    if options.paper:
        from aiayn.scoring.paper import score_paper

        tokens = (options.languages, options.compound, options.pretokenized)
        scores.append(score_paper(hypotheses, references, *tokens))
    print_scores(scores, buckets, as_json=options.as_json)
    return scores[-1] if options.paper else scores[0]


def read_texts(options: ScoreOptions) -> tuple[list[str], list[str] | None, list[list[str]]]:
    """Return the lines of the hypothesis, of the system compared with, of each reference."""
    from aiayn.scoring.checks import check_hyphens, check_text

    references = options.references or []
    if options.test_set:
        from aiayn.scoring.testsets import reference_files

        references = reference_files(options.test_set, options.languages)
    if not references:
        raise UsageError(
            "there is no reference to score against",
            fix="aiayn score REF < HYP, or -t wmt14/full -l en-de in place of REF",
        )
    systems = [options.hypothesis, *([options.vs] if options.vs else [])]
    if [*systems, *references].count(STDIN) > 1:
        raise UsageError("only one file can be standard input", fix="give HYP by -i HYP")
    lines = {path: _read(path) for path in [*systems, *references]}
    for system, path in product(systems, references):
        require_same_count(lines[system], lines[path], names=(_name(system), _name(path)))
    if warning := swapped(options.hypothesis, references):
        console.warn(warning)
    hypotheses, *others = [lines[path] for path in systems]
    streams = [lines[path] for path in references]
    _warn(check_text(hypotheses, streams, name=_name(options.hypothesis)))
    if options.paper and options.compound is not False:
        _warn(check_hyphens(hypotheses))
    return hypotheses, others[0] if others else None, streams


def swapped(hypothesis: Path, references: list[Path]) -> str:
    """Return a warning if by their names reference and translation have changed places."""
    named = [path for path in references if path.suffix in OUTPUT_SUFFIXES]
    if not named or hypothesis.suffix in OUTPUT_SUFFIXES:
        return ""
    return (
        f"{named[0]} is taken for the reference, and {_name(hypothesis)} for the translation;"
        " if it is the other way round: aiayn score REF -i HYP"
    )


def score_parses(options: ScoreOptions, gold: Path) -> Score:
    """Print the figures of EVALB; return F1 of all sentences."""
    from aiayn.scoring.brackets import score_trees
    from aiayn.scoring.checks import check_trees
    from aiayn.scoring.evalb_parameters import COLLINS, read_parameters
    from aiayn.scoring.evalb_trees import split_trees

    file = options.evalb_params
    parameters = COLLINS if file is None else read_parameters(read_lines(file), file.name)
    names = (_name(options.hypothesis), _name(gold))
    tested = split_trees(_read(options.hypothesis), names[0])
    wanted = split_trees(_read(gold), names[1])
    require_same_count(tested, wanted, names=names, unit="trees")
    report = score_trees(wanted, tested, parameters)
    # Plain text in place of trees would score 0.00 without an error.
    if not any(sentence.length for sentence in report.sentences):
        fix = "give --trees a file of bracketed trees: (TOP (S (NP (DT The) ..."
        raise DataError(f"{names[1]} has no tree: none of its lines is one", fix=fix)
    for message in report.messages():
        console.say(message)
    _warn(check_trees(tested + wanted, report.broken))
    scores = report.scores()  # of all sentences, then of the short ones
    print_scores(scores, [], as_json=options.as_json)
    return scores[0]


def score_links(options: ScoreOptions, gold: Path) -> Score:
    """Print the alignment error rate, and return it."""
    from aiayn.data.pharaoh import parse_links
    from aiayn.scoring.alignments import score_alignments

    names = (_name(options.hypothesis), _name(gold))
    texts = _read(options.hypothesis), _read(gold)
    require_same_count(*texts, names=names)
    tested, wanted = (
        [parse_links(line, name, number) for number, line in enumerate(lines, start=1)]
        for name, lines in zip(names, texts, strict=True)
    )
    found = score_alignments(wanted, tested)
    print_scores([found], [], as_json=options.as_json)
    return found


def score_by_model(options: ScoreOptions, model: Path) -> Score:
    """Print log P of each line and the perplexity; return the perplexity per subword."""
    from aiayn.device import choose_device
    from aiayn.generation.alignment import align_texts
    from aiayn.generation.score_targets import score_targets
    from aiayn.generation.word_alignment import Alignment, without_tag
    from aiayn.run_folder import open_model
    from aiayn.scoring.perplexity import score_perplexity

    sources, targets = _read_pairs(options.references or [])
    file = open_model(model)
    sources = with_tags(sources, options.to, file.codec)
    network = file.build().to(choose_device(options.device))
    found = score_targets(network, file.codec, sources, targets)
    scores = score_perplexity([one.log_p for one in found], targets)
    tokens = [list(zip(one.pieces, one.log_p, strict=True)) for one in found]
    links: list[Alignment] = []
    if options.align:
        heads = file.config.alignment_heads
        links = align_texts(network, file.codec, sources, targets, heads)
        links = [without_tag(each) for each in links] if options.to else links
    if options.as_json:
        more: dict[str, list[Any]] = {"tokens": tokens} if options.tokens else {}
        more |= {"alignment": links} if options.align else {}
        sentences = [
            {"log_p": one.total, **{name: each[number] for name, each in more.items()}}
            for number, one in enumerate(found)
        ]
        console.result_json({"scores": _records(scores), "sentences": sentences})
        return scores[0]
    lines = [f"{one.total:.4f}" for one in found]
    if options.tokens:
        lines = [" ".join(f"{piece}:{log_p:.4f}" for piece, log_p in of) for of in tokens]
    elif options.align:
        lines = [" ".join(f"{source}-{target}" for source, target in of) for of in links]
    for line in lines:
        console.result(line)
    for line in aligned(scores):
        console.say(line)
    return scores[0]


def with_tags(sources: list[str], language: str | None, codec: "Codec") -> list[str]:
    """Return lines with the tag of a language; of None, as they are."""
    from aiayn.data.language_tags import find_tag, tag_line, tag_problem, tag_warning

    tag, known = find_tag(language, codec), codec.source.tags()
    for number, source in enumerate(sources, start=1):
        if problem := tag_problem(source, tag, known):
            console.warn(tag_warning(problem, number, known))
            break
    return [tag_line(tag, source) for source in sources]


def _read_pairs(files: list[Path]) -> tuple[list[str], list[str]]:
    """Return the lines of SRC and TGT."""
    if len(files) != 2:
        raise UsageError(
            f"--model takes 2 files, got {len(files)}",
            fix="aiayn score --model MODEL SRC TGT",
        )
    sources, targets = map(_read, files)
    require_same_count(targets, sources, names=(_name(files[1]), _name(files[0])))
    return sources, targets


def print_scores(scores: list[Score], buckets: "list[LengthBucket]", *, as_json: bool) -> None:
    """Print scores as aligned lines with a table by length, or as JSON."""
    if as_json:
        by_length = [{**asdict(b), "scores": _records(b.scores)} for b in buckets]
        record = {"scores": _records(scores), **({"by_length": by_length} if buckets else {})}
        console.result_json(record)
        return
    for line in aligned(scores):
        console.result(line)
    if buckets:
        console.result_table(
            ["reference words", "sentences", *(score.name for score in buckets[0].scores)],
            [[b.words, b.sentences, *(f"{s.value:.2f}" for s in b.scores)] for b in buckets],
        )


def _records(scores: list[Score]) -> list[dict[str, object]]:
    return [record for score in scores for record in score.records()]


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        console.warn(warning)


def _read(path: Path) -> list[str]:
    if path == STDIN and stdin_is_terminal():
        console.say("reading standard input; end it with Ctrl-D, or give a file by -i HYP")
    return list(read_lines(path))


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)
