"""Models as a MarianMTModel of transformers: equal logits, equal ids, or a clear refusal."""

import json
import math
import os

import pytest
import torch
from random_models import pairs, python_in, random_model
from toy import sentences

from aiayn.errors import UsageError
from aiayn.export import marian_mt_model
from aiayn.export.verify import verify
from aiayn.special_ids import PAD

os.environ["HF_HUB_OFFLINE"] = "1"
pytest.importorskip("transformers")

from transformers import MarianMTModel, MarianTokenizer

from aiayn.export.huggingface import MarianModel, write

VARIANTS = {
    "as in the paper": {},
    "two vocabularies": {"shared": False},
    "two vocabularies, untied": {"shared": False, "tie": "none"},
    "untied": {"tie": "none"},
    "output tied to the target": {"tie": "target"},
    "no attention bias": {"attention_bias": False},
    "swish": {"activation": "swish"},
    "output bias": {"output_bias": True},
    "their epsilon": {"norm_epsilon": 1e-5},
    "one head, one layer": {"heads": 1, "d_k": 32, "d_v": 32, "layers": 1},
    "3 + 1 layers": {"layers": 3, "decoder_layers": 1},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_logits_are_equal(variant, tmp_path):
    file = random_model(**variant)
    write(file, tmp_path)
    source, target = torch.tensor([[7, 5, 280, 9, 1]]), torch.tensor([[4, 270, 2, 11, 5]])
    theirs = MarianMTModel.from_pretrained(tmp_path).eval()
    start = torch.tensor([[PAD, *target[0, :-1]]])
    with torch.inference_mode():
        ours = file.build()(source, target)
        found = theirs(input_ids=source, decoder_input_ids=start).logits
    torch.testing.assert_close(found[..., 1:], ours[..., 1:], rtol=0, atol=1e-4)
    assert found[..., PAD].max() < -1000


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_no_weight_is_missing_or_left_over(variant, tmp_path):
    write(random_model(**variant), tmp_path)
    _, told = MarianMTModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told.values())


def test_padding_on_either_side_changes_nothing(tmp_path):
    file = random_model()
    write(file, tmp_path)
    engine, many = MarianModel(tmp_path, file.codec), sentences(5, seed=2)
    together = engine.translate(many, [9] * 5)
    assert together == [engine.translate([line], [9])[0] for line in many]
    assert verify(file, pairs(file), engine).difference < 1e-4


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
def test_the_tokenizer_gives_our_ids_and_our_text(shared, kind, tmp_path):
    codec = (file := random_model(shared=shared, codec={"subword": kind})).codec
    write(file, tmp_path)
    tokenizer = MarianTokenizer.from_pretrained(tmp_path)
    for text in [*sentences(5, seed=4), "na\u00efve \u4e2d\u6587 >> x", "two  spaces, 1/2!"]:
        assert tokenizer(text)["input_ids"] == codec.encode_source(text)
        target = codec.encode_target(text)
        assert tokenizer(text_target=text)["input_ids"] == target
        assert tokenizer.decode(target, skip_special_tokens=True) == codec.decode_target(target)


@pytest.mark.parametrize(
    ("variant", "named"),
    [
        ({"positions": "halves"}, r"model\.positions is halves"),
        ({"positions": "learned"}, r"model\.positions is learned"),
        ({"attention_window": 5}, r"model\.attention_window is 5"),
        ({"norm_epsilon": 0.0}, r"model\.norm_epsilon is 0"),
        ({"d_k": 8}, r"model\.d_k is 8, and d_model / heads = 16"),
        ({"d_v": 8}, r"model\.d_v is 8"),
        ({"codec": {"subword": "word"}}, "whole words"),
    ],
)
def test_what_marian_cannot_be_is_refused_and_named(variant, named, tmp_path):
    with pytest.raises(UsageError, match=named):
        write(random_model(**variant), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_larger_weights_compensate_for_a_larger_epsilon():
    file = random_model(norm_epsilon=1e-4)
    model, changed = file.build(), file.build()
    marian_mt_model.scale_norms(changed, 10.0)
    assert math.isclose(changed.decoder[0].add_1.norm.eps, 1e-2)
    ids = torch.tensor([[7, 5, 280, 9, 1]])
    # The first norm of each stack cannot be made up for.
    for stack in (changed.encoder, changed.decoder):
        stack[0].add_1.norm.eps = 1e-4
    torch.testing.assert_close(changed(ids, ids), model(ids, ids), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "codec",
    [
        {"lowercase": True},
        {"case_markup": True},
        {"pretokenize": "moses", "source_language": "en", "target_language": "de"},
    ],
    ids=["lower case", "capitals", "moses"],
)
def test_the_python_of_the_readme_translates(codec, tmp_path, monkeypatch, capsys):
    file = random_model(codec=codec)
    write(file, tmp_path)
    settings = json.loads((tmp_path / "generation_config.json").read_text())
    (tmp_path / "generation_config.json").write_text(json.dumps({**settings, "max_length": 9}))
    monkeypatch.chdir(tmp_path)
    (sentence,) = sentences(1, seed=3)
    sentence = sentence.upper() if codec.get("case_markup") else sentence
    exec(python_in((tmp_path / "README.md").read_text(encoding="utf-8"), sentence), {})
    expected = MarianModel(tmp_path, file.codec).translate([sentence], [8])
    assert capsys.readouterr().out.splitlines() == expected


def test_a_run_is_exported_and_verified_on_its_validation_text(trained, tmp_path, aiayn):
    code, out, err = aiayn("export", trained, "--to", "huggingface", "-o", tmp_path / "marian")
    assert (code, out) == (0, "")
    assert "12 of 12 translations are identical" in err


def test_eight_bits_are_for_ctranslate2(trained, tmp_path, aiayn):
    line = ("export", trained, "--to", "huggingface", "--int8", "-o", tmp_path / "marian")
    code, _, err = aiayn(*line)
    assert (code, "ctranslate2 only" in err) == (2, True)
