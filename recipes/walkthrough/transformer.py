"""The Transformer of "Attention Is All You Need", whole: read it from top to bottom.

[3.2.1] is a section of the paper. The capitals at the end of a name are the tensor's shape:
B sentences; S, T source and target length; L, M positions that look, that are looked at;
D d_model; H heads; K, V d_k and d_v, the widths of a head; W words of the vocabulary.
"""

import math
import re
from dataclasses import replace

import torch
from torch import Tensor, nn

from aiayn.checkpoint import ModelFile  # weights, settings and vocabulary of a trained model
from aiayn.config import ModelConfig
from aiayn.errors import UsageError

PAD, EOS = 0, 1  # the ids of padding and of the end of a sentence


def attention(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMV: Tensor, allowed: Tensor) -> Tensor:
    """[3.2.1, equation 1]  Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V."""
    scores_BHLM = q_BHLK @ k_BHMK.mT / math.sqrt(q_BHLK.size(-1))
    weights_BHLM = scores_BHLM.masked_fill(~allowed, -math.inf).softmax(dim=-1)
    return weights_BHLM @ v_BHMV


class MultiHeadAttention(nn.Module):
    """[3.2.2]  Concat(head_1 ... head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.heads = c.heads  # the matrices of all heads stand side by side in one
        self.w_q = nn.Linear(c.d_model, c.heads * c.d_k, bias=c.attention_bias)
        self.w_k = nn.Linear(c.d_model, c.heads * c.d_k, bias=c.attention_bias)
        self.w_v = nn.Linear(c.d_model, c.heads * c.d_v, bias=c.attention_bias)
        self.w_o = nn.Linear(c.heads * c.d_v, c.d_model, bias=c.attention_bias)

    def forward(self, x_BLD: Tensor, memory_BMD: Tensor, allowed: Tensor) -> Tensor:
        q_BHLK = self.split(self.w_q(x_BLD))
        k_BHMK = self.split(self.w_k(memory_BMD))
        v_BHMV = self.split(self.w_v(memory_BMD))
        heads_BHLV = attention(q_BHLK, k_BHMK, v_BHMV, allowed)
        return self.w_o(heads_BHLV.transpose(1, 2).flatten(2))  # Concat: (B, L, H * V)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, L, H*K) to (B, H, L, K)


class FeedForward(nn.Module):
    """[3.3, equation 2]  FFN(x) = max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(c.d_model, c.d_ff), nn.Linear(c.d_ff, c.d_model)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.w_2(self.w_1(x_BLD).relu())


class EncoderLayer(nn.Module):
    """[3.1, 5.4]  LayerNorm(x + Dropout(Sublayer(x))), for each sub-layer: figure 1, left."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.self_attention, self.norm_1 = MultiHeadAttention(c), nn.LayerNorm(c.d_model, 1e-6)
        self.feed_forward, self.norm_2 = FeedForward(c), nn.LayerNorm(c.d_model, 1e-6)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x_BSD: Tensor, word: Tensor) -> Tensor:
        x_BSD = self.norm_1(x_BSD + self.dropout(self.self_attention(x_BSD, x_BSD, word)))
        return self.norm_2(x_BSD + self.dropout(self.feed_forward(x_BSD)))


class DecoderLayer(nn.Module):
    """[3.1]  The same with attention to the memory, the encoder's output: figure 1, right."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.self_attention, self.norm_1 = MultiHeadAttention(c), nn.LayerNorm(c.d_model, 1e-6)
        self.cross_attention, self.norm_2 = MultiHeadAttention(c), nn.LayerNorm(c.d_model, 1e-6)
        self.feed_forward, self.norm_3 = FeedForward(c), nn.LayerNorm(c.d_model, 1e-6)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, y_BTD: Tensor, past: Tensor, memory_BSD: Tensor, word: Tensor) -> Tensor:
        y_BTD = self.norm_1(y_BTD + self.dropout(self.self_attention(y_BTD, y_BTD, past)))
        y_BTD = self.norm_2(y_BTD + self.dropout(self.cross_attention(y_BTD, memory_BSD, word)))
        return self.norm_3(y_BTD + self.dropout(self.feed_forward(y_BTD)))


def sinusoids(length: int, d_model: int) -> Tensor:
    """[3.5]  PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos(the same)."""
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    angle = pos / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()  # (length, D)


class Transformer(nn.Module):
    """[Figure 1]  N encoder layers, N decoder layers, and one matrix of word vectors."""

    def __init__(self, c: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.e_WD = nn.Parameter(torch.randn(vocabulary, c.d_model) / math.sqrt(c.d_model))
        self.encoder = nn.ModuleList(EncoderLayer(c) for _ in range(c.layers))
        self.decoder = nn.ModuleList(DecoderLayer(c) for _ in range(c.decoder_depth))
        self.dropout = nn.Dropout(c.dropout)

    def embed(self, ids_BL: Tensor) -> Tensor:
        """[3.4, 3.5]  Each word's vector times sqrt(d_model), plus that of its position."""
        x_BLD = self.e_WD[ids_BL] * math.sqrt(self.e_WD.size(1)) * (ids_BL != PAD)[..., None]
        return self.dropout(x_BLD + sinusoids(*x_BLD.shape[1:]))

    def forward(self, source_BS: Tensor, shifted_BT: Tensor) -> Tensor:
        """Return logits (B, T, W): which word follows each target word and those before it."""
        position = torch.arange(shifted_BT.size(1))
        word = (source_BS != PAD)[:, None, None, :]  # [3.2.3]  nobody looks at padding,
        past = position[:, None] >= position  # (T, T)  and no target word looks ahead
        memory_BSD, y_BTD = self.embed(source_BS), self.embed(shifted_BT)
        for layer in self.encoder:
            memory_BSD = layer(memory_BSD, word)
        for layer in self.decoder:
            y_BTD = layer(y_BTD, past, memory_BSD, word)
        return y_BTD @ self.e_WD.T  # [3.4]  the same matrix; softmax makes probabilities


@torch.inference_mode()
def translate(model: Transformer, source: list[int], extra_length: int = 50) -> list[int]:
    """[3.1, 6.1]  Append the most probable word, given all before it, until that is EOS."""
    target = [PAD]  # the decoder starts from nothing: the vector of padding is zero
    while target[-1] != EOS and len(target) < len(source) + extra_length:
        logits_W = model(torch.tensor([source]), torch.tensor([target]))[0, -1]
        target.append(int(logits_W[1:].argmax()) + 1)  # anything but padding
    return target


def load(file: ModelFile) -> Transformer:
    """Return the model with its trained weights, if it is the paper's."""
    c = file.config.model
    plain = replace(c, positions="sinusoidal", tie="all", activation="relu", attention_window=0)
    if c != replace(plain, output_bias=False, norm_epsilon=1e-6) or not file.codec.shared:
        raise UsageError("the model departs from section 3", fix="train one with --preset base")
    flat = {re.sub(r"add_(.)\.norm", r"norm_\1", name): w for name, w in file.weights.items()}
    for name in ("source_embedding", "target_embedding", "output"):
        flat["e_WD"] = flat.pop(f"{name}.weight")  # three names of one matrix
    model = Transformer(c, len(file.codec.source))
    model.load_state_dict(flat)
    return model.eval()
