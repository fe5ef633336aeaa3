"""`aiayn attend`: which tokens the heads of a model attend to."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiayn import console
from aiayn.commands.options import command
from aiayn.data.atomic import require_writable, write_bytes
from aiayn.data.text import STDIN, read_raw_lines
from aiayn.errors import UsageError

if TYPE_CHECKING:
    from aiayn.checkpoint import ModelFile
    from aiayn.figures.attention_svg import Panel
    from aiayn.generation.attention_maps import SentenceAttention, SentencePair

EXAMPLES = (
    'aiayn attend run "The dog sees the cat." --html attention.html',
    'aiayn attend run "The dog sees the cat." --kind encoder --layer 5 --svg figure.svg',
)

ALL = "all for --html and --json"
# Of the weights in JSON: as many as float32 has.
DIGITS = 6

_what = partial(typer.Option, rich_help_panel="What to show")
_where = partial(typer.Option, rich_help_panel="Where to show it")
_run = partial(typer.Option, rich_help_panel="Running")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttendOptions:
    """The command line of `aiayn attend`."""

    model: Annotated[Path, typer.Argument()]
    """Run folder (its average, else its best model) or model file."""
    source: Annotated[str, typer.Argument()]
    """Sentence, in quotation marks; - is standard input."""
    target: Annotated[str | None, typer.Argument(show_default="the model's own")] = None
    """Its translation, or its parse."""
    kind: Annotated[
        list[str] | None,
        _what(metavar="encoder|decoder|cross|all", show_default=f"cross; {ALL}"),
    ] = None
    """Attention within the source, within the target, or from target to source."""
    layer: Annotated[
        list[str] | None, _what(metavar="N[,M]|all", show_default=f"the last; {ALL}")
    ] = None
    """Layers, counted from 1. The paper's figures show layer 5 of 6."""
    head: Annotated[
        list[str] | None,
        _what(metavar="N[,M]|all|mean", show_default="mean in the terminal, else all"),
    ] = None
    """Heads, counted from 1, or their mean."""
    to: Annotated[str | None, _what(metavar="LANGUAGE")] = None
    """The language to translate to, of a model that knows several by tags, as generate --to
    has it."""
    token: Annotated[str | None, _what(metavar="WORD")] = None
    """Draw the attention of this word only, as figure 3 of the paper does."""
    html: Annotated[Path | None, _where(metavar="FILE")] = None
    """Write a page to explore in a browser; it needs no network."""
    svg: Annotated[Path | None, _where(metavar="FILE")] = None
    """Draw a figure for a paper."""
    as_json: Annotated[bool, _where("--json")] = False
    """Print the numbers for machines."""
    device: Annotated[str, _run()] = "auto"
    """auto, cpu, cuda or mps."""


@command(AttendOptions, EXAMPLES)
def attend(options: AttendOptions) -> None:
    """Show what the heads of a model attend to (figures 3 to 5 of the paper).

    Without a target, the model's own translation is made first. The result is a heat map in the
    terminal, unless a page, a figure or numbers are asked for.
    """
    html, svg, token = options.html, options.svg, options.token
    for file in filter(None, (html, svg)):
        require_writable(file, begins=b"<")
    source = read_sentence(options.source)
    kinds, layers, heads = map(split, (options.kind, options.layer, options.head))
    from aiayn.checkpoint import load_model
    from aiayn.generation.attention_maps import CROSS, MEAN
    from aiayn.model_path import find_model

    path = find_model(options.model)
    model = load_model(path)
    if path != options.model:
        console.say(f"model: {path}")
    pair, attention = compute(model, source, options)
    # A page can be switched between all maps; figure and terminal show one kind and layer.
    many = attention.select(kinds=kinds, layers=layers, heads=heads)
    few = partial(few_maps, attention, kinds or [CROSS], layers, heads)
    if html is not None:
        from aiayn.figures.attention_page import draw_page

        chosen = rows_of(many, token) if token is not None else {}
        write_bytes(html, draw_page(many, title=source, chosen=chosen).encode())
        console.say(f"wrote {html}")
    if svg is not None:
        from aiayn.figures.attention_svg import draw_attention

        write_bytes(svg, draw_attention([*panels_of(few(), token)]).encode())
        console.say(f"drew {svg}")
    if options.as_json:
        print_json(path, pair, many)
    elif html is None and svg is None:
        print_heat_maps(few() if heads else few().select(heads=[MEAN]), token)


def few_maps(
    attention: "SentenceAttention", kinds: list[str], layers: list[str], heads: list[str]
) -> "SentenceAttention":
    """Return the maps of some kinds; of the last layer, unless layers are asked for."""
    chosen = attention.select(kinds=kinds, layers=layers, heads=heads)
    return chosen if layers else chosen.last_layers()


