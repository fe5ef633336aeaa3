"""`aiayn score` from the shell: what it prints, warns of, refuses, and its exit codes."""

import json
import os
import subprocess
import sys

import pytest

from aiayn.cli import main
from aiayn.scoring.bleu import score_text

REFERENCE = ["Der Hund bellt laut.", "Die Katze schlief auf dem Sofa.", "Er kam am Abend."]
HYPOTHESIS = ["Der Hund bellt laut.", "Die Katze liegt auf dem Sofa.", "Er kam am Morgen."]
TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with a reference, a hypothesis and trees; return a writer of files."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, *lines: str) -> str:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return name

    write("ref.de", *REFERENCE)
    write("hyp.de", *HYPOTHESIS)
    write("gold.mrg", TREE, TREE)
    write("parsed.mrg", TREE, TREE[:-1])
    return write


@pytest.fixture
def aiayn(folder, monkeypatch, capsys, give_stdin):
    """Return a function that runs a command line: exit code, stdout, stderr."""

    def run(line: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["aiayn", *line.split()])
        give_stdin(stdin.encode())
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def from_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *line.split()],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env={**os.environ, **environment},
    )


def test_the_hypothesis_comes_from_standard_input_or_a_file(aiayn):
    code, out, err = aiayn("score ref.de", stdin="\n".join(HYPOTHESIS))
    assert (code, err) == (0, "")
    assert out.startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert out.count("\n") == 1
    assert aiayn("score ref.de -i hyp.de") == (0, out, "")


def test_the_command_and_the_library_give_the_same_number(aiayn):
    _, out, _ = aiayn("score ref.de -i hyp.de -m bleu -m chrf -m ter --json")
    scores = score_text(HYPOTHESIS, [REFERENCE], ("bleu", "chrf", "ter"))
    assert json.loads(out)["scores"] == [record for s in scores for record in s.records()]


def test_the_papers_number_is_printed_beside_sacrebleus(aiayn):
    _, out, _ = aiayn("score ref.de -i hyp.de --paper")
    bleu, paper = out.splitlines()
    assert "BLEU|nrefs:1|case:mixed|eff:no|tok:13a" in bleu
    assert "paper-BLEU|nrefs:1|case:mixed|tok:moses-de" in paper
    assert bleu.index(" = ") == paper.index(" = ")


def test_the_papers_number_never_stands_without_bleu(aiayn):
    _, out, _ = aiayn("score ref.de -i hyp.de --paper -m chrf --json")
    assert [s["name"] for s in json.loads(out)["scores"]] == ["BLEU", "chrF2", "paper-BLEU"]


def test_tokens_given_as_such_are_not_tokenized_again(aiayn, folder):
    folder("tok.de", "&quot; Ja &quot; , sagte er .")
    _, out, err = aiayn("score tok.de -i tok.de --paper --pretokenized --no-compound")
    assert "tok:none|quotes:kept|compound:kept" in out
    assert "looks tokenized" in err


def test_tokenized_text_gives_one_warning_and_none_of_sacrebleu(aiayn, folder, caplog):
    folder("tok.de", *["Ja , das ist gut ."] * 120)
    _, _, err = aiayn("score tok.de -i tok.de")
    assert err.startswith("warning: tok.de looks tokenized in 120 of 120 lines")
    assert err.count("\n") == 1
    assert caplog.text == ""  # sacreBLEU keeps its own warning to itself


def test_hyphens_split_twice_are_warned_of(aiayn, folder):
    folder("tok.de", "E ##AT##-##AT## Mail")
    _, _, err = aiayn("score tok.de -i tok.de --paper --pretokenized")
    assert "pass --no-compound" in err
    _, _, err = aiayn("score tok.de -i tok.de --paper --pretokenized --no-compound")
    assert "pass --no-compound" not in err


def test_several_references_are_several_files(aiayn):
    _, out, _ = aiayn("score ref.de hyp.de -i hyp.de")
    assert "nrefs:2" in out
    assert " = 100.00 " in out


def test_an_interval_is_added_on_request(aiayn):
    _, out, _ = aiayn("score ref.de -i hyp.de --ci --json")
    (score,) = json.loads(out)["scores"]
    assert score["margin"] > 0
    assert "bs:1000|seed:12345" in score["signature"]


def test_another_system_is_compared_on_request(aiayn):
    _, out, _ = aiayn("score ref.de -i hyp.de --vs ref.de")
    assert "against 100.00 (p = " in out
    _, out, _ = aiayn("score ref.de -i hyp.de --vs ref.de -m chrf -m ter --json")
    assert [score["other"] for score in json.loads(out)["scores"]] == pytest.approx([100, 0])


