"""Text to a data folder in two streaming passes, with the same bytes for any number of workers.

The first pass checks and counts the text and learns the vocabulary from a sample of it; the
second encodes it block by block into shards. An interrupted run is resumed at the first shard
that is missing.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from aiayn import console
from aiayn.data.atomic import file_sha256, lock_folder, open_new, require_writable, write_bytes
from aiayn.data.codec import Codec
from aiayn.data.encode import Encoder
from aiayn.data.first_pass import Inputs, first_pass
from aiayn.data.folder import (
    SUMS_FILE,
    UNFINISHED_FOLDER,
    VOCABULARY_FOLDER,
    DataFolder,
    sums_of,
)
from aiayn.data.inputs import TabbedText
from aiayn.data.manifest import MANIFEST_FILE, Counts, InputFile, Manifest, Split, SplitName
from aiayn.data.second_pass import second_pass
from aiayn.data.settings import Settings
from aiayn.data.text import STDIN, open_bytes
from aiayn.data.unfinished import (
    SPOOL,
    STATE_FILE,
    Job,
    ShardRecord,
    State,
    clear,
    refuse_foreign,
    write_dropped,
)
from aiayn.data.workers import count_cores
from aiayn.errors import DataError, Stopped, UsageError
from aiayn.signals import RESUME, raise_on_signals


def preprocess(
    inputs: Inputs,
    output: Path,
    *,
    settings: Settings,
    codec: Codec | None = None,
    alignments: Path | None = None,
    dropped: Path | None = None,
    workers: int | None = None,
    force: bool = False,
) -> DataFolder:
    """Make a data folder, resume one that was interrupted, or find it up to date.

    A given codec takes the place of a new vocabulary. A file of word alignments has a line for
    each training pair. The pairs that are left out are listed in `dropped`. Without a number of
    workers there are as many as there are cores and work for.
    """
    refuse_foreign(output)
    if dropped:
        require_writable(dropped)
    existed = output.exists()
    with (
        _stoppable(),
        lock_folder(output),
        _nothing_left(output, existed),
        _spooled(inputs, output) as read,
    ):
        job = Job(settings=settings, inputs=_hash_inputs(read, alignments))
        if force:
            clear(output)
        if (output / MANIFEST_FILE).is_file():
            _require_up_to_date(output, job, dropped)
            console.say(f"{output} is up to date")
            return DataFolder.open(output)
        if state := State.load(output):
            job.refuse_other(state.job, output)
            console.say(f"resuming {output} where it was interrupted")
        else:
            # Until the first pass is done there is nothing to lose.
            clear(output)
            state = first_pass(
                read, output, job, codec=codec, alignments=alignments, workers=workers
            )
        # From disk even after a first pass: a resumed run encodes with the same codec.
        codec = Codec.load(output / VOCABULARY_FOLDER)
        second_pass(read, output, state, codec=codec, alignments=alignments, workers=workers)
        _finish(output, state, codec, dropped)
    return DataFolder.open(output)


def _require_up_to_date(output: Path, job: Job, dropped: Path | None) -> None:
    """Refuse a finished folder that another job made."""
    manifest = Manifest.load(output)
    made = {name: split.inputs for name, split in manifest.splits.items()}
    job.refuse_other(Job(settings=manifest.settings, inputs=made), output)
    if dropped and not dropped.is_file():
        raise UsageError(
            f"{output} is up to date, and {dropped} is written while it is made",
            fix="add --force to make it again",
        )
    # A run that was killed right after it wrote the manifest leaves this behind.
    shutil.rmtree(output / UNFINISHED_FOLDER, ignore_errors=True)


def _finish(output: Path, state: State, codec: Codec, dropped: Path | None) -> None:
    """Write the manifest, which makes the folder a data folder."""
    inputs = state.job.inputs
    splits = {name: _split(inputs[name], records) for name, records in state.records.items()}
    for name, split in splits.items():
        if not split.counts.kept:
            clear(output)
            reasons = ", ".join(f"{n:,} {why}" for why, n in split.counts.dropped.items())
            raise DataError(
                f"no {name} pair is left of {split.counts.read:,}; dropped: {reasons}",
                fix="check that the two sides belong together, or widen --max-length",
            )
    if dropped:
        write_dropped(dropped, output, [s for each in splits.values() for s in each.shards])
    manifest = Manifest(
        settings=state.job.settings,
        vocabulary_sha256=codec.fingerprint,
        source_vocabulary=len(codec.source),
        target_vocabulary=len(codec.target),
        bytes_per_id=Encoder(codec).id_type.itemsize,
        splits=splits,
    )
    write_bytes(output / SUMS_FILE, sums_of(output, manifest.content))
    # From here on the folder is finished.
    write_bytes(output / MANIFEST_FILE, manifest.content)
    shutil.rmtree(output / UNFINISHED_FOLDER, ignore_errors=True)


def _split(inputs: list[InputFile], records: list[ShardRecord]) -> Split:
    counts, texts = Counts(), dict[str, str]()
    for record in records:
        counts.add(record.counts)
        texts |= record.text_sha256
    shards = [record.shard for record in records]
    return Split(inputs=inputs, counts=counts, shards=shards, text_sha256=texts)


def _hash_inputs(inputs: Inputs, alignments: Path | None) -> dict[SplitName, list[InputFile]]:
    """Return the sha256 of every input file, several at a time."""
    paths = {split: [p for i in each for p in i.files] for split, each in inputs.items()}
    paths["train"] += [alignments] if alignments else []
    every = [path for each in paths.values() for path in each]
    # Open all of them first, to report a missing file before hours of hashing.
    for path in every:
        if path.is_fifo():
            raise UsageError(
                f"{path} is a pipe, and text is read more than once",
                fix="write it to a file, or pass - and send lines of source, tab, target",
            )
        open_bytes(path).close()
    total = sum(path.stat().st_size for path in every)
    with (
        console.progress("hashing", total=total, unit="bytes") as step,
        ThreadPoolExecutor(count_cores()) as pool,
    ):
        hashed = {}
        for path, sha256 in zip(every, pool.map(file_sha256, every), strict=True):
            # The spool is gone after the run, so the manifest names what it was a copy of.
            name = str(STDIN) if path.name == SPOOL else str(path)
            size = path.stat().st_size
            hashed[path] = InputFile(path=name, sha256=sha256, bytes=size)
            step(size)
    return {split: [hashed[path] for path in each] for split, each in paths.items()}


@contextmanager
def _nothing_left(output: Path, existed: bool) -> Iterator[None]:
    """If the block fails before there is something to resume, leave no trace of it."""
    try:
        yield
    except BaseException:
        begun = (output / MANIFEST_FILE).is_file() or (output / STATE_FILE).is_file()
        if output.is_dir() and not begun:
            clear(output)
            if not existed and not any(output.iterdir()):
                output.rmdir()
        raise


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
        with open_new(path) as file, open_bytes(STDIN) as stream:
            shutil.copyfileobj(stream, file)
        kept = TabbedText(path, name="standard input", tag=streams[0].tag)
        yield {k: [kept if i in streams else i for i in each] for k, each in inputs.items()}
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
