"""`aiayn attend`: where the heads of a model look."""

import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aiayn import console
from aiayn.data.atomic import require_place, write_bytes
from aiayn.data.text import STDIN, read_raw_lines
from aiayn.errors import UsageError

if TYPE_CHECKING:
    from aiayn.checkpoint import ModelFile
    from aiayn.generation.attend import Attended, SentencePair

EXAMPLES = (
    'aiayn attend run "The dog sees the cat." --html attention.html',
    'aiayn attend run "The dog sees the cat." --kind encoder --layer 5 --svg figure.svg',
)

CROSS, MEAN = "cross", "mean"
DIGITS = 6
"""Of weights as numbers: as many as float32 has."""

_what = partial(typer.Option, rich_help_panel="What to show")
_where = partial(typer.Option, rich_help_panel="Where to show it")
_run = partial(typer.Option, rich_help_panel="Running")

MODEL = "Run folder (its average, else its best model) or model file."
Model = Annotated[Path, typer.Argument(help=MODEL)]
SOURCE = "Sentence, in quotation marks; - is standard input."
Source = Annotated[str, typer.Argument(help=SOURCE)]
TARGET = "Its translation, or its parse."
Target = Annotated[str | None, typer.Argument(help=TARGET, show_default="the model's own")]
KIND = "Attention within the source, within the target, or from target to source."
Kinds = Annotated[
    list[str] | None,
    _what(
        metavar="encoder|decoder|cross|all",
        help=KIND,
        show_default="cross; all for --html and --json",
    ),
]
LAYER = "Layers, counted from 1. The paper's figures show layer 5 of 6."
Layers = Annotated[
    list[str] | None,
    _what(metavar="N[,M]|all", help=LAYER, show_default="the last; all for --html and --json"),
]
HEAD = "Heads, counted from 1, or their mean."
Heads = Annotated[
    list[str] | None,
    _what(metavar="N[,M]|all|mean", help=HEAD, show_default="mean in the terminal, else all"),
]
TOKEN = "Draw only where this word looks, as figure 3 of the paper does."
Token = Annotated[str | None, _what(metavar="WORD", help=TOKEN)]
HTML = "Write a page to explore in a browser; it needs no network."
Html = Annotated[Path | None, _where(metavar="FILE", help=HTML)]
Svg = Annotated[Path | None, _where(metavar="FILE", help="Draw a figure for a paper.")]
Json = Annotated[bool, _where("--json", help="Print the numbers for machines.")]
Device = Annotated[str, _run(help="auto, cpu, cuda or mps.")]


