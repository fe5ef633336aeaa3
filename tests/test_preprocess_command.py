"""`aiayn preprocess` as it is typed."""

import io
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from toy import sample_pairs

from aiayn.data.folder import DataFolder
from aiayn.data.trees import delinearize, write

TREES = [
    "( (S\n  (NP-SBJ (NNP John))\n  (VP (VBZ has)\n    (NP (DT a) (NN dog)))\n  (. .)))",
    "( (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))",
]
CHARACTERS = ("--subword", "char")


@pytest.fixture(autouse=True)
def text(tmp_path, monkeypatch):
    """Some text in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    for name, word in (("a.en", "line"), ("a.de", "Zeile")):
        Path(name).write_text("".join(f"{word} {n}\n" for n in range(30)))
    Path("a.mrg").write_text("\n".join(TREES))


@pytest.fixture
def preprocess(aiayn):
    """Return a function that runs the command and returns exit code and standard error."""

    def run(*line, output="data", stdin=b"", units=CHARACTERS):
        code, out, err = aiayn("preprocess", *line, *units, "-o", output, stdin=stdin)
        assert out == ""
        return code, err

    return run


def data(name="data"):
    return DataFolder.open(Path(name))


def test_files_come_in_pairs(preprocess):
    assert preprocess("a.en", "a.de", "a.en", "a.de")[0] == 0
    assert len(data().corpus("train")) == 60
    code, err = preprocess("a.en", "a.en", "a.de")
    assert code == 2
    assert "a.de has no translation" in err


def test_a_dash_is_tabbed_standard_input(preprocess):
    code, _ = preprocess("a.en", "a.de", "-", stdin=b"one\teins\ntwo\tzwei\n")
    assert code == 0
    assert len(data().corpus("train")) == 32
    code, err = preprocess("-", "-", output="twice", stdin=b"one\teins\n")
    assert code == 2
    assert "named twice" in err


def test_the_counts_are_told(preprocess):
    _, err = preprocess("a.en", "a.de", "--valid", "a.en", "a.de")
    rows = {line.rsplit(maxsplit=2)[0]: line.split()[-2:] for line in err.splitlines()[-12:]}
    assert rows["pairs kept"] == ["30", "30"]
    assert rows["source unknown"] == ["0.000%", "0.000%"]


def test_validation_pairs_that_are_left_out_are_told(preprocess):
    Path("b.en").write_text("one\n\n")
    Path("b.de").write_text("eins\nzwei\n")
    _, err = preprocess("a.en", "a.de", "--valid", "b.en", "b.de")
    assert "valid: 1 pair left out, with an empty side" in err


def test_a_shard_size_may_have_a_unit(preprocess):
    preprocess("a.en", "a.de", "--shard-size", "2k")
    assert data().manifest.settings.shard_size == 2000


@pytest.mark.parametrize("valid", [["--valid", "a.mrg"], ["--valid=a.mrg"]])
def test_parsing_takes_one_file_for_each_split(preprocess, valid):
    preprocess("a.mrg", "--task", "parsing", *valid, "--test", "a.mrg")
    words, brackets = data().text("valid")
    assert words == ["John has a dog .", "the dog barks ."]
    assert brackets[1] == "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
    assert data().text("test") == data().text("valid")


def test_trees_come_back_from_their_ids(preprocess):
    preprocess("a.mrg", "--task=parsing", "--valid", "a.mrg")
    codec, corpus = data().codec, data().corpus("valid")
    assert not codec.shared
    assert (codec.source.kind, codec.target.kind) == ("char", "word")
    tags = frozenset(codec.settings.tags.split())
    for i, (words, brackets) in enumerate(zip(*data().text("valid"), strict=True)):
        symbols = codec.decode_target(corpus.pair(i)[1]).split()
        assert write(delinearize(words.split(), symbols, tags)[0]) == brackets


def test_a_vocabulary_brings_its_settings_along(preprocess, aiayn):
    preprocess("a.en", "a.de", "--lowercase", "--languages", "en-de")
    assert preprocess("a.en", "a.de", "--vocab-from", "data", output="again")[0] == 0
    assert data("again").codec.fingerprint == data().codec.fingerprint
    assert data("again").manifest.settings.lowercase


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pretokenize", "moses"], "--pretokenize cannot be given with --vocab-from"),
        (["--task", "parsing"], "data is for translation"),
    ],
)
def test_a_setting_against_the_vocabulary_is_refused(preprocess, options, said):
    preprocess("a.en", "a.de", "--languages", "en-de")
    languages = ("--languages", "en-de")
    code, err = preprocess(
        "a.en", "a.de", "--vocab-from", "data", *languages, *options, output="again"
    )
    assert code == 2
    assert said in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pretokenize", "moses"], "none is named"),
        (["--languages", "english"], "does not name two languages"),
        (["--max-ratio", "nan"], "--max-ratio nan is not a ratio"),
        (["--max-ratio", "inf"], "--max-ratio inf is not a ratio"),
        (["--workers", "many"], "--workers many"),
        (["--shard-size", "64X"], "--shard-size 64X"),
        (["--vocab-from", "nowhere"], "nowhere does not exist"),
        (["--dropped", "nowhere/list.tsv"], "nowhere does not exist"),
        (["--dropped", "a.en"], "a.en is the input and the output"),
        (["--valid", "a.en", "missing.de"], "missing.de does not exist"),
    ],
)
def test_an_option_that_does_not_fit_is_explained(preprocess, options, said):
    code, err = preprocess("a.en", "a.de", *options)
    assert code == 2
    assert said in err
    assert "fix:" in err


def test_text_to_train_and_to_validate_on_is_warned_about(preprocess):
    code, err = preprocess("a.en", "a.de", "--valid", "a.en", "a.de")
    assert code == 0
    assert "a.de is training text and validation or test text, too" in err


@pytest.fixture
def vocabulary(preprocess) -> Path:
    """A SentencePiece model as others learn them: with its own ids, and normalization."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(Path("a.en").read_text().splitlines()),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        user_defined_symbols=["<x>"],
        minloglevel=2,
    )
    Path("vocab.spm").write_bytes(model.getvalue())
    return Path("vocab.spm")


