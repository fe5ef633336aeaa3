"""The tables that recipes print: table 3 on a laptop with its verdicts, F1 by length."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from test_recipes import RECIPES, SECONDS, bash, finished_run, load

from aiayn.scoring.brackets import score_trees

TABLE_3 = RECIPES / "table3_variations"
findings = load(TABLE_3 / "findings.py")
A_IS_WORSE = findings.Finding("A is worse than B.", (("A", "B"),))


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([10.0, 10.2], [12.0, 12.2], "seen"),
        ([12.0, 12.2], [10.0, 10.2], "not seen: the other way round"),
        ([10.0, 12.0], [10.5, 12.5], "within noise"),
        # 3.6 standard errors, and it would take 4.3 of them after two repetitions.
        ([10.0, 11.0], [12.3, 13.3], "within noise"),
    ],
)
def test_a_difference_counts_beyond_what_its_standard_error_explains(a, b, verdict):
    assert findings.verdict(A_IS_WORSE, {"A": a, "B": b}).startswith(verdict)


def test_rows_that_are_alike_differ_by_no_more_than_seeds_do():
    alike = findings.Finding("A is as good as B.", (("A", "B"),), alike=True)
    assert findings.verdict(alike, {"A": [10.0, 10.2], "B": [10.1, 10.2]}).startswith("seen")
    assert findings.verdict(alike, {"A": [10.0, 10.2], "B": [12.1, 12.2]}).startswith(
        "not seen"
    )


def test_a_finding_of_several_rows_can_be_seen_in_part():
    several = findings.Finding("More is better.", (("A", "B"), ("B", "C")))
    values = {"A": [10.0, 10.1], "B": [12.0, 12.1], "C": [12.0, 12.1]}
    assert findings.verdict(several, values).startswith("seen in part")


@pytest.mark.parametrize("values", [{"A": [1.0, 2.0]}, {"A": [1.0], "B": [2.0]}, {}])
def test_without_both_rows_and_some_seeds_there_is_no_verdict(values):
    assert findings.verdict(A_IS_WORSE, values) == ""


def test_the_deviation_between_seeds_is_pooled_over_rows():
    values = {"A": [1.0, 3.0], "B": [10.0, 12.0], "C": [50.0]}
    assert findings.seed_deviation(values) == pytest.approx(2**0.5)


def test_the_laptop_table_means_over_seeds_and_leaves_unfinished_runs_out(tmp_path):
    table = load(TABLE_3 / "table.py")
    runs = {"base": 8.0, "base-seed2": 2.0, "A1": 8.0}
    info = [finished_run(tmp_path / name, perplexity=p, bleu=30) for name, p in runs.items()]
    info.append(finished_run(tmp_path / "A2", perplexity=1.0, bleu=0, step=5))
    paper = {"perplexity": 5.0, "BLEU": 25.0}
    seconds = {"train base, seed 1": 60.0, "train base, seed 2": 180.0}
    runs = table.read_runs(info, seconds)
    rows = table.to_rows(runs, dict.fromkeys(("base", "A1", "A2"), paper))
    base, a1 = table.to_markdown(rows, {}, "laptop").splitlines()[2:4]
    assert base == "| base | 2 | 4.00 (8.00, 2.00) | 30.0 (30.0, 30.0) |  |  | 63.08 | 3.0 |"
    assert a1 == "| A1 | 1 | 8.00 | 30.0 | +100.0%, +0.0 | +0.0%, +0.0 | 63.08 |  |"
    assert len(rows) == 2


def test_recorded_runs_stay_until_the_same_row_and_seed_is_run_again(tmp_path):
    table = load(TABLE_3 / "table.py")
    first = table.Run("base", 1, 8.0, 30.0, 63, None, 60.0)
    second, again = first._replace(seed=2), first._replace(perplexity=7.0)
    file = tmp_path / "laptop.jsonl"
    assert [run.commit for run in table.record([first, second], file, "abc")] == ["abc", "abc"]
    kept = table.record([again, second], file, "def")
    assert [(run.seed, run.perplexity, run.commit) for run in kept] == [
        (1, 7.0, "def"),
        (2, 8.0, "abc"),
    ]


def test_seconds_of_a_resumed_step_are_added_up(tmp_path):
    (tmp_path / "seconds.tsv").write_text(
        "train A\t9.0\t1.5\nsteps.sh: Killed\ntrain B\t9.0\t4\ntrain A\t9.0\t2\n"
    )
    found = load(TABLE_3 / "table.py").read_seconds(tmp_path / "seconds.tsv")
    assert found == {"train A": 3.5, "train B": 4.0}


def test_a_step_writes_down_its_seconds_and_nothing_else(tmp_path):
    script = tmp_path / "mine" / "run.sh"
    script.parent.mkdir()
    body = 'make() { echo out; echo error >&2; touch "$1"; }\nstep "make it" here make here'
    script.write_text(f". {RECIPES / 'steps.sh'}\n{body}\n")
    assert bash(tmp_path, script).stderr == "==> make it\nout\nerror\n"
    what, clock, processors = (tmp_path / "work/mine/seconds.tsv").read_text().split("\t")
    assert what == "make it"
    assert float(clock) >= 0 and float(processors) >= 0


def test_f1_by_length_counts_each_sentence_once_and_what_is_dropped():
    gold = ["(S (NN a))", f"(S {'(NN a) ' * 12})", "(S (NP (NN a)) (NN b))"]
    test = ["(S (NN a))", f"(S {'(NN a) ' * 12})", "(S (NN a) (, b))"]
    written = load(RECIPES / "table4_parsing/lengths.py").to_markdown(
        score_trees(gold, test).sentences
    )
    assert written.splitlines()[2:4] == [
        "| 1 to 10 | 2 | 1 | 100.00 |",
        "| 11 to 20 | 1 | 0 | 100.00 |",
    ]


def test_the_last_trees_of_a_treebank_are_its_test_part(tmp_path):
    trees = [f"( (S (NN {word})))\n" for word in "abcde"]
    (tmp_path / "all.mrg").write_text("".join(trees))
    script = RECIPES / "table4_parsing/split_trees.py"
    command = [sys.executable, str(script), "all.mrg", "2", "trees/train.mrg", "trees/test.mrg"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=SECONDS)
    assert (tmp_path / "trees/train.mrg").read_text() == "".join(trees[:3])
    assert (tmp_path / "trees/test.mrg").read_text() == "".join(trees[3:])


def test_constituents_become_trees_of_their_own_once_each(tmp_path):
    tree = "( (S (NP (DT a) (NN b) (NN c)) (VP (V d) (NP (DT a) (NN b) (NN c)))))\n"
    (tmp_path / "all.mrg").write_text(tree)
    command = [sys.executable, str(RECIPES / "table4_parsing/phrases.py"), "all.mrg"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    noun_phrase = "(NP (DT a) (NN b) (NN c))"
    assert made.stdout == f"( {noun_phrase} )\n( (VP (V d) {noun_phrase}) )\n"


@pytest.mark.parametrize(
    ("gpu", "tflops"),
    [("Tesla P100-SXM2-16GB", 9.5), ("Tesla K80", 2.8), ("NVIDIA H100", None)],
)
def test_a_card_knows_the_gpus_of_the_papers_footnote_only(gpu, tflops):
    assert load(RECIPES / "card.py").tflops_of(gpu) == tflops


def write_bundle(path: Path) -> None:
    """A corpus like wmt16_en_de.tar.gz: Moses tokens in byte pairs, of a few words."""
    pairs = {"train.tok.clean": 300, "newstest2013.tok": 4, "newstest2014.tok": 4}
    with tarfile.open(path, "w:gz") as archive:
        for name, count in pairs.items():
            for side, line in (("en", "a ca@@ t &apos;s"), ("de", "ei@@ ne Ka@@ tze .")):
                content = f"{line}\n".encode() * count
                entry = tarfile.TarInfo(f"{name}.bpe.32000.{side}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def test_a_bundle_is_taken_piece_by_piece_and_scored_as_it_is_tokenized(tmp_path):
    write_bundle(tmp_path / "wmt16_en_de.tar.gz")
    script = RECIPES / "table2_wmt14_en_de/run.sh"
    ended = bash(tmp_path, script, "base", SCALE="rehearsal", BUNDLE="wmt16_en_de.tar.gz")
    assert ended.returncode == 0, ended.stderr
    work = tmp_path / "work/table2_wmt14_en_de/rehearsal/bundle"
    assert (work / "text/test.tok.de").read_text() == "eine Katze .\n" * 4
    assert "tok:none" in ended.stdout
    assert "@@" in (work / "text/train.de").read_text()
    assert "@@" not in (work / "base/test.hyp").read_text()


def test_label_smoothing_is_expected_to_help_bleu_and_to_hurt_perplexity(tmp_path):
    table = load(TABLE_3 / "table.py")
    runs = {"base": (8.0, 30.0), "base-seed2": (8.01, 30.1), "D3": (7.0, 28.0)}
    info = [finished_run(tmp_path / n, perplexity=p, bleu=b) for n, (p, b) in runs.items()]
    paper = {"perplexity": 5.0, "BLEU": 25.0}
    rows = table.to_rows(table.read_runs(info), dict.fromkeys(("base", "D3"), paper))
    helps, hurts = (
        line.split(" | ") for line in table.findings_table(rows) if "Label smoothing" in line
    )
    assert helps[1] == "" and helps[2].startswith("seen (base - D3 = +2.05")
    assert hurts[1].startswith("seen (D3 - base") and hurts[2] == " |"
