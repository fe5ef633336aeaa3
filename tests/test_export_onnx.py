"""Models in ONNX: onnxruntime gives our probabilities, at every length."""

import pytest
from random_models import pairs, python_in, random_model

from aiayn.errors import UsageError
from aiayn.export.verify import verify

pytest.importorskip("onnxruntime", reason="pip install 'aiayn[onnx]'")
pytest.importorskip("onnxscript", reason="pip install 'aiayn[onnx]'")

from aiayn.export.onnx import OnnxModel, write


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {
            "shared": False,
            "positions": "learned",
            "max_positions": 64,
            "activation": "swish",
            "decoder_layers": 2,
        },
    ],
    ids=["as in the paper", "two vocabularies, learned positions, swish, 1 + 2"],
)
def test_probabilities_and_translations_are_equal(variant, tmp_path, monkeypatch, capsys):
    file = random_model(layers=1, **variant)
    write(file, tmp_path)
    engine = OnnxModel(tmp_path, file.codec)
    assert verify(file, pairs(file), engine).difference < 1e-4
    monkeypatch.chdir(tmp_path)
    sentence = pairs(file)[0].line
    exec(python_in((tmp_path / "README.md").read_text(encoding="utf-8"), sentence), {})
    limit = len(file.codec.encode_source(sentence)) + 49
    assert capsys.readouterr().out.rstrip("\n") == engine.translate([sentence], [limit])[0]


def test_an_attention_window_is_refused_and_named(tmp_path):
    with pytest.raises(UsageError, match=r"model\.attention_window"):
        write(random_model(attention_window=5), tmp_path)
