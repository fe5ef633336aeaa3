"""The second pass over the text: encode it, block by block, into shards."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from aiayn import console
from aiayn.data.atomic import atomic_write, file_sha256
from aiayn.data.codec import Codec
from aiayn.data.encode import Encoded, Encoder
from aiayn.data.first_pass import Inputs
from aiayn.data.inputs import Input, read_blocks, with_alignments
from aiayn.data.manifest import Counts, SplitName
from aiayn.data.shards import ALIGN, write_shard
from aiayn.data.unfinished import DROPPED_FILE, DUPLICATES_FILE, ShardRecord, State
from aiayn.data.word_links import LinkNumbers, write_links
from aiayn.data.workers import count_cores, map_in_order

# Starting another process takes about as long as encoding so many pairs.
PAIRS_PER_WORKER = 50_000


def second_pass(
    inputs: Inputs,
    output: Path,
    state: State,
    *,
    codec: Codec,
    alignments: Path | None,
    workers: int | None,
) -> None:
    """Encode every split into the shards that are not there yet, and record them."""
    settings = state.job.settings
    filtering = Encoder(
        codec,
        max_length=settings.max_length,
        max_ratio=settings.max_ratio,
        duplicates=output / DUPLICATES_FILE if settings.dedup else None,
        alignments=alignments,
    )
    for split, each in inputs.items():
        encoder = filtering if split == "train" else Encoder(codec, keep_text=True)
        encode_split(split, each, encoder, output, state, workers=workers)


def encode_split(
    split: SplitName,
    inputs: Sequence[Input],
    encoder: Encoder,
    output: Path,
    state: State,
    *,
    workers: int | None,
) -> None:
    """Encode a split: training pairs into several shards, others into one beside their text."""
    total, size = state.pairs[split], state.job.settings.shard_size
    # If a shard has lost a file, it and all that follow are written again.
    files = {path.name for path in output.iterdir()}
    records = []
    for record in state.records.get(split, []):
        if not {*record.shard.files} <= files:
            break
        records.append(record)
    state.records[split] = records
    every = read_blocks(inputs)
    if encoder.alignments:
        every = with_alignments(every, encoder.alignments)
    blocks = islice(every, sum(record.blocks for record in records), None)
    workers = workers or min(count_cores(), 1 + total // PAIRS_PER_WORKER)
    done = sum(record.counts.read for record in records)
    with console.progress(f"encoding {split}", total=total, unit="pairs", done=done) as step:
        results = map_in_order(encoder, blocks, workers=workers)
        # A shard begins with this block and takes the next ones from the same iterator.
        for first in results:
            name = f"train-{len(records):05}" if split == "train" else split
            rest = chain([first], results)
            records.append(_write(name, rest, encoder, output, size=size, step=step))
            state.save(output)


def _write(
    name: str,
    results: Iterator[Encoded],
    encoder: Encoder,
    output: Path,
    *,
    size: int,
    step: Callable[[int], None],
) -> ShardRecord:
    """Write one shard: blocks until it has its size, or all of them where text is kept."""
    counts, blocks, links = Counts(), 0, list[LinkNumbers]()
    paths = [output / f"{name}.{side}" for side in ("src", "ref") if encoder.keep_text]
    with ExitStack() as stack:
        shard = stack.enter_context(write_shard(output, name))
        dropped = stack.enter_context(atomic_write(output / DROPPED_FILE.format(name)))
        texts = [stack.enter_context(atomic_write(path)) for path in paths]
        for encoded in results:
            blocks += 1
            shard.write(encoded.ids, encoded.lengths)
            links += encoded.links
            # A file name may hold bytes that are not UTF-8.
            dropped.write(encoded.dropped.encode(errors="surrogateescape"))
            # Where no text is kept there are no files, and the texts are empty.
            for file, text in zip(texts, encoded.texts, strict=False):
                file.write(text.encode())
            counts.add(encoded.counts)
            step(encoded.counts.read)
            if shard.size >= size and not encoder.keep_text:
                break
    made = shard.shard()
    if encoder.alignments:
        made = replace(made, align_sha256=write_links(output / f"{name}{ALIGN}", links))
    return ShardRecord(
        shard=made,
        counts=counts,
        blocks=blocks,
        text_sha256={path.name: file_sha256(path) for path in paths},
    )
