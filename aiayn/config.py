"""Every setting of a run, each with its one default and its one line of documentation.

Precedence: preset < YAML file < `section.key=value` on the command line. Values are read by the
type that the field declares, because YAML itself takes `1e-9` for a string.
"""

import ast
import difflib
import inspect
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml

from aiayn.errors import UsageError

Positions = Literal["sinusoidal", "halves", "learned"]
Tie = Literal["all", "target", "none"]
Activation = Literal["relu", "swish"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]

ALPHA_LIMIT = 10
"""Beyond it, the length penalty of a long sentence is larger than any float32."""
DECODING_BATCH_TOKENS = 2048
"""Padded source tokens that are decoded at once: about what a core's cache serves."""
NAMES_PAST_CUTOFF = 0.5
"""How alike two names must be for one to be offered in place of the other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The Transformer of section 3; the defaults are the base model of table 3."""

    layers: int = 6
    """N: identical layers in the encoder, and again in the decoder."""
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
        """Refuse what cannot be built."""
        _check(self, ("layers", "d_model", "d_ff", "heads", "d_k", "d_v", "max_positions"), 1)
        _check(self, ("dropout", "attention_dropout", "relu_dropout"), 0, below=1)
        _check(self, ("attention_window", "norm_epsilon"), 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """What one update sees (section 5.1)."""

    tokens: int = 25_000
    """Target tokens in one update, and at most as many source tokens, over all processes."""
    micro_tokens: int = 3600
    """Padded tokens on the longer side that go through the network at once: a matter of memory
    and speed. Of the result it changes what dropout draws, seeded by micro-batch, and rounding.
    25,000 tokens are 8 such pieces, one for each of 8 GPUs."""
    jitter: float = 0.1
    """Pairs are grouped by length times 1 +- jitter, so that groups differ between epochs."""

    def __post_init__(self) -> None:
        """Refuse what cannot be planned."""
        _check(self, ("tokens", "micro_tokens"), 1)
        _check(self, ("jitter",), 0, below=1)


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

    def __post_init__(self) -> None:
        """Refuse what cannot be optimised."""
        _check(self, ("warmup",), 1)
        _check(self, ("factor", "epsilon"), 0)
        _check(self, ("beta1", "beta2", "smoothing"), 0, below=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How long a run is, and what it keeps (sections 5.2 and 6.1)."""

    steps: int = 100_000
    """Updates in the whole run."""
    seed: int = 1
    """Seeds the weights, the order of the data and dropout."""
    precision: Precision = "auto"
    """auto: bfloat16 on a GPU that has it, else float32."""
    compile: bool = False
    """Compile the network with torch.compile."""
    save_every: str = "10m"
    """Updates (1000) or time (10m) between checkpoints; the paper saved every 10 minutes."""
    keep: str = "last=20,best=1"
    """Checkpoints that stay on disk."""
    average: int = 5
    """Checkpoints averaged into average.pt at the end; 1: none. Big: 20."""
    valid_every: int = 1000
    """Updates between validations; 0: only at the end."""
    patience: int = 0
    """Stop after this many validations without a better one; 0: never. Better is a higher score
    (BLEU, or F1 of trees), or the same one at a lower loss."""
    log_every: int = 50
    """Updates between two lines of metrics.jsonl; validations and checkpoints bring more."""
    tensorboard: bool = False
    """Write the metrics for TensorBoard too; needs `pip install aiayn[tensorboard]`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        _check(self, ("steps", "average", "log_every"), 1)
        _check(self, ("valid_every", "patience", "seed"), 0)
        parse_interval(self.save_every)
        parse_keep(self.keep)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeConfig:
    """Beam search as in section 6.1; kept with the model, overridden by `aiayn generate`."""

    beam: int = 4
    """Hypotheses that stay alive."""
    alpha: float = 0.6
    """Length penalty ((5 + |Y|) / 6)^alpha."""
    extra_length: int = 50
    """An output has at most this many more tokens than the input."""
    longest: int = 256
    """Subwords that are translated in one piece: as many as preprocess lets through. A longer
    line is cut between sentences or words and put together again."""

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
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


Section = ModelConfig | BatchConfig | OptimConfig | TrainConfig | DecodeConfig
Settings = TypeVar("Settings", bound=Section)


def settings_of(config: Config) -> dict[str, dict[str, Any]]:
    """Return the settings as nested dicts of plain values."""
    return asdict(config)


def from_settings(settings: dict[str, dict[str, Any]]) -> Config:
    """Build a configuration from nested dicts; the way back from `settings_of`."""
    pairs = [(s, k, str(v)) for s, values in settings.items() for k, v in values.items()]
    return change(Config(), pairs, origin="the model file")


def to_yaml(config: Config, *, documented: bool = False) -> str:
    """Return the complete configuration as YAML; reading it gives an equal one."""
    text = yaml.safe_dump(settings_of(config), sort_keys=False)
    if not documented:
        return text
    lines, section = [], ""
    for line in text.splitlines():
        if not line.startswith(" "):
            section = line.removesuffix(":")
            meaning = documentation(type(getattr(config, section)))
        else:
            lines.append(f"  # {meaning[line.split(':')[0].strip()]}")
        lines.append(line)
    return "\n".join(lines) + "\n"


def documentation(section: type[Section]) -> dict[str, str]:
    """Return what each setting of a section means: the text below its declaration."""
    (declaration,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(declaration, ast.ClassDef)
    found = {}
    for field_node, text_node in pairwise(declaration.body):
        match field_node, text_node:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                found[name] = " ".join(text.split())
    return found


def read_yaml(path: Path, base: Config) -> Config:
    """Return `base` with the settings of a YAML file put on top."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", fix="check the path of --config") from None
    except (yaml.YAMLError, UnicodeDecodeError, IsADirectoryError) as problem:
        reason = " ".join(str(problem).split())
        raise UsageError(f"{path} is not YAML: {reason}", fix="mend the file") from None
    config = base
    for section_node, values_node in _entries(root, path):
        _require_section(section_node.value, f"{path}, line {section_node.start_mark.line + 1}")
        for key_node, value_node in _entries(values_node, path):
            if not isinstance(value_node, yaml.ScalarNode):
                raise _not_a_mapping(path, value_node, wanted="one value")
            triple = (section_node.value, key_node.value, value_node.value)
            line = key_node.start_mark.line + 1
            config = change(config, [triple], origin=f"{path}, line {line}")
    return config


def apply_overrides(config: Config, assignments: Iterable[str]) -> Config:
    """Return the configuration with `section.key=value` assignments put on top."""
    for assignment in assignments:
        match = re.fullmatch(r"([^.=]+)\.([^.=]+)=(.*)", assignment)
        if match is None:
            rooms = _names(Config)
            key = assignment.split("=")[0]
            homes = [r for r in rooms if key in _names(type(getattr(config, r)))]
            raise UsageError(
                f"{assignment!r} is not a setting",
                fix=f"did you mean {homes[0]}.{assignment}?"
                if homes and "=" in assignment
                else "write section.key=value, for example optim.warmup=8000",
            )
        section, key, value = match.groups()
        config = change(config, [(section, key, value)], origin="the command line")
    return config


def change(config: Config, pairs: Iterable[tuple[str, str, str]], *, origin: str) -> Config:
    """Return the configuration with (section, key, value as text) triples put on top."""
    for section, key, text in pairs:
        _require_section(section, origin)
        part: Section = getattr(config, section)
        keys = _names(type(part))
        if key not in keys:
            everywhere = [
                f"{s}.{k}" for s in _names(Config) for k in _names(type(getattr(config, s)))
            ]
            near = _nearest(key, keys)
            near = f"{section}.{near}" if near else _nearest(f"{section}.{key}", everywhere)
            raise _unknown(f"setting {section}.{key}", near, everywhere, origin)
        kind = get_type_hints(type(part))[key]
        value = _parse(text, kind, name=f"{section}.{key}", origin=origin)
        try:
            changed: dict[str, Any] = {section: replace(part, **{key: value})}
        except UsageError as problem:
            raise UsageError(f"{origin}: {problem.message}", fix=problem.fix) from None
        config = replace(config, **changed)
    return config


def differences(old: Config, new: Config) -> list[str]:
    """Return `optim.warmup: 4000 -> 8000` for each setting that differs."""
    before, after = settings_of(old), settings_of(new)
    return [
        f"{section}.{key}: {before[section][key]} -> {value}"
        for section, values in after.items()
        for key, value in values.items()
        if before[section][key] != value
    ]


def parse_interval(text: str) -> tuple[int, float]:
    """Read `1000` as (1000 updates, 0 s) and `1h30m` as (0 updates, 5400 s)."""
    if text.isdigit() and int(text) > 0:
        return int(text), 0.0
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    seconds = 0
    if match and text:
        hours, minutes, rest = (int(group or 0) for group in match.groups())
        seconds = 3600 * hours + 60 * minutes + rest
    if seconds == 0:
        raise UsageError(
            f"{text!r} is no interval", fix="write updates (1000) or time (10m, 1h30m, 45s)"
        )
    return 0, float(seconds)


def parse_keep(text: str) -> tuple[int, int]:
    """Read `last=20,best=1` as (20, 1)."""
    match = re.fullmatch(r"last=(\d+)(?:,best=(\d+))?", text)
    if match is None or int(match[1]) < 1:
        raise UsageError(f"{text!r} does not say what to keep", fix="write last=20,best=1")
    return int(match[1]), int(match[2] or 0)


def _parse(text: str, kind: Any, *, name: str, origin: str) -> Any:
    """Read a value by its declared type."""
    text = text.strip()
    try:
        if get_origin(kind) is Literal:
            wanted = " or ".join(get_args(kind))
            return {choice: choice for choice in get_args(kind)}[text]
        if kind is bool:
            wanted = "true or false"
            return {"true": True, "false": False}[text.lower()]
        wanted = {int: "a whole number", float: "a number", str: "text"}[kind]
        return kind(text)
    except (KeyError, ValueError):
        raise UsageError(
            f"{origin}: {name} is {text!r}, and {wanted} is wanted",
            fix=f"set {name} to {wanted}",
        ) from None


def _check(section: Section, keys: tuple[str, ...], least: int, below: float = 0) -> None:
    """Refuse a number out of its range."""
    room = type(section).__name__.removesuffix("Config").lower()
    for key in keys:
        value, name = getattr(section, key), f"{room}.{key}"
        if not least <= value < (below or math.inf):
            finite = " and finite" if value == math.inf else ""
            most = f" and below {below}" if below else finite
            wanted = f"at least {least}{most}"
            raise UsageError(
                f"{name} is {value}, and {wanted} is wanted", fix=f"set {name} to {wanted}"
            )


def _names(kind: type[Config] | type[Section]) -> list[str]:
    return [f.name for f in fields(kind)]


def _nearest(name: str, known: list[str]) -> str:
    return next(iter(difflib.get_close_matches(name, known, 1, NAMES_PAST_CUTOFF)), "")


def _require_section(name: str, origin: str) -> None:
    known = _names(Config)
    if name not in known:
        raise _unknown(f"section {name!r}", name, known, origin)


def _unknown(what: str, name: str, known: list[str], origin: str) -> UsageError:
    near = name if name in known else _nearest(name, known)
    fix = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
    return UsageError(f"{origin}: there is no {what}", fix=fix)


def _entries(node: yaml.Node | None, path: Path) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the keys and values of a YAML mapping; an empty file is an empty mapping."""
    if node is None or (isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~")):
        return []
    if not isinstance(node, yaml.MappingNode):
        raise _not_a_mapping(path, node, wanted="`key: value` lines")
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            raise UsageError(
                f"{path}, line {line}: {name} is there already, in line {lines[name]}",
                fix="delete one of them",
            )
        lines[name] = line
    return list(node.value)


def _not_a_mapping(path: Path, node: yaml.Node, *, wanted: str) -> UsageError:
    line = node.start_mark.line + 1
    return UsageError(
        f"{path}, line {line}: {wanted} expected",
        fix="write sections with settings, as `aiayn info --preset base --yaml` prints them",
    )
