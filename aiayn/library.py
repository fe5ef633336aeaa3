"""A trained model as a Python object: `aiayn.load`.

It translates, scores and attends as the commands do, with the same results: both call the same
functions. Commands tell a user of the shell what is wrong; here the same errors are raised.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Literal, overload

import torch

from aiayn.checkpoint import ModelFile, load_model
from aiayn.config import DecodeConfig
from aiayn.data.codec import Codec
from aiayn.data.language_tags import find_tag, tag_line
from aiayn.device import choose_device, prepare_device
from aiayn.errors import UsageError
from aiayn.figures.attention_page import draw_page
from aiayn.generation.attention_maps import (
    SentenceAttention,
    attend,
)
from aiayn.generation.native_model import compile_kernels, load_native_models
from aiayn.generation.prepare import load_models
from aiayn.generation.score_targets import ScoredTarget, score_targets
from aiayn.generation.search import BeamSearch, Search
from aiayn.generation.start_search import Network
from aiayn.generation.streaming import Line, windows
from aiayn.generation.translator import Translation, Translator
from aiayn.model.transformer import Transformer
from aiayn.model_path import find_model

PrecisionName = Literal["float32", "bfloat16", "float16", "int8"]
FRAME_STYLE = "width: 100%; height: 40em; border: 0"


def load(
    *models: str | Path,
    device: str = "auto",
    precision: PrecisionName = "float32",
    processes: int = 1,
    compile: bool = False,
) -> "Model":
    """Load a model, or several with one vocabulary as an ensemble.

    Args:
        models: Run folders (their average, else their best model) or model files.
        device: auto, cpu, cuda or mps.
        precision: int8 has linear layers in 8 bits, for the CPU.
        processes: With more than one, that many forks of this process share long texts on a
            CPU, as those of `aiayn generate` do. Scripts are safe to fork; notebooks with
            threads of their own may not be.
        compile: Translate by code that g++ compiles for this processor, once, as `aiayn
            generate --compile` does.
    """
    if not models:
        raise UsageError("no model is given", fix='write aiayn.load("run")')
    if compile and device not in ("auto", "cpu"):
        raise UsageError(f"compiled code is for the CPU, and device is {device}")
    where = choose_device("cpu" if compile else device)
    prepare_device(where)
    paths = [find_model(Path(model)) for model in models]
    if compile:
        kernels, _ = compile_kernels(precision)
        compiled = load_native_models(paths, kernels, precision)
        return Model([load_model(path) for path in paths], compiled, where, processes)
    files, networks = load_models(paths, where, precision)
    return Model(files, networks, where, processes)


@dataclass(frozen=True)
class Attention:
    """What the heads attend to in one sentence pair; a notebook shows it as a page."""

    title: str
    translation: str
    """The model's own translation, where no target was given."""
    weights: SentenceAttention

    @property
    def html(self) -> str:
        """The page of `aiayn attend --html`, which needs nothing else."""
        return draw_page(self.weights, title=self.title, chosen={})

    def _repr_html_(self) -> str:
        # In a frame of its own, a page neither takes nor changes the styles of a notebook.
        return (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}"'
            f' style="{FRAME_STYLE}"></iframe>'
        )


