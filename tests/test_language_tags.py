"""Tags of languages: one piece each, kept whatever happens to the text behind them."""

import json
from pathlib import Path

import pytest
from random_models import LINES, random_model
from toy import sentences, translation

from aiayn.checkpoint import ModelFile, build_model, save_model
from aiayn.config import BatchConfig
from aiayn.data.codec import Codec
from aiayn.data.folder import DataFolder
from aiayn.data.language_tags import find_tag, tag_length, tag_line
from aiayn.data.resampling import Resampling
from aiayn.data.settings import CodecSettings, Settings
from aiayn.data.vocabulary import BYTES, Vocabulary
from aiayn.errors import UsageError
from aiayn.generation.segmentation import segment

TAGS = [">>deu<<", ">>fra<<"]
SIZES = {"bpe": 312, "unigram": 286, "char": 280, "word": 30}


def tagged_vocabulary(kind="bpe"):
    return Vocabulary.train(LINES, kind=kind, size=SIZES[kind], tags=TAGS)


@pytest.mark.parametrize("kind", SIZES)
def test_a_tag_is_one_piece_and_nothing_else_changes(kind):
    vocabulary = tagged_vocabulary(kind)
    plain = Vocabulary.train(LINES, kind=kind, size=SIZES[kind] - 2)
    assert len(vocabulary) == len(plain) + 2 <= SIZES[kind]
    assert (vocabulary.tags(), plain.tags()) == (TAGS, [])
    for line in LINES[:5]:
        (ids,) = vocabulary.encode_batch([f">>fra<< {line}"])
        start = tag_length(ids, vocabulary)
        assert ids[start:] == plain.encode_batch([line])[0]
        assert vocabulary.pieces(ids[start - 1 : start]) == [">>fra<<"]
        assert vocabulary.decode(ids) == f">>fra<< {line}"
        assert tag_length(ids[start:], vocabulary) == 0


def test_bytes_keep_their_ids():
    assert tagged_vocabulary().pieces([BYTES.start, BYTES.stop - 1]) == ["<0x00>", "<0xFF>"]


@pytest.mark.parametrize("text", ["pretokenize", "lowercase"])
def test_preparing_the_text_leaves_the_tag_alone(text):
    both = tagged_vocabulary()
    how = {"pretokenize": "moses"} if text == "pretokenize" else {"lowercase": True}
    settings = CodecSettings(source_language="en", target_language="de", **how)
    ids = Codec(both, both, settings).encode_source(">>deu<< Ba-de, (Gi)!")
    prepared = settings.source_preparation(["Ba-de, (Gi)!"])[0]
    assert both.decode(ids) == f">>deu<< {prepared}"
    assert both.pieces(ids[:2])[1] == ">>deu<<"


def test_every_segment_of_a_long_line_begins_with_the_tag():
    vocabulary = tagged_vocabulary()
    (ids,) = vocabulary.encode_batch([">>deu<< " + " ".join(sentences(20, seed=3))])
    cut = segment(ids, 20, vocabulary)
    assert len(cut) > 3
    assert all(len(each) <= 20 and each[:2] == ids[:2] for each in cut)
    assert [i for each in cut for i in each[2:-1]] == ids[2:-1]


def test_subword_sampling_and_noise_leave_the_tag_alone():
    both = tagged_vocabulary()
    draw = Resampling(
        Codec(both, both, CodecSettings()), BatchConfig(sampling=0.5, noise=0.9), 1, 99
    )
    pairs = [tuple(both.encode_batch([f">>deu<< {x}", translation(x)])) for x in LINES[:20]]
    drawn = [draw(pair, epoch=0, number=n)[0] for n, pair in enumerate(pairs)]
    assert all(list(ids[:2]) == pairs[0][0][:2] for ids in drawn)
    assert any(both.decode(ids[2:]).isupper() for ids in drawn)


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = sentences(60, seed=1)
    for name, side in (("a.en", lines), ("a.de", map(translation, lines)), ("a.fr", lines)):
        Path(name).write_text("".join(f"{line}\n" for line in side))


