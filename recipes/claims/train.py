"""Train a small Transformer of ../walkthrough to reverse sentences; print its losses as JSON.

    python train.py --attention scaled --d-k 64 --positions sinusoidal --seed 1 >run.json

To reverse a sentence is to look at the right place, so the task is one for attention: a layer,
a head, words at random. Held-out sentences are up to twice as long as those of the training.
"""

import argparse
import json
import math
import random
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformer import EOS, PAD, MultiHeadAttention, Transformer

from aiayn.config import ModelConfig
from aiayn.training.schedule import learning_rate

WORDS, D = 64, 64
SENTENCES, HELD_OUT = 32, 32
WARMUP, FACTOR = 100, 0.5
Pair = tuple[list[int], list[int]]


class AdditiveAttention(MultiHeadAttention):
    """softmax(v . tanh(q + k)) V, the attention of Bahdanau et al., in place of equation 1."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__(c)
        self.v_K1 = nn.Parameter(torch.randn(c.d_k, 1) / math.sqrt(c.d_k))

    def forward(self, x_BLD: Tensor, memory_BMD: Tensor, allowed: Tensor) -> Tensor:
        q_BHLK, k_BHMK = self.split(self.w_q(x_BLD)), self.split(self.w_k(memory_BMD))
        hidden_BHLMK = (q_BHLK[:, :, :, None] + k_BHMK[:, :, None]).tanh()
        scores_BHLM = (hidden_BHLMK @ self.v_K1)[..., 0]
        weights_BHLM = scores_BHLM.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        heads_BHLV = weights_BHLM @ self.split(self.w_v(memory_BMD))
        return self.w_o(heads_BHLV.transpose(1, 2).flatten(2))


class LearnedPositions(Transformer):
    """A learned vector for each position, row (E) of table 3, in place of sinusoids."""

    def __init__(self, c: ModelConfig, vocabulary: int) -> None:
        super().__init__(c, vocabulary)
        self.positions = nn.Parameter(torch.randn(c.max_positions, c.d_model) / c.d_model**0.5)

    def embed(self, ids_BL: Tensor) -> Tensor:
        scale = math.sqrt(self.e_WD.size(1))
        x_BLD = self.e_WD[ids_BL] * scale * (ids_BL != PAD)[..., None]
        return x_BLD + self.positions[: ids_BL.size(1)] * scale


def build(a: argparse.Namespace) -> Transformer:
    c = ModelConfig(layers=1, d_model=D, d_ff=2 * D, heads=1, d_k=a.d_k, d_v=D, dropout=0.0)
    model = (LearnedPositions if a.positions == "learned" else Transformer)(c, WORDS)
    if a.attention == "additive":
        for layer in [*model.encoder, *model.decoder]:
            layer.self_attention = AdditiveAttention(c)
        model.decoder[0].cross_attention = AdditiveAttention(c)
    model.apply(initialize)
    if a.attention == "unscaled":
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                # Takes back the division by sqrt(d_k).
                module.w_q.register_forward_hook(lambda _, __, q: q * math.sqrt(a.d_k))
    return model


def initialize(module: nn.Module) -> None:
    """Draw Glorot uniform weights; those of queries and keys as footnote 4 assumes."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
    if isinstance(module, MultiHeadAttention):
        for projection in (module.w_q, module.w_k):
            # The input has variance 1, and so have the components of queries and keys.
            nn.init.normal_(projection.weight, std=D**-0.5)


def reversed_words(draw: random.Random, shortest: int, longest: int) -> Pair:
    """Return random words and the same words in reverse order, each side ending in EOS."""
    words = draw.choices(range(EOS + 1, WORDS), k=draw.randint(shortest, longest))
    return [*words, EOS], [*reversed(words), EOS]


def rectangle(sides: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(side) for side in sides], batch_first=True)


def loss_of(model: Transformer, pairs: list[Pair]) -> Tensor:
    """Return the mean cross-entropy of a target word, in nats."""
    source_BS, target_BT = (rectangle(list(sides)) for sides in zip(*pairs, strict=True))
    logits = model(source_BS, F.pad(target_BT[:, :-1], (1, 0), value=PAD))
    return F.cross_entropy(logits.flatten(0, 1), target_BT.flatten(), ignore_index=PAD)


def train(model: Transformer, a: argparse.Namespace) -> None:
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    draw = random.Random(a.seed)
    for update in range(1, a.updates + 1):
        rate = learning_rate(update, d_model=D, warmup=WARMUP, factor=FACTOR)
        optimizer.param_groups[0]["lr"] = rate
        loss = loss_of(model, [reversed_words(draw, 1, a.longest) for _ in range(SENTENCES)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            print(f"update {update} of {a.updates}: loss {loss:.3f}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--attention", choices=("scaled", "unscaled", "additive"), default="scaled"
    )
    parser.add_argument("--positions", choices=("sinusoidal", "learned"), default="sinusoidal")
    parser.add_argument("--d-k", type=int, default=64)
    parser.add_argument("--longest", type=int, default=8, help="words of a training sentence")
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    model = build(a)
    train(model, a)
    draw = random.Random(0)  # the same held-out sentences for every run
    losses = {}
    with torch.inference_mode():
        for length in range(1, 2 * a.longest + 1):
            pairs = [reversed_words(draw, length, length) for _ in range(HELD_OUT)]
            losses[length] = loss_of(model, pairs).item()
    json.dump({**vars(a), "losses": losses}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
