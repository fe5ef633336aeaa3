"""Random input of every kind: refused with a reason, or right; never a traceback.

A few examples, always the same, run with the other tests. `HYPOTHESIS_PROFILE=long pytest
tests/test_fuzz.py` tries thousands of new ones and prints how to repeat what fails.
"""

import io
import json
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st
from toy import run_training, tiny_config

from aiayn.checkpoint import ModelFile, build_model, load_model, save_model
from aiayn.cli import main
from aiayn.config import Config
from aiayn.config_file import all_settings, apply_overrides, read_yaml, to_yaml
from aiayn.data.folder import DataFolder
from aiayn.data.inputs import ParallelText
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.data.trees import (
    TOP,
    delinearize,
    linearize,
    parse_tree,
    tag_inventory,
    walk,
    write,
)
from aiayn.errors import AiaynError, DataError, UsageError

cheap = settings(max_examples=settings.default.max_examples * 5)


@contextmanager
def refusal_allowed() -> Iterator[None]:
    """Let an error pass that a user can act on: it says what is wrong and what to do."""
    try:
        yield
    except AiaynError as problem:
        assert problem.message and problem.fix
        assert isinstance(problem, DataError | UsageError)


# Text: every script and plane, marks that combine or turn the direction, controls, and bytes
# that are no text at all.
LETTERS = st.characters(exclude_categories=("Cs",))
ODD = st.sampled_from(
    "a b\u0301\u0300\u200d\u202e\u05d0\u0627\ufeff\u2028\u0085\r\t\x01\x0b\x1c\x1b\x7f\xa0"
    "\u2581\u2585\ue581\U0001f600\U000e0001\ufffd\uffff|<>@&#[]()"
)
TEXT = st.text(LETTERS | ODD, max_size=40)
LONG = st.builds(lambda unit, n: (unit * n)[:100_000], TEXT, st.integers(1, 5_000))
LINES = st.one_of(
    TEXT.map(str.encode),
    st.tuples(TEXT, st.integers(1, 60)).map(lambda x: (x[0] * x[1]).encode()),
    st.binary(max_size=20),
    # What surrogates stand for where Python escapes bytes.
    st.text(st.characters(categories=("Cs",)), max_size=5).map(
        lambda x: x.encode("utf-8", "surrogatepass")
    ),
).map(lambda line: line.replace(b"\n", b""))
SENTENCES = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0\n"),
    min_size=1,
    max_size=30,
).map(str.encode)
INPUTS = st.one_of(LINES, LONG.map(lambda x: x.encode().replace(b"\n", b"")))


def write_lines(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def run(*line: object) -> int:
    """Run a command in this process; return its exit code. A traceback is a failure."""
    sys.argv = ["aiayn", *map(str, line)]
    talk = io.StringIO()
    with redirect_stderr(talk), redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    assert code in (0, 2, 3), talk.getvalue()
    assert code == 0 or "fix:" in talk.getvalue()
    return code


@pytest.fixture(scope="module", autouse=True)
def _arguments() -> Iterator[None]:
    before = sys.argv
    yield
    sys.argv = before


@given(
    pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8),
    odd=st.lists(st.tuples(LINES, LINES), max_size=1),
    kind=st.sampled_from(["char", "word"]),
    shared=st.booleans(),
    tested=st.lists(INPUTS, min_size=1, max_size=4),
)
@example([(b"a", b"b")], [], "char", True, [b"", b"\xff\x00", b"a" * 3_000, b" \r", b"\r"])
@example([(b"a", b"b")], [], "word", True, [b"a" * 100_000, b"a " * 3_000])
@example([(b"a", b"b")], [(b"\xed\xa0\x80", b"x")], "char", False, [b"x"])
def test_any_text_goes_through_the_whole_pipeline_or_is_refused(
    pairs, odd, kind, shared, tested
):
    pairs = [*pairs, *odd]
    with TemporaryDirectory() as name, refusal_allowed():
        folder = Path(name)
        source = write_lines(folder / "source", [source for source, _ in pairs])
        target = write_lines(folder / "target", [target for _, target in pairs])
        chosen = Settings(subword=kind, shared=shared, vocab_size=5000)
        with redirect_stderr(io.StringIO()):
            text = {"train": [ParallelText(source, target)]}
            data = preprocess(text, folder / "data", settings=chosen, workers=1)
            assert data.manifest.splits["train"].counts.read == len(pairs)
            config = tiny_config("train.steps=1", "decode.extra_length=2", "decode.longest=64")
            run_training(data.path, folder / "run", config)
        given = write_lines(folder / "given", tested)
        out = folder / "out"
        line = ("generate", folder / "run", "-i", given, "-o", out, "--greedy", "--threads", 1)
        assert run(*line) == 0
        assert out.read_bytes().count(b"\n") == len(tested)
        run("score", given, "-i", out)
        event("all the way")


