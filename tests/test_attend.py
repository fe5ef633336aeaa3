"""Attention weights: by hand, causal, of nothing but the sentence; and `aiayn attend`."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import tiny_config

from aiayn.checkpoint import ModelFile, build_model, save_model
from aiayn.data.inputs import Treebank
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.errors import UsageError
from aiayn.generation.attention_maps import (
    KINDS,
    MEAN,
    START,
    compute_attention,
    make_pair,
)
from aiayn.generation.search import BeamSearch
from aiayn.generation.translator import Translator
from aiayn.model.attention import MultiHeadAttention
from aiayn.special_ids import EOS

SOURCE, TARGET = "ba be bi", "ab eb"


def fresh(data, *settings):
    """A model with random weights; two layers, three heads, d_k other than d_v."""
    torch.manual_seed(5)
    config = tiny_config(
        "model.layers=2", "model.heads=3", "model.d_k=8", "model.d_v=4", *settings
    )
    return ModelFile(
        config=config, codec=data.codec, weights=build_model(config, data.codec).state_dict()
    )


@pytest.fixture(scope="module")
def file(data):
    return fresh(data)


@pytest.fixture(scope="module")
def ids(data):
    return data.codec.encode_source(SOURCE), data.codec.encode_target(TARGET)


@pytest.fixture(scope="module")
def attention(file, ids):
    return compute_attention(file.build(), file.codec, *ids)


@pytest.fixture(scope="module")
def path(file, tmp_path_factory):
    path = tmp_path_factory.mktemp("attend") / "model.pt"
    save_model(path, file)
    return path


def test_each_kind_has_a_weight_for_layer_head_query_and_key_and_none_for_padding(
    attention, ids
):
    source, target = map(len, ids)
    lengths = {"encoder": (source, source), "decoder": (target, target)}
    lengths["cross"] = (target, source)
    for kind in KINDS:
        maps = attention.maps[kind]
        assert maps.weights_NHLM.shape == (2, 3, *lengths[kind])
        assert (len(maps.queries), len(maps.keys)) == lengths[kind]


def test_what_a_query_gives_to_its_keys_sums_to_one(attention):
    for maps in attention.maps.values():
        sums = maps.weights_NHLM.sum(axis=-1)
        np.testing.assert_allclose(sums, np.ones_like(sums), atol=1e-6)


def test_the_decoder_looks_at_what_it_has_read_and_no_further(attention):
    maps = attention.maps["decoder"]
    assert (maps.weights_NHLM == np.tril(maps.weights_NHLM)).all()
    assert maps.queries == attention.target
    assert maps.keys == [START, *attention.target[:-1]]
    assert attention.target[-1] == "</s>"


def test_the_first_layer_of_the_encoder_is_equation_1_by_hand(file, attention, ids):
    model = file.build()
    layer = model.encoder[0].self_attention
    x = model.source_embedding(torch.tensor(ids[0])) + model.source_positions(0, len(ids[0]))
    q, k = (
        linear(x).unflatten(-1, (3, 8)).transpose(0, 1) for linear in (layer.w_q, layer.w_k)
    )
    wanted = torch.softmax(q @ k.mT / math.sqrt(8), dim=-1)
    found = torch.from_numpy(attention.maps["encoder"].weights_NHLM[0])
    torch.testing.assert_close(found, wanted)


def test_the_model_is_left_as_it_was(file, ids):
    model = file.build()
    layers = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    layers[2].keep_weights = True
    compute_attention(model, file.codec, *ids)
    assert [layer.keep_weights for layer in layers] == [number == 2 for number in range(6)]
    assert all(layer.weights_BHLM is None for layer in layers)


def test_restricted_attention_is_zero_outside_its_window(data, ids):
    file = fresh(data, "model.attention_window=3")
    maps = compute_attention(file.build(), file.codec, *ids).maps
    weights = maps["encoder"].weights_NHLM
    far = abs(np.subtract.outer(*2 * [np.arange(weights.shape[-1])])) > 1
    assert (weights[..., far] == 0).all()
    assert (weights[..., ~far] > 0).all()
    assert (maps["cross"].weights_NHLM > 0).all()


def test_a_selection_keeps_the_numbers_and_the_names_together(attention):
    some = attention.select(kinds=["cross"], layers=["2"], heads=["3", "1"])
    assert (list(some.maps), some.layers, some.heads) == (["cross"], [2], [1, 3])
    wanted = attention.maps["cross"].weights_NHLM[1:, [0, 2]]
    assert (some.maps["cross"].weights_NHLM == wanted).all()
    assert attention.select(heads=["all"]).heads == [1, 2, 3]


def test_a_layer_that_one_side_lacks_is_shown_of_the_other(data, ids):
    file = fresh(data, "model.decoder_layers=1")
    attention = compute_attention(file.build(), file.codec, *ids)
    assert {kind: maps.layers for kind, maps in attention.maps.items()} == {
        "encoder": [1, 2],
        "decoder": [1],
        "cross": [1],
    }
    assert list(attention.select(layers=["2"]).maps) == ["encoder"]
    assert attention.last_layers().maps["encoder"].layers == [2]
    with pytest.raises(UsageError, match="no layer '2'"):
        attention.select(kinds=["cross"], layers=["2"])


def test_the_mean_stands_for_all_heads(attention):
    mean = attention.select(heads=[MEAN])
    assert mean.heads == [MEAN]
    wanted = attention.maps["decoder"].weights_NHLM.mean(axis=1)
    np.testing.assert_allclose(mean.maps["decoder"].weights_NHLM[:, 0], wanted, rtol=1e-6)


def test_without_a_target_the_pair_is_what_the_search_found(file):
    model, codec = file.build(), file.codec
    translator = Translator([model], codec, BeamSearch(), 3)
    (wanted,) = translator.translate([SOURCE])
    pair = make_pair(model, codec, translator.translate, SOURCE, None)
    assert (pair.translation, pair.score) == (wanted.text, wanted.outputs[0].score)
    assert codec.decode_target(pair.target) == wanted.text
    assert (pair.target[-1] == EOS) == wanted.outputs[0].finished


def test_the_numbers_come_as_json(path, attention, aiayn):
    code, out, _ = aiayn("attend", path, SOURCE, TARGET, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["model"] == str(path)
    assert (found["source"], found["target"]) == (attention.source, attention.target)
    assert (found["layers"], found["heads"]) == ([1, 2], [1, 2, 3])
    assert list(found["attention"]) == list(KINDS)
    assert found["tokens"]["decoder"]["keys"][0] == START
    for kind, weights in found["attention"].items():
        np.testing.assert_allclose(weights, attention.maps[kind].weights_NHLM, atol=1e-6)


def test_json_holds_what_was_asked_for(path, attention, aiayn):
    line = ("--kind", "cross", "--layer", "2", "--head", "1,3", "--json")
    found = json.loads(aiayn("attend", path, SOURCE, TARGET, *line)[1])
    assert (found["layers"], found["heads"]) == ([2], [1, 3])
    wanted = attention.maps["cross"].weights_NHLM[1:, [0, 2]]
    np.testing.assert_allclose(found["attention"]["cross"], wanted, atol=1e-6)


def test_without_a_target_the_translation_is_printed(path, aiayn):
    code, out, err = aiayn("attend", path, SOURCE, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["score"] < 0
    assert f"(score {found['score']:.4f})" in err


def test_the_sentence_can_come_by_a_pipe(path, aiayn):
    given = json.loads(aiayn("attend", path, SOURCE, TARGET, "--json")[1])
    line = ("attend", path, "-", TARGET, "--json")
    assert json.loads(aiayn(*line, stdin=SOURCE.encode() + b"\n")[1]) == given


def test_the_terminal_shows_the_mean_over_heads_of_the_last_layer(path, attention, aiayn):
    code, out, _ = aiayn("attend", path, SOURCE, TARGET)
    title, head, *rows = out.split("\n")
    assert code == 0
    assert title.startswith("cross attention, layer 2, mean")
    assert head.split() == ["ba", "be", "bi", "</s>"]
    first = attention.maps["cross"].weights_NHLM[1].mean(axis=0)[0]
    shown = [int(part) for part in rows[0].split() if part.isdigit()]
    assert shown == [round(100 * float(weight)) for weight in first]
    assert [row.split()[0] for row in rows if row] == ["ab", "eb", "</s>"]


def test_one_word_can_be_picked_out(path, aiayn):
    out = aiayn("attend", path, SOURCE, TARGET, "--kind", "encoder", "--token", "be")[1]
    rows = out.rstrip("\n").split("\n")[2:]
    assert [row.split()[0] for row in rows] == ["be"]


def test_a_page_and_a_figure_take_the_place_of_the_map(path, aiayn, tmp_path):
    page, figure = tmp_path / "page.html", tmp_path / "figure.svg"
    code, out, err = aiayn("attend", path, SOURCE, TARGET, "--html", page, "--svg", figure)
    assert (code, out) == (0, "")
    assert page.read_text().startswith("<!doctype html>")
    assert figure.read_text().startswith("<svg")
    assert f"wrote {page}" in err
    assert f"drew {figure}" in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--layer", "3"], "choose from 1, 2 or all"),
        (["--layer", "0"], "there is no layer '0'"),
        (["--head", "4"], "choose from 1, 2, 3 or all"),
        (["--kind", "self"], "choose from encoder, decoder, cross or all"),
        (["--token", "gu"], "choose from </s> ab eb, or another --kind"),
        (["--html", "no/page.html"], "no does not exist"),
        (["--svg", "."], ". is a directory"),
        (["--device", "tpu"], "tpu"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_not_there_is_refused_with_what_there_is(path, aiayn, line, message):
    code, out, err = aiayn("attend", path, SOURCE, TARGET, *line)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("line", [("--layer", "3"), ("--head", "4"), ("--kind", "self")])
def test_what_the_model_does_not_have_is_refused_of_its_own_translation(path, aiayn, line):
    code, out, err = aiayn("attend", path, SOURCE, *line)
    assert (code, out) == (2, "")
    assert f"there is no {line[0][2:]} {line[1]!r} in this model" in err


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (["  "], "the source is empty"),
        (["ba", ""], "the target is empty"),
        (["ba " * 1024], "the source has 1,025 subwords, and at most 1,024"),
        (["ba", "ab " * 1024], "the target has 1,025 subwords"),
    ],
    ids=["blank source", "empty target", "long source", "long target"],
)
def test_a_sentence_that_cannot_be_shown_is_refused(path, aiayn, sentences, message):
    code, out, err = aiayn("attend", path, *sentences)
    assert (code, out) == (2, "")
    assert message in err


def test_a_model_of_few_positions_refuses_more(data, aiayn, tmp_path):
    file = fresh(data, "model.positions=learned", "model.max_positions=4")
    save_model(tmp_path / "model.pt", file)
    assert "at most 4" in aiayn("attend", tmp_path / "model.pt", "ba be bi bo")[2]
    assert aiayn("attend", tmp_path / "model.pt", "ba be bi", "--json")[0] == 0


def test_weights_that_are_not_numbers_are_reported(file, aiayn, tmp_path):
    broken = {name: torch.full_like(weight, math.nan) for name, weight in file.weights.items()}
    save_model(tmp_path / "model.pt", replace(file, weights=broken))
    code, _, err = aiayn("attend", tmp_path / "model.pt", SOURCE, TARGET)
    assert code == 3
    assert "not numbers" in err


def test_a_sentence_that_is_not_utf_8_or_holds_no_known_letter_is_shown(path, aiayn):
    code, out, _ = aiayn("attend", path, "ba \udcff \u4f60", TARGET)
    assert code == 0
    assert "\u4f60\u00b2" in out


def test_a_long_source_is_shown_whole(path, aiayn):
    found = json.loads(aiayn("attend", path, "ba " * 300, "--json", "--head", "mean")[1])
    assert np.shape(found["attention"]["encoder"]) == (2, 1, 301, 301)
    assert len(found["target"]) > 1


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    """A parser with random weights."""
    folder = tmp_path_factory.mktemp("trees")
    trees = [f"(S (NP (NN {word}a)) (VP (VB {word}e)))\n" for word in "bdgk"]
    (folder / "train.mrg").write_text("".join(trees))
    settings = Settings(task="parsing", vocab_size=280, shared=False)
    data = preprocess(
        {"train": [Treebank(folder / "train.mrg")]}, folder / "data", settings=settings
    )
    save_model(folder / "model.pt", fresh(data))
    return folder / "model.pt"


@pytest.mark.parametrize(
    "target", ["(S (NP (NN ba)) (VP (VB be)))", "S NP NN /NP VP VB /VP /S"]
)
def test_the_target_of_a_parser_is_a_tree_or_its_symbols(parser, aiayn, target):
    code, out, _ = aiayn("attend", parser, "ba be", target, "--json")
    assert code == 0
    shown = [piece.lstrip("\u2581") for piece in json.loads(out)["target"]]
    assert shown == ["S", "NP", "NN", "/NP", "VP", "VB", "/VP", "/S", "</s>"]


def test_a_parser_makes_its_own_tree(parser, aiayn):
    code, out, err = aiayn("attend", parser, "ba be")
    assert code == 0
    assert "translation: (TOP" in err
    assert out.startswith("cross attention, layer 2")


def test_a_file_is_not_taken_for_a_sentence(trained, aiayn, tmp_path):
    (tmp_path / "t.en").write_text("ba be\n")
    code, out, err = aiayn("attend", trained, tmp_path / "t.en")
    assert (code, out) == (2, "")
    assert "t.en is a file, and a sentence is expected" in err