def read_sentence(text: str) -> str:
    """Return the sentence that is given, or the first line of standard input."""
    if Path(text) == STDIN:
        sentence, *more = [*islice(read_raw_lines(STDIN), 2)] or [b""]
        if more:
            console.warn("only the first line of standard input is shown")
        return sentence.decode(errors="replace")
    with suppress(OSError):  # a sentence may be too long for the name of a file
        if Path(text).is_file():
            raise UsageError(
                f"{text} is a file, and a sentence is expected",
                fix=f"send a line of it: head -n 1 {text} | aiayn attend MODEL -",
            )
    # What the shell passes on that is not UTF-8 has no characters to show.
    return text.encode(errors="surrogateescape").decode(errors="replace")


def split(wanted: list[str] | None) -> list[str]:
    """Read `--layer 5,6` like `--layer 5 --layer 6`."""
    return [part.strip() for text in wanted or [] for part in text.split(",")]


def compute(
    file: "ModelFile", source: str, options: AttendOptions
) -> "tuple[SentencePair, SentenceAttention]":
    """Return the pair of sentences and all attention weights."""
    from aiayn.data.language_tags import find_tag, tag_problem, tag_warning
    from aiayn.device import choose_device, prepare_device
    from aiayn.generation.attention_maps import attend as attend_in

    tag, known = find_tag(options.to, file.codec), file.codec.source.tags()
    if problem := tag_problem(source, tag, known):
        console.warn(tag_warning(problem, 1, known))
    device = choose_device(options.device)
    prepare_device(device)
    model = file.build().to(device)
    about = (file.codec, file.config.decode, source, options.target, tag)
    pair, attention = attend_in(model, *about)
    if pair.score is not None:
        console.say(f"translation: {pair.translation} (score {pair.score:.4f})")
    return pair, attention


def rows_of(attention: "SentenceAttention", token: str | None) -> dict[str, list[int]]:
    """Return by kind the queries to draw: all, or those that spell a word where it occurs."""
    from aiayn.figures.tokens import find_word, readable

    if token is None:
        return {kind: list(range(len(maps.queries))) for kind, maps in attention.maps.items()}
    found = {kind: find_word(maps.queries, token) for kind, maps in attention.maps.items()}
    if not any(found.values()):
        queries = {text for maps in attention.maps.values() for text in readable(maps.queries)}
        raise UsageError(
            f"{token!r} is not among the queries of {' or '.join(found)} attention",
            fix=f"choose from {' '.join(sorted(queries))}, or another --kind",
        )
    return {kind: rows for kind, rows in found.items() if rows}


def panels_of(attention: "SentenceAttention", token: str | None) -> "Iterator[Panel]":
    """Yield what is drawn of each kind and layer."""
    from aiayn.figures.attention_svg import Panel
    from aiayn.figures.tokens import readable

    for kind, rows in rows_of(attention, token).items():
        maps = attention.maps[kind]
        queries, keys = readable(maps.queries), readable(maps.keys)
        for layer, weights_HLM in zip(maps.layers, maps.weights_NHLM, strict=True):
            title = f"{kind} attention, layer {layer}"
            yield Panel(title, queries, keys, attention.heads, weights_HLM, rows)


def print_json(model: Path, pair: "SentencePair", attention: "SentenceAttention") -> None:
    """Print tokens and weights as JSON on one line."""
    maps = attention.maps
    numbers: dict[str, Any] = {
        "model": str(model),
        "source": attention.source,
        "target": attention.target,
        **({} if pair.score is None else {"score": pair.score}),
        "layers": attention.layers,
        "heads": attention.heads,
        "layers_of": {kind: m.layers for kind, m in maps.items()},
        "tokens": {kind: {"queries": m.queries, "keys": m.keys} for kind, m in maps.items()},
        "attention": {
            kind: m.weights_NHLM.astype(float).round(DIGITS).tolist()
            for kind, m in maps.items()
        },
    }
    console.result(json.dumps(numbers, ensure_ascii=False))


def print_heat_maps(attention: "SentenceAttention", token: str | None) -> None:
    """Print a heat map for each kind, layer and head."""
    from aiayn.figures.heat_map import heat_map

    width, color = console.stdout.width, console.shows_colors()
    for panel in panels_of(attention, token):
        queries = [panel.queries[row] for row in panel.rows]
        for head, weights_LM in zip(panel.heads, panel.weights_HLM, strict=True):
            which = f"head {head}" if isinstance(head, int) else "mean of the heads"
            console.result(f"{panel.title}, {which}: percent of each row's attention")
            weights_LM = weights_LM[panel.rows]
            for line in heat_map(queries, panel.keys, weights_LM, width=width, color=color):
                console.result_text(line)
            console.result("")
