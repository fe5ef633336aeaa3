"""An English-German corpus made by rule, to try, test and measure aiayn without a data set.

It is one endless stream of sentences, in chunks that depend on the seed and their number alone:
any number of processes makes the same. A checksum of its English gives each sentence its part.
"""

import hashlib
import random
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import count, islice
from pathlib import Path

from aiayn import console
from aiayn.data.atomic import TEMPORARY, atomic_write
from aiayn.data.workers import map_in_order
from aiayn.errors import UsageError
from aiayn.sample.clause import MARKS, unmarked
from aiayn.sample.grammar import Grammar

PARTS = ("train", "valid", "test")
LANGUAGES = ("en", "de")
ALIGNMENT = "align"
CHUNK_SENTENCES = 1024
# Of this many sentences, one is for validation and one for test.
HELD_OUT_SHARE = 32
PART_OF_REMAINDER = {0: "valid", 1: "test"}
DEFAULT_HELD_OUT = 1000
# Making this many sentences takes longer than starting a process.
WORTH_A_PROCESS = 100_000

# A sentence in both languages, and its word alignment if that is wanted.
Pair = tuple[str, ...]


def part_of(english: str) -> str:
    """Return the part that an English sentence belongs to, whatever the seed."""
    return PART_OF_REMAINDER.get(zlib.crc32(english.encode()) % HELD_OUT_SHARE, "train")


def make_chunk(seed: int, number: int, *, alignments: bool = False) -> dict[str, list[Pair]]:
    """Return the sentences of one chunk by the part that they belong to."""
    digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
    # Python promises the same numbers in every version for random() only.
    draw = random.Random(int.from_bytes(digest, "big")).random
    grammar = Grammar(draw, marks=alignments)
    parts: dict[str, list[Pair]] = {part: [] for part in PARTS}
    for _ in range(CHUNK_SENTENCES):
        pair: Pair = grammar.sentence()
        if alignments:
            pair = (*map(unmarked, pair), alignment_of(*pair))
        parts[part_of(pair[0])].append(pair)
    return parts


def alignment_of(english: str, german: str) -> str:
    """Return the word alignment of marked sentences in Pharaoh's form: 0-0 1-2."""
    sides = ([{*MARKS.findall(word)} for word in side.split()] for side in (english, german))
    sources, targets = sides
    return " ".join(
        f"{i}-{j}"
        for i, source in enumerate(sources)
        for j, target in enumerate(targets)
        if source & target
    )


def write_sample(
    folder: Path,
    *,
    pairs: int,
    seed: int,
    valid: int | None = None,
    test: int | None = None,
    alignments: bool = False,
    workers: int = 1,
    force: bool = False,
) -> None:
    """Write train, valid and test in English and German: six files, all or none.

    With `alignments`, there are three more, which tell the source words of each target word.

    More `pairs` begin with the same ones. Another `seed` is another corpus, but each sentence
    stays in its part. Of `valid` and `test`, 1,000 are made if not given, but not more than
    `pairs`; none of them comes twice. `workers` do not change the result.
    """
    held_out = min(DEFAULT_HELD_OUT, pairs)
    wanted = {
        "train": pairs,
        "valid": held_out if valid is None else valid,
        "test": held_out if test is None else test,
    }
    endings = (*LANGUAGES, ALIGNMENT) if alignments else LANGUAGES
    paths = [folder / f"{part}.{ending}" for part in PARTS for ending in endings]
    _check(wanted, folder, paths, force=force)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _write(paths, wanted, seed, workers)
        finally:
            for path in paths:
                path.with_name(path.name + TEMPORARY).unlink(missing_ok=True)
    except OSError as problem:
        raise UsageError(
            f"{problem.filename or folder} cannot be written: {problem.strerror}",
            fix="name a folder that can be written and has room",
        ) from None


def _check(wanted: dict[str, int], folder: Path, paths: list[Path], *, force: bool) -> None:
    for part, number in wanted.items():
        if number < 1:
            raise UsageError(f"the number of {part} pairs is {number}", fix="give 1 or more")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder", fix="name another folder")
    found = [path.name for path in paths if path.exists()]
    if found and not force:
        raise UsageError(
            f"{folder} holds {', '.join(found)} already",
            fix="pass --force to replace them, or name another folder",
        )


def _write(paths: list[Path], wanted: dict[str, int], seed: int, workers: int) -> None:
    candidates = max(wanted["train"], HELD_OUT_SHARE * max(wanted["valid"], wanted["test"]))
    workers = min(workers, 1 + candidates // WORTH_A_PROCESS)
    left, seen = dict(wanted), set[str]()
    with ExitStack() as stack:
        # ExitStack closes in reverse order: train.en gets its name first, test.de last.
        files = [stack.enter_context(atomic_write(path)) for path in reversed(paths)][::-1]
        sides = len(paths) // len(PARTS)
        make = partial(make_chunk, seed, alignments=sides > len(LANGUAGES))
        chunks = map_in_order(make, count(), workers=workers)
        stack.enter_context(closing(chunks))
        progress = console.progress("sample", total=sum(wanted.values()), unit="pairs")
        advance = stack.enter_context(progress)
        while any(left.values()):
            chunk = next(chunks)
            for number, part in enumerate(PARTS):
                pairs = chunk[part] if part == "train" else _unseen(chunk[part], seen)
                taken = list(islice(pairs, left[part]))
                left[part] -= len(taken)
                for side in range(sides):
                    text = "".join(f"{pair[side]}\n" for pair in taken)
                    files[sides * number + side].write(text.encode())
                advance(len(taken))


def _unseen(pairs: list[Pair], seen: set[str]) -> Iterator[Pair]:
    for pair in pairs:
        sentences = pair[: len(LANGUAGES)]
        if seen.isdisjoint(sentences):
            seen.update(sentences)
            yield pair
