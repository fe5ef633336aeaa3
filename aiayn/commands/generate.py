"""`aiayn generate`: text in, translations out."""

import gc
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from zipfile import is_zipfile

import typer

from aiayn import console
from aiayn.commands.engines import (
    EngineName,
    join_processes,
    open_translator,
    require_engine,
)
from aiayn.commands.options import command
from aiayn.config import ALPHA_LIMIT, DECODING_BATCH_TOKENS, BeamRule, DecodeConfig, FormatName
from aiayn.data.atomic import require_writable
from aiayn.data.text import PACKED, STDIN, count_lines, stdin_is_terminal
from aiayn.errors import DataError, UsageError

if TYPE_CHECKING:
    from aiayn.generation.search import Search
    from aiayn.generation.streaming import Line
    from aiayn.generation.translator import Translation, Translator

    Work = Callable[..., Iterator[tuple[Line, Translation]]]

EXAMPLES = (
    "echo 'The dog sees the cat.' | aiayn generate run",
    "aiayn generate run/average.pt -i test.en -o test.hyp --beam 4 --alpha 0.6",
    "aiayn generate run -i test.en --nbest 4 --format tsv | cut -f 1,3,4",
)

STDOUT = Path("-")
# Unusual lines of each kind that are listed by number.
SHOWN = 5
# Below this temperature, logits leave the range of float32.
SMALLEST = 1e-6

_text = partial(typer.Option, metavar="FILE")
_search = partial(typer.Option, rich_help_panel="Search", show_default="the model's")
_rule = partial(typer.Option, rich_help_panel="Search", show_default=False)
_sample = partial(typer.Option, rich_help_panel="Sampling")
_format = partial(typer.Option, rich_help_panel="Output")
_run = partial(typer.Option, rich_help_panel="Running")
DecodingPrecision = Literal["auto", "float32", "bfloat16", "float16", "int8"]
BATCH_DEFAULT = f"{DECODING_BATCH_TOKENS}; on a GPU what its memory holds"


