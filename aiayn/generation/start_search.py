"""The step function and the state of a search, compiled where all that is asked for is."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Union

from aiayn.generation.engine import Engine, Found, NumberedSegment
from aiayn.generation.native_beams import NativeBeams
from aiayn.generation.native_decoder import NativeDecoder
from aiayn.generation.native_model import NativeModel
from aiayn.generation.rules import NO_RULES
from aiayn.generation.search import BeamSearch, Search

if TYPE_CHECKING:
    from aiayn.model.transformer import Transformer

Network = Union["Transformer", NativeModel]


def start_search(
    models: Sequence[Network],
    search: Search,
    work: deque[NumberedSegment],
    *,
    batch_tokens: int,
    rows: int,
    most: int | None,
    trees: bool,
) -> Iterator[list[Found]]:
    """Search sentences; yield after each step what has ended."""
    restricted = (
        trees
        or not isinstance(search, BeamSearch)
        or search.rules != NO_RULES
        or search.beam_rule != "paper"
    )
    if len(models) == 1 and isinstance(models[0], NativeModel) and not restricted:
        assert isinstance(search, BeamSearch)
        decoder = NativeDecoder(models[0], search.width)
        beams = NativeBeams(search, decoder)
        return Engine(beams, decoder, batch_tokens, most, rows).steps(work)
    # Loaded here: torch takes a second, in which the compiled search is done with many lines.
    import torch

    from aiayn.generation.decoder import CachedDecoder, Ensemble

    steps = [
        NativeDecoder(model, search.width)
        if isinstance(model, NativeModel)
        else CachedDecoder(model, search.width)
        for model in models
    ]
    step = steps[0] if len(steps) == 1 else Ensemble(steps)
    engine = Engine(search.start(), step, batch_tokens, most, rows)
    return torch.inference_mode()(engine.steps)(work)
