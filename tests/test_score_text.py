"""sacreBLEU's numbers through aiayn.scoring.bleu: the same, with counts checked first."""

import random

import pytest
import sacrebleu

from aiayn.errors import DataError, OutsideBand, UsageError
from aiayn.scoring.bleu import score_by_length, score_text
from aiayn.scoring.checks import check_hyphens, check_text
from aiayn.scoring.compare import compare_text
from aiayn.scoring.score import Score, aligned, parse_band, require_same_count

WORDS = [
    "der",
    "die",
    "Haus",
    "Baum",
    "Hund",
    "Katze",
    "geht",
    "steht",
    "rot",
    "alt",
    "heute",
    ",",
]


def corpus(lines: int, seed: int = 1) -> tuple[list[str], list[str], list[str]]:
    """Return two hypotheses of unlike quality and their reference."""
    pick = random.Random(seed)

    def change(line: str, rate: float) -> str:
        return " ".join(pick.choice(WORDS) if pick.random() < rate else w for w in line.split())

    reference = [
        " ".join(pick.choices(WORDS, k=pick.randint(4, 30))) + "." for _ in range(lines)
    ]
    return [change(r, 0.2) for r in reference], [change(r, 0.5) for r in reference], reference


def score_of(value: float) -> Score:
    return Score(name="BLEU", value=value, signature="")


def test_bleu_chrf_and_ter_are_those_of_sacrebleu():
    good, _, reference = corpus(50)
    bleu, chrf, ter = score_text(good, [reference], ("bleu", "chrf", "ter"))
    assert bleu.value == sacrebleu.corpus_bleu(good, [reference]).score
    assert chrf.value == sacrebleu.corpus_chrf(good, [reference]).score
    assert ter.value == sacrebleu.corpus_ter(good, [reference]).score
    assert (bleu.name, chrf.name, ter.name) == ("BLEU", "chrF2", "TER")


def test_a_score_carries_sacrebleus_signature():
    good, _, reference = corpus(5)
    (score,) = score_text(good, [reference])
    version = sacrebleu.__version__
    assert score.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"


def test_the_line_of_a_score_is_the_line_of_sacrebleu():
    good, _, reference = corpus(20)
    (score,) = score_text(good, [reference])
    metric = sacrebleu.BLEU()
    line = metric.corpus_score(good, [reference]).format(signature=str(metric.get_signature()))
    assert score.line().startswith("BLEU|nrefs:1|")
    assert score.line() == line


def test_a_second_reference_can_only_help():
    good, bad, reference = corpus(30)
    (one,) = score_text(bad, [reference])
    (two,) = score_text(bad, [reference, good])
    assert "nrefs:2" in two.signature
    assert two.value > one.value


def test_a_test_set_and_its_languages_are_in_the_signature():
    good, _, reference = corpus(3)
    (score,) = score_text(good, [reference], test_set="wmt14/full", languages="en-de")
    assert "|test:wmt14/full|lang:en-de|" in score.signature


def test_a_chinese_target_is_tokenized_as_chinese():
    (score,) = score_text(["\u4e2d\u6587"], [["\u4e2d\u6587"]], languages="en-zh")
    assert "tok:zh" in score.signature


def test_an_interval_is_seeded_and_holds_the_score():
    good, _, reference = corpus(60)
    (first,) = score_text(good, [reference], intervals=True)
    (second,) = score_text(good, [reference], intervals=True)
    assert first == second
    assert abs(first.value - first.mean) < first.margin
    assert "bs:1000|seed:12345" in first.signature


def test_an_interval_is_that_of_sacrebleu():
    good, _, reference = corpus(40)
    (score,) = score_text(good, [reference], ("chrf",), intervals=True)
    theirs = sacrebleu.CHRF().corpus_score(good, [reference], n_bootstrap=1000)
    assert f"{theirs._mean:.6f} {theirs._ci:.6f}" == f"{score.mean:.6f} {score.margin:.6f}"


def test_a_much_better_system_is_better_by_more_than_chance():
    good, bad, reference = corpus(80)
    (score,) = compare_text(good, bad, [reference])
    assert score.value > score.other
    assert score.p_value < 0.05


def test_a_system_is_no_better_than_itself():
    good, _, reference = corpus(40)
    (score,) = compare_text(good, good, [reference])
    assert score.value == score.other
    assert score.p_value == 1


def test_a_comparison_keeps_the_score_and_adds_the_interval():
    good, bad, reference = corpus(40)
    (alone,) = score_text(good, [reference], languages="en-de", intervals=True)
    (score,) = compare_text(good, bad, [reference], languages="en-de")
    assert (score.value, score.detail, score.signature) == (
        alone.value,
        alone.detail,
        alone.signature,
    )
    assert (score.mean, score.margin) == pytest.approx((alone.mean, alone.margin))


def test_buckets_split_the_sentences_by_words_of_the_reference():
    lines = [" ".join(["Wort"] * n) for n in (4, 10, 11, 60, 61, 75)]
    buckets = score_by_length(lines, [lines])
    assert [(b.words, b.sentences) for b in buckets] == [
        ("0-10", 2),
        ("11-20", 1),
        ("51-60", 1),
        ("61 or more", 2),
    ]
    assert all(b.scores[0].value == pytest.approx(100) for b in buckets)


