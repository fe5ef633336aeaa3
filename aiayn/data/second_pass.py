"""The second pass over the text: encode it, block by block, into shards."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice

from aiayn import console
from aiayn.data.atomic import write_hashed, write_whole
from aiayn.data.codec import Codec
from aiayn.data.encode import Encoded, Encoder
from aiayn.data.first_pass import Inputs
from aiayn.data.inputs import Input, read_blocks
from aiayn.data.manifest import Counts, SplitName
from aiayn.data.settings import Settings
from aiayn.data.shards import write_shard
from aiayn.data.unfinished import ShardRecord, Unfinished
from aiayn.data.workers import count_cores, map_in_order

PAIRS_PER_WORKER = 50_000
"""Starting another process takes about as long as encoding so many pairs."""


def second_pass(
    inputs: Inputs,
    settings: Settings,
    unfinished: Unfinished,
    *,
    codec: Codec,
    workers: int | None,
) -> dict[SplitName, list[ShardRecord]]:
    """Encode every split; return the records of its shards."""
    filtering = Encoder(
        codec,
        max_length=settings.max_length,
        max_ratio=settings.max_ratio,
        duplicates=unfinished.duplicates if settings.dedup else None,
    )
    totals = unfinished.pairs() or {}
    return {
        split: encode_split(
            split,
            each,
            filtering if split == "train" else Encoder(codec, keep_text=True),
            unfinished,
            shard_size=settings.shard_size,
            workers=workers,
            total=totals[split],
        )
        for split, each in inputs.items()
    }


def encode_split(
    split: SplitName,
    inputs: Sequence[Input],
    encoder: Encoder,
    unfinished: Unfinished,
    *,
    shard_size: int,
    workers: int | None,
    total: int,
) -> list[ShardRecord]:
    """Write the shards of a split that are not there yet; return the records of all.

    Training pairs go into several shards without their text, others into one beside it.
    """
    records = _finished(split, unfinished)
    blocks = islice(read_blocks(inputs), sum(record.blocks for record in records), None)
    workers = workers or min(count_cores(), 1 + total // PAIRS_PER_WORKER)
    with console.progress(f"encoding {split}", total=total, unit="pairs") as step:
        step(sum(record.counts.read for record in records))
        results = map_in_order(encoder, blocks, workers=workers)
        # A shard begins only if there is a block for it, and takes more of the same stream.
        for first in results:
            name = _shard_name(split, len(records))
            rest = chain([first], results)
            record = _write(name, rest, encoder, unfinished, size=shard_size, step=step)
            unfinished.store_record(record)
            records.append(record)
    return records


def _finished(split: SplitName, unfinished: Unfinished) -> list[ShardRecord]:
    """Return the records of the shards that an earlier run has finished."""
    records: list[ShardRecord] = []
    while record := unfinished.record(_shard_name(split, len(records))):
        records.append(record)
        if split != "train":
            break
    return records


def _shard_name(split: SplitName, number: int) -> str:
    return f"train-{number:05}" if split == "train" else split


def _write(
    name: str,
    results: Iterator[Encoded],
    encoder: Encoder,
    unfinished: Unfinished,
    *,
    size: int,
    step: Callable[[int], None],
) -> ShardRecord:
    """Write one shard: blocks until it has its size, or all of them where text is kept."""
    counts, blocks = Counts(), 0
    folder = unfinished.output
    with ExitStack() as stack:
        shard = stack.enter_context(write_shard(folder, name, encoder.id_type))
        dropped = stack.enter_context(write_whole(unfinished.dropped(name)))
        texts = {
            f"{name}.{side}": stack.enter_context(write_hashed(folder / f"{name}.{side}"))
            for side in (("src", "ref") if encoder.keep_text else ())
        }
        for encoded in results:
            blocks += 1
            shard.write(encoded.ids, encoded.lengths)
            # A file name may hold bytes that are not UTF-8.
            dropped.write(encoded.dropped.encode(errors="surrogateescape"))
            for file, text in zip(texts.values(), encoded.texts, strict=False):
                file.write(text.encode())
            counts.add(encoded.counts)
            step(encoded.counts.read)
            if shard.size >= size and not encoder.keep_text:
                break
    return ShardRecord(
        shard=shard.shard(),
        counts=counts,
        blocks=blocks,
        text_sha256={file_name: file.sha256 for file_name, file in texts.items()},
    )