def test_the_table_by_length_follows_the_score(aiayn):
    _, out, _ = aiayn("score ref.de -i hyp.de --by-length")
    assert out.splitlines()[1].split() == ["reference", "words", "sentences", "BLEU"]
    assert out.splitlines()[2].split()[:2] == ["0-10", "3"]
    _, out, _ = aiayn("score ref.de -i hyp.de --by-length --json")
    assert json.loads(out)["by_length"][0]["sentences"] == 3


def test_line_counts_that_differ_are_reported_with_both_files(aiayn, folder):
    folder("two.de", *HYPOTHESIS[:2])
    code, out, err = aiayn("score ref.de -i two.de")
    assert (code, out) == (3, "")
    assert "two.de has 2 lines and ref.de has 3" in err
    code, _, err = aiayn("score ref.de -i hyp.de --vs two.de")
    assert code == 3
    assert "two.de has 2 lines" in err


def test_nothing_on_standard_input_points_at_the_command_before(aiayn):
    code, _, err = aiayn("score ref.de")
    assert code == 3
    assert "standard input has 0 lines and ref.de has 3" in err
    assert "check the command that writes it" in err


def test_empty_references_are_warned_of(aiayn, folder):
    folder("holes.de", REFERENCE[0], "", "")
    code, _, err = aiayn("score holes.de -i hyp.de")
    assert code == 0
    assert "warning: the reference: 2 of 3 lines are empty, the first of them line 2" in err


def test_a_file_of_2737_lines_is_warned_of(aiayn, folder):
    folder("filtered.de", *["Ja, das ist gut."] * 2737)
    code, _, err = aiayn("score filtered.de -i filtered.de")
    assert code == 0
    assert "-t wmt14/full -l en-de" in err


def test_a_score_in_the_band_ends_with_0_and_one_outside_with_6(aiayn):
    assert aiayn("score ref.de -i ref.de --expect 100\xb10.5")[0] == 0
    code, out, err = aiayn("score ref.de -i ref.de --expect 27.3+-0.5")
    assert code == 6
    assert out.startswith("BLEU|")
    assert "BLEU is 100.00, and 26.80 to 27.80 was expected" in err


def test_the_band_is_for_the_papers_number_where_there_is_one(aiayn):
    _, _, err = aiayn("score ref.de -i ref.de --paper --expect 27.3+-0.5")
    assert "paper-BLEU is 100.00" in err
    _, _, err = aiayn("score ref.de -i ref.de -m ter -m bleu --expect 27.3+-0.5")
    assert "TER is 0.00" in err
    code, _, err = aiayn("score --trees gold.mrg -i gold.mrg --expect 92.7+-0.5")
    assert code == 6
    assert "F1 is 100.00" in err


def test_trees_are_scored_with_their_errors_in_the_same_line(aiayn):
    code, out, err = aiayn("score --trees gold.mrg -i parsed.mrg")
    all_lengths, short = out.splitlines()
    assert code == 0
    assert "F1|params:COLLINS|labeled:yes|length:all = 100.00 (LR = 100.00" in all_lengths
    assert "errors = 1 skipped = 0 sentences = 2 F1-strict = " in all_lengths
    assert short.startswith("F1@40|")
    assert "2 : Bracketing is unbalanced" in err
    assert "1 broken or empty trees" in err


def test_tree_scores_have_their_names_in_json(aiayn):
    _, out, _ = aiayn("score --trees gold.mrg -i parsed.mrg --json")
    values = {s["name"]: s["value"] for s in json.loads(out)["scores"]}
    names = ("LR", "LP", "F1", "exact", "crossing", "tagging", "errors", "skipped")
    assert {*names, *(f"{name}@40" for name in names)} <= set(values)
    assert values["errors"] == values["errors@40"] == 1


def test_trees_as_the_treebank_ships_them_are_read_on_both_sides(aiayn, folder):
    folder("wsj.mrg", "", "( (S ", "    (NP (DT the) (NN dog) )", "    (VP (VBZ barks) ) ))")
    folder("one.mrg", TREE)
    for test in ("one.mrg", "wsj.mrg"):
        _, out, err = aiayn(f"score --trees wsj.mrg -i {test}")
        assert " = 100.00 (" in out
        assert err == ""


def test_a_parameter_file_is_read_and_named(aiayn, folder):
    folder("my.prm", "LABELED 0", "CUTOFF_LEN 2")
    _, out, _ = aiayn("score --trees gold.mrg -i gold.mrg --evalb-params my.prm")
    assert "F1|params:my.prm|labeled:no|length:all" in out
    assert "F1@2|" in out


def test_gold_trees_that_are_plain_text_are_refused_by_name(aiayn):
    code, out, err = aiayn("score --trees ref.de -i ref.de")
    assert (code, out) == (3, "")
    assert "error: ref.de has no tree" in err
    assert "fix: give --trees a file of bracketed trees" in err