def test_a_bucket_has_the_score_of_its_sentences_alone():
    good, _, reference = corpus(60)
    short = [i for i, line in enumerate(reference) if len(line.split()) <= 10]
    (alone,) = score_text([good[i] for i in short], [[reference[i] for i in short]])
    assert score_by_length(good, [reference])[0].scores == [alone]


def test_unequal_counts_are_refused_where_sacrebleu_would_cut():
    good, bad, reference = corpus(5)
    with pytest.raises(DataError, match="has 4 lines and the reference has 5"):
        score_text(good[:4], [reference])
    with pytest.raises(DataError, match="the other system has 4 lines"):
        compare_text(good, bad[:4], [reference])


def test_the_two_sizes_of_newstest2014_are_named_when_they_meet():
    with pytest.raises(DataError, match=r"2,737 lines and the reference has 3,003") as caught:
        require_same_count([""] * 2737, [""] * 3003)
    assert "wmt14/full" in caught.value.fix


def test_an_empty_reference_file_is_refused():
    with pytest.raises(DataError, match="nothing to score against"):
        score_text([], [[]])


@pytest.mark.parametrize("text", ["27.3\xb10.5", "27.3+-0.5", "27.3 +/- .5", " 27.3 +- 0.5 "])
def test_a_band_is_read_in_each_of_its_spellings(text):
    band = parse_band(text)
    assert (band.center, band.width) == (27.3, 0.5)


@pytest.mark.parametrize(
    "text", ["27.3", "27.3-0.5", "27.3+0.5", "a+-b", "27,3+-0,5", "+-1", "nan+-1"]
)
def test_what_is_no_band_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="--expect") as caught:
        parse_band(text)
    assert "27.3+-0.5" in caught.value.fix


@pytest.mark.parametrize("value", [26.8, 27.3, 27.8, 27.804, 26.796])
def test_a_score_that_prints_inside_the_band_or_on_its_edge_passes(value):
    parse_band("27.3+-0.5").check(score_of(value))


@pytest.mark.parametrize("value", [26.79, 27.81, 0.0, float("nan")])
def test_a_score_outside_the_band_is_refused_with_both_ends(value):
    with pytest.raises(OutsideBand, match=r"26\.80 to 27\.80"):
        parse_band("27.3+-0.5").check(score_of(value))


def test_several_scores_stand_with_their_equals_signs_in_one_column():
    lines = aligned([score_of(1), Score(name="long-name", value=2, signature="a:b")])
    assert len({line.index(" = ") for line in lines}) == 1


def test_a_record_holds_what_is_known_and_then_the_parts():
    part = Score(name="LR", value=50.0, signature="s")
    whole = Score(name="F1", value=60.0, signature="s", parts=(part,))
    assert whole.records() == [
        {"name": "F1", "value": 60.0, "signature": "s"},
        {"name": "LR", "value": 50.0, "signature": "s"},
    ]


def warned(hypotheses: list[str], *references: list[str]) -> str:
    return "\n".join(check_text(hypotheses, references or [hypotheses], name="hyp.de"))


def test_plain_text_gives_no_warning():
    assert warned(["Das ist gut, sagte er.", "Wirklich ... 3.5 % ?", "Vraiment ?"]) == ""


@pytest.mark.parametrize("line", ["Ja , gut .", "&quot; Ja", "E @-@ Mail", "E ##AT##-##AT## M"])
def test_tokenized_text_is_noticed(line):
    assert "hyp.de looks tokenized in 2 of 4 lines" in warned([line, line, "Ja.", "Nein."])


def test_one_odd_line_in_twenty_is_no_sign_of_tokenized_text():
    assert warned(["Ja , gut ."] + ["Ja, gut."] * 19) == ""


@pytest.mark.parametrize("line", ["ein Ha@@ us", "\u2581ein \u2581Haus"])
def test_subwords_that_were_not_joined_are_noticed(line):
    assert "subword marks in 1 of 1 lines" in warned([line])


def test_empty_lines_are_counted_on_either_side():
    text = warned(["Ja.", "", " "], ["Ja.", "Gut.", ""])
    assert "hyp.de: 2 of 3 lines are empty, the first of them line 2" in text
    assert "the reference: 1 of 3 lines are empty, the first of them line 3" in text


def test_the_reference_that_is_markup_is_named():
    text = warned(["Ja."], ["Ja."], ['<seg id="1">Ja.</seg>'])
    assert text == "reference 2 looks like an SGML or XML file; take its text out first"


def test_the_filtered_newstest2014_is_noticed_by_its_length():
    assert "wmt14/full" in warned(["Ja."] * 2737)
    assert warned(["Ja."] * 3003) == ""


def test_hyphens_that_are_split_already_are_noticed():
    assert "2 lines" in next(check_hyphens(["a @-@ b", "a ##AT##-##AT## b", "a-b"]))
    assert not list(check_hyphens(["a-b"]))
