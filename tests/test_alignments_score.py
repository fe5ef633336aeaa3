"""Alignment error rate from Pharaoh files, and the alignments that models and grammars give."""

import json

import pytest

from aiayn.data.pharaoh import parse_links
from aiayn.errors import DataError
from aiayn.sample.clause import unmarked
from aiayn.sample.corpus import PARTS, alignment_of, make_chunk, write_sample
from aiayn.scoring.alignments import score_alignments


def links(*lines: str):
    return [parse_links(line, "file", 1) for line in lines]


def test_the_error_rate_is_that_of_its_formula():
    # A and S: 0-0. A and P: 0-0, 1-2. |A| = 3, |S| = 2.
    found = score_alignments(links("0-0 1-1 1p2 2?3"), links("0-0 1-2 5-5"))
    assert found.value == pytest.approx(100 * (1 - (1 + 2) / (3 + 2)))
    assert [round(part.value, 2) for part in found.parts] == [66.67, 50.0, 3]
    assert found.signature == "sentences:1|sure:2|possible:4"


def test_a_gold_standard_has_no_error_against_itself():
    assert score_alignments(links("0-0 1-1", ""), links("0-0 1-1", "")).value == 0
    assert score_alignments(links(""), links("")).value == 0


def test_what_is_no_link_is_refused_by_file_and_line():
    with pytest.raises(DataError, match=r"gold, line 7: '1:2' is not a link"):
        parse_links("0-0 1:2", "gold", 7)


def test_the_command_prints_the_rate_and_holds_it_to_a_band(tmp_path, aiayn):
    (tmp_path / "gold").write_text("0-0 1-1\n0-0\n")
    line = ("score", "--alignments", tmp_path / "gold")
    code, out, _ = aiayn(*line, "--expect", "25+-0.1", stdin=b"0-0 1-0\n0-0 \n")
    assert (code, "AER|sentences:2" in out) == (6, True)
    assert "= 33.33 (precision = 66.67 recall = 66.67 links = 3)" in out
    code, out, _ = aiayn(*line, "--json", stdin=b"0-0 1-1\n0-0\n")
    found = {score["name"]: score["value"] for score in json.loads(out)["scores"]}
    assert found == {"AER": 0, "precision": 100, "recall": 100, "links": 3}


def test_alignments_of_other_lines_are_refused(tmp_path, aiayn):
    (tmp_path / "gold").write_text("0-0\n")
    line = ("score", "--alignments", tmp_path / "gold")
    assert aiayn(*line, stdin=b"0-0\n\n")[0] == 3
    code, _, err = aiayn(*line, "-m", "chrf", stdin=b"0-0\n")
    assert (code, "--alignments does not go with -m" in err) == (2, True)


def test_a_model_aligns_given_translations(trained, data, aiayn):
    folder = data.path.parent
    texts = [folder / "valid.source", folder / "valid.target"]
    code, out, _ = aiayn("score", "--model", trained, *texts, "--align")
    counts = [len(line.split()) for line in texts[1].read_text().splitlines()]
    assert (code, [len(line.split()) for line in out.splitlines()]) == (0, counts)
    _, out, _ = aiayn("score", "--model", trained, *texts, "--align", "--json")
    first = json.loads(out)["sentences"][0]["alignment"]
    assert [target for _, target in first] == list(range(counts[0]))


def test_words_are_aligned_that_have_a_mark_in_common():
    one, two = "\U000f0001", "\U000f0002"
    german = f"Ich{one} sehe{one}{two} ihn"
    assert (unmarked(german), alignment_of(f"I{one} see{two}", german)) == (
        "Ich sehe ihn",
        "0-0 0-1 1-1",
    )


SENTENCES = {
    "The man had gone out.": "Der<The Mann<man war<had ausgegangen.<gone+out.",
    "It is a quarter to twelve in Warsaw.": (
        "In<in Warschau<Warsaw. ist<is es<It Viertel<a+quarter vor<to zwölf.<twelve"
    ),
    "If he does not look forward to a concert, their clever duck will jump.": (
        "Wenn<If er<he sich<look+forward nicht<not auf<to ein<a Konzert<concert,"
        " freut,<does+look+forward wird<will ihre<their kluge<clever Ente<duck"
        " springen.<jump."
    ),
}


def test_the_sample_corpus_knows_which_word_comes_from_which():
    chunk = make_chunk(1, 0, alignments=True)["train"]
    found = {}
    for english, german, alignment in chunk:
        of = {number: [] for number in range(len(german.split()))}
        for i, j in (map(int, link.split("-")) for link in alignment.split()):
            of[j].append(english.split()[i])
        linked = zip(german.split(), of.values(), strict=True)
        found[english] = " ".join(f"{word}<{'+'.join(words)}" for word, words in linked)
    assert {sentence: found[sentence] for sentence in SENTENCES} == SENTENCES


def test_alignments_leave_the_text_as_it_is_and_few_words_without_a_link():
    chunk, plain = make_chunk(3, 0, alignments=True), make_chunk(3, 0)
    for part in PARTS:
        assert [pair[:2] for pair in chunk[part]] == plain[part]
    words = [len(english.split()) for english, _, _ in chunk["train"]]
    linked = [len({link.split("-")[0] for link in a.split()}) for _, _, a in chunk["train"]]
    assert sum(linked) > 0.98 * sum(words)


def test_alignments_are_three_more_files(tmp_path, aiayn):
    assert aiayn("sample", tmp_path, "--pairs", 30, "--alignments")[0] == 0
    lines = (tmp_path / "train.align").read_text().splitlines()
    assert lines == [pair[2] for pair in make_chunk(1, 0, alignments=True)["train"][:30]]
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{part}.{ending}" for part in PARTS for ending in ("en", "de", "align")
    }
    write_sample(tmp_path, pairs=5, seed=1, force=True)
