"""Shards: what is written is read back, from memory maps, and a truncated file is refused."""

import numpy as np
import pytest

from aiayn.data.shards import Corpus, id_type, write_shard
from aiayn.errors import DataError

SMALL = id_type(100)
PAIRS = [([5, 6, 1], [7, 1]), ([8, 1], [9, 10, 11, 1]), ([12, 1], [13, 1])]


def write(folder, name, pairs, dtype=SMALL):
    with write_shard(folder, name) as writer:
        for pair in pairs:
            lengths = np.array([len(side) for side in pair])
            writer.write(np.concatenate(pair).astype(dtype).tobytes(), lengths)
    return writer.shard()


def read(corpus):
    return [tuple(side.tolist() for side in corpus.pair(i)) for i in range(len(corpus))]


def test_pairs_come_back_in_order_over_all_shards(tmp_path):
    shards = [write(tmp_path, "a", PAIRS[:2]), write(tmp_path, "b", PAIRS[2:])]
    corpus = Corpus(tmp_path, shards, SMALL)
    assert read(corpus) == PAIRS


def test_lengths_count_the_end_marks(tmp_path):
    corpus = Corpus(tmp_path, [write(tmp_path, "a", PAIRS)], SMALL)
    assert corpus.source_lengths.tolist() == [3, 2, 2]
    assert corpus.target_lengths.tolist() == [2, 4, 2]


def test_lengths_take_two_bytes_unless_a_sentence_needs_four(tmp_path):
    wide = [([5] * 70_000, [1])]
    shards = [write(tmp_path, "a", PAIRS), write(tmp_path, "b", wide)]
    assert Corpus(tmp_path, shards[:1], SMALL).source_lengths.dtype == np.uint16
    corpus = Corpus(tmp_path, shards, SMALL)
    assert corpus.source_lengths.tolist() == [3, 2, 2, 70_000]
    assert corpus.target_lengths.tolist() == [2, 4, 2, 1]


def test_the_files_are_as_described(tmp_path):
    write(tmp_path, "a", PAIRS[:2])
    ids = np.fromfile(tmp_path / "a.bin", "<u2").tolist()
    assert ids == [5, 6, 1, 7, 1, 8, 1, 9, 10, 11, 1]
    assert np.fromfile(tmp_path / "a.idx", "<i8").tolist() == [0, 3, 5, 7, 11]


def test_ids_are_as_small_as_the_vocabulary_allows():
    assert id_type(1 << 16).itemsize == 2
    assert id_type((1 << 16) + 1).itemsize == 4


def test_large_ids_survive(tmp_path):
    wide = id_type(70_000)
    corpus = Corpus(tmp_path, [write(tmp_path, "a", [([69_999, 1], [1])], wide)], wide)
    assert read(corpus) == [([69_999, 1], [1])]


def test_a_shard_may_be_empty(tmp_path):
    shards = [write(tmp_path, "a", []), write(tmp_path, "b", PAIRS)]
    assert read(Corpus(tmp_path, shards, SMALL)) == PAIRS


def test_there_is_no_pair_beyond_the_last(tmp_path):
    corpus = Corpus(tmp_path, [write(tmp_path, "a", PAIRS)], SMALL)
    for index in (-1, 3):
        with pytest.raises(IndexError):
            corpus.pair(index)


def test_ids_cannot_be_changed_by_whoever_reads_them(tmp_path):
    corpus = Corpus(tmp_path, [write(tmp_path, "a", PAIRS)], SMALL)
    with pytest.raises(ValueError, match="read-only"):
        corpus.pair(0)[0][0] = 9


@pytest.mark.parametrize("name", ["a.bin", "a.idx"])
def test_a_truncated_file_is_refused_by_name(tmp_path, name):
    shard = write(tmp_path, "a", PAIRS)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-1])
    with pytest.raises(DataError, match=name):
        Corpus(tmp_path, [shard], SMALL)


def test_a_shard_that_was_not_finished_is_not_there(tmp_path):
    with pytest.raises(RuntimeError), write_shard(tmp_path, "a") as writer:
        writer.write(b"\5\0\1\0", np.array([1, 1]))
        raise RuntimeError
    assert not list(tmp_path.iterdir())