def test_folders_of_several_languages_share_a_vocabulary(text, aiayn):
    files = ("a.en", "a.de", "a.en", "a.fr", "--valid", "a.en", "a.de", "--vocab-size", 300)
    assert aiayn("preprocess", *files, "--tag", " ".join(TAGS), "-o", "all")[0] == 0
    whole = DataFolder.open(Path("all"))
    first = [whole.codec.source.decode(whole.corpus("train").pair(i)[0]) for i in (0, 60)]
    assert [line.split()[0] for line in first] == TAGS
    assert whole.text("valid")[0][0] == first[0]
    reuse = ("preprocess", "a.en", "a.fr", "--vocab-from", "all", "-o", "fr")
    assert aiayn(*reuse, "--tag", ">>fra<<")[0] == 0
    pair = DataFolder.open(Path("fr")).corpus("train").pair(0)[0].tolist()
    assert pair == whole.corpus("train").pair(60)[0].tolist()
    code, _, err = aiayn(*reuse[:-1], "es", "--tag", ">>spa<<")
    assert (code, "has no piece >>spa<<" in err) == (2, True)


def test_tags_that_do_not_fit_are_refused(text, aiayn):
    code, _, err = aiayn("preprocess", "a.en", "a.de", "--tag", " ".join(TAGS), "-o", "all")
    assert (code, "2 tags, and there are 1 pairs" in err) == (2, True)
    with pytest.raises(UsageError, match="--tag deu is not the tag") as problem:
        Settings(tag="deu")
    assert "'>>deu<<'" in problem.value.fix
    with pytest.raises(UsageError, match="--tag is for translation"):
        Settings(tag=">>deu<<", task="parsing")


@pytest.fixture
def model(tmp_path):
    both = tagged_vocabulary()
    config = random_model().config
    codec = Codec(both, both, CodecSettings())
    file = ModelFile(
        config=config, codec=codec, weights=build_model(config, codec).state_dict()
    )
    save_model(tmp_path / "model.pt", file)
    return tmp_path / "model.pt"


def test_generate_puts_the_tag_before_each_line(model, aiayn):
    lines = ["ba de", "", "gi ko ba"]
    search = ("--greedy", "--extra-length", 5, "--device", "cpu", "--format", "jsonl")
    given = "".join(f"{tag_line('>>fra<<', line)}\n" for line in lines).encode()
    plain = "".join(f"{line}\n" for line in lines).encode()
    by_hand = aiayn("generate", model, *search, stdin=given)
    by_option = aiayn("generate", model, *search, "--to", "fra", stdin=plain)
    assert by_option[0] == 0
    assert by_hand[1] == by_option[1]
    code, _, err = aiayn("generate", model, "--to", "spa", stdin=plain)
    assert (code, "choose from >>deu<< >>fra<<" in err) == (2, True)


def test_alignments_count_the_words_that_were_given(model, aiayn):
    search = (
        "--greedy",
        "--extra-length",
        5,
        "--device",
        "cpu",
        "--format",
        "jsonl",
        "--align",
    )
    by_hand, by_option = (
        json.loads(aiayn("generate", model, *search, *more, stdin=text)[1])["alignment"]
        for more, text in (((), b">>deu<< ba de gi\n"), (("--to", "deu"), b"ba de gi\n"))
    )
    found = {(s, t) for s, t in by_hand}
    assert {(s, t) for s, t in by_option} == {(s - 1, t) for s, t in found if s}


@pytest.mark.parametrize("what", [(), ("--tokens",), ("--align",)])
def test_score_puts_the_tag_before_each_source(model, aiayn, tmp_path, what):
    for name, lines in (("plain", "ba de gi\n\n"), ("tagged", ">>fra<< ba de gi\n\n")):
        (tmp_path / name).write_text(lines)
    (tmp_path / "target").write_text("gi ko\n\n")
    by_hand, by_option, other = (
        aiayn("score", "--model", model, tmp_path / source, tmp_path / "target", *what, *more)
        for source, more in (("tagged", ()), ("plain", ("--to", "fra")), ("plain", ()))
    )
    assert by_option[0] == 0
    if what == ("--align",):
        pairs = [link.split("-") for link in by_hand[1].split()]
        expected = [f"{int(s) - 1}-{t}" for s, t in pairs if s != "0"]
        assert by_option[1].split() == expected
    else:
        assert by_option[1] == by_hand[1] != other[1]
    code, _, err = aiayn("score", tmp_path / "target", "--to", "fra")
    assert (code, "--model is needed for --to" in err) == (2, True)


def test_a_model_of_one_language_says_so():
    with pytest.raises(UsageError, match="no language tag >>deu<<") as problem:
        find_tag("deu", random_model().codec)
    assert "leave --to out" in problem.value.fix
