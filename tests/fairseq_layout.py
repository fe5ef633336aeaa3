"""Checkpoints as fairseq publishes them, with random weights, and a plain decoder to judge by.

The decoder is written from fairseq's description of its network and shares no code with ours.
It computes everything again for each token, one sentence at a time.
"""

import math
from argparse import Namespace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = {"layers": 2, "embed_dim": 32, "ffn_embed_dim": 48, "attention_heads": 4}
BOS, PAD, EOS, UNK = range(4)


def options(**changes: object) -> Namespace:
    """Return what `fairseq-train` was called with."""
    both = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in SIZES.items()}
    told = {"arch": "transformer_wmt_en_de", "source_lang": "en", "target_lang": "de"}
    told |= {"share_all_embeddings": True, "dropout": 0.3, "max_source_positions": 1024}
    return Namespace(**{**both, **told, **changes})


def weights(words: int, told: Namespace, *, older: bool) -> dict[str, Tensor]:
    """Return random weights under their names; `older` are those of 2018."""
    d = told.encoder_embed_dim
    found = {}
    for side in ("encoder", "decoder"):
        found[f"{side}.embed_tokens.weight"] = torch.randn(words, d) * d**-0.5
        found[f"{side}.embed_tokens.weight"][PAD] = 0
        if getattr(told, f"{side}_learned_pos", False):
            found[f"{side}.embed_positions.weight"] = torch.randn(66, d) * 0.5
        else:
            found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for i in range(getattr(told, f"{side}_layers")):
            found |= layer(f"{side}.layers.{i}", d, told.encoder_ffn_embed_dim, older=older)
    if told.share_all_embeddings:
        found["decoder.embed_tokens.weight"] = found["encoder.embed_tokens.weight"]
    else:
        name = "decoder.embed_out" if older else "decoder.output_projection.weight"
        found[name] = torch.randn(words, d) * d**-0.5
    return found