@dataclass(frozen=True, kw_only=True)
class GenerateOptions:
    """The options of `aiayn generate`."""

    models: Annotated[list[Path], typer.Argument()]
    """Run folder (its average, else its best model) or model file. Several models with one
    vocabulary are an ensemble: the mean of their probabilities counts."""
    input: Annotated[Path, _text("--input", "-i", show_default="stdin")] = STDIN
    """Text, one sentence a line; .gz .bz2 .xz too."""
    output: Annotated[Path | None, _text("--output", "-o", show_default="stdout")] = None
    """Where to write; FILE.partial until all is done. Interrupted, the same command resumes
    and loses some 20 seconds of work, or some dozen lines; a finished file is translated
    anew."""
    prefix: Annotated[Path | None, _text(show_default=False)] = None
    """A file of what the translations have to begin with, line by line; an empty line: no
    prefix."""
    to: Annotated[str | None, _text(metavar="LANGUAGE", show_default=False)] = None
    """The language to translate to, of a model that knows several by tags: deu, or de, puts
    >>deu<< before each line. Without it, a line says it itself."""
    strict: Annotated[bool, typer.Option("--strict")] = False
    """Exit with 3 in the end if a line was cut into pieces, stopped at the length limit or not
    UTF-8."""
    beam: Annotated[int | None, _search(min=1)] = None
    """Hypotheses kept at each step; the paper: 4, parsing 21."""
    alpha: Annotated[float | None, _search(min=0)] = None
    """Length penalty ((5 + |Y|) / 6)^alpha; the paper: 0.6, parsing 0.3."""
    beam_rule: Annotated[BeamRule | None, _search()] = None
    """marian: search as Marian does, with a beam that narrows by each end of an output, the
    length penalty |Y|^alpha, and no unknown words."""
    extra_length: Annotated[int | None, _search(min=0)] = None
    """An output has at most this many more tokens than its input."""
    greedy: Annotated[bool, _rule("--greedy")] = False
    """Take the best token at each step: beam 1."""
    min_length: Annotated[int, _rule(min=0)] = 0
    """Fewest tokens of an output."""
    no_repeat_ngram: Annotated[int, _rule(min=0)] = 0
    """No n-gram of this length occurs twice in an output; 0: unrestricted."""
    sample: Annotated[bool, _sample("--sample")] = False
    """Draw each token by its probability in place of beam search."""
    top_k: Annotated[int, _sample(min=0)] = 0
    """Draw among this many most probable tokens; 0: all."""
    top_p: Annotated[float, _sample(min=0, max=1)] = 1.0
    """Draw among the most probable tokens that together have this probability."""
    temperature: Annotated[float, _sample()] = 1.0
    """Below 1, what is probable becomes more so; above 1, less."""
    seed: Annotated[int, _sample(min=0)] = 1
    """Another seed, other samples; the samples of a sentence do not depend on the rest of
    the text."""
    mbr: Annotated[int | None, _rule(metavar="N", min=2)] = None
    """Of the N best translations, or of N samples with --sample, take the one that has the most
    in common with all of them: the highest mean chrF against them (minimum Bayes risk). That
    mean, 0 to 100, is then its score. Beyond the paper."""
    nbest: Annotated[int | None, _format(min=1, show_default="1")] = None
    """Translations of each line, one row each: the best first, samples in the order drawn.
    Without --beam, the beam widens to hold them. Rows of text have no number of their line;
    --format tsv, jsonl and moses have."""
    format: Annotated[FormatName, _format()] = "text"
    """text: translation, then score and alignment where asked for, tab-separated; tsv: line
    (from 1), rank, score, translation, alignment; jsonl: an object a line with line,
    text, score, finished, pieces, and alignment and nbest where asked for; moses: its
    n-best list, line (from 0) ||| translation ||| features ||| score."""
    scores: Annotated[bool, _format("--scores")] = False
    """In text, add log P(Y | X) / lp(Y), or the mean of --mbr; tsv and jsonl have it always."""
    align: Annotated[bool, _format("--align")] = False
    """Add the source word of each target word, from attention, in Pharaoh's form: 0-0 1-2,
    source-target, from 0."""
    device: Annotated[str, _run()] = "auto"
    """auto, cpu, cuda or mps."""
    engine: Annotated[EngineName, _run()] = "torch"
    """torch: our own search, the exact reference; ctranslate2: the search of CTranslate2, often
    faster, with a few other translations, and converted once into ~/.cache/aiayn; it needs
    aiayn\\[export], and has no ensembles, sampling or parsing."""
    precision: Annotated[DecodingPrecision, _run()] = "auto"
    """auto: float32, which is exact. On a CPU int8 (linear layers in 8 bits) is fastest and
    hardly less exact, best with --compile, and bfloat16 is faster where the processor has it
    (AVX512_BF16, AMX)."""
    compile: Annotated[bool, _run("--compile")] = False
    """Decode by code that g++ compiles for this processor, once: much faster on a CPU, and
    the same up to rounding. Code and weights are kept in ~/.cache/aiayn for the next time."""
    threads: Annotated[int, _run(min=0)] = 0
    """CPU cores to use; 0: all."""
    batch_tokens: Annotated[int | None, _run(min=1, show_default=BATCH_DEFAULT)] = None
    """Padded source tokens that are decoded at once."""

    def __post_init__(self) -> None:
        if self.precision == "auto":
            object.__setattr__(self, "precision", "float32")

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.sample and (self.greedy or self.beam):
            raise UsageError("--sample takes no beam", fix="leave --beam and --greedy out")
        if self.greedy and self.beam not in (None, 1):
            raise UsageError(f"--greedy excludes --beam {self.beam}", fix="leave one out")
        beam = 1 if self.greedy else self.beam
        if beam and not self.sample and (self.outputs or 1) > beam:
            option = "--mbr" if self.mbr else "--nbest"
            raise UsageError(
                f"{option} {self.outputs} is more than a beam of {beam} holds",
                fix="leave --greedy out" if self.greedy else f"pass --beam {self.outputs}",
            )
        if self.mbr and (self.nbest or 1) > self.mbr:
            raise UsageError(
                f"--nbest {self.nbest} is more than --mbr {self.mbr} has to choose from",
                fix=f"pass --mbr {self.nbest}",
            )
        if self.alpha is not None and not 0 <= self.alpha < ALPHA_LIMIT:
            raise UsageError(
                f"--alpha {self.alpha:g} is not a length penalty",
                fix=f"give a number of at least 0 and below {ALPHA_LIMIT}; the paper: 0.6",
            )
        require_engine(self)
        self._check_sampling()
        self._check_files()

    @property
    def outputs(self) -> int | None:
        """Translations that the search gives for each line; None: one."""
        return self.mbr or self.nbest

    @property
    def writes_file(self) -> Path | None:
        """The file to write; None: standard output."""
        return None if self.output == STDOUT else self.output

    def _check_sampling(self) -> None:
        for name in ("temperature", "top_p", "top_k"):
            value, option = getattr(self, name), f"--{name.replace('_', '-')}"
            if name != "top_k" and not SMALLEST <= value < math.inf:
                raise UsageError(
                    f"{option} {value:g} leaves nothing to draw from",
                    fix=f"give {SMALLEST:g} or more; --greedy takes the most probable token",
                )
            if value != getattr(GenerateOptions, name) and not self.sample:
                raise UsageError(f"{option} is for sampling", fix="pass --sample, too")

    def extra_length_of(self, decode: DecodeConfig) -> int:
        """Return how many more tokens than its input an output has at most."""
        return decode.extra_length if self.extra_length is None else self.extra_length

    def _check_files(self) -> None:
        for more in self.models[1:]:
            # What other toolkits take for text, ours takes for a model of an ensemble.
            if not more.is_dir() and not is_zipfile(more):
                raise UsageError(
                    f"{more} is not a model of an ensemble",
                    fix="give text by -i FILE, or on standard input: echo 'A sentence.' |"
                    f" aiayn generate {self.models[0]}",
                )
        if self.prefix == self.input == STDIN:
            raise UsageError("--prefix - leaves no standard input for the text", fix="pass -i")
        if self.writes_file:
            if self.writes_file.suffix in PACKED:
                raise UsageError(
                    f"{self.writes_file} would hold plain text, which its name denies",
                    fix=f"pass -o {self.writes_file.with_suffix('')} and pack it then",
                )
            prefix = [self.prefix] if self.prefix else []
            require_writable(self.writes_file, reads=[self.input, *self.models, *prefix])

    def search(self, decode: DecodeConfig) -> "Search":
        """Return the search strategy; what was not given is the model's default."""
        from aiayn.generation.rules import Rules
        from aiayn.generation.search import BeamSearch

        rules = Rules(min_length=self.min_length, no_repeat=self.no_repeat_ngram)
        if not self.sample:
            beam = 1 if self.greedy else self.beam
            return BeamSearch.of(
                decode,
                beam=beam,
                alpha=self.alpha,
                beam_rule=self.beam_rule,
                nbest=self.outputs,
                rules=rules,
            )
        from aiayn.generation.sampling import Sampling

        return Sampling(
            samples=self.outputs or 1,
            top_k=self.top_k,
            top_p=self.top_p,
            temperature=self.temperature,
            alpha=decode.alpha if self.alpha is None else self.alpha,
            seed=self.seed,
            rules=rules,
        )


