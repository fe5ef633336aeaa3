"""`import aiayn`: what the commands do, from Python, with the same results."""

import ast
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
import torch
from random_models import random_model
from toy import sentences, translation

import aiayn
from aiayn.errors import UsageError

LINES = [*sentences(20, seed=71), "", "  ba  be ", "ba " * 300]
README = Path(__file__).parent.parent / "README.md"


@pytest.fixture(scope="module")
def model(trained):
    return aiayn.load(trained, device="cpu")


def as_input(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def test_importing_the_package_loads_neither_torch_nor_numpy():
    code = "import aiayn, sys; print({'torch', 'numpy', 'typer'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.stdout == b"set()\n"


def test_the_library_exports_these_names():
    assert " ".join(aiayn.__all__) == (
        "PRESETS AddAndNorm AiaynError Attention BeamSearch Config DataError DecodeConfig"
        " DecoderLayer EncoderLayer FeedForward Model ModelConfig MultiHeadAttention Output"
        " Sampling ScoredTarget Transformer Translation UsageError __version__ attention load"
        " preset sinusoids"
    )


@pytest.mark.parametrize("name", aiayn.__all__)
def test_an_exported_name_can_be_used(name):
    assert getattr(aiayn, name) is not None
    assert name in dir(aiayn)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = aiayn.no_such_name


def test_types_are_declared_for_every_name_that_is_loaded_late():
    tree = ast.parse(Path(aiayn.__file__).read_text())
    declared = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("aiayn")
        for alias in node.names
    }
    assert declared == set(aiayn.__all__) - {"__version__"}
    assert (Path(aiayn.__file__).parent / "py.typed").exists()


def test_translations_are_those_of_generate(model, trained, aiayn):
    _, out, _ = aiayn("generate", trained, stdin=as_input(LINES))
    assert model.translate(LINES) == out.split("\n")[:-1]


def test_n_best_lists_and_alignments_are_those_of_generate(model, trained, aiayn):
    options = ("--nbest", 6, "--align", "--format", "tsv")
    _, out, _ = aiayn("generate", trained, *options, stdin=as_input(LINES[:5]))
    found = [
        f"{line}\t{rank}\t{output.score:.6f}\t{output.text}\t"
        + " ".join(f"{x}-{y}" for x, y in output.alignment)
        for line, one in enumerate(model.translate(LINES[:5], nbest=6, alignments=True), 1)
        for rank, output in enumerate(one.outputs, 1)
    ]
    assert found == out.split("\n")[:-1]


def test_samples_are_those_of_generate(model, trained, aiayn):
    _, out, _ = aiayn("generate", trained, "--sample", "--seed", 5, stdin=as_input(LINES[:5]))
    found = model.translate(LINES[:5], search=sampling(seed=5))
    assert [one.text for one in found] == out.split("\n")[:-1]