@dataclass(frozen=True, repr=False)
class Model:
    """A model that is ready to translate, or an ensemble."""

    files: list[ModelFile]
    networks: Sequence[Network]
    device: torch.device
    processes: int = 1

    @property
    def codec(self) -> Codec:
        """The vocabulary: text to ids and back."""
        return self.files[0].codec

    @property
    def decode(self) -> DecodeConfig:
        """How it searches unless told otherwise."""
        return self.files[0].config.decode

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language, as `en` and `de`; empty if the model does not say."""
        settings = self.codec.settings
        return settings.source_language, settings.target_language

    def __repr__(self) -> str:
        c, words = self.files[0].config.model, len(self.codec.source)
        pair = "-".join(self.languages) if all(self.languages) else "languages not named"
        many = f"{len(self.files)} models, " if len(self.files) > 1 else ""
        return (
            f"<aiayn.Model: {many}{pair}, {c.layers} + {c.decoder_depth} layers,"
            f" d_model {c.d_model}, {words:,} subwords>"
        )

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: None = None,
        alignments: Literal[False] = False,
        search: None = None,
        prefixes: Iterable[str] | None = None,
        to: str | None = None,
    ) -> list[str]: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int,
        alignments: bool = False,
        search: None = None,
        prefixes: Iterable[str] | None = None,
        to: str | None = None,
    ) -> list[Translation]: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int | None = None,
        alignments: Literal[True],
        search: None = None,
        prefixes: Iterable[str] | None = None,
        to: str | None = None,
    ) -> list[Translation]: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        *,
        search: Search,
        alignments: bool = False,
        prefixes: Iterable[str] | None = None,
        to: str | None = None,
    ) -> list[Translation]: ...

    def translate(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int | None = None,
        alignments: bool = False,
        search: Search | None = None,
        prefixes: Iterable[str] | None = None,
        to: str | None = None,
    ) -> list[str] | list[Translation]:
        """Translate lines, as `aiayn generate` does.

        Args:
            lines: Plain text, one sentence each.
            beam: Hypotheses kept at each step; else what the model says, the paper: 4.
            alpha: Length penalty; else what the model says, the paper: 0.6.
            nbest: Translations of each line, the best first.
            alignments: Whether to add the source word of each target word.
            search: Another search, such as `aiayn.Sampling(samples=3)`; then beam, alpha and
                nbest are its own.
            prefixes: What each translation has to begin with; empty: anything.
            to: The language to translate to, of a model that knows several by tags.

        Returns:
            A text for each line; with nbest, alignments or search, a `Translation`: its text,
            and its outputs with text, score and alignment.
        """
        rich = nbest is not None or alignments or search is not None
        if search is None:
            search = BeamSearch.of(self.decode, beam=beam, alpha=alpha, nbest=nbest)
        elif (beam, alpha, nbest) != (None, None, None):
            raise UsageError(
                "beam, alpha and nbest belong to the search that is given",
                fix="set them in the search, or leave it out",
            )
        found: list[Translation] = []
        with closing(self.translator(search, aligns=alignments, to=to)) as translator:
            for window in windows(_as_lines(lines, prefixes), translator.window):
                found += translator.translate_window(window)
        return found if rich else [translation.text for translation in found]

    def translator(
        self, search: Search, *, aligns: bool = False, to: str | None = None
    ) -> Translator:
        """Return what translates lines with a search."""
        return Translator(
            self.networks,
            self.codec,
            search,
            self.decode.extra_length,
            workers=self.processes,
            longest=self.decode.longest,
            tag=find_tag(to, self.codec),
            aligns=aligns,
            alignment_heads=[file.config.alignment_heads for file in self.files],
        )

    def score(
        self, sources: Iterable[str], targets: Iterable[str], *, to: str | None = None
    ) -> list[ScoredTarget]:
        """Return log P of each target, given its source, as `aiayn score --model` does."""
        tag = find_tag(to, self.codec)
        texts = [[line.text for line in _as_lines(side)] for side in (sources, targets)]
        if len(texts[0]) != len(texts[1]):
            raise UsageError(
                f"there are {len(texts[0]):,} sources and {len(texts[1]):,} targets",
                fix="give one target for each source",
            )
        texts[0] = [tag_line(tag, text) for text in texts[0]]
        return score_targets(self._plain_network, self.codec, *texts)

    def attention(
        self, source: str, target: str | None = None, *, to: str | None = None
    ) -> Attention:
        """Return the attention of all heads in a sentence pair, as `aiayn attend` does.

        Without a target, it is the model's own translation.
        """
        about = (self.codec, self.decode, source, target, find_tag(to, self.codec))
        pair, weights = attend(self._plain_network, *about)
        return Attention(source, pair.translation, weights)

    @cached_property
    def _plain_network(self) -> Transformer:
        """The network as it was trained: decoding has its weights in another form."""
        if len(self.files) > 1:
            raise UsageError(
                "scores and attention are those of one model, and this is an ensemble",
                fix="load one of its models by itself",
            )
        return self.files[0].build().to(self.device)


def _as_lines(texts: Iterable[str], prefixes: Iterable[str] | None = None) -> list[Line]:
    """Return texts, and what their translations begin with, as lines."""
    listed = list(texts)
    if isinstance(texts, str) or not all(isinstance(text, str) for text in listed):
        raise UsageError("lines are not a list of texts", fix='write ["A dog runs.", ...]')
    begins = [""] * len(listed) if prefixes is None else list(prefixes)
    if len(begins) != len(listed):
        raise UsageError(
            f"there are {len(listed):,} lines and {len(begins):,} prefixes",
            fix="give one prefix for each line; an empty one leaves it open",
        )
    return [Line(text, prefix) for text, prefix in zip(listed, begins, strict=True)]
