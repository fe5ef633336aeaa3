"""Training, teacher forcing and search run one decoder; a cache changes no result."""

import pytest
import torch

from aiayn.config import ModelConfig
from aiayn.data.batch import batch_of, pad
from aiayn.generation import decoder
from aiayn.generation.decoder import CachedDecoder, Ensemble
from aiayn.kernels.layout import Layout
from aiayn.model.layers import DecoderLayer, LayerCache
from aiayn.model.transformer import Transformer
from aiayn.special_ids import EOS, PAD

VOCABULARY = 11
SOURCES = [[5, 6, 7, 8, EOS], [9, EOS], [4, 4, 10, EOS]]
TARGETS = [[6, 5, EOS], [7, 7, 9, 10, 8, EOS], [EOS]]
SLOTS = 3

VARIANTS = [
    {},
    {"positions": "learned", "max_positions": 16},
    {"tie": "none", "attention_bias": False},
    {"d_k": 3, "d_v": 5},
    {"attention_window": 4},
    {"activation": "swish", "output_bias": True},
]


def build(**settings: object) -> Transformer:
    torch.manual_seed(1)
    sizes = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "d_k": 8, "d_v": 8}
    return Transformer(ModelConfig(**(sizes | settings)), VOCABULARY).eval()


class Prefixes:
    """Token sequences that follow parents as the caches do, to compare with."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.source_RS = pad(SOURCES).repeat_interleave(SLOTS, dim=0)
        self.target_RT = torch.empty(len(self.source_RS), 0, dtype=torch.long)

    def grow(self, tokens_BJ: torch.Tensor, parents_BJ: torch.Tensor) -> None:
        rows_R = parents_BJ.flatten()
        self.source_RS = self.source_RS[rows_R]
        tokens_R1 = tokens_BJ.flatten()[:, None]
        self.target_RT = torch.cat([self.target_RT[rows_R], tokens_R1], dim=1)

    def logits(self) -> torch.Tensor:
        """Return the logits of what follows, from a full forward pass."""
        unknown = torch.full((len(self.target_RT), 1), PAD)
        target_RT = torch.cat([self.target_RT, unknown], dim=1)
        return self.model(self.source_RS, target_RT)[:, -1].view(-1, SLOTS, VOCABULARY)


def assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def logits_step_by_step(model: Transformer, target_BT: torch.Tensor) -> torch.Tensor:
    """Return the logits of each target token from the decoder with caches."""
    step, parents = CachedDecoder(model, pad(SOURCES)), torch.arange(len(SOURCES))[:, None]
    found = [step(torch.full((len(SOURCES), 1), PAD), None)]
    found += [step(tokens_B1, parents) for tokens_B1 in target_BT[:, :-1, None].unbind(1)]
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_training_teacher_forcing_and_search_give_the_same_logits(variant):
    model = build(dropout=0.0, **variant)
    batch = batch_of(pad(SOURCES), pad(TARGETS))
    source, target, real = batch.source_BS, batch.target_BT, batch.target_BT != PAD
    packed = model.train().states(source, target, *batch.layouts())
    training = model.logits(packed)[: batch.tokens]
    with torch.inference_mode():
        forced = model.eval()(source, target)[real]
        searched = logits_step_by_step(model, target)[real]
    assert_close(training, forced)
    assert_close(searched, forced)


def called(model: Transformer) -> list[str]:
    """Return a list that the names of the decoder's modules are added to as they run."""
    names: list[str] = []
    for name, module in model.decoder.named_modules():
        module.register_forward_hook(lambda *_, name=name: names.append(name))
    return names


@torch.inference_mode()
def test_a_step_of_the_search_runs_the_modules_that_training_runs_in_the_same_order():
    model = build()
    names = called(model)
    model(pad(SOURCES), pad(TARGETS))
    of_training = names.copy()
    step = CachedDecoder(model, pad(SOURCES))
    names.clear()
    step(torch.full((3, SLOTS), PAD), None)
    assert names == of_training
    assert names.count("0") == names.count("1") == 1  # the layers themselves


