"""Training, teacher forcing and search run one decoder; a cache changes no result."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from aiayn.config import ModelConfig
from aiayn.data.batch import batch_of, pad
from aiayn.generation.decoder import CachedDecoder, Ensemble, used_columns
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
    {"decoder_layers": 1},
]


def build(**settings: object) -> Transformer:
    torch.manual_seed(1)
    sizes = {"layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "d_k": 8, "d_v": 8}
    return Transformer(ModelConfig(**(sizes | settings)), VOCABULARY).eval()


class Prefixes:
    """Token sequences that grow, move and end as the caches do, to compare with."""

    def __init__(self, model: Transformer, sources: list[list[int]]) -> None:
        self.model, self.source_BS = model, pad(sources)
        self.target_BJT = torch.empty(len(sources), 1, 0, dtype=torch.long)

    def grow(self, tokens_BJ: np.ndarray, slots_BJ: np.ndarray) -> None:
        row_B1 = torch.arange(len(tokens_BJ))[:, None]
        slots = torch.from_numpy(slots_BJ).clamp(max=self.target_BJT.size(1) - 1)
        newest_BJ1 = torch.from_numpy(tokens_BJ)[..., None]
        self.target_BJT = torch.cat([self.target_BJT[row_B1, slots], newest_BJ1], dim=-1)

    def keep(self, places: list[int]) -> None:
        self.source_BS, self.target_BJT = self.source_BS[places], self.target_BJT[places]

    def logits(self) -> torch.Tensor:
        """Return the logits of what follows, from a full forward pass."""
        target_BJT = F.pad(self.target_BJT, (0, 1), value=PAD)
        source_RS = self.source_BS.repeat_interleave(target_BJT.size(1), dim=0)
        logits_RTW = self.model(source_RS, target_BJT.flatten(0, 1))
        return logits_RTW[:, -1].view(*target_BJT.shape[:2], -1)


def decoder_of(model: Transformer, sources: list[list[int]], width: int = SLOTS):
    """Return a decoder of these sentences, and the logits of their first tokens."""
    step = CachedDecoder(model, width)
    step.reserve(len(sources), max(map(len, sources)), limit=64 if not model.longest else 16)
    step.admit(sources)
    return step, first_logits(step, len(sources), width)


def first_logits(step, sentences: int, width: int = SLOTS) -> torch.Tensor:
    """Return the logits (B, J, W) of first tokens, before which there is padding."""
    start = np.full((sentences, width), PAD)
    return step(start, np.zeros_like(start))


def assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def logits_step_by_step(model: Transformer, target_BT: torch.Tensor) -> torch.Tensor:
    """Return the logits of each target token from the decoder with caches."""
    step, first = decoder_of(model, SOURCES, width=1)
    slots_B1 = np.zeros((len(SOURCES), 1), dtype=np.int64)
    tokens = target_BT[:, :-1, None].unbind(1)
    return torch.cat([first, *(step(each.numpy(), slots_B1) for each in tokens)], dim=1)


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


def grow(step: CachedDecoder, plain: Prefixes, sentences: int) -> None:
    """Extend random hypotheses by random tokens, and compare."""
    slots = np.random.randint(SLOTS, size=(sentences, SLOTS))
    tokens = np.random.randint(2, VOCABULARY, size=slots.shape)
    plain.grow(tokens, slots)
    assert_close(step(tokens, slots), plain.logits())


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@torch.inference_mode()
def test_cached_equals_uncached_while_beams_are_reordered_and_sentences_end(variant):
    model = build(**variant)
    step, first = decoder_of(model, SOURCES)
    plain = Prefixes(model, SOURCES)
    assert_close(first, plain.logits().expand_as(first))
    for _ in range(6):
        grow(step, plain, sentences=3)
    # The first sentence ends, and the last takes its place; then that one ends.
    step.move(np.array([2]), np.array([0]), count=2)
    plain.keep([2, 1])
    for _ in range(4):
        grow(step, plain, sentences=2)
    step.move(np.array([1]), np.array([0]), count=1)
    plain.keep([1])
    for _ in range(2):
        grow(step, plain, sentences=1)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@torch.inference_mode()
def test_a_sentence_that_begins_late_is_decoded_as_if_alone(variant):
    model = build(**variant)
    step, _ = decoder_of(model, SOURCES[1:])
    early = Prefixes(model, SOURCES[1:])
    for _ in range(4):
        grow(step, early, sentences=2)
    step.reserve(3, 5, limit=16)
    late = Prefixes(model, SOURCES[:1])
    step.admit(SOURCES[:1])
    for number in range(4):
        slots = np.random.randint(SLOTS, size=(3, SLOTS))
        tokens = np.random.randint(2, VOCABULARY, size=slots.shape)
        if number:
            late.grow(tokens[2:], slots[2:])
        else:
            tokens[2:] = PAD
        early.grow(tokens[:2], slots[:2])
        wanted = torch.cat([early.logits(), late.logits().expand(-1, SLOTS, -1)])
        assert_close(step(tokens, slots), wanted)


@torch.inference_mode()
def test_rows_beyond_the_sentences_change_nothing_and_stay_at_the_start():
    model = build()
    step, _ = decoder_of(model, SOURCES)
    plain = Prefixes(model, SOURCES)
    step.move(np.array([2]), np.array([0]), count=2)
    plain.keep([2, 1])
    slots, tokens = np.tile(np.arange(SLOTS), (3, 1)), np.full((3, SLOTS), 5)
    for _ in range(9):
        plain.grow(tokens[:2], slots[:2])
        assert_close(step(tokens, slots)[:2], plain.logits())
    assert step.position_P.tolist() == [10, 10, 0]
    assert step.past_PJC[2].sum() == SLOTS


def probabilities(*models: Transformer, ensemble: bool) -> list[torch.Tensor]:
    """Return the log-probabilities at each of a few steps with sentences that end."""
    random = np.random.default_rng(2)
    steps = [CachedDecoder(model, SLOTS) for model in models]
    step = Ensemble(steps) if ensemble else steps[0]
    step.reserve(3, 5, limit=16)
    step.admit(SOURCES)
    found = [first_logits(step, 3).log_softmax(-1)]
    for count in (3, 2, 1):
        step.move(np.array([], dtype=int), np.array([], dtype=int), count)
        slots = random.integers(SLOTS, size=(count, SLOTS))
        tokens = random.integers(2, VOCABULARY, size=slots.shape)
        found.append(step(tokens, slots).log_softmax(-1))
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
def test_columns_that_are_in_the_past_of_no_hypothesis_are_filled_anew():
    step, _ = decoder_of(build(), SOURCES)
    same_parent = np.zeros((3, SLOTS), dtype=np.int64)
    for _ in range(40):
        step(np.full((3, SLOTS), 5), same_parent)
    # One column a position, but for the newest.
    assert used_columns(step.past_PJC) == 40 + SLOTS
