"""Models in CTranslate2: the same probabilities, the same translations, or a clear refusal."""

import math
import shutil
import sys
from dataclasses import replace

import pytest
import torch
from random_models import pairs, python_in, random_model
from toy import sentences

from aiayn.checkpoint import load_model
from aiayn.config_file import apply_overrides
from aiayn.errors import OutsideBand, UsageError
from aiayn.export.verify import Verification, verify
from aiayn.generation.alignment import attention_weights

pytest.importorskip("ctranslate2")

import ctranslate2

from aiayn.export.ctranslate2 import CTranslate2Model, write

VARIANTS = {
    "as in the paper": {},
    "sines in one half": {"positions": "halves"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "two vocabularies": {"shared": False},
    "untied": {"tie": "none"},
    "output tied to the target": {"tie": "target"},
    "no attention bias": {"attention_bias": False},
    "narrow keys": {"d_k": 8},
    "narrow values": {"d_v": 6},
    "heads wider than d_model": {"d_k": 24, "d_v": 40},
    "three heads": {"heads": 3, "d_k": 5, "d_v": 5},
    "swish": {"activation": "swish"},
    "output bias": {"output_bias": True},
    "another epsilon": {"norm_epsilon": 0.1},
    "3 + 1 layers": {"layers": 3, "decoder_layers": 1},
    "words": {"codec": {"subword": "word"}},
    "a parser": {"shared": False, "codec": {"subword": "char", "task": "parsing"}},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_gives_the_same_probabilities(variant, tmp_path):
    file = random_model(**variant)
    write(file, tmp_path)
    assert verify(file, pairs(file), CTranslate2Model(tmp_path, file.codec)).difference < 1e-5


@pytest.mark.parametrize(("layers", "guided"), [(1, 0), (3, 0), (3, 0.1)])
def test_the_attention_that_it_returns_is_what_our_alignments_look_at(layers, guided, tmp_path):
    file = random_model(layers=2, decoder_layers=layers)
    file = replace(file, config=apply_overrides(file.config, [f"optim.guided={guided}"]))
    write(file, tmp_path)
    line, codec, model = sentences(1, seed=4)[0], file.codec, file.build()
    translator = ctranslate2.Translator(str(tmp_path))
    source = codec.encode_source(line)
    (found,) = translator.translate_batch(
        [codec.source.pieces(source[:-1])],
        beam_size=1,
        max_decoding_length=6,
        return_attention=True,
        disable_unk=False,
    )
    ids = {piece: i for i, piece in enumerate(codec.target.pieces(range(len(codec.target))))}
    target = [ids[piece] for piece in found.hypotheses[0]]
    layer = model.decoder[max(layers - 2, 0)].cross_attention
    both = torch.tensor([source]), torch.tensor([target])
    (weights_BHTS,) = attention_weights(model, [layer], *both)
    # It leaves out what looks at the EOS that it has added itself.
    ours_TS = weights_BHTS[0, : 1 if guided else 2].mean(dim=0)[:, :-1]
    torch.testing.assert_close(torch.tensor(found.attention[0]), ours_TS, rtol=0, atol=1e-5)


def test_an_attention_window_is_refused_and_named(tmp_path):
    with pytest.raises(UsageError, match=r"model\.attention_window"):
        write(random_model(attention_window=5), tmp_path)


def test_another_model_is_not_taken_for_the_same(tmp_path):
    write(random_model(), tmp_path)
    other = random_model(activation="swish")
    with pytest.raises(OutsideBand):
        verify(other, pairs(other), CTranslate2Model(tmp_path, other.codec)).check()


@pytest.mark.parametrize("difference", [0.01, math.inf, math.nan])
def test_a_difference_beyond_rounding_ends_with_6(difference):
    with pytest.raises(OutsideBand) as caught:
        Verification(20, 20, difference).check()
    assert caught.value.exit_code == 6


class NotANumber:
    """An engine that fails at the second of its lines."""

    def translate(self, lines, limits):
        return lines

    def log_p(self, lines, targets):
        right = [[0.0] * (len(target) + 1) for target in targets]
        right[1][0] = math.nan
        return right


def test_what_is_no_number_is_the_largest_difference():
    file = random_model()
    found = verify(file, pairs(file), NotANumber())
    assert (found.worst, math.isnan(found.difference)) == (pairs(file)[1].line, True)


def test_rounding_is_no_difference():
    Verification(lines=20, identical=19, difference=1e-5).check()


@pytest.mark.parametrize(
    "codec",
    [
        {},
        {"lowercase": True},
        {"case_markup": True},
        {"pretokenize": "moses", "source_language": "en", "target_language": "de"},
        {"subword": "word"},
    ],
    ids=["plain", "lower case", "capitals", "moses", "words"],
)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
def test_the_python_of_the_readme_translates(shared, codec, tmp_path, monkeypatch, capsys):
    file = random_model(shared=shared, codec=codec)
    write(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    (sentence,) = sentences(1, seed=3)
    sentence = sentence.upper() if codec.get("case_markup") else sentence
    exec(python_in((tmp_path / "README.md").read_text(encoding="utf-8"), sentence), {})
    expected = CTranslate2Model(tmp_path, file.codec).translate([sentence], [256])
    assert capsys.readouterr().out.splitlines() == expected


def test_a_run_is_exported_and_verified_on_its_validation_text(trained, tmp_path, aiayn):
    code, out, err = aiayn("export", trained, "--to", "ctranslate2", "-o", tmp_path / "served")
    assert (code, out) == (0, "")
    assert "12 of 12 translations are identical" in err
    assert (tmp_path / "served" / "vocab" / "shared.model").is_file()


def test_eight_bits_take_less_room_and_still_translate(trained, tmp_path, aiayn):
    sizes = []
    for options in ([], ["--int8"]):
        folder = tmp_path / f"served{len(sizes)}"
        line = ("export", trained, "--to", "ctranslate2", "-o", folder, *options)
        code, _, err = aiayn(*line)
        assert code == 0
        assert "translations are identical" in err
        sizes.append((folder / "model.bin").stat().st_size)
    assert sizes[1] < sizes[0]


def test_lines_to_verify_on_can_be_named(trained, tmp_path, aiayn):
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in ["", *sentences(9, seed=8)]))
    options = ("--verify", 5, "--verify-text", text)
    line = ("export", trained, "--to", "ctranslate2", "-o", tmp_path / "served", *options)
    assert "5 of 5 translations are identical" in aiayn(*line)[2]


def test_a_model_whose_data_is_not_known_is_exported_with_a_warning(trained, tmp_path, aiayn):
    shutil.copy(trained / "average.pt", tmp_path / "model.pt")
    line = ("export", tmp_path / "model.pt", "--to", "ctranslate2", "-o", tmp_path / "served")
    code, _, err = aiayn(*line)
    assert code == 0
    assert "not verified" in err
    assert load_model(tmp_path / "model.pt").codec.source


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--verify", "5"], "the model's data is not known"),
        (["--verify-text", "empty"], "empty has no fitting line"),
    ],
    ids=["number", "text"],
)
def test_without_text_a_verification_that_was_asked_for_is_refused_before_writing(
    trained, tmp_path, aiayn, monkeypatch, options, reason
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(trained / "average.pt", "model.pt")
    (tmp_path / "empty").touch()
    code, _, err = aiayn("export", "model.pt", "--to", "ctranslate2", "-o", "served", *options)
    assert code == 2
    assert f"nothing to verify on: {reason}" in err
    assert "--verify-text FILE, or pass --verify 0" in err
    assert not (tmp_path / "served").exists()


def test_an_export_is_replaced_only_if_asked(trained, tmp_path, aiayn):
    line = ("export", trained, "--to", "ctranslate2", "-o", tmp_path / "out", "--verify", 0)
    assert aiayn(*line)[0] == 0
    (tmp_path / "out" / "old").touch()
    code, _, err = aiayn(*line)
    assert (code, "--force" in err) == (2, True)
    assert aiayn(*line, "--force")[0] == 0
    assert not (tmp_path / "out" / "old").exists()


def test_a_folder_with_something_else_is_never_replaced(trained, tmp_path, aiayn):
    (tmp_path / "thesis.tex").write_text("years of work")
    line = ("export", trained, "--to", "ctranslate2", "-o", tmp_path, "--force")
    assert aiayn(*line)[0] == 2
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_without_the_package_the_error_says_what_to_install(
    trained, tmp_path, aiayn, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.delitem(sys.modules, "aiayn.export.ctranslate2")
    monkeypatch.delattr("aiayn.export.ctranslate2")
    line = ("export", trained, "--to", "ctranslate2", "-o", tmp_path / "served")
    code, _, err = aiayn(*line)
    assert code == 2
    assert "ctranslate2 is not installed" in err
    assert "pip install 'aiayn[export]'" in err
