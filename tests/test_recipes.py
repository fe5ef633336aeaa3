"""The recipes: what can be checked in seconds. `recipes/rehearse.sh` runs all of them."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from aiayn.config_file import read_yaml
from aiayn.data.trees import read_trees
from aiayn.presets import BASE

RECIPES = Path(__file__).parents[1] / "recipes"
RUNS = sorted(RECIPES.glob("*/run.sh"))
SCRIPTS = [*RUNS, *sorted(RECIPES.glob("*.sh"))]
SECONDS = 300
"""For any one command."""
PAPER_TABLE_3 = {
    # row: perplexity, BLEU, millions of parameters where the paper prints them
    "base": (4.92, 25.8, 65),
    "A1": (5.29, 24.9, None),
    "A2": (5.00, 25.5, None),
    "A3": (4.91, 25.8, None),
    "A4": (5.01, 25.4, None),
    "B1": (5.16, 25.1, 58),
    "B2": (5.01, 25.4, 60),
    "C1": (6.11, 23.7, 36),
    "C2": (5.19, 25.3, 50),
    "C3": (4.88, 25.5, 80),
    "C4": (5.75, 24.5, 28),
    "C5": (4.66, 26.0, 168),
    "C6": (5.12, 25.4, 53),
    "C7": (4.75, 26.2, 90),
    "D1": (5.77, 24.6, None),
    "D2": (4.95, 25.5, None),
    "D3": (4.67, 25.3, None),
    "D4": (5.47, 25.7, None),
    "E": (4.92, 25.7, None),
    "big": (4.33, 26.4, 213),
}


def named(path: Path) -> str:
    return str(path.relative_to(RECIPES))


def environment(**more: str) -> dict[str, str]:
    """A plain environment in which `python` and `aiayn` are those of the tests."""
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in ("WORK", "SCALE", "DRY_RUN", "SRC", "TGT", "GPUS", "JOBS")
    }
    return {**kept, "PATH": tools, "OMP_NUM_THREADS": "1", **more}


def bash(folder: Path, *command: object, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", *map(str, command)],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def recipe(tmp_path: Path, body: str) -> Path:
    """A recipe made up for a test, which sources steps.sh."""
    script = tmp_path / "mine" / "run.sh"
    script.parent.mkdir()
    script.write_text(f". {RECIPES / 'steps.sh'}\n{body}\n")
    return script


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # As for a script, what lies beside it can be imported.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=named)
def test_bash_can_read_each_script(script: Path) -> None:
    assert bash(RECIPES, "-n", script).stderr == ""


@pytest.mark.parametrize("script", RUNS, ids=named)
def test_each_recipe_can_be_run_and_says_what_it_is(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert (script.parent / "README.md").exists()
    assert "recipes/" in bash(RECIPES, script, "--help").stdout


@pytest.mark.parametrize("script", RUNS, ids=named)
def test_another_scale_is_refused(script: Path, tmp_path: Path) -> None:
    ended = bash(tmp_path, script, SCALE="half")
    assert ended.returncode == 2
    assert "paper, laptop or rehearsal is wanted" in ended.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["table2_wmt14_en_de", "table2_wmt14_en_fr", "table3_variations", "table4_parsing"]
)
def test_an_unknown_row_is_refused(name: str, tmp_path: Path) -> None:
    ended = bash(tmp_path, RECIPES / name / "run.sh", "F9", "--dry-run")
    assert ended.returncode == 2
    assert "there is no row 'F9'" in ended.stderr


def test_a_dry_run_prints_the_plan_and_touches_nothing(tmp_path: Path) -> None:
    ended = bash(tmp_path, RECIPES / "table3_variations/run.sh", "base", "--dry-run")
    assert ended.returncode == 0
    for part in ("europarl-v7.tgz", "aiayn preprocess", "aiayn train", "63,082,496 parameters"):
        assert part in ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_rehearsal_never_takes_the_place_of_the_papers_scale(tmp_path: Path) -> None:
    script = recipe(tmp_path, 'echo "$WORK"')
    assert bash(tmp_path, script).stdout == "work/mine\n"
    assert bash(tmp_path, script, SCALE="rehearsal").stdout == "work/mine/rehearsal\n"


def test_a_step_whose_output_exists_is_skipped(tmp_path: Path) -> None:
    script = recipe(tmp_path, 'make() { echo made; touch "$1"; }\nstep "make" here make here')
    assert "made" in bash(tmp_path, script).stderr
    again = bash(tmp_path, script)
    assert "here exists" in again.stderr and "made" not in again.stderr


def test_a_stopped_command_stops_the_recipe_with_its_exit_code(tmp_path: Path) -> None:
    body = 'stop() { echo half; return 75; }\ncapture "stop" "$WORK/out" stop\necho went on'
    ended = bash(tmp_path, recipe(tmp_path, body))
    assert (ended.returncode, ended.stdout) == (75, "")
    assert not (tmp_path / "work/mine/out").exists()


MEET = """
meet() { # NAME OTHER...: waits until all are there
    touch "$WORK/$1"
    for other; do until [ -e "$WORK/$other" ]; do sleep 0.1; done; done
    echo "$1 with $# of $GPUS processes"
    [ "$1" != b ] || { echo out of paper; return 75; }
}
"""


def test_steps_run_at_once_and_each_writes_its_own_log(tmp_path: Path) -> None:
    script = recipe(tmp_path, MEET + 'at_once meet "a c" "c a"\necho went on')
    ended = bash(tmp_path, script, JOBS="2", GPUS="9")
    assert (ended.returncode, ended.stdout) == (0, "went on\n")
    assert (tmp_path / "work/mine/a-c.log").read_text() == "a with 2 of 1 processes\n"
    assert (tmp_path / "work/mine/c-a.log").read_text() == "c with 2 of 1 processes\n"


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_step_that_fails_beside_others_stops_the_recipe(jobs: str, tmp_path: Path) -> None:
    script = recipe(tmp_path, MEET + "at_once meet a b c\necho went on")
    ended = bash(tmp_path, script, JOBS=jobs)
    assert ended.returncode == 75
    assert "out of paper" in ended.stdout + ended.stderr and "went on" not in ended.stdout
    assert ("b: ended with exit code 75" in ended.stderr) == (jobs == "3")
    # What was begun beside it is finished.
    assert (tmp_path / "work/mine/c").exists() == (jobs == "3")


LAST = """
last() { # NAME: runs until it is told to stop, and then saves
    bash -c 'trap "sleep 2; echo saved; exit 75" TERM
        touch "$1"; while :; do sleep 0.1; done' - "$WORK/$1"
}
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_signal_stops_all_that_runs_at_once(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    script = recipe(tmp_path, LAST + "at_once last a b\necho went on")
    ended = subprocess.Popen(
        ["bash", script], cwd=tmp_path, env=environment(JOBS="2"), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    work = tmp_path / "work/mine"
    deadline = time.monotonic() + 60
    while not (work / "a").exists() or not (work / "b").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    ended.send_signal(number)
    assert ended.communicate(timeout=60) == ("", None)
    assert ended.returncode == code
    assert all((work / f"{name}.log").read_text().endswith("saved\n") for name in "ab")


def test_a_partial_download_is_resumed_and_checked(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.write_text("0123456789")
    check = "10:84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"
    script = recipe(tmp_path, f'download file://{whole} "$WORK/file" {check}')
    (tmp_path / "work/mine").mkdir(parents=True)
    (tmp_path / "work/mine/file.part").write_text("01234")
    assert bash(tmp_path, script).returncode == 0
    assert (tmp_path / "work/mine/file").read_text() == "0123456789"


@pytest.mark.parametrize("check", ["11", "10:0000"])
def test_a_download_that_fails_its_check_is_not_used(check: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.write_text("0123456789")
    script = recipe(tmp_path, f'download file://{whole} "$WORK/file" {check}')
    ended = bash(tmp_path, script)
    assert ended.returncode == 3
    assert "does not match" in ended.stderr
    assert not (tmp_path / "work/mine/file").exists()


def test_a_failed_download_says_what_to_do_by_hand(tmp_path: Path) -> None:
    script = recipe(tmp_path, 'download file:///nowhere/x.tgz "$WORK/x.tgz" 10')
    ended = bash(tmp_path, script)
    assert ended.returncode == 3
    assert "put it at work/mine/x.tgz and run this again" in ended.stderr


def test_cleaning_keeps_pairs_of_a_fitting_length(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b c\n\na, b!\na\na\tb\na b c d e\n")
    (tmp_path / "t").write_text("x y z\nx\nx y z z\nx y\nx y\nx y z\n")
    script = recipe(tmp_path, f". {RECIPES / 'wmt14.sh'}\nclean s t 4 1.5 out/s out/t")
    ended = bash(tmp_path, script)
    assert ended.stdout == "3 of 6 pairs kept; dropped: 1 empty, 1 too long, 1 unequal\n"
    assert (tmp_path / "out/s").read_text() == "a b c\na, b!\na\tb\n"
    assert (tmp_path / "out/t").read_text() == "x y z\nx y z z\nx y\n"


def test_cleaning_drops_and_counts_bad_bytes(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes("a\nb\0\nc\nü\n".encode())
    (tmp_path / "t").write_bytes(b"w\nx\ny \xff\nz\n")
    script = recipe(tmp_path, f". {RECIPES / 'wmt14.sh'}\nclean s t 80 0 out/s out/t")
    assert bash(tmp_path, script).stdout == "2 of 4 pairs kept; dropped: 2 bad bytes\n"
    assert (tmp_path / "out/s").read_text() == "a\nü\n"
    assert (tmp_path / "out/t").read_text() == "w\nz\n"


def test_a_killed_recipe_resumes(tmp_path: Path) -> None:
    command = [str(RECIPES / "table2_wmt14_en_de/run.sh"), "data"]
    work = tmp_path / "work/table2_wmt14_en_de/rehearsal"
    first = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(SCALE="rehearsal"),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    limit = time.monotonic() + SECONDS
    while not (work / "text/train.de").exists() and first.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    assert first.wait(timeout=SECONDS) == -signal.SIGKILL
    assert not (work / "data/manifest.json").exists()
    second = bash(tmp_path, *command, SCALE="rehearsal")
    assert second.returncode == 0
    assert "text/train.de exists" in second.stderr
    assert (work / "data/manifest.json").exists()


@pytest.mark.parametrize(
    ("name", "row", "score", "value"),
    [
        ("table2_wmt14_en_de", "base", "paper-BLEU", 27.3),
        ("table2_wmt14_en_de", "big", "paper-BLEU", 28.4),
        ("table2_wmt14_en_fr", "base", "paper-BLEU", 38.1),
        ("table2_wmt14_en_fr", "big", "paper-BLEU", 41.8),
        ("table4_parsing", "wsj", "F1", 91.3),
        ("table4_parsing", "semi", "F1", 92.7),
    ],
)
def test_the_expected_scores_are_the_papers(
    name: str, row: str, score: str, value: float
) -> None:
    expected = yaml.safe_load((RECIPES / name / "expected.yaml").read_text())
    band = expected["rows"][row]["scores"][score]
    assert band["paper"] == value
    assert band["low"] < value < band["high"]


@pytest.mark.parametrize("name", ["table2_wmt14_en_de", "table2_wmt14_en_fr"])
def test_the_expected_costs_are_the_papers(name: str) -> None:
    rows = yaml.safe_load((RECIPES / name / "expected.yaml").read_text())["rows"]
    found = {row: (of["updates"], of["hours"], of["cost"]) for row, of in rows.items()}
    assert found == {"base": (100_000, 12, 3.3e18), "big": (300_000, 84, 2.3e19)}


def test_the_expected_table_3_is_the_papers() -> None:
    rows = yaml.safe_load((RECIPES / "table3_variations/expected.yaml").read_text())["rows"]
    found = {
        row: (of["perplexity"], of["BLEU"], of.get("parameters")) for row, of in rows.items()
    }
    assert found == PAPER_TABLE_3


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RECIPES.glob("*/*.yaml")) if path.name != "expected.yaml"],
    ids=named,
)
def test_each_settings_file_fits_the_configuration(path: Path) -> None:
    assert read_yaml(path, BASE) != BASE


def test_trees_of_the_rehearsal_can_be_read(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, str(RECIPES / "table4_parsing/make_trees.py"), "50", "1"],
        capture_output=True,
        check=True,
    )
    (tmp_path / "trees.mrg").write_bytes(made.stdout)
    assert len(list(read_trees(tmp_path / "trees.mrg"))) == 50


def made_up_card(value: float, scale: str) -> dict[str, Any]:
    expected = {
        "result": "Table 9",
        "rows": {"base": {"scores": {"BLEU": {"paper": 27.3, "low": 26.8, "high": 27.8}}}},
    }
    info = {
        "step": 100_000,
        "hours": 12.0,
        "cost": {"floating-point operations": 9.5e17},
        "parameters": {"total": 63_082_496},
        "settings": {"model": {"layers": 6}},
    }
    scores = [{"name": "BLEU", "value": value, "signature": "tok:13a"}]
    make_card = load(RECIPES / "card.py").make_card
    card: dict[str, Any] = make_card(
        expected, "base", info, scores, gpus=8, tflops=9.5, scale=scale
    )
    return card


@pytest.mark.parametrize(
    ("value", "scale", "verdict"),
    [
        (27.804, "paper", "inside"),
        (27.806, "paper", "outside"),
        (26.7, "paper", "outside"),
        (27.3, "rehearsal", "rehearsal"),
        (27.3, "laptop", "laptop"),
    ],
)
def test_a_card_judges_a_score_by_its_band(value: float, scale: str, verdict: str) -> None:
    card = made_up_card(value, scale)
    assert card["scores"][0]["verdict"] == verdict
    assert f"| {verdict} |" in load(RECIPES / "card.py").to_markdown(card)


@pytest.mark.parametrize("scale", ["paper", "laptop", "rehearsal"])
def test_a_rehearsal_and_nothing_else_says_that_its_scores_mean_nothing(scale: str) -> None:
    card = load(RECIPES / "card.py").to_markdown(made_up_card(0.0, scale))
    table_3 = load(RECIPES / "table3_variations/table.py").to_markdown([], {}, scale)
    expected = {"peer": "theirs", "rows": {}}
    multi30k = load(RECIPES / "multi30k/table.py").to_markdown({}, expected, scale)
    for text in (card, table_3, multi30k):
        assert ("its scores mean nothing." in text) == (scale == "rehearsal")


def test_a_card_counts_cost_as_the_paper_does() -> None:
    assert made_up_card(27.3, "paper")["obtained"]["cost"] == pytest.approx(3.2832e18)


def finished_run(run: Path, *, perplexity: float, bleu: float, step: int = 9) -> dict[str, Any]:
    return {
        "run": str(run),
        "last": {"step": step, "perplexity": perplexity, "BLEU": bleu},
        "parameters": {"total": 63_082_496},
        "settings": {"train": {"steps": 9}},
    }


def test_table_3_compares_rows_with_the_papers(tmp_path: Path) -> None:
    run = tmp_path / "base"
    run.mkdir()
    info = finished_run(run, perplexity=4.9, bleu=25.5)
    scores = {"scores": [{"name": "paper-BLEU", "value": 25.9}]}
    (run / "score.json").write_text(json.dumps(scores))
    (tmp_path / "info.json").write_text(json.dumps(info))
    folder = RECIPES / "table3_variations"
    printed = subprocess.run(
        [
            *(sys.executable, str(folder / "table.py"), str(folder / "expected.yaml")),
            *("info.json", "--svg", "plot.svg"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    wanted = "| base | 4.90 | 4.92 | 25.5 | 25.9 | 25.8 | 63.1 | 65 | inside |"
    assert printed.stdout.splitlines()[2:] == [wanted]
    assert (tmp_path / "plot.svg").read_text().count("<circle") == 4


def test_the_best_translation_is_the_one_most_like_its_reference() -> None:
    choose = load(RECIPES / "student/choose.py")
    nbest = ["1\t1\t-1\tein Haus", "1\t2\t-2\tein Hund", "2\t1\t-1\teine Katze"]
    assert choose.best(nbest, ["ein Hund bellt", "zwei"]) == ["ein Hund", "eine Katze"]
    # By word: the second is long, and the first the least probable.
    assert choose.keep(0.7, ["-9", "-10", "-1"], ["a b", "a b c d e f", "a"]) == [1, 2]


def test_a_line_is_in_the_language_whose_own_words_it_has() -> None:
    share_in = load(RECIPES / "multilingual/language.py").share_in
    german, french = {"der", "hund", "in"}, {"le", "chien", "in"}
    assert share_in(["Der Hund in", "le Hund chien", "", "in"], german, french) == 0.25


@pytest.mark.parametrize(
    ("an_hour", "jump", "flat"), [(0.0, 0.01, True), (0.02, 0.0, False), (0.0, 0.03, False)]
)
def test_the_soak_finds_a_slow_leak_and_a_jump(an_hour: float, jump: float, flat: bool) -> None:
    soak = load(RECIPES / "bench/soak.py")
    # The first minutes are for warming up; then there is a little noise.
    rows = [
        (minute, {"train": 100 * (1 + an_hour * minute / 60) + minute % 2 / 10})
        for minute in range(10, 110)
    ]
    rows[70][1]["train"] *= 1 + jump
    assert soak.report([(0, {"train": 1.0}), *rows], warm_up=10) == (not flat)