def test_a_sentencepiece_model_from_elsewhere_gets_our_ids(preprocess, vocabulary):
    options = ("--lowercase", "--languages", "en-de")
    assert preprocess("a.en", "a.de", "--vocab-from", vocabulary, *options, units=())[0] == 0
    codec, theirs = data().codec, SentencePieceProcessor(str(vocabulary))
    assert codec.source.pieces([0, 1, 2, 3]) == ["<pad>", "</s>", "<unk>", "<s>"]
    assert codec.source is codec.target
    assert (codec.settings.lowercase, codec.settings.source_language) == (True, "en")
    for line in ("\ufb01ve DOGS <x>  bark", "", Path("a.en").read_text().splitlines()[3]):
        pieces = [theirs.id_to_piece(i) for i in theirs.encode(line.lower())]
        assert codec.source.pieces(codec.encode_source(line)) == [*pieces, "</s>"]


def test_our_own_sentencepiece_model_stays_as_it_is(preprocess):
    preprocess("a.en", "a.de")
    again = ("--vocab-from", "data/vocab/shared.model")
    assert preprocess("a.en", "a.de", *again, units=(), output="b")[0] == 0
    assert data("b").codec.source.table is None


def test_codes_of_subword_nmt_are_a_vocabulary(preprocess):
    letters = sorted(
        {c for name in ("a.en", "a.de") for c in Path(name).read_text()} - {" ", "\n"}
    )
    merges = "".join(f"{letter} {letter}\n" for letter in letters)
    Path("codes").write_text(f"#version: 0.2\n{merges}")
    assert preprocess("a.en", "a.de", "--vocab-from", "codes", units=())[0] == 0
    text = " ".join(Path("a.en").read_text().splitlines()[2].split())
    codec = data().codec
    assert 2 not in codec.encode_source(text)
    assert codec.decode_target(codec.encode_target(text)) == text


def test_what_is_no_vocabulary_is_refused(preprocess):
    Path("text").write_text("not a merge, and not a model of SentencePiece\n")
    code, err = preprocess("a.en", "a.de", "--vocab-from", "text")
    assert (code, "neither a SentencePiece model nor a file of BPE codes" in err) == (3, True)
    code, err = preprocess("a.mrg", "--task", "parsing", "--vocab-from", "text")
    assert (code, "trees have symbols" in err) == (2, True)


def test_validation_text_in_the_other_direction_is_told(aiayn, tmp_path):
    pairs = list(sample_pairs(300, seed=1))
    for number, language in enumerate(("en", "de")):
        for part, some in (("train", pairs[:250]), ("valid", pairs[250:])):
            text = "".join(f"{pair[number]}\n" for pair in some)
            (tmp_path / f"{part}.{language}").write_text(text)
    train, valid = ([tmp_path / f"{p}.{x}" for x in ("en", "de")] for p in ("train", "valid"))
    for order, warned in ((valid, False), (valid[::-1], True)):
        line = ("preprocess", *train, "--valid", *order, "--vocab-size", 400, "--force")
        code, _, err = aiayn(*line, "-o", tmp_path / "data")
        assert (code, "are the files of --valid the other way round?" in err) == (0, warned)


@pytest.mark.parametrize("exists", [False, True])
def test_what_fails_before_anything_can_be_resumed_leaves_nothing(aiayn, tmp_path, exists):
    (tmp_path / "s").write_text("a b\n")
    if exists:
        (tmp_path / "data").mkdir()
    line = ("preprocess", tmp_path / "s", tmp_path / "s", "-o", tmp_path / "data")
    code, _, err = aiayn(*line)
    assert (code, "--vocab-size is 37,000" in err) == (2, True)
    assert list(tmp_path.glob("data*")) == ([tmp_path / "data"] if exists else [])
    assert list(tmp_path.glob("data/*")) == []
