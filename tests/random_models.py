"""Models that nobody trained, to compare toolkits on: every weight is random, biases too."""

from functools import cache

import torch
from torch import nn
from toy import sentences, translation

from aiayn.checkpoint import ModelFile, build_model
from aiayn.config import Config, DecodeConfig, ModelConfig
from aiayn.data.codec import Codec
from aiayn.data.settings import CodecSettings
from aiayn.data.vocabulary import Vocabulary
from aiayn.export.verify import Greedy

SMALL = {"layers": 2, "d_model": 32, "d_ff": 64, "heads": 2, "d_k": 16, "d_v": 16}
LINES = sentences(200, seed=5)
SIZES = {"bpe": 310, "unigram": 286, "char": 270, "word": 20}


@cache
def vocabulary(kind: str = "bpe", *, backwards: bool = False) -> Vocabulary:
    lines = [translation(line) for line in LINES] if backwards else LINES
    return Vocabulary.train(lines, kind=kind, size=SIZES[kind] - 3 * backwards)


def random_model(*, shared: bool = True, codec: dict | None = None, **settings) -> ModelFile:
    """Return a model with these settings of `model`; `codec` holds those of the text."""
    about = CodecSettings(**(codec or {}))
    source = vocabulary(about.subword)
    target = source if shared else vocabulary(about.target_subword, backwards=True)
    config = Config(
        model=ModelConfig(**{**SMALL, **settings}), decode=DecodeConfig(beam=1, alpha=0)
    )
    whole = Codec(source, target, about)
    torch.manual_seed(1)
    model = build_model(config, whole)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.uniform_(module.weight, 0.3, 1.5)
        if isinstance(module, nn.LayerNorm | nn.Linear) and module.bias is not None:
            nn.init.normal_(module.bias, std=0.3)
    return ModelFile(config=config, codec=whole, weights=model.state_dict())


def pairs(file: ModelFile, count: int = 6) -> list[Greedy]:
    """Return lines with translations to score, whatever the model itself makes of them."""
    lines = sentences(count, seed=9)
    texts = [translation(line) for line in lines]
    encode = file.codec.encode_target
    return [Greedy(s, t, encode(t)[:-1], 20) for s, t in zip(lines, texts, strict=True)]


def python_in(readme: str, sentence: str) -> str:
    """Return the Python of a README, about a sentence of ours."""
    code = readme.split("```python\n")[1].split("```")[0]
    assert "'one sentence'" in code
    return code.replace("'one sentence'", repr(sentence))
