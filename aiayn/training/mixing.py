"""Updates from several corpora at once, each with its share of the target tokens.

Beyond the paper. An update is filled group by group, always from the corpus that is most behind
its share, so that shares hold within an eighth of an update at any time. Each corpus has its
own plan and its own epochs; where it is, and what it has given, is all that resuming needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aiayn.config import BatchConfig
from aiayn.data.plan import Place
from aiayn.data.resampling import Resampling
from aiayn.data.shards import Corpus, Part
from aiayn.distributed import ProcessGroup
from aiayn.run_folder import Progress
from aiayn.training.loader import (
    Group,
    PairsOfUpdate,
    Update,
    groups_from,
    make_update,
    read_pairs,
    updates_from,
)

# Of which an update is made: the more, the finer the shares, and the more lengths it mixes.
GROUPS_PER_UPDATE = 8


def all_updates(
    corpus: Corpus,
    batch: BatchConfig,
    processes: ProcessGroup,
    progress: Progress,
    *,
    seed: int,
    resampling: Resampling | None,
) -> Iterator[Update]:
    """Yield the updates that follow what a run has done, from one corpus or several."""
    if len(corpus.parts) == 1:
        place = {"epoch": progress.epoch, "number": progress.update}
        return updates_from(corpus, batch, processes, seed=seed, resampling=resampling, **place)
    done = [Place(*each) for each in progress.places]
    places = done or [Place()] * len(corpus.parts)
    return mixed_updates(
        corpus, batch, processes, seed=seed, places=places, resampling=resampling
    )


def mixed_updates(
    corpus: Corpus,
    batch: BatchConfig,
    processes: ProcessGroup,
    *,
    seed: int,
    places: Sequence[Place],
    resampling: Resampling | None = None,
) -> Iterator[Update]:
    """Yield updates endlessly, from a place in each part of the corpus."""
    small = replace(batch, tokens=max(1, batch.tokens // GROUPS_PER_UPDATE))
    places = list(places)
    streams = [
        groups_from(corpus, part, small, seed=seed, epoch=place.epoch, number=place.group)
        for part, place in zip(corpus.parts, places, strict=True)
    ]
    waiting = [next(stream) for stream in streams]
    while True:
        first, chosen = waiting[0], list[PairsOfUpdate]()
        room = np.array([batch.tokens, batch.tokens])
        while True:
            behind = most_behind(corpus.parts, places)
            group = waiting[behind]
            room -= _tokens(corpus, group)
            if chosen and room.min() < 0:
                break
            pairs = read_pairs(corpus, group.pairs, group.epoch, resampling)
            chosen.append(pairs)
            taken = places[behind].target_tokens + int(pairs.target_lengths.sum())
            places[behind] = Place(*group.following, taken)
            waiting[behind] = next(streams[behind])
        yield make_update(_joined(chosen), batch, processes, first, places)


def most_behind(parts: Sequence[Part], places: Sequence[Place]) -> int:
    """Return which part lacks the most target tokens, if the next one is counted too."""
    total = 1 + sum(place.target_tokens for place in places)
    lacking = [
        part.share * total - place.target_tokens
        for part, place in zip(parts, places, strict=True)
    ]
    return lacking.index(max(lacking))


def _tokens(corpus: Corpus, group: Group) -> NDArray[np.int64]:
    """Return the source and the target tokens of a group, as they are stored."""
    sides = corpus.source_lengths, corpus.target_lengths
    return np.array([int(lengths[group.pairs].sum()) for lengths in sides])


def _joined(chosen: Sequence[PairsOfUpdate]) -> PairsOfUpdate:
    """Return pairs of several groups as those of one update."""
    source, target = (
        np.concatenate(side) for side in zip(*(x[:2] for x in chosen), strict=True)
    )
    pairs = [each.pair for each in chosen for _ in each.source_lengths]
    places = [place for each in chosen for place in range(len(each.source_lengths))]
    return PairsOfUpdate(source, target, lambda place: pairs[place](places[place]))
