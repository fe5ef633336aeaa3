"""Write a small random Transformer in the layout of fairseq's published checkpoints.

    python make_model.py FOLDER SOURCE TARGET

Its vocabulary is the characters of the two texts; it knows nothing, and translates accordingly.
"""

import sys
from argparse import Namespace
from pathlib import Path

import torch

D, INNER, HEADS, LAYERS = 32, 64, 4, 2


def layer(name: str, attentions: list[str]) -> dict[str, torch.Tensor]:
    shapes = {"fc1": (INNER, D), "fc2": (D, INNER)}
    for attention in attentions:
        shapes |= {f"{attention}.{which}_proj": (D, D) for which in ("q", "k", "v", "out")}
    weights = {}
    for part, (outputs, inputs) in shapes.items():
        weights[f"{name}.{part}.weight"] = torch.randn(outputs, inputs) * inputs**-0.5
        weights[f"{name}.{part}.bias"] = torch.zeros(outputs)
    for part in (*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"):
        weights[f"{name}.{part}.weight"] = torch.ones(D)
        weights[f"{name}.{part}.bias"] = torch.zeros(D)
    return weights


def main(folder: Path, *texts: Path) -> None:
    torch.manual_seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted({letter for text in texts for letter in text.read_text(encoding="utf-8")})
    letters = [letter for letter in letters if not letter.isspace()]
    pieces = [piece for letter in letters for piece in (letter, f"{letter}@@")]
    for language in ("en", "fr"):
        lines = "".join(f"{piece} 1\n" for piece in pieces)
        (folder / f"dict.{language}.txt").write_text(lines, encoding="utf-8")
    merges = "#version: 0.2\n" + f"{letters[0]} {letters[0]}</w>\n"
    (folder / "bpecodes").write_text(merges, encoding="utf-8")
    embedding = torch.randn(4 + len(pieces), D) * D**-0.5
    weights = {f"{side}.embed_tokens.weight": embedding for side in ("encoder", "decoder")}
    for i in range(LAYERS):
        weights |= layer(f"encoder.layers.{i}", ["self_attn"])
        weights |= layer(f"decoder.layers.{i}", ["self_attn", "encoder_attn"])
    sizes = {"layers": LAYERS, "embed_dim": D, "ffn_embed_dim": INNER, "attention_heads": HEADS}
    options = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in sizes.items()}
    told = {"arch": "transformer_wmt_en_de", "source_lang": "en", "target_lang": "fr"}
    torch.save({"args": Namespace(**options, **told), "model": weights}, folder / "model.pt")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
