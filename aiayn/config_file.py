"""Settings from YAML files and from the command line, and back into YAML.

Precedence: preset < YAML file < `section.key=value` on the command line. Values are read by the
type that the field declares, because YAML itself takes `1e-9` for a string.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from aiayn.config import Config, Section, documentation
from aiayn.errors import UsageError, did_you_mean, nearest

# What other toolkits call our settings; - and _ are the same.
SYNONYMS = {
    "lr": "optim.factor",
    "learn_rate": "optim.factor",
    "learning_rate": "optim.factor",
    "l": "optim.factor",
    "warmup_updates": "optim.warmup",
    "warmup_steps": "optim.warmup",
    "lr_warmup": "optim.warmup",
    "adam_eps": "optim.epsilon",
    "label_smoothing": "optim.smoothing",
    "max_tokens": "batch.tokens",
    "max_update": "train.steps",
    "max_steps": "train.steps",
    "log_interval": "train.log_every",
    "disp_freq": "train.log_every",
    "num_layers": "model.layers",
    "encoder_layers": "model.layers",
    "decoder_layers": "model.layers",
    "enc_depth": "model.layers",
    "dec_depth": "model.layers",
    "encoder_embed_dim": "model.d_model",
    "decoder_embed_dim": "model.d_model",
    "dim_emb": "model.d_model",
    "encoder_ffn_embed_dim": "model.d_ff",
    "decoder_ffn_embed_dim": "model.d_ff",
    "transformer_dim_ffn": "model.d_ff",
    "encoder_attention_heads": "model.heads",
    "decoder_attention_heads": "model.heads",
    "transformer_heads": "model.heads",
    "transformer_dropout": "model.dropout",
    "transformer_dropout_attention": "model.attention_dropout",
    "transformer_dropout_ffn": "model.relu_dropout",
    "activation_dropout": "model.relu_dropout",
    "activation_fn": "model.activation",
    "transformer_ffn_activation": "model.activation",
    "max_target_positions": "model.max_positions",
    "share_all_embeddings": "model.tie",
    "lenpen": "decode.alpha",
    "beam_size": "decode.beam",
}


def from_settings(settings: dict[str, dict[str, Any]]) -> Config:
    """Return the configuration that `asdict` described."""
    triples = [(s, k, str(v)) for s, values in settings.items() for k, v in values.items()]
    return change(Config(), triples, origin="the model file")


def to_yaml(config: Config, *, documented: bool = False) -> str:
    """Return the complete configuration as YAML; reading it gives an equal one."""
    text = yaml.safe_dump(asdict(config), sort_keys=False)
    if not documented:
        return text
    lines = []
    for line in text.splitlines():
        if not line.startswith(" "):
            meaning = documentation(type(getattr(config, line.removesuffix(":"))))
        else:
            lines.append(f"  # {meaning[line.split(':')[0].strip()]}")
        lines.append(line)
    return "\n".join(lines) + "\n"


def read_yaml(path: Path, base: Config) -> Config:
    """Return `base` with the settings of a YAML file put on top."""
    try:
        # Nodes rather than values: they know their line, and keep a number as it was written.
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", fix="check the path of --config") from None
    # A RecursionError: thousands of brackets, one in the other.
    except (yaml.YAMLError, UnicodeDecodeError, IsADirectoryError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise UsageError(f"{path} is not YAML: {reason}", fix="fix the file") from None
    config = base
    for section_node, values_node in _entries(root, path):
        _require_section(section_node.value, _origin(path, section_node))
        for key_node, value_node in _entries(values_node, path):
            if not isinstance(value_node, yaml.ScalarNode):
                raise _wrong_shape(path, value_node, expected="one value")
            triple = (section_node.value, key_node.value, value_node.value)
            config = change(config, [triple], origin=_origin(path, key_node))
    return config


def apply_overrides(config: Config, assignments: Iterable[str]) -> Config:
    """Return the configuration with `section.key=value` assignments put on top."""
    for assignment in assignments:
        match = re.fullmatch(r"([^.=]+)\.([^.=]+)=(.*)", assignment)
        if match is None:
            key, equals, value = assignment.partition("=")
            meant = setting_of(key) if equals or "." in key else ""
            # Another toolkit's learning rate is no factor of ours: its value is not repeated.
            value = value if value and meant.endswith(f".{key}") else "VALUE"
            raise UsageError(
                f"{assignment!r} is not a setting",
                fix=f"did you mean {meant}={value}? {meaning_of(meant)}"
                if meant
                else "write section.key=value, for example optim.warmup=8000",
            )
        section, key, value = match.groups()
        config = change(config, [(section, key, value)], origin="the command line")
    return config


def change(config: Config, triples: Iterable[tuple[str, str, str]], *, origin: str) -> Config:
    """Return the configuration with (section, key, value as text) triples put on top."""
    for section, key, text in triples:
        _require_section(section, origin)
        part: Section = getattr(config, section)
        kinds = get_type_hints(type(part))
        if key not in kinds:
            # A name in the same section first: train.step is train.steps, not optim.beta2.
            near = nearest(key, kinds)
            near = f"{section}.{near}" if near else setting_of(key)
            near = near or nearest(f"{section}.{key}", all_settings())
            fix = (
                f"did you mean {near}?" if near else f"choose from {', '.join(all_settings())}"
            )
            raise UsageError(f"{origin}: there is no setting {section}.{key}", fix=fix)
        value = _parse(text, kinds[key], name=f"{section}.{key}", origin=origin)
        try:
            changed: dict[str, Any] = {section: replace(part, **{key: value})}
        except UsageError as problem:
            raise UsageError(f"{origin}: {problem.message}", fix=problem.fix) from None
        config = replace(config, **changed)
    return config


def differences(old: Config, new: Config) -> list[str]:
    """Return `optim.warmup: 4000 -> 8000` for each setting that differs."""
    before, after = asdict(old), asdict(new)
    return [
        f"{section}.{key}: {before[section][key]} -> {value}"
        for section, values in after.items()
        for key, value in values.items()
        if before[section][key] != value
    ]


def all_settings() -> list[str]:
    """Return the name of every setting, such as `optim.warmup`."""
    return [f"{section}.{key}" for section, x in asdict(Config()).items() for key in x]


def setting_of(key: str) -> str:
    """Return the setting that a name without a section means, here or elsewhere; or nothing."""
    key = key.replace("-", "_")
    owners = [name for name in all_settings() if name == key or name.endswith(f".{key}")]
    return owners[0] if owners else SYNONYMS.get(key, "")


def meaning_of(setting: str) -> str:
    """Return the documentation of a setting, such as `optim.warmup`."""
    section, key = setting.split(".")
    return documentation(type(getattr(Config(), section)))[key]


def _parse(text: str, kind: Any, *, name: str, origin: str) -> Any:
    """Read a value by its declared type."""
    text = text.strip()
    try:
        if get_origin(kind) is Union:
            number, word = get_args(kind)
            expected = "a whole number or auto"
            return text if text in get_args(word) else number(text)
        if get_origin(kind) is Literal:
            expected = " or ".join(get_args(kind))
            # A bool that Python wrote is True or False.
            return {choice.lower(): choice for choice in get_args(kind)}[text.lower()]
        if kind is bool:
            expected = "true or false"
            return {"true": True, "false": False}[text.lower()]
        expected = {int: "a whole number", float: "a number", str: "text"}[kind]
        return kind(text)
    except (KeyError, ValueError):
        raise UsageError(
            f"{origin}: {name} is {text!r}, expected {expected}",
            fix=f"set {name} to {expected}",
        ) from None


def _require_section(name: str, origin: str) -> None:
    known = {field.name: field.name for field in fields(Config)}
    if name not in known:
        fix = did_you_mean(name, known)
        raise UsageError(f"{origin}: there is no section {name!r}", fix=fix)


def _entries(node: yaml.Node | None, path: Path) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the keys and values of a YAML mapping; an empty file is an empty mapping."""
    if node is None or (isinstance(node, yaml.ScalarNode) and node.value in ("", "null", "~")):
        return []
    if not isinstance(node, yaml.MappingNode):
        raise _wrong_shape(path, node, expected="`key: value` lines")
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _wrong_shape(path, key, expected="a name before the colon")
        name = str(key.value)
        if name in lines:
            raise UsageError(
                f"{_origin(path, key)}: {name} is set already, in line {lines[name]}",
                fix="delete one of them",
            )
        lines[name] = key.start_mark.line + 1
    return list(node.value)


def _wrong_shape(path: Path, node: yaml.Node, *, expected: str) -> UsageError:
    return UsageError(
        f"{_origin(path, node)}: expected {expected}",
        fix="write sections with settings, as `aiayn info --preset base --yaml` prints them",
    )


def _origin(path: Path, node: yaml.Node) -> str:
    return f"{path}, line {node.start_mark.line + 1}"