def test_numbers_of_trees_that_differ_are_reported_with_both_files(aiayn, folder):
    folder("one.mrg", TREE)
    code, _, err = aiayn("score --trees gold.mrg -i one.mrg")
    assert code == 3
    assert "one.mrg has 1 trees and gold.mrg has 2" in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("score", "there is no reference"),
        ("score ref.de -", "only one file can be standard input"),
        ("score nothing.de -i hyp.de", "nothing.de does not exist"),
        (
            "score ref.de -i hyp.de --expect 27",
            "--expect is '27', expected a score with its tolerance",
        ),
        ("score ref.de -i hyp.de --no-compound", "--paper is needed for --compound"),
        ("score ref.de -i hyp.de --pretokenized", "--paper is needed for --pretokenized"),
        ("score ref.de -i hyp.de --evalb-params x", "--trees is needed for --evalb-params"),
        ("score ref.de --trees gold.mrg", "--trees does not go with REF"),
        ("score --trees gold.mrg --paper", "--trees does not go with --paper"),
        ("score --trees gold.mrg -m bleu", "--trees does not go with -m"),
        ("score --model m hyp.de ref.de --paper -m ter", "--model does not go with -m"),
        ("score --model m hyp.de ref.de --ci", "--model does not go with --ci"),
        ("score --model m hyp.de ref.de --no-compound", "--model does not go with --compound"),
        ("score --model m hyp.de ref.de -i hyp.de", "--model does not go with -i"),
        ("score --model m ref.de ref.de --trees x", "--model does not go with --trees"),
        ("score ref.de -i hyp.de --tokens", "--model is needed for --tokens"),
        ("score ref.de -i hyp.de --device cuda", "--model is needed for --device"),
        ("score --trees gold.mrg --tokens", "--model is needed for --tokens"),
        ("score ref.de -t wmt14 -l en-de", "-t does not go with REF"),
        ("score -t wmt14/ful -l en-de", "sacreBLEU has no test set wmt14/ful"),
        ("score -t wmt14/full", "test set wmt14/full needs a language pair"),
        ("score -t wmt14/full -l en-xx", "test set wmt14/full has no pair en-xx"),
    ],
)
def test_a_command_line_that_does_not_fit_ends_with_2(aiayn, line, message):
    code, out, err = aiayn(line)
    assert (code, out) == (2, "")
    assert f"error: {message}" in err
    assert "fix: " in err


def test_a_misspelled_test_set_gets_the_nearest_names(aiayn):
    assert "did you mean wmt14/full" in aiayn("score -t wmt14/ful -l en-de")[2]


def test_a_test_set_in_sacrebleus_cache_is_used(folder, tmp_path):
    cache = tmp_path / "cache" / "wmt14" / "full"
    cache.mkdir(parents=True)
    for field in ("src", "ref", "docid", "genre", "origlang"):
        text = "".join(f"{line}\n" for line in REFERENCE)
        (cache / f"wmt14_full.en-de.{field}").write_text(text, encoding="utf-8")
    ran = from_shell(
        "aiayn score -t wmt14/full -l en-de -i hyp.de", SACREBLEU=str(tmp_path / "cache")
    )
    assert ran.returncode == 0, ran.stderr
    (score,) = score_text(HYPOTHESIS, [REFERENCE])
    assert f" = {score.value:.2f} " in ran.stdout
    assert "|test:wmt14/full|lang:en-de|" in ran.stdout


def test_a_test_set_that_does_not_download_ends_with_3_and_a_fix(folder, tmp_path):
    ran = from_shell(
        "aiayn score -t wmt14/full -l en-de -i hyp.de",
        SACREBLEU=str(tmp_path / "cache"),
        https_proxy="http://127.0.0.1:9",  # nobody listens there
    )
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "test set wmt14/full is not in" in ran.stderr
    assert "--echo ref > ref.txt" in ran.stderr


def test_scoring_text_loads_neither_torch_nor_the_papers_tokenizer(folder):
    code = (
        "import sys; from aiayn.cli import main\n"
        "sys.argv = 'aiayn score ref.de -i hyp.de'.split()\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'numpy', 'sacremoses'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_ends_messages_as_quietly_as_results(tmp_path):
    (tmp_path / "ref").write_text("a b c d e\n" * 3)
    script = '"$0" -m aiayn score "$1" -i "$1" --by-length 2>&1 | true; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, str(tmp_path / "ref")],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.stdout.strip() in ("0", "141")
    assert done.stderr == ""


@pytest.mark.parametrize(("reference", "hypothesis"), [("r.de", "h.hyp"), ("h.hyp", "r.de")])
def test_reference_and_translation_in_each_others_place_are_told(
    aiayn, tmp_path, reference, hypothesis
):
    for name in ("r.de", "h.hyp"):
        (tmp_path / name).write_text("ein Hund sieht eine Katze\n")
    err = aiayn(f"score {tmp_path / reference} -i {tmp_path / hypothesis}")[2]
    assert ("h.hyp is taken for the reference" in err) == (reference == "h.hyp")