@torch.inference_mode()
def test_each_layer_of_a_step_is_one_call_of_decoder_layer_with_a_cache(monkeypatch):
    forward, caches = DecoderLayer.forward, []

    def noted(
        layer: DecoderLayer, y: torch.Tensor, memory: None, *rest: Layout | LayerCache
    ) -> torch.Tensor:
        caches.append(rest[-1])
        return forward(layer, y, memory, *rest)

    monkeypatch.setattr(DecoderLayer, "forward", noted)
    step = CachedDecoder(build(), pad(SOURCES))
    step(torch.full((3, SLOTS), PAD), None)
    assert caches == [
        LayerCache(target, source)
        for target, source in zip(step.targets, step.sources, strict=True)
    ]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@torch.inference_mode()
def test_cached_equals_uncached_while_beams_are_reordered_and_shrink(variant, monkeypatch):
    monkeypatch.setattr(decoder, "GROWTH_STEPS", 2)  # dead columns are dropped often
    model = build(**variant)
    step, plain = CachedDecoder(model, pad(SOURCES)), Prefixes(model)
    assert_close(step(torch.full((3, SLOTS), PAD), None), plain.logits())
    going = [*[[0, 1, 2]] * 5, [1, 2], *[[0, 1]] * 4, [1], [0]]
    for sentences in going:
        slots = torch.randint(SLOTS, (len(sentences), SLOTS))
        parents = slots + SLOTS * torch.tensor(sentences)[:, None]
        tokens = torch.randint(2, VOCABULARY, parents.shape)
        plain.grow(tokens, parents)
        assert_close(step(tokens, parents), plain.logits())


@torch.inference_mode()
def test_a_sentence_is_decoded_the_same_beside_longer_ones():
    model = build()
    together = CachedDecoder(model, pad(SOURCES))(torch.full((3, 1), PAD), None)
    alone = CachedDecoder(model, pad(SOURCES[1:2]))(torch.full((1, 1), PAD), None)
    assert_close(together[1:2], alone)


@torch.inference_mode()
def test_the_first_position_is_the_start_of_every_sentence():
    model = build()
    logits = CachedDecoder(model, pad(SOURCES))(torch.full((3, SLOTS), PAD), None)
    assert logits.shape == (3, SLOTS, VOCABULARY)
    assert_close(logits[:, 0], logits[:, 1])


def probabilities(*models: Transformer, ensemble: bool) -> list[torch.Tensor]:
    """Return the log-probabilities at each of a few steps with sentences that drop out."""
    torch.manual_seed(2)
    steps = [CachedDecoder(model, pad(SOURCES)) for model in models]
    step = Ensemble(steps) if ensemble else steps[0]
    found = [step(torch.full((3, SLOTS), PAD), None).log_softmax(-1)]
    for sentences in ([0, 1, 2], [0, 2], [1]):
        parents = torch.randint(SLOTS, (len(sentences), SLOTS))
        parents += SLOTS * torch.tensor(sentences)[:, None]
        tokens = torch.randint(2, VOCABULARY, parents.shape)
        found.append(step(tokens, parents).log_softmax(-1))
    return found


@torch.inference_mode()
def test_an_ensemble_of_a_model_with_itself_is_the_model():
    model = build()
    together = probabilities(model, model, model, ensemble=True)
    for found, wanted in zip(together, probabilities(model, ensemble=False), strict=True):
        assert_close(found, wanted)


@torch.inference_mode()
def test_an_ensemble_gives_the_mean_of_the_probabilities():
    models = [build(), build(positions="learned", max_positions=16, layers=1)]
    together = probabilities(*models, ensemble=True)
    ones, others = (probabilities(model, ensemble=False) for model in models)
    for found, one, other in zip(together, ones, others, strict=True):
        assert (one - other).abs().max() > 0.1
        assert_close(found, ((one.exp() + other.exp()) / 2).log())


@torch.inference_mode()
def test_columns_that_are_in_the_past_of_no_hypothesis_are_dropped():
    step = CachedDecoder(build(), pad(SOURCES))
    step(torch.full((3, SLOTS), PAD), None)
    same_parent = torch.arange(3)[:, None].expand(3, SLOTS) * SLOTS
    for _ in range(40):
        step(torch.full((3, SLOTS), 5), same_parent)
    # One column a position, and those of the steps since room was made.
    assert step.targets[0].used <= 41 + (SLOTS - 1) * (decoder.GROWTH_STEPS + 1)
