"""Help and shell completion: instant, because they load nothing heavy, and they teach."""

import os
import subprocess
import sys

import pytest

from aiayn.cli import SUMMARIES, load_command

COMMANDS = list(SUMMARIES)

RUN_AND_LIST = """
import sys
from aiayn.cli import main
sys.argv[0] = "aiayn"
try:
    main()
finally:
    heavy = {"torch", "numpy", "sentencepiece", "sacrebleu", "sacremoses"} & set(sys.modules)
    print("loaded:", *sorted(heavy), file=sys.stderr)
"""


def run(*line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process of its own; it prints at the end what it has loaded."""
    return subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST, *line],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def test_the_commands_are_listed_in_the_order_of_the_pipeline():
    pipeline = ["sample", "preprocess", "train", "average", "generate", "score"]
    assert [name for name in COMMANDS if name in pipeline] == pipeline


@pytest.mark.parametrize("line", [["--help"], ["-h"], ["--version"]], ids=" ".join)
def test_the_program_describes_itself_and_loads_nothing_heavy(line):
    done = run(*line)
    assert done.returncode == 0
    assert done.stderr == "loaded:\n"
    assert "aiayn " in done.stdout


def test_the_help_of_the_program_imports_no_command_and_no_progress_bar():
    listing = RUN_AND_LIST.replace(
        "heavy = {", 'heavy = {"yaml", "rich.progress", "aiayn.commands", '
    )
    done = subprocess.run(
        [sys.executable, "-c", listing, "--help"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    assert done.stderr == "loaded:\n"


def test_the_help_of_the_program_names_every_command():
    done = run("--help")
    assert [name for name in COMMANDS if f"\n{name} " not in done.stdout] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_shows_the_first_line_of_a_commands_help(name):
    assert load_command(name).help.split("\n\n")[0] == SUMMARIES[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_holds_examples_and_loads_nothing_heavy(name):
    done = run(name, "--help")
    title, *examples = load_command(name).epilog.split("\n\n")
    assert title == "[bold]Examples[/bold]"
    assert done.returncode == 0
    assert done.stderr == "loaded:\n"
    assert len(examples) >= 2
    for example in examples:
        assert f"aiayn {name}" in example
        assert example in done.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [("aiayn ", "train"), ("aiayn gen", "generate"), ("aiayn train --pre", "--preset")],
)
def test_the_shell_completes_words_and_loads_nothing_heavy(words, offered):
    done = run(
        _AIAYN_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(words.count(" ")),
    )
    assert offered in done.stdout.split("\n")
    assert done.stderr == "loaded:\n"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("translate", "did you mean generate?"),
        ("bleu", "did you mean score?"),
        ("Tokenise", "did you mean preprocess?"),
        ("convert", "did you mean export?"),
        ("avg", "did you mean average?"),
        ("trian", "did you mean train?"),
        ("xyzzy", "choose from sample, preprocess, train,"),
    ],
)
def test_an_unknown_command_is_answered_with_the_one_that_was_meant(aiayn, word, meant):
    code, out, err = aiayn(word, "model.pt")
    assert (code, out) == (2, "")
    assert f"error: there is no command '{word}'\n  fix: {meant}" in err


def test_an_error_in_the_settings_is_reported_at_once_and_without_a_traceback():
    done = run("train", "data", "-o", "run", "--preset", "bsae")
    assert done.returncode == 2
    assert "error: there is no preset 'bsae'" in done.stderr
    assert "fix: did you mean base?" in done.stderr
    assert done.stderr.endswith("loaded:\n")
    assert "Traceback" not in done.stderr
