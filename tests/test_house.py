"""Limits on the size and the shape of the package, so that it stays easy to read."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiayn

ROOT = Path(aiayn.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

MODEL_LINES = 650
FILE_LINES = 400
FUNCTION_LINES = 60
SUPPRESSIONS = 5
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma|ruff:|mypy:|fmt:)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def test_the_model_of_the_paper_is_short():
    assert sum(len(lines_of(path)) for path in (ROOT / "model").glob("*.py")) < MODEL_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_file_is_long(path):
    assert len(lines_of(path)) <= FILE_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_function_is_long(path):
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{node.name} has {length} lines"


def test_no_class_name_occurs_twice():
    found = Counter(
        node.name for path in MODULES for node in nodes(path) if isinstance(node, ast.ClassDef)
    )
    assert not {name: count for name, count in found.items() if count > 1}


def test_checks_are_hardly_ever_suppressed():
    found = [
        f"{name_of(path)}:{number}"
        for path in MODULES
        for number, line in enumerate(lines_of(path), start=1)
        if SUPPRESSION.search(line)
    ]
    assert len(found) <= SUPPRESSIONS, found


def test_every_departure_from_the_paper_is_marked_and_listed():
    marks = sum("Differs from the paper" in line for path in MODULES for line in lines_of(path))
    readme = (ROOT.parent / "README.md").read_text(encoding="utf-8")
    listed = readme.split("## Departures from the paper")[1].split("\n## ")[0]
    assert marks == listed.count("\n- ")
