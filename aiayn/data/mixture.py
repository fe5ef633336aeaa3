"""Several data folders as one, each with a share of the target tokens.

Beyond the paper: true translations and synthetic ones, or several languages, are mixed while
training. `aiayn train de:0.6 synthetic:0.4` takes 6 tokens of the first for 4 of the second,
whatever their sizes; each is read through, epoch by epoch, by itself.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

from aiayn.data.folder import DataFolder
from aiayn.data.manifest import SplitName
from aiayn.data.named import Named
from aiayn.data.shards import Corpus
from aiayn.data.word_links import WordLinks
from aiayn.errors import UsageError


class Mixture(DataFolder):
    """Data folders with one vocabulary. Validation is on the text of all that have some."""

    def __init__(self, folders: Sequence[DataFolder], shares: Sequence[float]) -> None:
        super().__init__(folders[0].path, folders[0].manifest)
        self.folders = folders
        self.shares = [share / sum(shares) for share in shares]
        for folder in folders[1:]:
            if folder.codec.fingerprint != self.codec.fingerprint:
                raise UsageError(
                    f"{self.path} and {folder.path} have different vocabularies",
                    fix=f"preprocess the text of {folder.path} with --vocab-from {self.path}",
                )

    def has(self, split: SplitName) -> bool:
        """Whether any of the folders has such a split."""
        return any(folder.has(split) for folder in self.folders)

    def corpus(self, split: SplitName) -> Corpus:
        """Return the pairs of a split, folder after folder, memory-mapped."""
        having = [folder for folder in self.folders if folder.has(split)]
        whole = Corpus.joined([folder.corpus(split) for folder in having])
        if split == "train":
            mixed = zip(whole.parts, self.shares, strict=True)
            whole.parts = [replace(part, share=share) for part, share in mixed]
        return whole

    def word_links(self) -> WordLinks | None:
        """Return the word alignments of the training pairs, if all folders have some."""
        found = [folder.word_links() for folder in self.folders]
        known = [links for links in found if links is not None]
        return WordLinks.joined(known) if len(known) == len(found) else None

    def text(self, split: SplitName) -> tuple[list[str], list[str]]:
        """Return the source and reference lines of a split, folder after folder."""
        texts = [folder.text(split) for folder in self.folders if folder.has(split)]
        source, reference = ([*chain(*side)] for side in zip(*texts, strict=True))
        return source, reference

    def describe_shares(self) -> dict[str, float]:
        """Return the share of each folder by its path."""
        pairs = zip(self.folders, self.shares, strict=True)
        return {str(folder.path.resolve()): share for folder, share in pairs}

    @cached_property
    def training_sha256(self) -> str:
        """Sha256 over the training pairs and the shares."""
        pairs = zip(self.folders, self.shares, strict=True)
        told = [f"{folder.training_sha256} {share!r}" for folder, share in pairs]
        return hashlib.sha256(" ".join(told).encode()).hexdigest()


def open_data(named: Sequence[Named]) -> DataFolder:
    """Open a data folder, or several with their shares as one."""
    folders = [DataFolder.open(each.path) for each in named]
    if len(folders) == 1:
        return folders[0]
    shares = [each.share for each in named if each.share is not None]
    if len(shares) < len(folders):
        (without, *_) = (each.path for each in named if each.share is None)
        raise UsageError(
            f"{len(folders)} data folders are named, and {without} has no share",
            fix=f"write {without}:0.5, and a share after each of the others",
        )
    paths = [each.path.resolve() for each in named]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise UsageError(
                f"{named[number].path} is named twice", fix="name it once, with the whole share"
            )
    return Mixture(folders, shares)
