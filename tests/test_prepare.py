"""A network that is ready for decoding computes what it did before, and holds nothing twice."""

from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import random_model
from torch import nn
from toy import sentences, translation

from aiayn.checkpoint import ModelFile, save_model
from aiayn.data.batch import pad
from aiayn.errors import UsageError
from aiayn.generation.decoder import CachedDecoder
from aiayn.generation.prepare import load_models, plain, prepare
from aiayn.generation.translator import Translator
from aiayn.kernels.layout import Layout
from aiayn.kernels.packed import Int8Linear, PackedLinear
from aiayn.model.transformer import is_token
from aiayn.model_path import find_model
from aiayn.special_ids import PAD

CPU = torch.device("cpu")
SOURCE_BS = pad([[5, 60, 7, 261, 1], [9, 1], [4, 4, 270, 1]])
TARGET_BT = pad([[8, 264, 1], [7, 7, 9, 262, 1], [1]])

VARIANTS = [
    {},
    {"positions": "learned", "max_positions": 16},
    {"shared": False},
    {"tie": "none", "attention_bias": False},
    {"d_k": 3, "d_v": 5},
    {"activation": "swish", "output_bias": True},
    {"attention_window": 4},
]


def step_logits(model: nn.Module) -> torch.Tensor:
    """Return those of a second token."""
    step = CachedDecoder(model, 2)
    step.reserve(3, 5, limit=16)
    step.admit([[i for i in row if i != PAD] for row in SOURCE_BS.tolist()])
    for token in (PAD, 9):
        logits = step(np.full((3, 2), token), np.zeros((3, 2), dtype=np.int64))
    return logits


def outputs(model: nn.Module) -> list[torch.Tensor]:
    """Return the memory, the logits, and the logits of a step with caches."""
    with torch.inference_mode():
        return [
            model.encode(SOURCE_BS, Layout(is_token(SOURCE_BS))),
            model(SOURCE_BS, TARGET_BT),
            step_logits(model),
        ]


def bytes_of(model: nn.Module) -> int:
    """Return the bytes of all parameters; what is shared counts once."""
    stores = {p.untyped_storage().data_ptr(): p.untyped_storage() for p in model.parameters()}
    return sum(store.nbytes() for store in stores.values())


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("layer", [plain, PackedLinear])
def test_a_prepared_network_computes_the_same(layer, variant):
    file = random_model(**variant)
    for found, wanted in zip(
        outputs(prepare(file.build(), plain, layer)), outputs(file.build()), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_prepared_network_holds_nothing_twice(variant):
    file = random_model(**variant)
    assert bytes_of(prepare(file.build())) == bytes_of(file.build())


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_8_bits_are_close_to_float32(variant):
    file = random_model(**variant)
    exact = outputs(file.build())
    for found, wanted in zip(
        outputs(prepare(file.build(), Int8Linear, Int8Linear)), exact, strict=True
    ):
        assert 0 < (found - wanted).norm() < 0.05 * wanted.norm()


@pytest.mark.parametrize("layer", [Int8Linear, PackedLinear])
def test_every_linear_layer_is_replaced_and_its_plain_weights_are_gone(layer):
    model = prepare(random_model().build(), layer, layer)
    kinds = [type(m) for m in model.modules() if isinstance(m, nn.Linear | layer)]
    # Each of 2 layers: qkv, o and two of the network; q, kv and o more in the decoder.
    assert kinds.count(layer) == 2 * 4 + 2 * 7 + 1
    names = {name.split(".")[-2] for name, p in model.named_parameters() if p.numel()}
    assert names == {"source_embedding", "norm"}


def test_a_trained_model_translates_nearly_as_well_in_8_bits(trained):
    lines = sentences(80, seed=31)
    right = {}
    for precision in ("float32", "int8"):
        (file,), models = load_models([find_model(trained)], CPU, precision)
        found = Translator(models, file.codec).translate(lines)
        right[precision] = sum(
            one.text == translation(line) for one, line in zip(found, lines, strict=True)
        )
    assert right["float32"] > 40
    assert right["int8"] >= right["float32"] - 4


def save(path: Path, model: ModelFile) -> Path:
    save_model(path, model)
    return path


def test_models_of_different_vocabularies_do_not_decide_together(tmp_path):
    one = save(tmp_path / "one.pt", random_model())
    other = save(tmp_path / "other.pt", random_model(codec={"subword": "unigram"}))
    with pytest.raises(
        UsageError, match=r"other\.pt and .*one\.pt have different vocabularies"
    ):
        load_models([one, other], CPU, "float32")


def test_models_of_one_vocabulary_may_have_any_shape(tmp_path):
    one = save(tmp_path / "one.pt", random_model())
    other = save(tmp_path / "other.pt", random_model(layers=1, d_model=16))
    assert len(load_models([one, other], CPU, "float32")[1]) == 2


def test_8_bits_need_the_cpu(tmp_path):
    path = save(tmp_path / "one.pt", random_model())
    with pytest.raises(UsageError, match="int8 runs on the CPU, and the device is meta"):
        load_models([path], torch.device("meta"), "int8")
