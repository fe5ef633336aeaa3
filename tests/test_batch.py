"""Pairs of ids side by side: padding, tokens laid end to end, halves."""

import numpy as np
import torch

from aiayn.data.batch import batch_of, collate, pad
from aiayn.special_ids import EOS, PAD


def ids(*numbers: int) -> np.ndarray:
    return np.array([*numbers, EOS], dtype=np.uint16)


BATCH = collate([(ids(5, 6, 7), ids(8)), (ids(5), ids(9, 10)), (ids(), ids(11, 12, 13, 14))])


def test_short_sentences_are_filled_up_with_padding():
    assert pad([[3, 1], [4, 5, 1], [1]]).tolist() == [[3, 1, 0], [4, 5, 1], [1, 0, 0]]


def test_a_batch_is_as_wide_as_the_longest_sentence_of_each_side():
    assert BATCH.source_BS.tolist() == [[5, 6, 7, 1], [5, 1, 0, 0], [1, 0, 0, 0]]
    assert BATCH.target_BT.tolist() == [[8, 1, 0, 0, 0], [9, 10, 1, 0, 0], [11, 12, 13, 14, 1]]


def test_ids_on_disk_become_whole_numbers_that_can_index():
    assert BATCH.source_BS.dtype == BATCH.target_BT.dtype == torch.long


def test_target_tokens_are_laid_end_to_end_without_padding():
    assert BATCH.gold_N.tolist() == [8, 1, 9, 10, 1, 11, 12, 13, 14, 1]
    assert BATCH.target_BT.flatten()[BATCH.target_index].tolist() == BATCH.gold_N.tolist()
    assert PAD not in BATCH.gold_N


def test_the_places_of_the_source_leave_padding_out():
    assert BATCH.source_index.tolist() == [0, 1, 2, 3, 4, 5, 8]


def test_a_batch_counts_rows_and_tokens_with_and_without_padding():
    assert (BATCH.rows, BATCH.tokens, BATCH.padded_tokens) == (3, 10, 15)


def test_halves_are_the_upper_and_the_lower_rows():
    first, second = BATCH.halves()
    assert (first.rows, second.rows) == (1, 2)
    assert torch.equal(torch.cat([first.source_BS, second.source_BS]), BATCH.source_BS)
    assert torch.equal(torch.cat([first.gold_N, second.gold_N]), BATCH.gold_N)


def test_a_batch_on_a_device_is_the_same_batch():
    moved = BATCH.to(torch.device("cpu"))
    assert torch.equal(moved.source_BS, BATCH.source_BS)
    assert torch.equal(moved.target_index, BATCH.target_index)


def test_a_batch_of_tensors_equals_one_of_pairs():
    again = batch_of(BATCH.source_BS, BATCH.target_BT)
    assert torch.equal(again.target_index, BATCH.target_index)
    assert torch.equal(again.gold_N, BATCH.gold_N)


def test_halves_know_where_their_tokens_stand():
    for half in BATCH.halves():
        again = batch_of(half.source_BS, half.target_BT)
        assert torch.equal(half.source_index, again.source_index)
        assert torch.equal(half.target_index, again.target_index)
        assert torch.equal(half.gold_N, again.gold_N)
        assert half.lengths == again.lengths


def test_halves_ask_the_device_for_nothing():
    meta = torch.device("meta")  # reading a number from it raises
    first, second = BATCH.to(meta).halves()
    assert (first.tokens, second.tokens) == (2, 8)
