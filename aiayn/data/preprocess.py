"""Text to a data folder in two streaming passes, with the same bytes for any number of workers.

The first pass checks and counts the text and learns the vocabulary from a sample of it; the
second encodes it block by block into shards. A run that was interrupted goes on at the first
shard that is missing.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from aiayn import console
from aiayn.data.atomic import alone
from aiayn.data.codec import Codec
from aiayn.data.encode import Encoder, Filters
from aiayn.data.first_pass import Inputs, check, find_tags, learn
from aiayn.data.folder import VOCABULARY_FOLDER, DataFolder, file_sha256
from aiayn.data.inputs import TabbedText
from aiayn.data.manifest import (
    MANIFEST_FILE,
    Counts,
    InputFile,
    Manifest,
    Split,
    SplitName,
)
from aiayn.data.second_pass import encode_split
from aiayn.data.settings import Settings
from aiayn.data.text import STDIN, open_bytes
from aiayn.data.unfinished import (
    SPOOL,
    Plan,
    Record,
    Unfinished,
    clear,
    refuse_foreign,
)
from aiayn.data.workers import count_cores
from aiayn.errors import DataError, Stopped, UsageError
from aiayn.signals import RESUME, raise_on_signals

CHUNK = 1 << 20


def preprocess(
    inputs: Inputs,
    output: Path,
    *,
    settings: Settings,
    codec: Codec | None = None,
    dropped: Path | None = None,
    workers: int | None = None,
    force: bool = False,
) -> DataFolder:
    """Make a data folder, go on with one that was interrupted, or find it up to date.

    Args:
        inputs: Text of each split; there must be a `train`.
        output: The folder.
        settings: What decides its content.
        codec: A codec to use again, in place of a new vocabulary.
        dropped: File that lists the pairs that are left out.
        workers: Processes that encode; None is as many as there are cores and work for.
        force: Whether to put other data in place of what the folder holds.
    """
    refuse_foreign(output)
    if dropped and not dropped.parent.is_dir():
        raise UsageError(f"{dropped.parent} does not exist", fix=f"mkdir -p {dropped.parent}")
    with _stoppable(), alone(output), _spooled(inputs, output) as read:
        plan = Plan(settings=settings, inputs=_hash_inputs(read))
        if not _begin(output, plan, force=force, dropped=dropped):
            console.say(f"{output} is up to date")
            return DataFolder.open(output)
        unfinished = Unfinished(output)
        if unfinished.pairs() is None:
            _first_pass(read, settings, unfinished, codec, workers)
        records = _second_pass(read, settings, unfinished, workers)
        _finish(plan, unfinished, records, dropped)
    return DataFolder.open(output)


def _begin(output: Path, plan: Plan, *, force: bool, dropped: Path | None) -> bool:
    """Return whether there is anything to do; refuse to mix two plans in one folder."""
    unfinished = Unfinished(output)
    finished = (output / MANIFEST_FILE).is_file()
    if force:
        clear(output)
    elif finished:
        manifest = Manifest.load(output)
        made = {name: split.inputs for name, split in manifest.splits.items()}
        _refuse_difference(output, Plan(settings=manifest.settings, inputs=made), plan)
        if dropped and not dropped.is_file():
            raise UsageError(
                f"{output} is up to date, and {dropped} is written while it is made",
                fix="add --force to make it again",
            )
        unfinished.end()
        return False
    elif interrupted := unfinished.plan():
        _refuse_difference(output, interrupted, plan)
        console.say(f"going on with {output} where it was interrupted")
        return True
    # Until the first pass is over there is nothing to lose.
    clear(output)
    unfinished.begin(plan)
    return True


def _refuse_difference(output: Path, old: Plan, new: Plan) -> None:
    differences = old.differences(new)
    if differences:
        raise UsageError(
            f"{output} was made otherwise: {'; '.join(differences)}",
            fix="name another folder, or add --force to replace what this one holds",
        )


def _first_pass(
    inputs: Inputs,
    settings: Settings,
    unfinished: Unfinished,
    codec: Codec | None,
    workers: int | None,
) -> None:
    checked = check(inputs, settings, unfinished)
    if codec is None:
        tags = find_tags(inputs["train"]) if settings.task == "parsing" else ""
        codec = learn(checked.sample, settings, tags=tags, workers=workers)
    codec.save(unfinished.output / VOCABULARY_FOLDER)
    unfinished.note_pairs(checked.pairs)


def _second_pass(
    inputs: Inputs, settings: Settings, unfinished: Unfinished, workers: int | None
) -> dict[SplitName, list[Record]]:
    codec = Codec.load(unfinished.output / VOCABULARY_FOLDER)
    filters = Filters(
        max_length=settings.max_length,
        max_ratio=settings.max_ratio,
        duplicates=unfinished.duplicates if settings.dedup else None,
    )
    totals = unfinished.pairs() or {}
    return {
        split: encode_split(
            split,
            each,
            Encoder(codec, filters) if split == "train" else Encoder(codec, keep_text=True),
            unfinished,
            shard_size=settings.shard_size,
            workers=workers,
            total=totals[split],
        )
        for split, each in inputs.items()
    }


def _finish(
    plan: Plan,
    unfinished: Unfinished,
    records: dict[SplitName, list[Record]],
    dropped: Path | None,
) -> None:
    """Write the manifest, which makes the folder a data folder."""
    splits = {name: _split(plan.inputs[name], each) for name, each in records.items()}
    for name, split in splits.items():
        if not split.counts.kept:
            clear(unfinished.output)
            reasons = ", ".join(f"{n:,} {why}" for why, n in split.counts.dropped.items())
            raise DataError(
                f"no {name} pair is left of {split.counts.read:,}; dropped: {reasons}",
                fix="check that the two sides belong together, or widen --max-length",
            )
    output = unfinished.output
    codec = Codec.load(output / VOCABULARY_FOLDER)
    manifest = Manifest(
        settings=plan.settings,
        vocabulary_sha256=codec.fingerprint,
        source_vocabulary=len(codec.source),
        target_vocabulary=len(codec.target),
        bytes_per_id=Encoder(codec).id_type.itemsize,
        splits=splits,
    )
    if dropped:
        unfinished.write_dropped(dropped, [s for each in splits.values() for s in each.shards])
    manifest.save(output)
    unfinished.end()


def _split(inputs: list[InputFile], records: list[Record]) -> Split:
    counts = Counts()
    texts: dict[str, str] = {}
    for record in records:
        counts.add(record.counts)
        texts |= record.text_sha256
    shards = [record.shard for record in records]
    return Split(inputs=inputs, counts=counts, shards=shards, text_sha256=texts)


def _hash_inputs(inputs: Inputs) -> dict[SplitName, list[InputFile]]:
    """Sum up every input file, several at a time."""
    paths = {name: [p for i in each for p in i.files] for name, each in inputs.items()}
    every = [path for each in paths.values() for path in each]
    for path in every:
        _require_file(path)
    total = sum(path.stat().st_size for path in every)
    with (
        console.progress("hashing", total=total, unit="bytes") as step,
        ThreadPoolExecutor(count_cores()) as pool,
    ):
        hashed = []
        for file in pool.map(_hash_file, every):
            hashed.append(file)
            step(file.bytes)
    remaining = iter(hashed)
    return {name: [next(remaining) for _ in each] for name, each in paths.items()}


def _require_file(path: Path) -> None:
    """Name what cannot be read before any work begins."""
    if path.is_fifo():
        raise UsageError(
            f"{path} is a pipe, and text is read more than once",
            fix="write it to a file, or pass - and send lines of source, tab, target",
        )
    open_bytes(path).close()


def _hash_file(path: Path) -> InputFile:
    return InputFile(
        path=str(STDIN) if path.name == SPOOL else str(path),
        sha256=file_sha256(path),
        bytes=path.stat().st_size,
    )


@contextmanager
def _spooled(inputs: Inputs, output: Path) -> Iterator[Inputs]:
    """Keep standard input in a file while the block runs: it is read more than once."""
    streams = [i for each in inputs.values() for i in each if STDIN in i.files]
    if not streams:
        yield inputs
        return
    if len(streams) > 1:
        raise UsageError("standard input is named twice", fix="put one of the two in files")
    path = output / SPOOL
    try:
        with path.open("wb") as file, open_bytes(STDIN) as stream:
            shutil.copyfileobj(stream, file, CHUNK)
        kept = TabbedText(path, name="standard input")
        yield {
            name: [kept if i in streams else i for i in each] for name, each in inputs.items()
        }
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Turn signals and a full disk into errors that say how to resume."""
    try:
        with raise_on_signals():
            yield
    except Stopped as stop:
        raise type(stop)(f"{stop.message}; every finished shard is kept", fix=RESUME) from None
    except OSError as problem:
        raise UsageError(
            f"a file cannot be read or written: {problem}",
            fix="check space and permissions, and run the same command again to resume",
        ) from problem