@pytest.fixture(scope="module")
def codec(data):
    return data.codec


@cheap
@given(TEXT | LONG)
def test_any_text_is_the_same_after_encoding_and_decoding(codec, text):
    assume("\n" not in text)
    ids = codec.encode_target(text)
    assert ids[-1] == 1
    assert codec.decode_target(ids) == text


SYMBOLS = st.one_of(
    st.sampled_from(
        ["S", "NP", "VP", "/S", "/NP", "/VP", "NN", "VB", ".", ",", "''", "/", "X"]
    ),
    st.text(max_size=4),
)
TAGS = frozenset({"NN", "VB", ".", ",", "''"})


@cheap
@given(
    words=st.lists(st.sampled_from(["dog", "sees", ".", ",", "'", "`"]), max_size=8),
    symbols=st.lists(SYMBOLS, max_size=40),
)
def test_any_symbols_make_one_tree_over_exactly_these_words(words, symbols):
    tree, repairs = delinearize(words, symbols, TAGS)
    assert tree.label == TOP
    assert [node.word for node, opens in walk(tree) if node.word and opens] == words
    assert all(count > 0 for count in repairs.values())
    if words:
        assert parse_tree(write(tree)) == tree
        again, _ = delinearize(words, linearize(tree)[1], tag_inventory([tree]) | TAGS)
        assert [node.word for node, opens in walk(again) if node.word and opens] == words


NAMES = st.sampled_from(all_settings())
VALUES = st.one_of(
    TEXT,
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        ["true", "auto", "1e999", "-0", "\u00b2", "\u0663", "1_0", "last=1", "9" * 5000, "1h"]
    ),
    st.from_regex(r"(last=)?\d{1,5}[hms]?(,best=\d)?", fullmatch=True),
)


@cheap
@given(st.one_of(st.builds("{}={}".format, NAMES, VALUES), TEXT))
@example("train.save_every=\u00b2")
@example(f"train.keep=last={'9' * 5000}")
def test_any_assignment_is_a_setting_that_can_be_written_and_read_or_is_refused(text):
    with refusal_allowed(), TemporaryDirectory() as name:
        config = apply_overrides(Config(), [text])
        path = Path(name) / "config.yaml"
        path.write_text(to_yaml(config), encoding="utf-8")
        assert read_yaml(path, Config()) == config


YAML = st.one_of(
    st.binary(max_size=200),
    TEXT.map(str.encode),
    st.text("ab:- \n?[]{}&*!|>'\"%@#,~0", max_size=60).map(str.encode),
    st.builds(lambda n, v: f"{n.replace('.', ': {', 1)}: {v}}}".encode(), NAMES, VALUES),
)


@cheap
@given(YAML)
@example(b"[" * 600)
@example(b"? [model]\n: {layers: 1}\n")
@example(b"model: &a [*a]")
@example(b"!!python/object/apply:os.system ['true']")
def test_any_file_is_settings_or_is_refused(content):
    with refusal_allowed(), TemporaryDirectory() as name:
        path = Path(name) / "mine.yaml"
        path.write_bytes(content)
        assert isinstance(read_yaml(path, Config()), Config)


@dataclass(frozen=True)
class Original:
    """A model file, and the path of another that is made from it."""

    content: bytes
    model: ModelFile
    other: Path

    def check(self, content: bytes) -> None:
        """Refuse what translates differently."""
        self.other.write_bytes(content)
        with refusal_allowed():
            found = load_model(self.other)
            assert found.config == self.model.config
            assert found.codec.fingerprint == self.model.codec.fingerprint
            torch.testing.assert_close(found.weights, self.model.weights, rtol=0, atol=0)

    @cached_property
    def regions(self) -> dict[str, list[int]]:
        """Where the bytes of each kind are in the file."""
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            entries, index = archive.infolist(), archive.start_dir
        ends = [entry.header_offset for entry in entries[1:]] + [index]
        found: dict[str, list[int]] = {"index": list(range(index, len(self.content)))}
        for entry, end in zip(entries, ends, strict=True):
            begin = entry.header_offset + LOCAL_HEADER + len(entry.filename)
            kind = "vocabulary" if entry.filename.endswith("data.pkl") else "tensors"
            found.setdefault("header", []).extend(range(entry.header_offset, begin))
            found.setdefault(kind, []).extend(range(begin, end))
        return found


