"""Tags of languages: one piece each, kept whatever happens to the text behind them."""

import json
from pathlib import Path
from queue import SimpleQueue

import pytest
from random_models import LINES, random_model
from toy import sentences, translation

import aiayn as aiayn_package
from aiayn.checkpoint import ModelFile, build_model, save_model
from aiayn.commands.serve import by_pair
from aiayn.config import BatchConfig
from aiayn.data.codec import Codec
from aiayn.data.folder import DataFolder
from aiayn.data.language_tags import find_tag, language_of, tag_length, tag_line
from aiayn.data.resampling import Resampling
from aiayn.data.settings import CodecSettings, Settings
from aiayn.data.vocabulary import BYTES, Vocabulary
from aiayn.errors import UsageError
from aiayn.generation.search import BeamSearch
from aiayn.generation.segmentation import segment
from aiayn.serving.worker import AttentionJob, LineJob, Served, Wanted, Worker

TAGS = [">>deu<<", ">>fra<<"]
SIZES = {"bpe": 312, "unigram": 286, "char": 280, "word": 30}


def tagged_vocabulary(kind="bpe"):
    return Vocabulary.train(LINES, kind=kind, size=SIZES[kind], whole=TAGS)


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


def test_a_tag_for_each_pair_may_be_an_option_of_its_own(text, aiayn):
    files = ("a.en", "a.de", "a.en", "a.fr", "--vocab-size", 300)
    assert aiayn("preprocess", *files, "--tag", " ".join(TAGS), "-o", "one")[0] == 0
    each = ("--tag", TAGS[0], f"--tag={TAGS[1]}")
    assert aiayn("preprocess", *files[:2], *each, *files[2:], "-o", "two")[0] == 0
    one, two = (Path(name, "SHA256SUMS").read_bytes() for name in ("one", "two"))
    assert one == two
    links = ("--alignments", "a", "--alignments=b")
    code, _, err = aiayn("preprocess", *files, *links, "-o", "three")
    assert (code, "--alignments is given twice" in err) == (2, True)


def test_lines_that_have_a_tag_get_no_second_one(text, aiayn):
    Path("b.en").write_text("ba be\n >>fra<< ba be\n")
    Path("b.fr").write_text("ba be\nba be\n")
    code, _, err = aiayn("preprocess", "b.en", "b.fr", "--tag", TAGS[0], "-o", "b")
    assert code == 3
    assert "b.en, line 2 begins with >>fra<<, and --tag puts >>deu<< before it" in err


def test_a_vocabulary_with_tags_for_text_without_is_warned_of(text, aiayn):
    files = ("a.en", "a.de", "--tag", TAGS[0], "--vocab-size", 300)
    assert aiayn("preprocess", *files, "-o", "all")[0] == 0
    code, _, err = aiayn("preprocess", "a.en", "a.de", "--vocab-from", "all", "-o", "none")
    assert (code, "has language tags (>>deu<<), and no --tag is given" in err) == (0, True)


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


QUICK = ("--greedy", "--extra-length", 1, "--device", "cpu")


def test_lines_without_a_tag_or_with_two_are_told_at_once_and_counted(model, aiayn):
    lines = b">>fra<< ba\nba\n\nde\n"
    code, _, err = aiayn("generate", model, *QUICK, stdin=lines)
    assert code == 0
    warning = "line 2 is without a language tag; the model knows >>deu<< >>fra<<"
    assert err.count("is without a language tag") == err.count(warning) == 1
    assert "2 without a language tag (line 2, 4)" in err
    code, _, err = aiayn("generate", model, *QUICK, "--to", "fra", stdin=lines)
    assert (code, "without a language tag" in err) == (0, False)
    assert "line 1 is with a language tag beside that of --to" in err
    assert aiayn("generate", model, *QUICK, "--to", "", stdin=lines)[0] == 2


def test_two_letters_name_a_tag_of_three(model, aiayn):
    by_three, by_two = (
        aiayn("generate", model, *QUICK, "--to", name, stdin=b"ba de\n")[1]
        for name in ("fra", "fr")
    )
    assert by_three == by_two
    assert [language_of(tag) for tag in (">>fra<<", ">>pt_br<<")] == ["fr", "pt_br"]


@pytest.fixture
def served(model):
    loaded = aiayn_package.load(model, device="cpu")
    return Served(loaded, loaded.translator(BeamSearch()))


def test_a_model_is_served_in_each_of_its_languages(served):
    assert list(by_pair(served, None)) == [("src", "de"), ("src", "fr")]
    assert list(by_pair(served, ("en", "fr"))) == [("en", "fr")]
    with pytest.raises(UsageError, match="no language tag >>es<<"):
        by_pair(served, ("en", "es"))


def test_the_server_translates_to_the_language_of_the_pair(served):
    pair, results, inbox = ("en", "fr"), {}, SimpleQueue()
    jobs = LineJob(1, Wanted(pair, aligns=True), "ba de"), AttentionJob(2, pair, "ba de", None)
    for job in (*jobs, None):
        inbox.put(job)
    Worker(by_pair(served, pair), None, None, results.__setitem__).run(inbox)
    tagged = served.model.translate([">>fra<< ba de"])
    assert results[1].texts == tagged == served.model.translate(["ba de"], to="fra")
    assert results[1].words.source == ["ba", "de"]
    assert results[2] == served.model.attention("ba de", to="fra").html
    asked, typed = (
        served.model.attention(*each).weights.source
        for each in (("ba de",), (">>fra<< ba de",))
    )
    assert asked != typed == served.model.attention("ba de", to="fra").weights.source


def test_attend_puts_the_tag_before_the_sentence(model, aiayn):
    by_hand = aiayn("attend", model, ">>fra<< ba de", "ba", "--json")
    by_option = aiayn("attend", model, "ba de", "ba", "--to", "fra", "--json")
    assert by_option[:2] == by_hand[:2]
    assert by_hand[0] == 0
    assert "is without a language tag" in aiayn("attend", model, "ba de", "ba", "--json")[2]


def test_scores_in_python_are_those_of_the_language_too(served):
    by_hand = served.model.score([">>fra<< ba de"], ["ba"])[0].total
    assert served.model.score(["ba de"], ["ba"], to="fra")[0].total == by_hand


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


def test_the_readme_of_an_export_names_the_tags(model, tmp_path, aiayn):
    line = ("export", model, "--to", "ctranslate2", "-o", tmp_path / "out", "--verify", 0)
    assert aiayn(*line)[0] == 0
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "text = '>>deu<< ' + text  # the language to translate to: >>deu<< >>fra<<" in text
