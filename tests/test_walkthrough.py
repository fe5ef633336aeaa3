"""The Transformer in one file, for readers: recipes/walkthrough."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from toy import sentences

from aiayn.checkpoint import ModelFile, load_model, save_model
from aiayn.config import Config, ModelConfig
from aiayn.data.folder import DataFolder
from aiayn.model.transformer import Transformer, shift_right

FOLDER = Path(__file__).parents[1] / "recipes/walkthrough"
SECONDS = 300
SMALL = ModelConfig(layers=2, d_model=16, d_ff=24, heads=2, d_k=4, d_v=6, dropout=0.0)


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The file, as a module."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import transformer

    return transformer


def walk(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(FOLDER / "walk.py"), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def model_file(data: DataFolder, model: ModelConfig) -> ModelFile:
    torch.manual_seed(1)
    network = Transformer(model, len(data.codec.source))
    return ModelFile(config=Config(model=model), codec=data.codec, weights=network.state_dict())


def test_the_whole_transformer_fits_in_150_lines() -> None:
    assert len((FOLDER / "transformer.py").read_text().splitlines()) <= 150


def test_the_code_that_the_readme_explains_is_that_of_the_file() -> None:
    def unindented(text: str) -> str:
        return "".join(f"{line.strip()}\n" for line in text.splitlines())

    code = unindented((FOLDER / "transformer.py").read_text())
    blocks = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 9
    for block in blocks:
        assert unindented(block) in code


@pytest.mark.parametrize("bias", [True, False])
def test_it_computes_what_the_toolkit_computes(
    bias: bool, paper: ModuleType, data: DataFolder
) -> None:
    file = model_file(data, replace(SMALL, attention_bias=bias))
    source_BS = torch.tensor([[5, 6, 7, 1], [8, 1, 0, 0]])
    target_BT = torch.tensor([[9, 4, 1], [3, 1, 0]])
    expected_BTW = file.build()(source_BS, target_BT)
    found_BTW = paper.load(file)(source_BS, shift_right(target_BT))
    torch.testing.assert_close(found_BTW, expected_BTW, rtol=1e-5, atol=1e-5)


def test_it_translates_as_greedy_search_does(
    trained: Path, aiayn: Callable[..., tuple[int, str, str]]
) -> None:
    text = "".join(f"{line}\n" for line in ["", *sentences(40, seed=7)])
    model = trained / "average.pt"
    code, expected, _ = aiayn("generate", model, "--greedy", stdin=text.encode())
    assert code == 0
    assert walk(model, stdin=text).stdout == expected


def test_the_steps_show_each_word_with_its_probability(trained: Path) -> None:
    model = trained / "average.pt"
    printed = walk(model, "ba ko di", "--steps").stdout
    pieces = load_model(model).codec.target
    rows = re.findall(r"^\| \d+ \| (\S+) (\d\.\d{3}),", printed, re.MULTILINE)
    chosen = [name for name, _ in rows]
    ids = load_model(model).codec.encode_target(printed.splitlines()[-1])
    assert chosen == pieces.pieces(ids)
    assert all(0.3 < float(probability) <= 1 for _, probability in rows)


@pytest.mark.parametrize(
    "change", [{"positions": "learned"}, {"tie": "none"}, {"activation": "swish"}]
)
def test_another_kind_of_model_is_refused(
    change: dict[str, Any], data: DataFolder, tmp_path: Path
) -> None:
    save_model(tmp_path / "model.pt", model_file(data, replace(SMALL, **change)))
    ended = walk(tmp_path / "model.pt", "ba")
    assert ended.returncode == 2
    assert "departs from section 3" in ended.stderr and "fix: " in ended.stderr


def test_what_is_not_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("no model")
    for name, code in (("model.pt", 3), ("nowhere.pt", 2)):
        ended = walk(tmp_path / name, "ba")
        assert (ended.returncode, ended.stdout) == (code, "")
        assert ended.stderr.startswith("error: ")


def test_a_text_that_would_be_cut_is_refused(trained: Path) -> None:
    ended = walk(trained / "average.pt", "ba " * 300)
    assert ended.returncode == 2
    assert "give one sentence at a time" in ended.stderr
