"""`aiayn serve`: translations over HTTP, and a page to type in."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiayn import console
from aiayn.commands.engines import EngineName, open_translator, require_cpu
from aiayn.commands.generate import DecodingPrecision, GenerateOptions
from aiayn.commands.options import command
from aiayn.errors import DataError, UsageError

if TYPE_CHECKING:
    from aiayn.serving.languages import LanguagePair
    from aiayn.serving.worker import Inbox, Reply, Served

EXAMPLES = (
    "aiayn serve run",
    "aiayn serve en-de=run fr-en=other.pt --port 8080 --api-key-file keys.txt",
)

NAMED = re.compile("([a-z]{2,3})-([a-z]{2,3})=(.+)")

_http = partial(typer.Option, rich_help_panel="HTTP")
_search = partial(typer.Option, rich_help_panel="Search", show_default="the model's")
_run = partial(typer.Option, rich_help_panel="Running")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """The command line of `aiayn serve`."""

    models: Annotated[list[str], typer.Argument(metavar="[SRC-TGT=]MODEL...")]
    """Run folder (its average, else its best model) or model file, one for each pair of
    languages. en-de=MODEL names them where `preprocess --languages` did not. A model of several
    languages, by tags, serves them all, or that which is named."""
    host: Annotated[str, _http()] = "127.0.0.1"
    """Address to listen at; 0.0.0.0 is all of this machine's. There is no encryption: put a
    proxy with TLS before it."""
    port: Annotated[int, _http(min=0, max=65535)] = 5000
    """0: any that is free."""
    api_key_file: Annotated[Path | None, _http(metavar="FILE", show_default=False)] = None
    """Keys, one a line: who translates has to send one of them."""
    char_limit: Annotated[int, _http(min=1)] = 50_000
    """Characters of a request."""
    timeout: Annotated[float, _http(min=0.1)] = 60
    """Seconds for a request."""
    beam: Annotated[int | None, _search(min=1)] = None
    """Hypotheses kept at each step; the paper: 4."""
    alpha: Annotated[float | None, _search(min=0)] = None
    """Length penalty; the paper: 0.6."""
    device: Annotated[str, _run()] = "auto"
    """auto, cpu, cuda or mps."""
    precision: Annotated[DecodingPrecision, _run()] = "auto"
    """auto: float32, which is exact; int8: linear layers in 8 bits, for the CPU: faster, and
    hardly less exact."""
    engine: Annotated[EngineName, _run()] = "torch"
    """As for generate: torch, or ctranslate2, which needs aiayn\\[export]."""
    compile: Annotated[bool, _run("--compile")] = False
    """As for generate: decode by code that g++ compiles for this processor, once."""
    threads: Annotated[int, _run(min=0)] = 0
    """CPU cores to use; 0: all."""

    def for_generate(self, path: Path) -> GenerateOptions:
        """Return the options with which `aiayn generate` translates as this server does."""
        return GenerateOptions(
            models=[path],
            beam=self.beam,
            alpha=self.alpha,
            engine=self.engine,
            compile=self.compile,
            device=self.device,
            precision=self.precision,
            threads=self.threads,
            align=True,  # what alignments need is loaded before any request, too
        )


@command(ServeOptions, EXAMPLES)
def serve(options: ServeOptions) -> None:
    """Translate over HTTP, as LibreTranslate does, with a page to type in.

    POST /translate takes a text or a list of texts, GET /languages lists the pairs. Requests
    that come at the same time share the steps of the search. SIGTERM and Ctrl-C answer what was
    taken, and end the server.

    Try it: curl localhost:5000/translate -d q='A dog runs.' -d source=en -d target=de
    """
    keys = read_keys(options.api_key_file) if options.api_key_file else []
    import asyncio

    from aiayn.serving.pool import start_workers
    from aiayn.serving.server import Limits
    from aiayn.serving.server import serve as serve_http
    from aiayn.serving.worker import Worker

    models = load_by_pair(options)

    def work(inbox: "Inbox", reply: "Reply") -> None:
        Worker(models, options.beam, options.alpha, reply).run(inbox)

    def announce(port: int) -> None:
        pairs = ", ".join("-".join(pair) for pair in models)
        host = f"[{options.host}]" if ":" in options.host else options.host
        console.say(f"serving {pairs} at http://{host}:{port}/ (Ctrl-C ends)")

    device = next(iter(models.values())).model.device
    # Before the event loop: a fork of a process without threads is safe.
    forks = options.engine == "torch"
    links = start_workers(work, device, options.threads, forks=forks)
    limits = Limits(characters=options.char_limit, seconds=options.timeout)
    address = options.host, options.port
    asyncio.run(
        serve_http(links, [*models], address, keys=keys, limits=limits, announce=announce)
    )
    console.say("stopped; all that was taken is answered")


def read_keys(path: Path) -> list[str]:
    """Return the API keys of a file."""
    keys = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    if not (found := [key for key in keys if key]):
        raise DataError(f"{path} holds no API key", fix="write one in each line")
    return found


def load_by_pair(options: ServeOptions) -> "dict[LanguagePair, Served]":
    """Load each model; return them by their pair of languages."""
    from aiayn.serving.languages import UNKNOWN

    models: dict[LanguagePair, Served] = {}
    loaded: dict[Path, Served] = {}
    for given in options.models:
        named = NAMED.fullmatch(given)
        path = Path(named[3] if named else given)
        served = loaded[path] = loaded.get(path) or load_served(options, path)
        for pair, one in by_pair(served, (named[1], named[2]) if named else None).items():
            if {*pair} & {*UNKNOWN}:
                console.warn(
                    f"{path} does not say which languages it translates: they are called"
                    f" {'-'.join(pair)}; name them as in en-de={path}"
                )
            if pair in models:
                raise UsageError(
                    f"two models translate {'-'.join(pair)}",
                    fix=f"leave one out, or name its languages as in en-de={path}",
                )
            models[pair] = one
    return models


def by_pair(served: "Served", named: "LanguagePair | None") -> "dict[LanguagePair, Served]":
    """Return a model by the languages that are named, or else by all that it translates."""
    from aiayn.data.language_tags import find_tag, language_of
    from aiayn.serving.languages import UNKNOWN

    codec = served.model.codec
    source, target = named or served.model.languages
    source = source or UNKNOWN[0]
    if not (tags := codec.source.tags()):
        return {(source, target or UNKNOWN[1]): served}
    by_target = (
        {target: find_tag(target, codec)} if named else {language_of(t): t for t in tags}
    )
    return {
        (source, target): served._replace(translator=replace(served.translator, tag=tag))
        for target, tag in by_target.items()
    }


def load_served(options: ServeOptions, path: Path) -> "Served":
    """Load a model, ready to translate with the engine that is asked for."""
    from aiayn.checkpoint import load_model
    from aiayn.device import choose_device, prepare_device
    from aiayn.distributed import ProcessGroup
    from aiayn.library import Model
    from aiayn.model_path import find_model
    from aiayn.serving.worker import Served

    options.for_generate(path).check()
    file = find_model(path)
    if options.compile:
        require_cpu(options.device)
    device = choose_device("cpu" if options.compile else options.device)
    prepare_device(device)
    group = ProcessGroup(rank=0, world_size=1, device=device)
    translator = open_translator(options.for_generate(file), [file], group)
    return Served(Model([load_model(file)], [*translator.models], device), translator)
