"""The paper's rows as values: table 3, the models of table 2, and the parser of table 4."""

from dataclasses import replace

from aiayn.config import (
    BatchConfig,
    Config,
    DecodeConfig,
    ModelConfig,
    OptimConfig,
    TrainConfig,
)
from aiayn.errors import UsageError, did_you_mean

BASE = Config()


def _table3(model: ModelConfig, *, smoothing: float = BASE.optim.smoothing) -> Config:
    """Return base with another model or label smoothing; table 3 does not average."""
    return replace(
        BASE,
        model=model,
        optim=OptimConfig(smoothing=smoothing),
        train=TrainConfig(average=1),
    )


BIG = Config(
    model=ModelConfig(d_model=1024, d_ff=4096, heads=16, dropout=0.3),
    train=TrainConfig(steps=300_000, average=20),
)

TINY = Config(
    # Learns the corpus of `aiayn sample` in minutes on a CPU; dropout would only slow it down.
    model=ModelConfig(layers=2, d_model=128, d_ff=512, heads=4, d_k=32, d_v=32, dropout=0.0),
    batch=BatchConfig(tokens=1500, micro_tokens=900),
    optim=OptimConfig(factor=0.7, warmup=200),
    train=TrainConfig(steps=1250, save_every="50", keep="last=10,best=1", valid_every=625),
)

PARSING = Config(
    # Differs from the paper, which tuned dropout and did not publish it: 0.2 is what its code
    # used for WSJ only.
    model=ModelConfig(
        layers=4,
        d_model=1024,
        d_ff=2048,
        d_k=128,
        d_v=128,
        dropout=0.2,
        attention_dropout=0.2,
        tie="none",
    ),
    decode=DecodeConfig(beam=21, alpha=0.3, extra_length=300, longest=1024),
)

STUDENT = Config(
    # Beyond the paper: learns from a teacher's translations, and is read out greedily.
    model=ModelConfig(decoder_layers=2),
    decode=DecodeConfig(beam=1),
)

PRESETS: dict[str, Config] = {
    "tiny": TINY,
    "base": BASE,
    "big": BIG,
    "big-en-fr": replace(BIG, model=replace(BIG.model, dropout=0.1)),
    "table3-A1": _table3(ModelConfig(heads=1, d_k=512, d_v=512)),
    "table3-A2": _table3(ModelConfig(heads=4, d_k=128, d_v=128)),
    "table3-A3": _table3(ModelConfig(heads=16, d_k=32, d_v=32)),
    "table3-A4": _table3(ModelConfig(heads=32, d_k=16, d_v=16)),
    "table3-B1": _table3(ModelConfig(d_k=16)),
    "table3-B2": _table3(ModelConfig(d_k=32)),
    "table3-C1": _table3(ModelConfig(layers=2)),
    "table3-C2": _table3(ModelConfig(layers=4)),
    "table3-C3": _table3(ModelConfig(layers=8)),
    "table3-C4": _table3(ModelConfig(d_model=256, d_k=32, d_v=32)),
    "table3-C5": _table3(ModelConfig(d_model=1024, d_k=128, d_v=128)),
    "table3-C6": _table3(ModelConfig(d_ff=1024)),
    "table3-C7": _table3(ModelConfig(d_ff=4096)),
    "table3-D1": _table3(ModelConfig(dropout=0.0)),
    "table3-D2": _table3(ModelConfig(dropout=0.2)),
    "table3-D3": _table3(ModelConfig(), smoothing=0.0),
    "table3-D4": _table3(ModelConfig(), smoothing=0.2),
    "table3-E": _table3(ModelConfig(positions="learned")),
    "parsing": PARSING,
    "student": STUDENT,
}


def preset(name: str) -> Config:
    """Return the preset of that name."""
    if name not in PRESETS:
        # transformer_vaswani_wmt_en_de_big is what fairseq calls ours.
        inside = next((known for known in ("big", "base", "tiny") if known in name.lower()), "")
        near = inside or name.lower()
        fix = did_you_mean(near, {known.lower(): known for known in PRESETS})
        raise UsageError(f"there is no preset {name!r}", fix=fix)
    return PRESETS[name]
