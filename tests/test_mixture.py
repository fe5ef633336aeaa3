"""Several data folders in one run: shares of target tokens, epochs of their own, resuming."""

import json
from itertools import islice

import numpy as np
import pytest
import torch
from toy import make_data, run_training, sentences, tiny_config, translation

from aiayn.checkpoint import load_model
from aiayn.data.inputs import ParallelText
from aiayn.data.mixture import Mixture, open_data
from aiayn.data.named import Named
from aiayn.data.plan import Place
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.distributed import ProcessGroup
from aiayn.errors import UsageError
from aiayn.training.loop import train
from aiayn.training.mixing import mixed_updates

CPU = torch.device("cpu")
ALONE = ProcessGroup(0, 1, CPU)


@pytest.fixture(scope="module")
def small(data, tmp_path_factory):
    """A folder of 9 longer pairs, and no validation text, with the vocabulary of `data`."""
    folder = tmp_path_factory.mktemp("small")
    lines = sentences(9, seed=11, longest=14)
    files = folder / "source", folder / "target"
    for file, side in zip(files, (lines, map(translation, lines)), strict=True):
        file.write_text("".join(f"{line}\n" for line in side))
    settings = Settings(vocab_size=len(data.codec.source), sample_lines=0)
    inputs = {"train": [ParallelText(*files)]}
    return preprocess(inputs, folder / "data", settings=settings, codec=data.codec)


@pytest.fixture
def mixture(data, small):
    return Mixture([data, small], [3, 1])


def updates(mixture, count, ranks=ALONE, places=None):
    corpus = mixture.corpus("train")
    places = places or [Place()] * len(corpus.parts)
    batch = tiny_config().batch
    return list(islice(mixed_updates(corpus, batch, ranks, seed=1, places=places), count))


def test_shares_hold_whatever_the_sizes(mixture):
    (found,) = updates(mixture, 1000)[-1:]
    tokens = np.array([place.target_tokens for place in found.places])
    assert abs(tokens / tokens.sum() - [0.75, 0.25]).max() < 0.001
    # 9 pairs are read again and again while the others are read a few times.
    assert found.places[1].epoch > 5 * found.places[0].epoch > 0


def test_an_update_keeps_to_its_limit_and_counts_its_tokens(mixture):
    for update in updates(mixture, 20):
        assert max(update.source_tokens, update.target_tokens) <= 400
        assert update.target_tokens == sum(batch.tokens for _, batch in update.micro)
    assert update.target_tokens > 300


def test_every_epoch_reads_every_pair_of_its_corpus_once(mixture, small):
    found = updates(mixture, 60)
    ends = [update.places[1] for update in found if update.places[1].group == 0]
    of_an_epoch = int(small.corpus("train").target_lengths.sum())
    assert ends
    assert all(place.target_tokens == place.epoch * of_an_epoch for place in ends)


def test_any_process_and_a_resumed_run_see_the_same(mixture):
    whole = updates(mixture, 9)
    shares = [updates(mixture, 9, ProcessGroup(rank, 2, CPU)) for rank in range(2)]
    for update, *parts in zip(whole, *shares, strict=True):
        together = dict(micro for part in parts for micro in part.micro)
        assert all(torch.equal(together[n].target_BT, b.target_BT) for n, b in update.micro)
    (again,) = updates(mixture, 1, places=whole[6].places)
    assert again.places == whole[7].places
    assert torch.equal(again.micro[0][1].source_BS, whole[7].micro[0][1].source_BS)


def test_a_resumed_run_has_the_same_weights(mixture, tmp_path):
    for steps in (4, 2, 4):
        run = tmp_path / (
            "whole" if steps == 4 and not (tmp_path / "parts").exists() else "parts"
        )
        config = tiny_config(
            f"train.steps={steps}", "batch.sampling=0.1", "train.valid_every=0"
        )
        train(mixture, run, config, device="cpu")
    whole, parts = (
        load_model(tmp_path / run / "last.pt").weights for run in ("whole", "parts")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_the_command_mixes_and_remembers(data, small, tmp_path, aiayn):
    run = tmp_path / "run"
    words = ("train", f"{data.path}:3", f"{small.path}:1", "-o", run, "--device", "cpu")
    line = (*words, "--preset", "tiny", "train.steps=2", "model.layers=1", "model.d_model=32")
    assert aiayn(*line)[0] == 0
    provenance = json.loads((run / "provenance.json").read_bytes())
    assert list(provenance["shares"].values()) == [0.75, 0.25]
    found = json.loads(aiayn("info", run, "--json")[1])
    assert [each["share"] for each in found["corpora"].values()] == [0.75, 0.25]
    assert found["target tokens"] == sum(x["target tokens"] for x in found["corpora"].values())
    code, _, err = aiayn(*line[:1], f"{data.path}:1", f"{small.path}:1", *line[3:])
    assert (code, "was trained on other data, or other shares" in err) == (2, True)
    assert f"{data.path.name}:0.75 {small.path.name}:0.25" in err


def test_a_dry_run_tells_the_epochs_of_each(data, small, aiayn):
    words = (f"{data.path}:3", f"{small.path}:1", "-o", "none", "--device", "cpu")
    code, out, _ = aiayn("train", *words, "--preset", "tiny", "--dry-run")
    assert code == 0
    (epochs,) = (line for line in out.splitlines() if line.split()[:1] == ["epochs"])
    assert data.path.name in epochs


def test_validation_reads_the_text_of_all_that_have_some(data, mixture):
    twice = Mixture([data, data], [1, 1])
    assert mixture.text("valid") == data.text("valid")
    assert twice.text("valid")[0] == 2 * data.text("valid")[0]
    assert len(twice.corpus("valid")) == 2 * len(data.corpus("valid"))


def test_other_vocabularies_and_missing_shares_are_refused(data, tmp_path):
    other = make_data(tmp_path, seed=5)
    with pytest.raises(UsageError, match="different vocabularies") as problem:
        Mixture([data, other], [1, 1])
    assert f"--vocab-from {data.path}" in problem.value.fix
    with pytest.raises(UsageError, match="has no share"):
        open_data([Named(data.path, 0.5), Named(other.path)])
    with pytest.raises(UsageError, match="is named twice"):
        open_data([Named(data.path, 0.5), Named(data.path / "vocab" / "..", 0.5)])


def test_a_share_follows_a_colon(tmp_path):
    assert Named.parse("data:0.6") == Named(Named.parse("data").path, 0.6)
    (odd := tmp_path / "a:1").mkdir()
    assert Named.parse(str(odd)).share is None
    assert not Named.is_one("optim.warmup=3")
    (tmp_path / "data").mkdir()
    for share in ("0", "-1", "inf", "nan", "60%", "0,6", "x", ""):
        with pytest.raises(UsageError, match=f"'{share}' is not a share") as problem:
            Named.parse(f"{tmp_path}/data:{share}")
        assert problem.value.fix == f"write {tmp_path}/data:0.5"


def test_one_folder_is_no_mixture(data, tmp_path):
    assert type(open_data([Named(data.path, 1.0)])) is type(data)
    config = tiny_config("train.steps=1", "train.valid_every=0")
    run_training(data.path, tmp_path / "run", config)
    assert load_model(tmp_path / "run" / "last.pt").training["place"]["places"] == []
