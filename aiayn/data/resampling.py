"""Text that is encoded anew for each epoch: subword sampling and noise.

Beyond the paper. Ids are turned back into text, which loses nothing, and the text into other
subwords: byte pairs with merges left out (BPE-dropout) or a segmentation that the unigram model
draws. What is drawn depends on the seed, the epoch and the number of the pair, and on nothing
else, so it is the same after an interruption and in any number of processes.
"""

from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np

from aiayn.config import BatchConfig
from aiayn.data.case_markup import restore_capitals
from aiayn.data.codec import Codec
from aiayn.data.language_tags import tag_length
from aiayn.data.noise import add_noise
from aiayn.data.shards import Corpus, Ids
from aiayn.data.subword_sampling import SubwordSampler
from aiayn.errors import UsageError


@dataclass(frozen=True)
class Resampling:
    """Draws the subwords of a pair for an epoch."""

    codec: Codec
    batch: BatchConfig
    seed: int
    longest: int
    """Tokens of a sentence; what is drawn longer stays as it was, so memory is no surprise."""

    def __call__(self, pair: tuple[Ids, Ids], *, epoch: int, number: int) -> tuple[Ids, Ids]:
        """Return the pair as the epoch has it."""
        random = Random(f"{self.seed} {epoch} {number}")
        noisy = random.random() < self.batch.noise
        if not (noisy or self.batch.sampling):
            return pair
        # The language to translate to is not a matter of chance.
        tag = tag_length(pair[0], self.codec.source)
        texts = self.codec.source.decode(pair[0][tag:]), self.codec.target.decode(pair[1])
        if noisy:
            texts = self._add_noise(*texts, random)
        source, target = self._encode(*texts, random)
        source = [*pair[0][:tag], *source]
        if max(len(source), len(target)) > self.longest:
            return pair
        return np.array(source, dtype=np.int32), np.array(target, dtype=np.int32)

    def _add_noise(self, source: str, target: str, random: Random) -> tuple[str, str]:
        """Add noise to texts as the subwords see them."""
        marks = self.codec.source_markup, self.codec.target_markup
        if not (marks[0] and marks[1]):
            return add_noise(source, target, random)
        source, target = add_noise(restore_capitals(source), restore_capitals(target), random)
        return marks[0].mark(source), marks[1].mark(target)

    def _encode(self, source: str, target: str, random: Random) -> list[list[int]]:
        vocabularies = self.codec.source, self.codec.target
        pairs = zip(vocabularies, self._samplers, (source, target), strict=True)
        return [
            sampler.encode([text], random)[0] if sampler else vocabulary.encode_batch([text])[0]
            for vocabulary, sampler, text in pairs
        ]

    @cached_property
    def _samplers(self) -> list[SubwordSampler | None]:
        """Of source and target; None: subwords stay as they are."""
        if not self.batch.sampling:
            return [None, None]
        source = SubwordSampler(self.codec.source, self.batch.sampling)
        if self.codec.shared:
            return [source, source]
        return [source, SubwordSampler(self.codec.target, self.batch.sampling)]


def resampling(
    codec: Codec, batch: BatchConfig, corpus: Corpus, *, seed: int
) -> Resampling | None:
    """Return what draws the pairs of a corpus; None: they stay as they are."""
    if not (batch.sampling or batch.noise):
        return None
    setting = "batch.sampling" if batch.sampling else "batch.noise"
    _require_lossless(codec, setting)
    if batch.sampling:
        _require_samples(codec)
    if batch.noise and codec.settings.lowercase:
        raise UsageError(
            "batch.noise writes in upper case, and this data is in lower case",
            fix="preprocess without --lowercase, or leave batch.noise out",
        )
    longest = max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    return Resampling(codec, batch, seed, longest)


def _require_lossless(codec: Codec, setting: str) -> None:
    """Refuse vocabularies from whose ids the text cannot be told."""
    if codec.settings.task == "parsing":
        raise UsageError(
            f"{setting} is for translation, and this data has trees",
            fix=f"leave {setting} out",
        )
    for vocabulary in (codec.source, codec.target):
        if vocabulary.table is not None:
            raise UsageError(
                f"{setting} needs ids that keep the whole text, and those of a vocabulary from"
                " elsewhere (BPE codes, foreign SentencePiece models) do not",
                fix=f"learn a vocabulary with aiayn preprocess, or leave {setting} out",
            )
        if vocabulary.kind == "word":
            raise UsageError(
                f"{setting} needs subwords, and the units of this data are whole words",
                fix=f"preprocess with --subword bpe or unigram, or leave {setting} out",
            )


def _require_samples(codec: Codec) -> None:
    """Refuse characters, which cannot be cut otherwise."""
    for vocabulary in (codec.source, codec.target):
        if vocabulary.kind not in ("bpe", "unigram"):
            raise UsageError(
                f"batch.sampling draws subwords, and the units of this data are"
                f" {vocabulary.kind}acters",
                fix="preprocess with --subword bpe or unigram, or leave batch.sampling out",
            )
