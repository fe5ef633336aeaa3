"""A toy language to test with: translating a word is spelling it backwards.

Its words are a consonant and a vowel each, so a small model learns them in seconds.
"""

import itertools
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from aiayn.commands.train import resolve
from aiayn.config import Config
from aiayn.data.folder import DataFolder
from aiayn.data.inputs import ParallelText
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.transformer import Transformer
from aiayn.presets import preset
from aiayn.sample.corpus import make_chunk
from aiayn.training.loop import train


def sample_pairs(number: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield the first training pairs of the sample corpus: English, German."""
    chunks = (make_chunk(seed, chunk)["train"] for chunk in itertools.count())
    return itertools.islice((pair for pairs in chunks for pair in pairs), number)


WORDS = [consonant + vowel for consonant in "bdgk" for vowel in "aeiou"]

TINY = [
    "model.layers=1",
    "model.d_model=32",
    "model.d_ff=64",
    "model.heads=2",
    "model.d_k=16",
    "model.d_v=16",
    "model.dropout=0.1",
    "batch.tokens=400",
    "batch.micro_tokens=150",
    "optim.factor=0.7",
    "optim.warmup=60",
    "train.steps=12",
    "train.save_every=5",
    "train.valid_every=6",
    "train.log_every=4",
    "train.average=2",
    "train.precision=float32",
]
"""Settings of a run that takes a moment, to put on a command line."""


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def as_in_a_terminal() -> None:
    """In a child: the signal dispositions of a terminal, whatever pytest has (`nohup`)."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def tiny_config(*assignments: str) -> Config:
    """Return the settings above, with some changed."""
    return resolve(preset("tiny"), None, [*TINY, *assignments])


def sentences(count: int, *, seed: int, longest: int = 6) -> list[str]:
    """Return sentences of the toy language."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


def translation(sentence: str) -> str:
    """Return the one right translation of a sentence."""
    return " ".join(word[::-1] for word in sentence.split())


def make_data(
    folder: Path, *, seed: int = 1, shared: bool = True, longest: int = 6
) -> DataFolder:
    """Write some sentences with their translations and make a data folder of them."""
    texts = {}
    for number, (split, count) in enumerate((("train", 400), ("valid", 12))):
        lines = sentences(count, seed=2 * seed + number, longest=longest)
        files = folder / f"{split}.source", folder / f"{split}.target"
        for file, side in zip(files, (lines, map(translation, lines)), strict=True):
            file.write_text("".join(f"{line}\n" for line in side))
        texts[split] = [ParallelText(*files)]
    settings = Settings(vocab_size=320 if shared else 290, shared=shared)
    return preprocess(texts, folder / "data", settings=settings)


def keep_attention_weights(model: Transformer, wanted: bool = True) -> None:
    """Use the plain path of equation 1 in every attention, which keeps its weights."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.keep_weights = wanted


def run_training(data: Path, run: Path, config: Config) -> None:
    """Train in this process."""
    train(DataFolder.open(data), run, config, device="cpu")