def sampling(seed):
    return aiayn.Sampling(seed=seed)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_compiled_translations_are_those_of_generate(
    model, trained, aiayn, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = load(trained, compile=True)
    lines = sentences(6, seed=5)
    _, wanted, _ = aiayn(
        "generate",
        trained,
        "--compile",
        "--nbest",
        2,
        "--align",
        stdin=as_input(lines),
    )
    found = compiled.translate(lines, nbest=2, alignments=True)
    rows = [
        f"{output.text}\t{' '.join(f'{s}-{t}' for s, t in output.alignment)}"
        for translation in found
        for output in translation.outputs
    ]
    assert rows == wanted.splitlines()
    pair = ([lines[0]], [found[0].text])
    assert compiled.score(*pair) == model.score(*pair)


def test_a_prefix_begins_the_translation(model):
    (found,) = model.translate(["ba be"], prefixes=["ug"])
    assert found.startswith("ug")


def test_scores_are_those_of_score(model, trained, aiayn, tmp_path):
    lines, targets = LINES[:8], list(map(translation, LINES[:8]))
    for name, texts in (("source", lines), ("target", targets)):
        (tmp_path / name).write_bytes(as_input(texts))
    _, out, _ = aiayn("score", "--model", trained, tmp_path / "source", tmp_path / "target")
    assert [f"{one.total:.4f}" for one in model.score(lines, targets)] == out.split()


@pytest.mark.parametrize("target", [(), ("ab eb",)])
def test_attention_is_the_page_of_attend(model, trained, aiayn, tmp_path, target):
    code, _, _ = aiayn("attend", trained, "ba be", *target, "--html", tmp_path / "page")
    assert code == 0
    assert model.attention("ba be", *target).html == (tmp_path / "page").read_text()


def test_a_notebook_shows_the_attention_page_in_a_frame_of_its_own(model):
    attention = model.attention("ba be")
    frame = re.fullmatch('<iframe title="ba be" srcdoc="([^"]*)" .*></iframe>', html(attention))
    assert unescape(frame[1]) == attention.html


def html(shown):
    return shown._repr_html_()


def test_an_ensemble_translates_as_generate_does_and_has_no_attention(trained, aiayn):
    files = trained / "average.pt", trained / "last.pt"
    ensemble = load(*files)
    _, out, _ = aiayn("generate", *files, stdin=as_input(LINES[:4]))
    assert ensemble.translate(LINES[:4]) == out.split("\n")[:-1]
    with pytest.raises(UsageError, match="ensemble"):
        ensemble.attention("ba")


def load(*models, **settings):
    return aiayn.load(*models, device="cpu", **settings)


def test_several_processes_give_the_same(trained):
    lines = sentences(80, seed=72)
    alone, together = (aiayn.load(trained, device="cpu", processes=n) for n in (1, 2))
    assert alone.translate(lines) == together.translate(lines)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda model: model.translate("ba be"), "list of texts"),
        (lambda model: model.translate(["ba", 1]), "list of texts"),
        (lambda model: model.translate(["ba"], prefixes=[]), "0 prefixes"),
        (lambda model: model.translate(["ba"], beam=2, nbest=3), "beam of 2"),
        (lambda model: model.translate(["ba"], alpha=-1), "length penalty"),
        (lambda model: model.translate(["ba"], beam=2, search=sampling(1)), "belong to"),
        (lambda model: model.score(["ba"], []), "1 sources and 0 targets"),
        (lambda model: model.attention(""), "empty"),
        (lambda model: aiayn.load(), "no model"),
        (lambda model: aiayn.load("not there"), "does not exist"),
        (lambda model: aiayn.load("run", device="cuda", compile=True), "for the CPU"),
    ],
)
def test_a_mistake_is_named(model, mistake, words):
    with pytest.raises(UsageError, match=words):
        mistake(model)


def test_a_model_describes_itself(model):
    assert re.fullmatch(
        r"<aiayn.Model: languages not named, 1 \+ 1 layers, d_model 32, \d+ subwords>",
        str(model),
    )


def test_a_model_whose_decoder_is_small_says_so():
    student = aiayn.Model([random_model(layers=2, decoder_layers=1)], [], torch.device("cpu"))
    assert ", 2 + 1 layers, d_model " in str(student)


def test_the_parts_of_the_paper_are_at_hand():
    network = aiayn.Transformer(aiayn.preset("tiny").model, 50)
    assert isinstance(network.encoder[0].self_attention, aiayn.MultiHeadAttention)
    q, k, v = torch.randn(3, 1, 1, 4, 8)
    mixed, weights = aiayn.attention(q[None], k[None], v[None], torch.ones(4, 4, dtype=bool))
    torch.testing.assert_close(mixed, weights @ v)


def test_every_python_example_of_the_readme_runs(trained, tmp_path, monkeypatch):
    (tmp_path / "run").symlink_to(trained)
    monkeypatch.chdir(tmp_path)
    examples = re.findall("```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert examples
    for example in examples:
        exec(example, {})
