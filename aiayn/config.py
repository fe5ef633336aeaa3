"""Every setting of a run, each with its one default and its one line of documentation.

`config_file` reads them from YAML and from the command line.
"""

import ast
import inspect
import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from aiayn.errors import UsageError

Positions = Literal["sinusoidal", "halves", "learned"]
Tie = Literal["all", "target", "none"]
Activation = Literal["relu", "swish"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
Auto = Literal["auto"]
BeamRule = Literal["paper", "marian"]
Compile = Literal["auto", "true", "false"]
ValidationMetric = Literal["bleu", "chrf"]
FormatName = Literal["text", "tsv", "jsonl", "moses"]

# Beyond it, the length penalty of a long sentence is larger than any float32.
ALPHA_LIMIT = 10
# Seeds are 64 bits with a sign in torch.
SEED_LIMIT = 2**63
# Of updates, of seconds, of files: Python refuses to read numbers of thousands of digits.
NUMBER = r"\d{1,12}"
# Padded source tokens that are decoded at once: about what a core's cache serves.
DECODING_BATCH_TOKENS = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The Transformer of section 3; the defaults are the base model of table 3."""

    layers: int = 6
    """N: identical layers in the encoder, and again in the decoder."""
    decoder_layers: int = 0
    """Layers of the decoder; 0: as many as `layers`. Beyond the paper: a shallow decoder
    translates faster, because it works token by token."""
    d_model: int = 512
    """Width of every sub-layer's output and of the embeddings."""
    d_ff: int = 2048
    """Width inside the feed-forward network."""
    heads: int = 8
    """h: attention functions that run side by side."""
    d_k: int = 64
    """Width of queries and keys per head. Table 3 (B) shrinks it alone."""
    d_v: int = 64
    """Width of values per head."""
    activation: Activation = "relu"
    """Inside the feed-forward network; swish, x sigmoid(x), is for models from elsewhere."""
    norm_epsilon: float = 1e-6
    """Layer normalization's guard against division by zero."""
    dropout: float = 0.1
    """P_drop: on each sub-layer's output and on embedding + position."""
    attention_dropout: float = 0.0
    """Dropout on attention weights; the paper used it for parsing only."""
    relu_dropout: float = 0.0
    """Dropout inside the feed-forward network; the paper had none."""
    # Differs from the paper, whose formulas have no biases here; its parameter counts do.
    attention_bias: bool = True
    """Biases on W^Q, W^K, W^V, W^O: not in the paper's formulas, but in its models."""
    attention_window: int = 0
    """r: self-attention sees positions at most r // 2 away, section 4; 0: all of them."""
    positions: Positions = "sinusoidal"
    """sinusoidal: section 3.5; halves: as tensor2tensor laid them out; learned: row (E)."""
    max_positions: int = 256
    """Rows of the learned position table; the other kinds have no limit."""
    tie: Tie = "all"
    """all: one matrix for all embeddings and the output, as far as they share a vocabulary;
    target: one for the output and the target's embedding; or none."""
    output_bias: bool = False
    """A bias on the logits: not in the paper, but in models from elsewhere."""

    def __post_init__(self) -> None:
        _check(self, ("layers", "d_model", "d_ff", "heads", "d_k", "d_v", "max_positions"), 1)
        _check(self, ("dropout", "attention_dropout", "relu_dropout"), 0, below=1)
        _check(self, ("decoder_layers", "attention_window", "norm_epsilon"), 0)

    @property
    def decoder_depth(self) -> int:
        """Return how many layers the decoder has."""
        return self.decoder_layers or self.layers

    @property
    def alignment_layer(self) -> int:
        """Return the layer of the decoder that tells word alignments, counted from 0.

        The one before the last aligns best in models of this kind.
        """
        return max(self.decoder_depth - 2, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """What one update sees (section 5.1)."""

    tokens: int = 25_000
    """Target tokens in one update, and at most as many source tokens, over all processes."""
    micro_tokens: int | Auto = 3600
    """Padded tokens on the longer side that go through the network at once: a matter of memory
    and speed. Of the result it changes what dropout draws, seeded by micro-batch, and rounding.
    25,000 tokens are 8 such pieces, one for each of 8 GPUs. auto: on GPUs, as many as fit; the
    run keeps what it found."""
    jitter: float = 0.1
    """Pairs are grouped by length times 1 +- jitter, so that groups differ between epochs."""
    sampling: float = 0.0
    """Subwords are drawn anew in each epoch; 0: off. Of byte pairs, the probability that a
    merge is left out (BPE-dropout; 0.1 is usual); of unigrams, the power alpha of probabilities
    that segmentations are drawn by (0.1 to 0.5: the smaller, the more varied). An update then
    has more tokens than `tokens`, which counts them as stored. Beyond the paper."""
    noise: float = 0.0
    """Probability that a pair is in upper case, in title case, or has typing errors in its
    source: for input that people type. Beyond the paper."""

    def __post_init__(self) -> None:
        _check(self, ("tokens", *([] if self.micro_tokens == "auto" else ["micro_tokens"])), 1)
        _check(self, ("jitter", "sampling", "noise"), 0, below=1)

    @property
    def micro_limit(self) -> int:
        """Return `micro_tokens` of a run that has started."""
        assert self.micro_tokens != "auto"
        return self.micro_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """Adam, the learning rate of equation 3, and label smoothing (sections 5.3 and 5.4)."""

    factor: float = 1.0
    """Multiplies the learning rate of equation 3."""
    warmup: int = 4000
    """Updates over which the learning rate rises."""
    beta1: float = 0.9
    """Adam's decay of the mean of gradients."""
    beta2: float = 0.98
    """Adam's decay of the mean of squared gradients."""
    epsilon: float = 1e-9
    """Adam's guard against division by zero."""
    smoothing: float = 0.1
    """epsilon_ls: probability that the target spreads over all wrong classes."""
    guided: float = 0.0
    """Weight of guided attention, such as 0.1; 0: off. In the decoder's layer before the last,
    the first head that looks at the source learns the word alignments that `preprocess
    --alignments` stored, and tells those of translations. Beyond the paper."""
    rdrop: float = 0.0
    """Weight of R-Drop, such as 5; 0: off. Each micro-batch goes through the network twice,
    with other dropout, and the two predictions are drawn together: for text that is small
    enough to be learned by heart, at twice the cost. Beyond the paper."""

    def __post_init__(self) -> None:
        _check(self, ("warmup",), 1)
        _check(self, ("factor", "epsilon", "guided", "rdrop"), 0)
        _check(self, ("beta1", "beta2", "smoothing"), 0, below=1)

    @property
    def passes(self) -> int:
        """Return how often an update sends its tokens through the network."""
        return 2 if self.rdrop else 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How long a run is, and what it keeps (sections 5.2 and 6.1)."""

    steps: int = 100_000
    """Updates in the whole run."""
    seed: int = 1
    """Seeds the weights, the order of the data and dropout."""
    precision: Precision = "auto"
    """auto: bfloat16 on a GPU or a processor that multiplies it, else float32."""
    compile: Compile = "auto"
    """Compile the network with torch.compile; auto: on a GPU that it is for."""
    save_every: str = "10m"
    """Updates (1000) or time (10m) between checkpoints; the paper saved every 10 minutes."""
    keep: str = "last=20,best=1"
    """Checkpoints that stay on disk."""
    average: int = 5
    """Checkpoints averaged into average.pt at the end; 1: none. Big: 20."""
    ema: float = 0.0
    """Decay of a moving average of the weights, such as 0.999, which validation, best.pt and
    average.pt take in place of averaged checkpoints; 0: none. Beyond the paper."""
    valid_every: int = 1000
    """Updates between validations; 0: only at the end."""
    metric: ValidationMetric = "bleu"
    """Score of the validation text, which decides on the best checkpoint and on patience. chrf
    is beyond the paper; trees have F1 always."""
    patience: int = 0
    """Stop after this many validations without a better one; 0: never. Better is a higher score
    (`train.metric`, or F1 of trees), or the same one at a lower loss."""
    log_every: int = 50
    """Updates between two lines of metrics.jsonl; validations and checkpoints bring more."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too; needs `pip install aiayn[tensorboard]`."""

    def __post_init__(self) -> None:
        _check(self, ("steps", "average", "log_every"), 1)
        _check(self, ("valid_every", "patience"), 0)
        _check(self, ("ema",), 0, below=1)
        _check(self, ("seed",), 0, below=SEED_LIMIT)
        parse_interval(self.save_every)
        parse_keep(self.keep)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig:
    """Beam search as in section 6.1; kept with the model, overridden by `aiayn generate`."""

    beam: int = 4
    """Hypotheses that stay alive."""
    alpha: float = 0.6
    """Length penalty ((5 + |Y|) / 6)^alpha."""
    beam_rule: BeamRule = "paper"
    """paper: what has ended leaves its place to another hypothesis. marian: the beam narrows,
    the length penalty is |Y|^alpha, and no word is unknown, as in Marian."""
    extra_length: int = 50
    """An output has at most this many more tokens than the input."""
    longest: int = 256
    """Subwords that are translated in one piece: as many as preprocess lets through. A longer
    line is cut between sentences or words and joined again."""

    def __post_init__(self) -> None:
        _check(self, ("beam",), 1)
        _check(self, ("longest",), 2)
        _check(self, ("extra_length",), 0)
        _check(self, ("alpha",), 0, below=ALPHA_LIMIT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """All settings of a run: what config.yaml holds."""

    model: ModelConfig = field(default_factory=ModelConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    @property
    def alignment_heads(self) -> int:
        """Return how many heads tell word alignments, from the first on: their mean does."""
        return 1 if self.optim.guided else self.model.heads


Section = ModelConfig | BatchConfig | OptimConfig | TrainConfig | DecodeConfig


def decoder_layers(encoder: int, decoder: int) -> int:
    """Return `model.decoder_layers` of a model with so many layers on each side."""
    return 0 if decoder == encoder else decoder


def parse_interval(text: str) -> tuple[int, float]:
    """Read `1000` as (1000 updates, 0 s) and `1h30m` as (0 updates, 5400 s)."""
    if re.fullmatch(NUMBER, text) and int(text) > 0:
        return int(text), 0.0
    match = re.fullmatch(f"(?:({NUMBER})h)?(?:({NUMBER})m)?(?:({NUMBER})s)?", text)
    seconds = 0
    if match and text:
        hours, minutes, rest = (int(group or 0) for group in match.groups())
        seconds = 3600 * hours + 60 * minutes + rest
    if seconds == 0:
        raise UsageError(
            f"{text!r} is not an interval", fix="write updates (1000) or time (10m, 1h30m, 45s)"
        )
    return 0, float(seconds)


def parse_keep(text: str) -> tuple[int, int]:
    """Read `last=20,best=1` as (20, 1)."""
    match = re.fullmatch(f"last=({NUMBER})(?:,best=({NUMBER}))?", text)
    if match is None or int(match[1]) < 1:
        raise UsageError(f"{text!r} does not say what to keep", fix="write last=20,best=1")
    return int(match[1]), int(match[2] or 0)


def documentation(declared: type) -> dict[str, str]:
    """Return what each field of a class means: the string below its declaration."""
    (declaration,) = ast.parse(inspect.getsource(declared)).body
    assert isinstance(declaration, ast.ClassDef)
    found = {}
    for field_node, text_node in pairwise(declaration.body):
        match field_node, text_node:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                found[name] = " ".join(text.split())
    return found


def _check(settings: Section, keys: tuple[str, ...], least: int, below: float = 0) -> None:
    """Refuse a number out of its range."""
    section = type(settings).__name__.removesuffix("Config").lower()
    for key in keys:
        value, name = getattr(settings, key), f"{section}.{key}"
        if not least <= value < (below or math.inf):
            finite = " and finite" if value == math.inf else ""
            most = f" and below {below}" if below else finite
            expected = f"at least {least}{most}"
            raise UsageError(
                f"{name} is {value}, expected {expected}", fix=f"set {name} to {expected}"
            )