def attend(
    model: Model,
    source: Source,
    target: Target = None,
    kind: Kinds = None,
    layer: Layers = None,
    head: Heads = None,
    token: Token = None,
    html: Html = None,
    svg: Svg = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Show where the heads of a model look (figures 3 to 5 of the paper).

    Without a target, the model's own translation is made first. The result is a heat map in the
    terminal, unless a page, a figure or numbers are asked for.
    """
    for picture in filter(None, (html, svg)):
        require_place(picture, begins=b"<")
    sentence = read_sentence(source)
    kinds, layers, heads = (split(wanted) for wanted in (kind, layer, head))
    path, file = open_model(model, kinds, layers, heads)
    pair, all_maps = look(file, sentence, target, device)
    many = all_maps.select(kinds=kinds, layers=layers, heads=heads)
    few = many.select(kinds=kinds or [CROSS], layers=layers or [str(many.layers[-1])])
    if html is not None:
        write_page(html, many, sentence, token)
    if svg is not None:
        write_figure(svg, few, token)
    if as_json:
        print_numbers(path, pair, many)
    elif html is None and svg is None:
        print_maps(few if heads else few.select(heads=[MEAN]), token)


def read_sentence(text: str) -> str:
    """Return the sentence that is given, or that standard input holds."""
    if Path(text) == STDIN:
        sentence, *more = [*islice(read_raw_lines(STDIN), 2)] or [b""]
        if more:
            console.warn("only the first line of standard input is shown")
        return sentence.decode(errors="replace")
    # What the shell passes on that is not UTF-8 has no characters to show.
    return text.encode(errors="surrogateescape").decode(errors="replace")


def split(wanted: list[str] | None) -> list[str]:
    """Read `--layer 5,6` like `--layer 5 --layer 6`."""
    return [part.strip() for text in wanted or [] for part in text.split(",")]


def open_model(
    model: Path, kinds: list[str], layers: list[str], heads: list[str]
) -> "tuple[Path, ModelFile]":
    """Return a model file and its path, if the model has what is to be shown."""
    from aiayn.checkpoint import load_model
    from aiayn.generation.attend import require_choice
    from aiayn.run_folder import find_model

    path = find_model(model)
    file = load_model(path)
    require_choice(file.config.model, kinds=kinds, layers=layers, heads=heads)
    if path != model:
        console.say(f"model: {path}")
    return path, file


def look(
    file: "ModelFile", source: str, target: str | None, device: str
) -> "tuple[SentencePair, Attended]":
    """Return the pair of sentences and all attention weights."""
    from aiayn.device import choose_device, prepare_device
    from aiayn.generation.attend import LONGEST, make_pair
    from aiayn.generation.attend import attend as attend_to
    from aiayn.generation.search import BeamSearch
    from aiayn.generation.translate import Translator

    place = choose_device(device)
    prepare_device(place)
    decode = file.config.decode
    search = BeamSearch(beam=decode.beam, alpha=decode.alpha)
    network = file.build().to(place)
    translator = Translator([network], file.codec, search, decode.extra_length, longest=LONGEST)
    pair = make_pair(network, file.codec, translator.translate, source, target)
    if pair.score is not None:
        console.say(f"translation: {pair.translation} (score {pair.score:.4f})")
    return pair, attend_to(network, file.codec, pair.source, pair.target)


def rows_of(attended: "Attended", token: str | None) -> dict[str, list[int]]:
    """Return by kind the queries to draw: all, or those that spell a word where it occurs."""
    from aiayn.generation.tokens import find_word, readable

    if token is None:
        return {kind: list(range(len(maps.queries))) for kind, maps in attended.maps.items()}
    found = {kind: find_word(maps.queries, token) for kind, maps in attended.maps.items()}
    if not any(found.values()):
        queries = {text for maps in attended.maps.values() for text in readable(maps.queries)}
        raise UsageError(
            f"{token!r} is none of the words that look in {' or '.join(found)} attention",
            fix=f"choose from {' '.join(sorted(queries))}, or another --kind",
        )
    return {kind: rows for kind, rows in found.items() if rows}


def write_page(path: Path, attended: "Attended", source: str, token: str | None) -> None:
    """Write the page to explore."""
    from aiayn.generation.attention_page import draw_page

    chosen = rows_of(attended, token) if token is not None else {}
    write_bytes(path, draw_page(attended, title=source, chosen=chosen).encode())
    console.say(f"wrote {path}")


def write_figure(path: Path, attended: "Attended", token: str | None) -> None:
    """Draw a panel for each kind and layer."""
    from aiayn.generation.attention_svg import Panel, draw_attention
    from aiayn.generation.tokens import readable

    panels = [
        Panel(
            title=f"{kind} attention, layer {layer}",
            queries=readable(attended.maps[kind].queries),
            keys=readable(attended.maps[kind].keys),
            heads=attended.heads,
            weights_HLM=weights_HLM,
            rows=rows,
        )
        for kind, rows in rows_of(attended, token).items()
        for layer, weights_HLM in zip(
            attended.layers, attended.maps[kind].weights_NHLM, strict=True
        )
    ]
    write_bytes(path, draw_attention(panels).encode())
    console.say(f"drew {path}")


def print_numbers(model: Path, pair: "SentencePair", attended: "Attended") -> None:
    """Print tokens and weights as JSON on one line."""
    maps = attended.maps
    numbers: dict[str, Any] = {
        "model": str(model),
        "source": attended.source,
        "target": attended.target,
        **({} if pair.score is None else {"score": pair.score}),
        "layers": attended.layers,
        "heads": attended.heads,
        "tokens": {
            kind: {"queries": found.queries, "keys": found.keys} for kind, found in maps.items()
        },
        "attention": {
            kind: found.weights_NHLM.astype(float).round(DIGITS).tolist()
            for kind, found in maps.items()
        },
    }
    console.result(json.dumps(numbers, ensure_ascii=False))


def print_maps(attended: "Attended", token: str | None) -> None:
    """Print a heat map for each kind, layer and head."""
    from aiayn.generation.heat_map import heat_map
    from aiayn.generation.tokens import readable

    for kind, rows in rows_of(attended, token).items():
        maps = attended.maps[kind]
        queries = readable(maps.queries)
        for layer, weights_HLM in zip(attended.layers, maps.weights_NHLM, strict=True):
            for head, weights_LM in zip(attended.heads, weights_HLM, strict=True):
                which = f"head {head}" if isinstance(head, int) else "mean of the heads"
                console.result(
                    f"{kind} attention, layer {layer}, {which}: percent of each row's attention"
                )
                for line in heat_map(
                    [queries[row] for row in rows],
                    readable(maps.keys),
                    weights_LM[rows],
                    width=console.stdout.width,
                    colour=console.shows_colours(),
                ):
                    console.result_text(line)
                console.result("")
