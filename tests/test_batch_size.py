"""How much is searched at once: fixed on a CPU, by free memory on a GPU."""

import numpy as np
import pytest
import torch
from random_models import random_model

from aiayn.config import DECODING_BATCH_TOKENS
from aiayn.generation import batch_size
from aiayn.generation.batch_size import (
    COPIES_OF_LOGITS,
    MOST_ROWS,
    USUAL_LENGTH,
    batch_that_fits,
    bytes_of_row,
)
from aiayn.generation.decoder import CachedDecoder
from aiayn.generation.engine import ROWS, tokens_at_once
from aiayn.generation.prepare import prepare
from aiayn.special_ids import EOS, PAD


def test_a_cpu_has_what_is_fast_there():
    assert batch_that_fits([random_model().build()], 4) == (DECODING_BATCH_TOKENS, ROWS)


@pytest.mark.parametrize("width", [1, 4, 16])
def test_more_memory_holds_more_up_to_a_bound(monkeypatch, width):
    model = random_model().build()
    found = []
    for rows in (1, 1000, 2000, 10**9):
        free = int(rows * bytes_of_row(model, width) / batch_size.USED_PART) + width
        monkeypatch.setattr(batch_size, "free_memory", lambda device, free=free: free)
        tokens, most = batch_that_fits([model], width)
        assert tokens_at_once(tokens, width) == most // width * USUAL_LENGTH
        found.append(most)
    assert found == [ROWS, 1000, 2000, MOST_ROWS]


def test_the_models_of_an_ensemble_share_the_memory(monkeypatch):
    model = random_model().build()
    free = int(2000 * bytes_of_row(model, 4) / batch_size.USED_PART) + 1
    monkeypatch.setattr(batch_size, "free_memory", lambda device: free)
    assert batch_that_fits([model, model], 4)[1] == 1000


@pytest.mark.parametrize("width", [1, 4])
@torch.inference_mode()
def test_a_row_takes_about_what_was_reckoned(width):
    model = prepare(random_model().build())
    sentences, length = 8, USUAL_LENGTH
    decoder = CachedDecoder(model, width)
    decoder.reserve(sentences, length, limit=length)
    decoder.admit([[5] * (length - 1) + [EOS]] * sentences)
    slots = np.zeros((sentences, width), dtype=np.int64)
    for step in range(length):
        token = PAD if step == 0 else 6
        logits = decoder(np.full((sentences, width), token), slots + np.arange(width))
    caches = (decoder.source, decoder.target)
    taken = sum(x.nbytes for cache in caches for x in (cache.keys, cache.values))
    taken += COPIES_OF_LOGITS * logits.nbytes
    reckoned = sentences * width * bytes_of_row(model, width)
    assert 0.3 * reckoned < taken < 1.3 * reckoned