# Bytes of a zip file before the name of an entry.
LOCAL_HEADER = 30


@pytest.fixture(scope="module")
def original(data, tmp_path_factory) -> Original:
    folder = tmp_path_factory.mktemp("model")
    config = tiny_config()
    weights = build_model(config, data.codec).state_dict()
    save_model(folder / "model.pt", ModelFile(config=config, codec=data.codec, weights=weights))
    path = folder / "model.pt"
    return Original(path.read_bytes(), load_model(path), folder / "other.pt")


@pytest.mark.parametrize("region", ["header", "index", "tensors", "vocabulary"])
@cheap
@given(data=st.data())
def test_a_model_file_with_other_bytes_is_refused_or_equal(original, region, data):
    changed = bytearray(original.content)
    for _ in range(data.draw(st.integers(1, 3))):
        places = original.regions[region]
        place = places[data.draw(st.integers(0, len(places) - 1))]
        changed[place] ^= data.draw(st.integers(1, 255))
    original.check(bytes(changed))


def test_an_entry_that_is_marked_as_a_folder_is_refused(original):
    # torch reads nothing into a tensor of that name, and leaves what was in memory before.
    with zipfile.ZipFile(io.BytesIO(original.content)) as archive:
        entry = original.content.index(b"PK\x01\x02", archive.start_dir)
    changed = bytearray(original.content)
    changed[entry + 38] = 0x10
    original.other.write_bytes(changed)
    with pytest.raises(DataError, match="is damaged"):
        load_model(original.other)


@cheap
@given(data=st.data())
def test_a_model_file_that_is_cut_or_has_more_is_refused_or_equal(original, data):
    whole = original.content
    begin = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(begin, len(whole)))
    original.check(whole[:begin] + data.draw(st.binary(max_size=60)) + whole[end:])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@cheap
@given(data=st.data())
def test_a_model_file_with_other_values_is_refused_or_is_a_model(original, data):
    content = torch.load(io.BytesIO(original.content), weights_only=True)
    *above, last = data.draw(st.sampled_from(paths_in(content)))
    reduce(getitem, above, content)[last] = data.draw(
        PLAIN | st.integers(0, 10**30) | st.binary(max_size=9)
    )
    torch.save(content, original.other)
    with refusal_allowed():
        load_model(original.other).build()


def paths_in(content: dict) -> list[tuple[str, ...]]:
    """Return the keys that lead to each value."""
    found = []
    for key, value in content.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *rest) for rest in paths_in(value)]
    return found


@cheap
@given(data=st.data())
def test_a_data_folder_with_other_values_is_refused_or_can_be_read(sharded, data):
    path = data.draw(
        st.sampled_from([sharded / "manifest.json", sharded / "vocab/settings.json"])
    )
    before = path.read_bytes()
    content = json.loads(before)
    *above, last = data.draw(st.sampled_from(paths_in(content)))
    reduce(getitem, above, content)[last] = data.draw(PLAIN)
    try:
        path.write_text(json.dumps(content))
        run("info", sharded)
        with refusal_allowed():
            folder = DataFolder.open(sharded)
            assert folder.codec
            folder.corpus("train").pair(0)
    finally:
        path.write_bytes(before)


@pytest.fixture(scope="module")
def sharded(data, tmp_path_factory) -> Path:
    """A data folder of several shards."""
    folder = tmp_path_factory.mktemp("sharded")
    text = {
        name: [
            ParallelText(
                data.path.parent / f"{name}.source", data.path.parent / f"{name}.target"
            )
        ]
        for name in ("train", "valid")
    }
    small = Settings(vocab_size=320, shard_size=1000)
    with redirect_stderr(io.StringIO()):
        return preprocess(text, folder / "data", settings=small, workers=1).path


@settings(max_examples=4 * settings.default.max_examples)
@given(data=st.data())
def test_verify_finds_every_flipped_byte_of_a_data_folder(sharded, data):
    path = data.draw(st.sampled_from(sorted(p for p in sharded.rglob("*") if p.is_file())))
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    changed = bytearray(before)
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        path.write_bytes(changed)
        assert run("info", sharded, "--verify") == 3, (path, place)
    finally:
        path.write_bytes(before)
