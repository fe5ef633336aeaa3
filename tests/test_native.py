"""Compiled kernels: what torch computes, up to rounding, and each row by itself."""

import os
import platform
import shutil
import subprocess
import sys
from collections import deque
from ctypes import addressof
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from random_models import random_model
from torch import nn
from toy import sentences

from aiayn.checkpoint import load_model, save_model
from aiayn.commands.engines import share_cores_compiled
from aiayn.errors import DataError, UsageError
from aiayn.generation.decoder import CachedDecoder
from aiayn.generation.engine import Engine
from aiayn.generation.native_beams import NativeBeams
from aiayn.generation.native_decoder import NativeDecoder
from aiayn.generation.native_model import NativeModel, PackedModel, load_native_models
from aiayn.generation.pack_model import pack_linear, pack_model
from aiayn.generation.prepare import prepare
from aiayn.generation.search import BeamSearch, Task
from aiayn.generation.segmentation import Segment
from aiayn.generation.streaming import Line
from aiayn.generation.translator import Translator
from aiayn.kernels import native
from aiayn.kernels.native import SearchInMemory, compile_once, to_bfloat16
from aiayn.special_ids import PAD

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    (folder / "aiayn").mkdir(mode=0o700)
    return folder


PROCESSORS = ["-march=native", *["-march=haswell"] * (platform.machine() == "x86_64")]


@pytest.fixture(scope="session", params=PROCESSORS)
def kernels(request, cache):
    """Compiled for this processor, and for those without vectors of 512 bits."""
    flags = [request.param if flag == "-march=native" else flag for flag in native.FLAGS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "FLAGS", tuple(flags))
        return compile_once(cache / "aiayn")[0]


def multiply(kernels, linear, x, precision="float32", activation="none"):
    packed = pack_linear(linear, kernels.panel_width, precision)
    return torch.from_numpy(packed.multiply(kernels, x.numpy(), activation))