@command(GenerateOptions, EXAMPLES)
def generate(options: GenerateOptions) -> None:
    """Translate text, one line out for each line in (section 6.1 of the paper).

    Plain text comes in and plain text goes out: the model file knows its vocabulary and how the
    text was prepared. Answers come as soon as they are ready, so it works in a live pipe. Under
    torchrun the processes share the input.
    """
    # Before torch is imported, which takes a second: a mistake is reported at once.
    options.check()
    from aiayn.data.language_tags import find_tag
    from aiayn.generation.translate_lines import translate_lines
    from aiayn.model_path import find_model

    paths = [find_model(model) for model in options.models]
    with join_processes(options) as group:
        translator = open_translator(options, paths, group)
        translator = replace(translator, tag=find_tag(options.to, translator.codec))
        gc.freeze()  # to look for cycles in what stays would copy memory that workers share
        if options.mbr:
            translator = with_mbr(translator, keeps=options.nbest or 1)
        work = partial(translate_lines, translator, group=group)
        if not group.is_first:
            for _ in work((), report=lambda lines: None):
                pass  # the first process writes
            return
        if paths != options.models:
            console.say(f"model: {', '.join(map(str, paths))}")
        with closing(translator):
            tags = translator.tag, translator.codec.source.tags()
            unusual, first_lines = write_translations(work, options, paths, tags)
    if options.engine == "ctranslate2":
        console.say("searched by CTranslate2, in the order of the paper's length penalty")
    report(unusual, first_lines, options.strict)


