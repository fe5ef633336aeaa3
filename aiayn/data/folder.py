"""A finished data folder, as `aiayn preprocess` leaves it and everything else reads it."""

import hashlib
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from aiayn.data.atomic import file_sha256
from aiayn.data.codec import Codec
from aiayn.data.direction import is_reversed
from aiayn.data.inputs import split_lines
from aiayn.data.manifest import MANIFEST_FILE, Counts, Manifest, SideCounts, Split, SplitName
from aiayn.data.shards import REPAIR, Corpus
from aiayn.data.word_links import WordLinks
from aiayn.errors import DataError, UsageError, counted

VOCABULARY_FOLDER = "vocab"
UNFINISHED_FOLDER = "unfinished"
# Checksums of the vocabulary and of the manifest, which has those of the shards: for us and
# for `sha256sum -c`. The first version wrote none.
SUMS_FILE = "SHA256SUMS"
# Share of unknown tokens above which there is a warning.
MANY_UNKNOWN = 0.01
# Pairs that tell the languages of a split.
SAMPLED_PAIRS = 2000


class DataFolder:
    """Shards, vocabulary, validation text and the manifest that describes them."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a finished data folder; nothing but the manifest is read."""
        make = "make one: aiayn preprocess SRC TGT -o data"
        if not path.is_dir():
            found = "is a file" if path.exists() else "does not exist"
            raise UsageError(f"{path} {found}, expected a data folder", fix=make)
        if (path / MANIFEST_FILE).is_file():
            return cls(path, Manifest.load(path))
        if (path / UNFINISHED_FOLDER).is_dir():
            raise UsageError(
                f"{path} is unfinished: preprocess stopped in the middle",
                fix="run the same aiayn preprocess command again; it resumes where it stopped",
            )
        raise UsageError(f"{path} is not a data folder: it has no {MANIFEST_FILE}", fix=make)

    @cached_property
    def codec(self) -> Codec:
        """The vocabulary, and what was done to the text."""
        path = self.path / VOCABULARY_FOLDER
        codec = Codec.load(path)
        if codec.fingerprint != self.manifest.vocabulary_sha256:
            raise DataError(f"{path} is not the vocabulary of this data", fix=REPAIR)
        return codec

    @cached_property
    def training_sha256(self) -> str:
        """Sha256 over the training pairs, their alignments and the vocabulary."""
        shards = self.manifest.splits["train"].shards
        sums = [shard.bin_sha256 for shard in shards]
        sums += [shard.align_sha256 for shard in shards if shard.align_sha256]
        return hashlib.sha256(" ".join([*sums, self.codec.fingerprint]).encode()).hexdigest()

    def has(self, split: SplitName) -> bool:
        """Whether there is such a split; there always is a `train`."""
        return split in self.manifest.splits

    def corpus(self, split: SplitName) -> Corpus:
        """Return the pairs of a split, memory-mapped."""
        dtype = np.dtype(f"<u{self.manifest.bytes_per_id}")
        return Corpus(self.path, self._split(split).shards, dtype)

    def word_links(self) -> WordLinks | None:
        """Return the word alignments of the training pairs, if there are some."""
        shards = self._split("train").shards
        if not all(shard.align_sha256 for shard in shards):
            return None
        return WordLinks(self.path, shards)

    def text(self, split: SplitName) -> tuple[list[str], list[str]]:
        """Return the source and reference lines of a split, one for each pair of its corpus."""
        wanted = self._split(split).counts.kept
        paths = self.path / f"{split}.src", self.path / f"{split}.ref"
        # Bytes, because reading as text would turn a lone "\r" into the end of a line.
        found = (p.read_bytes() if p.is_file() else b"" for p in paths)
        source, reference = (split_lines(text.decode()) for text in found)
        for path, lines in zip(paths, (source, reference), strict=True):
            if len(lines) != wanted:
                raise DataError(
                    f"{path} has {counted(len(lines), 'lines')}, and the manifest says"
                    f" {wanted:,}",
                    fix=REPAIR,
                )
        return source, reference

    def _split(self, split: SplitName) -> Split:
        if not self.has(split):
            raise UsageError(
                f"{self.path} has no {split} pairs",
                fix=f"make the folder again with --{split} SRC TGT",
            )
        return self.manifest.splits[split]

    def describe(self) -> dict[str, Any]:
        """Return what is in the folder and how it was made, for `aiayn info`."""
        manifest = self.manifest
        return {
            "format_version": manifest.format_version,
            "vocabulary": {
                "source": manifest.source_vocabulary,
                "target": manifest.target_vocabulary,
                "sha256": manifest.vocabulary_sha256,
            },
            "splits": {name: _describe(split) for name, split in manifest.splits.items()},
            "settings": asdict(manifest.settings),
            "checksums": self.checksums(),
        }

    def counts_table(self) -> tuple[list[str], list[list[object]]]:
        """Return the columns and rows of a table of what was read, kept and dropped."""
        splits = self.manifest.splits
        counts = [split.counts for split in splits.values()]
        reasons = sorted({reason for each in counts for reason in each.dropped})
        rows: list[list[object]] = [
            ["pairs read", *(each.read for each in counts)],
            ["pairs kept", *(each.kept for each in counts)],
            *([f"dropped: {r}", *(each.dropped.get(r, 0) for each in counts)] for r in reasons),
        ]
        for side in ("source", "target"):
            sides: list[SideCounts] = [getattr(each, side) for each in counts]
            per_word = map(tokens_per_word, sides, counts)
            rows += [
                [f"{side} tokens", *(each.tokens for each in sides)],
                [f"{side} tokens a word", *map("{:.2f}".format, per_word)],
                [f"{side} unknown", *(each.share(each.unknown) for each in sides)],
                [f"{side} spelled in bytes", *(each.share(each.spelled) for each in sides)],
            ]
        rows.append(["shards", *(len(split.shards) for split in splits.values())])
        return ["", *splits], rows

    def warnings(self) -> list[str]:
        """Return what is probably a mistake."""
        found = []
        for name, split in self.manifest.splits.items():
            counts = split.counts
            if name != "train" and counts.dropped:
                lost = counts.read - counts.kept
                found.append(f"{name}: {counted(lost, 'pairs')} left out, with an empty side")
            for side, of in (("source", counts.source), ("target", counts.target)):
                if of.unknown > MANY_UNKNOWN * of.tokens:
                    share = of.share(of.unknown)
                    found.append(f"{name}: {share} of the {side} tokens are unknown")
            if name != "train" and self._is_reversed(name):
                found.append(
                    f"the source of {name} has the words of the training target, and its target"
                    f" those of the training source: are the files of --{name} the other way"
                    " round?"
                )
        return found

    def _is_reversed(self, split: SplitName) -> bool:
        """Whether held-out pairs run from the target language to the source language."""
        if self.codec.settings.task == "parsing":
            return False
        return is_reversed(self._sampled_text("train"), self._sampled_text(split))

    def _sampled_text(self, split: SplitName) -> tuple[list[str], list[str]]:
        """Return the text of some pairs, as the vocabulary spells it."""
        corpus = self.corpus(split)
        numbers = np.linspace(0, len(corpus) - 1, min(len(corpus), SAMPLED_PAIRS)).astype(int)
        pairs = [corpus.pair(number) for number in numbers.tolist()]
        source = [self.codec.source.decode(ids.tolist()) for ids, _ in pairs]
        return source, [self.codec.target.decode(ids.tolist()) for _, ids in pairs]

    def checksums(self) -> dict[str, str]:
        """Return the sha256 of every file but the vocabulary, by name."""
        found: dict[str, str] = {}
        for split in self.manifest.splits.values():
            for shard in split.shards:
                found |= shard.files
            found |= split.text_sha256
        return found

    def verify(self) -> list[str]:
        """Check every checksum; return the names of the files that have passed."""
        for name, digest in self.checksums().items():
            path = self.path / name
            if not path.is_file():
                raise DataError(f"{path} is missing", fix=REPAIR)
            if file_sha256(path) != digest:
                raise DataError(f"{path} is not the file that preprocess wrote", fix=REPAIR)
        assert self.codec  # loading it compares its fingerprint
        sums = self.path / SUMS_FILE
        if sums.is_file() and sums.read_bytes() != sums_of(self.path):
            raise DataError(
                f"{self.path / MANIFEST_FILE}, {VOCABULARY_FOLDER} or {SUMS_FILE} is not as"
                " preprocess wrote it",
                fix=REPAIR,
            )
        return [*self.checksums(), VOCABULARY_FOLDER]


def sums_of(folder: Path, manifest: bytes | None = None) -> bytes:
    """Return the checksums of a folder, which may not have its manifest yet."""
    if manifest is None:
        manifest = (folder / MANIFEST_FILE).read_bytes()
    lines = [f"{hashlib.sha256(manifest).hexdigest()}  {MANIFEST_FILE}\n"]
    for path in sorted((folder / VOCABULARY_FOLDER).iterdir()):
        lines.append(f"{file_sha256(path)}  {VOCABULARY_FOLDER}/{path.name}\n")
    return "".join(lines).encode()


def _describe(split: Split) -> dict[str, Any]:
    counts = split.counts
    found = {"read": counts.read, "kept": counts.kept, **asdict(counts)}
    for side in ("source", "target"):
        found[side]["tokens_per_word"] = tokens_per_word(getattr(counts, side), counts)
    inputs = {file.path: file.sha256 for file in split.inputs}
    return {**found, "shards": len(split.shards), "inputs": inputs}


def tokens_per_word(side: SideCounts, counts: Counts) -> float:
    """Return the subwords of an average word; the EOS of each sentence is not counted."""
    return round((side.tokens - counts.kept) / max(1, side.words), 4)
