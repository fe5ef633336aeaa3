"""Figure 1 as a whole against the same model built of torch's own layers."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from toy import keep_attention_weights

from aiayn.config import ModelConfig
from aiayn.model.positions import sinusoids
from aiayn.model.transformer import Transformer

CONFIG = ModelConfig(layers=2, d_model=12, d_ff=24, heads=3, d_k=4, d_v=4, dropout=0.0)
WORDS = 30


class TorchTransformer(nn.Module):
    """The same model out of torch's own layers, with the weights of ours copied in."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        c = ours.config
        layer = {"dropout": 0.0, "batch_first": True, "norm_first": False}
        layer |= {"layer_norm_eps": 1e-6, "dtype": torch.float64}
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(c.d_model, c.heads, c.d_ff, **layer),
            c.layers,
            norm=None,
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(c.d_model, c.heads, c.d_ff, **layer), c.layers, norm=None
        )
        self.matrix = nn.Parameter(ours.output.weight.detach().clone())
        self.load_state_dict(in_the_names_of_torch(dict(ours.state_dict())))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.encoder(self.embed(source), src_key_padding_mask=source == 0)
        hidden = torch.ones(target.size(1), target.size(1)).triu(1).bool()
        y = self.decoder(
            self.embed(F.pad(target, (1, -1))),
            memory,
            tgt_mask=hidden,
            memory_key_padding_mask=source == 0,
        )
        return y @ self.matrix.T

    def embed(self, ids: Tensor) -> Tensor:
        d_model = self.matrix.size(1)
        vectors = (self.matrix * math.sqrt(d_model))[ids].masked_fill(ids[..., None] == 0, 0)
        return vectors + sinusoids(ids.size(1), d_model)


def in_the_names_of_torch(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Turn parameters of ours, or their gradients, into those of TorchTransformer."""
    theirs = {"matrix": ours["output.weight"]}
    attentions = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
    names = {"feed_forward.w_1": "linear1", "feed_forward.w_2": "linear2"}
    names |= {f"add_{i}.norm": f"norm{i}" for i in (1, 2, 3)}
    for name, value in ours.items():
        room, *rest = name.split(".")
        if room not in ("encoder", "decoder"):
            continue
        number, part, inner, kind = rest[0], rest[1], rest[2], rest[-1]
        place = f"{room}.layers.{number}."
        if part not in attentions:
            theirs[place + names[f"{part}.{inner}"] + f".{kind}"] = value
        elif inner == "w_o":
            theirs[place + attentions[part] + f".out_proj.{kind}"] = value
        elif inner == "w_q":
            rows = [ours[name.replace("w_q", letter)] for letter in ("w_q", "w_k", "w_v")]
            theirs[place + attentions[part] + f".in_proj_{kind}"] = torch.cat(rows)
    return theirs


def gradient(parameter: nn.Parameter) -> Tensor:
    """Return zeros for the bias of the keys, which does not learn; torch finds as much."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


@pytest.mark.parametrize("reference", [False, True])
def test_the_model_equals_torch_s_own_layers_forward_and_back(reference):
    torch.manual_seed(1)
    ours = Transformer(CONFIG, WORDS).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    theirs = TorchTransformer(ours)
    keep_attention_weights(ours, reference)
    source, target = torch.randint(1, WORDS, (3, 7)), torch.randint(1, WORDS, (3, 6))
    source *= torch.arange(7) < torch.tensor([[7], [4], [1]])
    target *= torch.arange(6) < torch.tensor([[3], [6], [5]])
    weight = torch.randn(3, 6, WORDS, dtype=torch.float64)
    logits, expected = ours(source, target), theirs(source, target)
    torch.testing.assert_close(logits, expected, rtol=1e-10, atol=1e-10)
    (logits * weight).sum().backward()
    (expected * weight).sum().backward()
    gradients = in_the_names_of_torch(
        {n: gradient(p) for n, p in ours.named_parameters(remove_duplicate=False)}
    )
    wanted = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    torch.testing.assert_close(gradients, wanted, rtol=1e-9, atol=1e-9)