def with_mbr(translator: "Translator", keeps: int) -> "Translator":
    """Return the translator with outputs ranked by the chrF that is to be expected of them."""
    from aiayn.scoring.chrf import expected_chrf

    if translator.codec.settings.task == "parsing":
        raise UsageError("--mbr compares texts, and this model parses", fix="leave it out")
    return replace(translator, utility=expected_chrf, keeps=keeps)


def write_translations(
    work: "Work", options: GenerateOptions, paths: list[Path], tags: tuple[str, list[str]]
) -> tuple[Counter[str], dict[str, list[int]]]:
    """Translate and write line by line; return the unusual lines: counts, first numbers.

    Lines get a tag, or none, of those that the model has.
    """
    from aiayn.data.language_tags import TAG_PROBLEMS, tag_warning
    from aiayn.generation.output import OutputFormat, open_output
    from aiayn.generation.streaming import read_input
    from aiayn.generation.translate_lines import unusual_features

    first_lines: dict[str, list[int]] = defaultdict(list)
    layout = OutputFormat(
        name=options.format,
        scores=options.scores,
        nbest=options.nbest,
        score_name="chrF" if options.mbr else "LogP",
    )
    with (
        open_output(options.writes_file, job_of(options, paths)) as file,
        show_progress(options, done=file.lines) as step,
    ):
        lines = file.skip(read_input(options.input, options.prefix))
        for line, translation in work(lines, report=step):
            rows = layout.rows(file.lines + 1, translation)
            found = unusual_features(line, translation, *tags)
            file.write(line, rows, found)
            for what in found:
                if found[what] and len(first_lines[what]) < SHOWN:
                    if what in TAG_PROBLEMS and not first_lines[what]:
                        # At once, before all other lines are translated.
                        console.warn(tag_warning(what, file.lines, tags[1]))
                    first_lines[what].append(file.lines)
    return file.special, first_lines


def show_progress(
    options: GenerateOptions, *, done: int
) -> AbstractContextManager[Callable[[int], None]]:
    """Show how far the work is, unless that would get into the lines of a terminal."""
    if prompts := options.input == STDIN and stdin_is_terminal():
        console.say("type a sentence and press Enter; Ctrl-D ends")
    if prompts or (options.writes_file is None and sys.stdout.isatty()):
        return nullcontext(lambda lines: None)
    total = count_lines(options.input)
    return console.progress("translating", total=total, unit="lines", done=done)


def job_of(options: GenerateOptions, paths: list[Path]) -> dict[str, str]:
    """Return all that the output depends on: a rerun resumes if it is the same."""
    # These change where the output goes or how fast, and not a byte of it.
    free = ("output", "strict", "threads", "batch_tokens")
    asked = {
        f.name: str(getattr(options, f.name)) for f in fields(options) if f.name not in free
    }
    return {**asked, "models": ", ".join(map(describe, paths))}


def describe(path: Path) -> str:
    """Return what identifies a model file: its path, size and time of change."""
    return f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}"


def report(unusual: Counter[str], first_lines: dict[str, list[int]], strict: bool) -> None:
    """Say which lines were unusual; raise a DataError about them if --strict asks for it."""
    from aiayn.generation.translate_lines import STRICT

    def where(what: str, count: int) -> str:
        numbers = ", ".join(f"{number:,}" for number in first_lines.get(what, ()))
        more = ", ..." if count > len(first_lines.get(what, ())) else ""
        return f"{count:,} {what}" + (f" (line {numbers}{more})" if numbers else "")

    if found := [where(what, count) for what, count in unusual.items() if count]:
        console.say(f"unusual lines: {', '.join(found)}")
    refused = [where(what, unusual[what]) for what in STRICT if unusual[what]]
    if strict and refused:
        raise DataError(
            f"--strict: {', '.join(refused)}", fix="look at these lines, or leave --strict out"
        )