def layer(name: str, d: int, inner: int, *, older: bool) -> dict[str, Tensor]:
    """Return the weights of a layer."""
    attentions = ["self_attn", "encoder_attn"] if name.startswith("decoder") else ["self_attn"]
    shapes = {"fc1": (inner, d), "fc2": (d, inner)}
    for attention in attentions:
        shapes[f"{attention}.out_proj"] = (d, d)
        if older:
            shapes[f"{attention}.in_proj"] = (3 * d, d)
        else:
            shapes |= {f"{attention}.{letter}_proj": (d, d) for letter in "qkv"}
    norms = [*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"]
    if older:
        norms = [f"layer_norms.{number}" for number in range(len(norms))]
    found = {}
    for part, shape in shapes.items():
        join = "_" if part.endswith("in_proj") else "."
        found[f"{name}.{part}{join}weight"] = torch.randn(shape) * 1.5 * shape[1] ** -0.5
        found[f"{name}.{part}{join}bias"] = torch.randn(shape[0]) * 0.3
    for part in norms:
        found[f"{name}.{part}.weight"] = torch.rand(d) + 0.5
        found[f"{name}.{part}.bias"] = torch.randn(d) * 0.3
    return found


class PlainFairseq:
    """fairseq's forward pass, in few lines and slowly."""

    def __init__(self, told: Namespace, state: dict[str, Tensor]) -> None:
        self.told, self.state = told, state

    def log_p(self, source: list[int], target: list[int]) -> Tensor:
        """Return log-probabilities after each token of a target, which EOS begins."""
        x, memory = self._embed("encoder", source), None
        for i in range(self.told.encoder_layers):
            x = self._layer(f"encoder.layers.{i}", x, memory)
        memory, y = x, self._embed("decoder", target)
        for i in range(self.told.decoder_layers):
            y = self._layer(f"decoder.layers.{i}", y, memory)
        output = self.state.get("decoder.embed_out")
        if output is None:
            shared = self.state["decoder.embed_tokens.weight"]
            output = self.state.get("decoder.output_projection.weight", shared)
        logits = y @ output.T
        logits[:, PAD] = -math.inf
        return logits.log_softmax(dim=-1)

    def greedy(self, source: list[int], limit: int) -> list[int]:
        """Return the likeliest tokens one by one, without EOS."""
        target = [EOS]
        while len(target) <= limit:
            best = int(self.log_p(source, target)[-1].argmax())
            if best == EOS:
                break
            target.append(best)
        return target[1:]

    def _embed(self, side: str, ids: list[int]) -> Tensor:
        d = self.told.encoder_embed_dim
        scale = 1.0 if getattr(self.told, "no_scale_embedding", False) else math.sqrt(d)
        x = self.state[f"{side}.embed_tokens.weight"][ids] * scale
        # The first token is at the position after that of padding, which is its id.
        places = torch.arange(PAD + 1, PAD + 1 + len(ids))
        learned = self.state.get(f"{side}.embed_positions.weight")
        if learned is not None:
            return x + learned[places]
        half = d // 2
        frequencies = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        angles = places[:, None] * frequencies
        return x + torch.cat([angles.sin(), angles.cos()], dim=1)

    def _layer(self, name: str, x: Tensor, memory: Tensor | None) -> Tensor:
        decoder = name.startswith("decoder")
        x = self._norm(
            f"{name}", 0, x + self._attend(f"{name}.self_attn", x, x, causal=decoder)
        )
        if decoder:
            seen = self._attend(f"{name}.encoder_attn", x, memory, causal=False)
            x = self._norm(name, 1, x + seen)
        inner = F.relu(self._linear(f"{name}.fc1", x))
        return self._norm(name, 2 if decoder else 1, x + self._linear(f"{name}.fc2", inner))

    def _attend(self, name: str, x: Tensor, memory: Tensor, *, causal: bool) -> Tensor:
        d, heads = self.told.encoder_embed_dim, self.told.encoder_attention_heads
        if f"{name}.in_proj_weight" in self.state:
            parts = zip(
                self.state[f"{name}.in_proj_weight"].chunk(3),
                self.state[f"{name}.in_proj_bias"].chunk(3),
                strict=True,
            )
            q, k, v = (
                F.linear(y, *part) for y, part in zip((x, memory, memory), parts, strict=True)
            )
        else:
            inputs = (("q", x), ("k", memory), ("v", memory))
            q, k, v = (self._linear(f"{name}.{letter}_proj", y) for letter, y in inputs)
        q, k, v = (y.reshape(len(y), heads, -1).transpose(0, 1) for y in (q, k, v))
        scores = (q * (d // heads) ** -0.5) @ k.transpose(1, 2)
        if causal:
            later = torch.ones(len(x), len(x)).triu(1).bool()
            scores = scores.masked_fill(later, -math.inf)
        mixed = (scores.softmax(dim=-1) @ v).transpose(0, 1).reshape(len(x), d)
        return self._linear(f"{name}.out_proj", mixed)

    def _norm(self, layer: str, number: int, x: Tensor) -> Tensor:
        names = ["self_attn_layer_norm", "final_layer_norm"]
        if layer.startswith("decoder"):
            names.insert(1, "encoder_attn_layer_norm")
        older = f"{layer}.layer_norms.{number}"
        name = older if f"{older}.weight" in self.state else f"{layer}.{names[number]}"
        weight, bias = self.state[f"{name}.weight"], self.state[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps=1e-5)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.state[f"{name}.weight"], self.state[f"{name}.bias"])


def dictionary(path: Path) -> dict[str, int]:
    """Return the ids that fairseq gives the pieces of a dictionary."""
    words = ["<s>", "<pad>", "</s>", "<unk>"]
    words += [line.rsplit(" ", 1)[0] for line in path.read_text().splitlines()]
    return {word: i for i, word in enumerate(words)}
