"""Guided attention: word alignments beside the data, and the head that learns them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from random_models import random_model
from test_distributed import COMMAND, TORCHRUN, run_module
from toy import TINY, run_training, sentences, tiny_config, translation

from aiayn.checkpoint import load_model
from aiayn.config_file import apply_overrides
from aiayn.data.batch import batch_of, pad
from aiayn.data.inputs import ParallelText
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.data.word_links import guide, pad_guides
from aiayn.distributed import ProcessGroup
from aiayn.errors import DataError, UsageError
from aiayn.generation.alignment import align, attention_weights
from aiayn.generation.word_alignment import align_words
from aiayn.kernels.layout import Layout
from aiayn.run_folder import RunFolder
from aiayn.training.guided import alignment_cross_entropy, guided_attention
from aiayn.training.loader import updates_from
from aiayn.training.start import open_corpus
from aiayn.training.state import fresh_state
from aiayn.training.update import accumulate_gradients

CPU = torch.device("cpu")
GUIDED = ("model.dropout=0", "optim.guided=0.5", "train.valid_every=12")


def write_text(folder, lines, alignments):
    (folder / "a").write_text("".join(f"{line}\n" for line in lines))
    (folder / "b").write_text("".join(f"{translation(line)}\n" for line in lines))
    (folder / "links").write_text("".join(f"{line}\n" for line in alignments))


def make(folder, **settings):
    text = {"train": [ParallelText(folder / "a", folder / "b")]}
    text["valid"] = text["train"]
    return preprocess(
        text,
        folder / "data",
        settings=Settings(vocab_size=270, subword="char", **settings),
        alignments=folder / "links",
        workers=1,
    )


@pytest.fixture(scope="module")
def aligned(tmp_path_factory):
    """A data folder of the toy language, whose words keep their order."""
    folder = tmp_path_factory.mktemp("aligned")
    lines = sentences(120, seed=3)
    write_text(
        folder, lines, [" ".join(f"{i}-{i}" for i in range(len(x.split()))) for x in lines]
    )
    return make(folder)


def test_alignments_stay_with_their_pairs_when_others_are_dropped(tmp_path):
    write_text(
        tmp_path, ["ba", "ba be bi bo bu da de", "", "be bi"], ["0-0", "0-6", "", "1-0 0p1"]
    )
    data = make(tmp_path, max_length=12)
    found = [data.word_links().of_pair(i).tolist() for i in range(len(data.corpus("train")))]
    assert found == [[[0, 0]], [[0, 1], [1, 0]]]
    assert "train-00000.align" in data.verify()


def test_a_language_tag_is_no_word_of_those_who_align(tmp_path):
    write_text(tmp_path, ["ba be"], ["0-0 1-1"])
    text = ParallelText(tmp_path / "a", tmp_path / "b", tag=">>toy<<")
    settings = Settings(vocab_size=270, subword="char", tag=">>toy<<")
    links = tmp_path / "links"
    data = preprocess({"train": [text]}, tmp_path / "t", settings=settings, alignments=links)
    assert data.word_links().of_pair(0).tolist() == [[1, 0], [2, 1]]


@pytest.mark.parametrize(
    ("alignments", "message"),
    [
        (["0-0", "0-2"], r"links, line 2: the link 0-2 names target word 2, .* has 2"),
        (["1-0", "0-0"], r"links, line 1: the link 1-0 names source word 1"),
        (["0-0", "0:0"], r"links, line 2: '0:0' is not a link"),
        (["0-0"], r"links ends after line 1, and there are more training pairs"),
        (["0-0", "", ""], r"links goes on after line 2, and there are fewer"),
    ],
)
def test_alignments_that_do_not_fit_are_refused(tmp_path, alignments, message):
    write_text(tmp_path, ["ba", "ba be"], alignments)
    with pytest.raises(DataError, match=message):
        make(tmp_path)


def test_other_alignments_are_other_data(aligned, tmp_path):
    write_text(tmp_path, ["ba", "ba be"], ["0-0", "0-0"])
    one = make(tmp_path)
    before = one.training_sha256
    (tmp_path / "links").write_text("0-0\n1-1\n")
    with pytest.raises(UsageError, match="is not the text that"):
        make(tmp_path)
    again = preprocess(
        {"train": [ParallelText(tmp_path / "a", tmp_path / "b")]},
        tmp_path / "other",
        settings=one.manifest.settings,
        alignments=tmp_path / "links",
    )
    assert again.training_sha256 != before


def test_a_subword_looks_at_all_subwords_of_the_words_that_it_is_linked_to():
    codec = random_model(codec={"subword": "char"}).codec
    pair = codec.encode_source("ab c"), codec.encode_target("x yz")
    pieces = codec.source.pieces(pair[0])
    found = guide(codec, tuple(map(np.array, pair)), np.array([[0, 1], [1, 1], [7, 0]]))
    inside = len(pieces) - 1
    assert found.shape == (len(pair[1]), len(pieces))
    assert found[0].sum() == found[-1].sum() == 0  # not linked, and EOS
    assert found[-2].tolist() == pytest.approx([1 / inside] * inside + [0])


def test_the_loss_is_the_cross_entropy_of_the_weights_of_the_head():
    torch.manual_seed(1)
    q, k = torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 5, 4)
    allowed = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None, :]
    wanted = torch.zeros(2, 3, 5)
    wanted[0, 0, 1], wanted[1, 2, 0], wanted[1, 2, 2] = 1, 0.5, 0.5
    found = alignment_cross_entropy(q, k, Layout(allowed), wanted)
    weights = (q @ k.mT / 2).masked_fill(~allowed[:, 0], -torch.inf).softmax(-1)
    plain = -(weights[0, 0, 1].log() + 0.5 * weights[1, 2, [0, 2]].log().sum())
    torch.testing.assert_close(found, plain)
    grads = [torch.autograd.grad(each, q)[0] for each in (found, plain)]
    torch.testing.assert_close(*grads)


def test_packed_rows_become_the_rectangle_that_they_were():
    ids = pad([[5, 6, 7], [8, 9]])
    source, _ = batch_of(ids, ids).layouts(attend_packed=True)
    x = torch.randn(2, 3, 4) * (ids != 0)[..., None]
    assert torch.equal(source.rectangle(source.unpack(source.pack(x))), x)


def first_update(data, config):
    """Return the micro-batches of the first update."""
    corpus, alone = open_corpus(data, config), ProcessGroup(0, 1, CPU)
    updates = updates_from(corpus, config.batch, alone, seed=1, epoch=0, number=0)
    return [batch for _, batch in next(updates).micro]


def test_the_gradient_is_that_of_any_cut_into_micro_batches(aligned):
    config = tiny_config(*GUIDED, "model.activation=swish", "batch.micro_tokens=400")
    state = fresh_state(config, aligned.codec, CPU, torch.float32)
    (whole, *_) = first_update(aligned, config)
    totals = []
    for cut in ([whole], whole.halves()):
        parts = [(str(number), part) for number, part in enumerate(cut)]
        losses = accumulate_gradients(state, parts, torch.float32)
        totals.append((losses, state.gradients.total.clone()))
    torch.testing.assert_close(*totals, rtol=1e-5, atol=1e-6)
    assert whole.guide_BTS.sum() > 0


def test_the_head_that_is_watched_has_the_weights_of_equation_1(aligned):
    config = tiny_config(*GUIDED, "model.layers=3")
    state = fresh_state(config, aligned.codec, CPU, torch.float32)
    batch = first_update(aligned, config)[0]
    attention = guided_attention(state.model)
    assert attention is state.model.decoder[1].cross_attention
    (weights_BHTS,) = attention_weights(
        state.model.eval(), [attention], batch.source_BS, batch.target_BT
    )
    q, k, _, keys = attention.watched
    scores = (q @ k.mT / 4).masked_fill(~keys.allowed[:, 0], -torch.inf)
    torch.testing.assert_close(scores.softmax(-1), weights_BHTS[:, 0])


def test_a_guided_run_logs_its_loss_and_needs_alignments(aligned, data, tmp_path, aiayn):
    run_training(aligned.path, tmp_path / "run", tiny_config(*GUIDED))
    rows = [row for row in RunFolder(tmp_path / "run").read_metrics() if "loss" in row]
    assert all(row["guided_loss"] > 0 for row in rows)
    line = ("train", data.path, "-o", tmp_path / "other", "--preset", "tiny", *TINY)
    code, _, err = aiayn(*line, "optim.guided=0.5")
    assert (code, "has no word alignments" in err) == (2, True)
    assert not (tmp_path / "other").exists()


def test_two_processes_end_the_guided_run_with_a_mean_that_one_began(aligned, tmp_path):
    settings = (*GUIDED, "model.dropout=0.1", "train.ema=0.9")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    run_training(aligned.path, whole, tiny_config(*settings))
    run_training(aligned.path, resumed, tiny_config(*settings, "train.steps=8"))
    done = run_module(*TORCHRUN, "train", aligned.path, "-o", resumed, *COMMAND, *settings)
    assert done.returncode == 0, done.stderr
    for name in ("last.pt", "best.pt", "average.pt"):
        one, two = (load_model(run / name).weights for run in (whole, resumed))
        assert [key for key in one if not torch.equal(one[key], two[key])] == []


def test_a_guided_model_aligns_by_its_first_head():
    file = random_model()
    guided = replace(file, config=apply_overrides(file.config, ["optim.guided=0.1"]))
    assert (file.config.alignment_heads, guided.config.alignment_heads) == (2, 1)
    pair = (file.codec.encode_source("ba be bi"), file.codec.encode_target("ab eb ib"))
    model, ids = file.build(), [torch.tensor([side]) for side in pair]
    (weights_BHTS,) = attention_weights(model, [model.decoder[0].cross_attention], *ids)
    first_TS = weights_BHTS[0, 0, :-1].numpy()
    found = align([model], file.codec, [pair], [guided.config.alignment_heads])
    assert found == [align_words(file.codec, pair, first_TS)]


def test_guides_are_padded_to_one_rectangle():
    found = pad_guides([np.ones((1, 2), np.float32), np.ones((2, 1), np.float32)])
    assert found.tolist() == [[[1, 1], [0, 0]], [[1, 0], [1, 0]]]