def layer(inputs, outputs, bias=True):
    torch.manual_seed(inputs + outputs)
    return nn.Linear(inputs, outputs, bias=bias)


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 128), (7, 5), (20, 100), (256, 64)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_equals_that_of_torch(kernels, inputs, outputs, bias):
    linear, x = layer(inputs, outputs, bias), torch.randn(3, 5, inputs)
    torch.testing.assert_close(multiply(kernels, linear, x), linear(x))
    torch.testing.assert_close(
        multiply(kernels, linear, x, activation="relu"), F.relu(linear(x))
    )


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.02), ("int8", 0.04)])
def test_a_product_in_low_precision_is_close(kernels, precision, tolerance):
    if not kernels.supports(precision):
        pytest.skip(f"this processor has no {precision}")
    linear, x = layer(64, 96), torch.randn(13, 64)
    found = multiply(kernels, linear, x, precision)
    torch.testing.assert_close(found, linear(x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_row_does_not_depend_on_those_beside_it(kernels, precision):
    if not kernels.supports(precision):
        pytest.skip(f"this processor has no {precision}")
    linear, x = layer(32, 70), torch.randn(15, 32)
    alone = torch.cat([multiply(kernels, linear, row[None], precision) for row in x])
    torch.testing.assert_close(multiply(kernels, linear, x, precision), alone, rtol=0, atol=0)


SEARCHES = {
    "as in the paper": BeamSearch(),
    "greedy": BeamSearch(beam=1),
    "all of the beam": BeamSearch(beam=3, nbest=3),
    "without a length penalty": BeamSearch(beam=4, nbest=2, alpha=0),
    "a strong length penalty": BeamSearch(beam=4, nbest=2, alpha=2),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("most", [1, 3, 30])
@torch.inference_mode()
def test_beam_search_finds_what_that_in_python_does(trained, kernels, search, most):
    file = load_model(trained / "last.pt")
    sources = [file.codec.encode_source(line) for line in sentences(12, seed=8)]
    # Short limits, so that some hypotheses do not end before them; some have a prefix.
    tasks = [Task(2 + n, tuple(range(5, 5 + n % 3))) for n in range(12)]
    work = list(enumerate(map(Segment, sources, tasks, [True] * 12)))
    found = []
    for state_of in (lambda decoder: search.start(), partial(NativeBeams, search)):
        decoder = native_decoder(file, kernels, search.beam)
        engine = Engine(state_of(decoder), decoder, 4096, most)
        found.append(dict(one for ended in engine.steps(deque(work)) for one in ended))
    for number, expected in found[0].items():
        compiled = found[1][number]
        assert [each.ids for each in compiled] == [each.ids for each in expected]
        assert [each.finished for each in compiled] == [each.finished for each in expected]
        scores = [[each.score for each in of] for of in (compiled, expected)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    finished = [each.finished for of in found[0].values() for each in of]
    assert any(finished)
    assert search.nbest < 3 or not all(finished)


def native_decoder(file, kernels, width):
    return NativeDecoder(native_model(file, kernels), width)


def native_model(file, kernels):
    packed = pack_model(file, kernels.panel_width, "float32")
    return NativeModel(packed, kernels, Path("no file"))


def test_swish_of_what_is_far_below_zero_is_zero(kernels):
    linear = layer(1, 70)
    with torch.no_grad():
        linear.weight.fill_(1.0)
        linear.bias.zero_()
    x = torch.tensor([[-300.0], [-150.0], [-90.0], [-3.0], [0.5], [200.0]])
    found = multiply(kernels, linear, x, activation="swish")
    torch.testing.assert_close(found, F.silu(linear(x)), rtol=1e-5, atol=1e-6)


def test_too_little_memory_is_an_error_that_search_can_handle(kernels):
    file = random_model()
    decoder = native_decoder(file, kernels, 1)
    decoder.reserve(1, 4, limit=4)
    lengths, ids = np.array([1 << 44]), np.array([4])
    arrays = (decoder.sentence_P, lengths, ids)
    table = decoder.source_table_SD.ctypes.data
    with pytest.raises(MemoryError):
        kernels.encode(
            addressof(decoder.network), 1, 1, *(each.ctypes.data for each in arrays), table
        )


def test_a_beam_that_no_memory_holds_is_that_error_too(kernels):
    search = SearchInMemory(1 << 61, 1 << 62, 1)
    sentence = kernels.new_sentence()
    with pytest.raises(MemoryError):
        kernels.begin_search(addressof(search), sentence, 5, None, 0)
    kernels.delete_sentence(sentence)


VARIANTS = {
    "as in the paper": {},
    "wide heads": {"d_k": 32, "d_v": 64},
    "as wide as a vector": {"d_k": 16, "d_v": 16},
    "as wide as two": {"d_k": 32, "d_v": 32},
    "as wide as four": {"d_k": 64, "d_v": 64},
    "narrow values": {"d_v": 6},
    "swish": {"activation": "swish"},
    "a window": {"attention_window": 5},
    "no attention bias": {"attention_bias": False},
    "output bias": {"output_bias": True},
    "a shallow decoder": {"decoder_layers": 1},
    "learned positions": {"positions": "learned", "max_positions": 64},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@torch.inference_mode()
def test_a_step_equals_that_of_the_cached_decoder(kernels, variant):
    file = random_model(**variant)
    sources = [file.codec.encode_source(line) for line in sentences(3, seed=8)]
    found = []
    for decoder in (CachedDecoder(prepare(file.build()), 2), native_decoder(file, kernels, 2)):
        decoder.reserve(4, max(map(len, sources)), limit=20)
        decoder.admit(sources)
        slots = np.array([[0, 0], [1, 0], [1, 1]])
        logits = [decoder(np.full((3, 2), token), slots) for token in (PAD, 9, 10, 11, 12)]
        found.append(torch.cat([each.flatten() for each in logits]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "line", [["--sample"], ["--min-length", 4], ["--beam", 20, "--nbest", 3], ["--align"]]
)
def test_rules_and_samples_are_the_same_compiled(trained, aiayn, cache, monkeypatch, line):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    text = "\n".join(sentences(5, seed=42)).encode()
    _, wanted, _ = aiayn("generate", trained, *line, stdin=text)
    assert aiayn("generate", trained, *line, "--compile", stdin=text)[1] == wanted


def test_compiled_decoding_translates_alike_and_compiles_once(
    trained, aiayn, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = "\n".join(sentences(20, seed=41)).encode()
    _, wanted, _ = aiayn("generate", trained, stdin=text)
    (code, found, first), (_, _, second) = (
        aiayn("generate", trained, "--compile", stdin=text) for _ in range(2)
    )
    assert (code, found) == (0, wanted)
    assert "compiled the network in" in first
    assert "compiled" not in second


def test_a_sentence_alone_gets_what_it_gets_among_others(kernels):
    file = random_model()
    translator = Translator([native_model(file, kernels)], file.codec)
    lines = [Line(text) for text in sentences(4, seed=9)]
    alone = [translator.translate_window([line])[0] for line in lines]
    assert alone == translator.translate_window(lines)


def test_a_prefix_changes_nothing_for_the_sentences_beside_it(kernels):
    file = random_model()
    translator = Translator([native_model(file, kernels)], file.codec)
    texts = sentences(4, seed=9)
    forced = Line(texts[0], prefix=" ".join(texts[1].split()[:2]))
    lines = [Line(text) for text in texts[1:]]
    wanted = translator.translate_window(lines)
    first, *found = translator.translate_window([forced, *lines])
    assert found == wanted
    assert first.text.startswith(forced.prefix)


@torch.inference_mode()
def test_a_sentence_that_moves_keeps_what_it_has(kernels):
    file = random_model()
    sources = [file.codec.encode_source(line) for line in sentences(3, seed=8)]
    tokens, slots = np.array([[5], [6], [7]]), np.zeros((3, 1), dtype=np.int64)
    found = []
    for kept in ([0, 1, 2], [2, 1]):
        decoder = native_decoder(file, kernels, 1)
        decoder.reserve(3, max(map(len, sources)), limit=20)
        decoder.admit(sources)
        for each in (np.full_like(tokens, PAD), tokens):
            decoder(each, slots)
        if len(kept) == 2:
            decoder.move(np.array([2]), np.array([0]), 2)
        found.append(decoder(tokens[kept], slots[kept])[kept.index(2)])
    assert torch.equal(*found)


def test_bfloat16_is_rounded_as_torch_rounds():
    x = torch.cat([torch.randn(10_000), torch.tensor([0.0, -0.0, torch.inf, torch.nan, 1e-40])])
    halfway = (x.view(torch.int32) & -65536 | 0x8000).view(torch.float32)
    x = torch.cat([x, halfway])
    found = torch.from_numpy(to_bfloat16(x.numpy()).view(np.int16)).view(torch.bfloat16)
    torch.testing.assert_close(found, x.bfloat16(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_packed_model_is_the_same_when_it_is_read_again(trained, tmp_path, precision):
    packed = pack_model(load_model(trained / "last.pt"), 16, precision)
    packed.save(tmp_path)
    found = PackedModel.load(tmp_path)
    assert found.config == packed.config
    assert found.codec.fingerprint == packed.codec.fingerprint
    assert found.linears.keys() == packed.linears.keys()
    assert found.arrays.keys() == packed.arrays.keys()
    for name, linear in packed.linears.items():
        assert found.linears[name][:3] == linear[:3]
        for array, wanted in zip(found.linears[name][3:], linear[3:], strict=True):
            np.testing.assert_array_equal(array, wanted)
            assert array.dtype == wanted.dtype
    for name, array in packed.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        assert found.arrays[name].ctypes.data % 64 == 0


def test_another_model_under_the_same_name_is_packed_anew(kernels, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "model.pt"
    found = []
    for variant in ({}, {"d_k": 32}, {}):
        save_model(path, random_model(**variant))
        (model,) = load_native_models([path], kernels, "float32")
        found.append(model.packed.config.model.d_k)
    assert found == [found[0], 32, found[0]]
    assert len(list((tmp_path / "aiayn").glob("packed-*"))) == 2


def test_all_learned_positions_are_packed(kernels):
    file = random_model(positions="learned", max_positions=2000)
    model = native_model(file, kernels)
    rows = torch.from_numpy(model.positions("source", 2000))
    assert torch.equal(rows, file.build().source_positions(0, 2000))
    with pytest.raises(DataError, match="2,000 positions"):
        model.positions("source", 2001)


def test_a_model_that_is_replaced_while_it_is_read_is_not_kept(kernels, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "model.pt"
    save_model(path, random_model())

    def replace_and_load(path):
        save_model(path, random_model(d_k=32))
        return load_model(path)

    with monkeypatch.context() as patch:
        patch.setattr("aiayn.checkpoint.load_model", replace_and_load)
        with pytest.raises(DataError, match="was replaced"):
            load_native_models([path], kernels, "float32")
    assert not list((tmp_path / "aiayn").glob("packed-*"))


@pytest.mark.parametrize("file", ["about.json", "weights.bin", "shared.model", "settings.json"])
@pytest.mark.parametrize("damage", ["gone", "torn", "changed"])
def test_a_damaged_cache_is_made_anew(kernels, tmp_path, monkeypatch, file, damage):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "model.pt"
    save_model(path, random_model())
    (wanted,) = load_native_models([path], kernels, "float32")
    (folder,) = (tmp_path / "aiayn").glob("packed-*")
    damaged = folder / file
    content = damaged.read_bytes()
    middle = len(content) // 2
    if damage == "gone":
        damaged.unlink()
    elif damage == "torn":
        damaged.write_bytes(content[:middle])
    else:
        changed = bytearray(content)
        changed[middle] ^= 1
        damaged.write_bytes(changed)
    (found,) = load_native_models([path], kernels, "float32")
    assert damaged.read_bytes() == content
    for name, array in wanted.packed.arrays.items():
        np.testing.assert_array_equal(found.packed.arrays[name], array)


def test_a_cache_that_is_full_is_done_without(kernels, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "model.pt"
    save_model(path, random_model())

    def fail(self, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PackedModel, "save", fail)
    (model,) = load_native_models([path], kernels, "float32")
    assert model.packed.arrays
    assert "No space left" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "threads"), [("100000", 0), ("", 100000), ("many", 0)])
def test_there_are_no_more_processes_than_cores(monkeypatch, given, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert 1 <= share_cores_compiled(threads) <= os.cpu_count()


def test_compiled_search_does_not_load_torch(trained, tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    text = "\n".join(sentences(3, seed=41)).encode()
    command = [sys.executable, "-X", "importtime", "-m", "aiayn", "generate", str(trained)]
    runs = [
        subprocess.run([*command, *more], input=text, env=environment, capture_output=True)
        for more in (["--compile"], ["--compile"], ["--compile", "--sample"], [])
    ]
    loads = [b" torch\n" in run.stderr for run in runs]
    # To pack the weights, the first time, and to draw samples.
    assert loads == [True, False, True, True]
    assert runs[0].stdout == runs[1].stdout == runs[3].stdout


def test_positions_beyond_those_that_are_packed_are_those_of_the_network(kernels):
    file = random_model()
    model = native_model(file, kernels)
    network = file.build()
    for length in (10, 1024, 1025, 5000):
        rows = torch.from_numpy(model.positions("target", length)[:length])
        assert torch.equal(rows, network.target_positions(0, length))


@pytest.mark.parametrize("size", [0, 5000, None], ids=["empty", "torn", "changed"])
def test_damaged_code_is_compiled_anew_and_not_run(tmp_path, size):
    compile_once(tmp_path)
    (library,) = tmp_path.glob("*.so")
    content = library.read_bytes()
    library.unlink()  # it is in use
    damaged = bytes(3000).join((content[:100_000], content[103_000:]))
    library.write_bytes(damaged if size is None else content[:size])
    _, seconds = compile_once(tmp_path)
    assert seconds > 0
    assert library.read_bytes()[:64] == content[:64]
    assert compile_once(tmp_path)[1] == 0


def test_a_compiler_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match="no-such-compiler"):
        compile_once(tmp_path)


def test_a_compiler_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(UsageError, match="does not compile"):
        compile_once(tmp_path)
    assert not list(tmp_path.iterdir())
