"""Imports point down only: the module tree of the package, held by reading its imports."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiayn

ROOT = Path(aiayn.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# What everything may import: settings, errors and the ids that every vocabulary begins with.
BASIC = {"config", "config_file", "errors", "presets", "special_ids"}
# What training and generation are made of.
RUNNING = BASIC | {
    "checkpoint",
    "console",
    "data",
    "device",
    "distributed",
    "kernels",
    "memory",
    "model",
    "model_path",
    "run_folder",
    "signals",
    "single_process",
}

# What each part of the package may import besides itself.
MAY_IMPORT = {
    "errors": set(),
    "special_ids": set(),
    "config": {"errors"},
    "config_file": {"config", "errors"},
    "presets": {"config", "config_file", "errors"},
    "console": BASIC,
    "signals": BASIC,
    "memory": set(),
    "single_process": set(),
    "device": BASIC | {"memory"},
    "distributed": BASIC | {"device"},
    "kernels": {"config", "device", "errors"},
    "model": {"config", "errors", "kernels", "special_ids"},
    # A batch knows the layout that the kernels read.
    "data": BASIC | {"console", "kernels.layout", "signals"},
    # A model file carries its vocabulary, and is written atomically.
    "checkpoint": BASIC
    | {"data.atomic", "data.codec", "data.text", "device", "model", "plain_file"},
    "plain_file": set(),
    "model_path": BASIC | {"console", "plain_file"},
    "run_folder": BASIC | {"checkpoint", "console", "data", "model_path"},
    # Held-out text is translated and scored as `generate` and `score` do it.
    "validation": RUNNING | {"generation", "scoring"},
    "training": RUNNING | {"validation"},
    "generation": RUNNING,
    # The attention page takes what generation computes, and tokens are the vocabulary's.
    "figures": BASIC | {"data.vocabulary", "generation"},
    "scoring": {"errors", "data.pharaoh", "data.trees"},
    "sample": {"console", "data", "errors"},
    # A graph of ONNX is traced with the layout of padded sentences.
    "export": BASIC | {"checkpoint", "console", "data", "kernels.layout", "model"},
    # The commands as a library, and what serves it over HTTP.
    "library": RUNNING | {"figures", "generation"},
    "serving": RUNNING | {"generation", "library"},
    "__main__": {"cli"},
    "__init__": {"config", "errors", "generation", "library", "model", "presets"},
}
MAY_IMPORT_ANYTHING = {"cli", "commands"}

# The program loads what a command needs, and the console a progress bar when it draws one:
# `aiayn --help` waits for neither. Compiled decoding does without torch, which these load for
# what it does not do itself.
MAY_IMPORT_LATE = {
    "cli",
    "commands",
    "console",
    "generation.native_decoder",
    "generation.native_model",
    "generation.search",
    "generation.start_search",
    "generation.translator",
    "model_path",
}

SLOW_TO_LOAD = {"torch", "numpy", "sentencepiece", "sacrebleu", "sacremoses"}


def name_of(path: Path) -> str:
    """Return `data.codec` for aiayn/data/codec.py."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def part_of(path: Path) -> str:
    return name_of(path).split(".")[0]


def is_module(name: str) -> bool:
    """Whether a name is a module or package of ours, and not a name inside one."""
    place = ROOT.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full names that a piece of code imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                "." * node.level + f"{node.module}.{alias.name}" for alias in node.names
            )


def imported_parts(tree: ast.AST) -> set[str]:
    """Return our own modules that a piece of code imports, as `data.codec`."""
    found = set()
    for name in imports(tree):
        package, _, rest = name.partition(".")
        if package != "aiayn" or rest == "__version__":
            continue
        while "." in rest and not is_module(rest):
            rest = rest.rpartition(".")[0]
        found.add(rest)
    return found


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def at_the_top(path: Path) -> ast.Module:
    """Return what runs when a module is imported: no bodies of functions, no mere types."""
    tree = parsed(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            node.body = []
    return tree


def is_within(name: str, allowed: set[str]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in allowed)


def loaded_by(path: Path) -> set[str]:
    """Return the foreign packages that importing a module loads, by way of ours."""
    loaded, waiting, seen = set(), [path], {path}
    while waiting:
        top = at_the_top(waiting.pop())
        loaded |= {name.split(".")[0] for name in imports(top)} - {"aiayn"}
        for part in imported_parts(top):
            module = ROOT.joinpath(*part.split(".")).with_suffix(".py")
            if module.is_file() and module not in seen:
                seen.add(module)
                waiting.append(module)
    return loaded


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_import_points_down(path):
    part = part_of(path)
    if part in MAY_IMPORT_ANYTHING:
        return
    assert part in MAY_IMPORT, f"say in MAY_IMPORT what {part} may import"
    for name in imported_parts(parsed(path)):
        assert is_within(name, MAY_IMPORT[part] | {part}), f"{path} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_what_should_start_fast_imports_inside_functions(path):
    if is_within(name_of(path), MAY_IMPORT_LATE):
        return
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            late = [name for statement in node.body for name in imports(statement)]
            assert not late, f"{path}: {node.name} imports {late}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_import_is_absolute(path):
    assert not [name for name in imports(parsed(path)) if name.startswith(".")]


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/__init__.py")), ids=name_of)
def test_a_sub_package_opens_with_a_docstring_and_nothing_else(path):
    tree = parsed(path)
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1


@pytest.mark.parametrize("path", sorted((ROOT / "scoring").glob("*.py")), ids=name_of)
def test_scoring_never_loads_torch(path):
    assert "torch" not in loaded_by(path)


@pytest.mark.parametrize(
    "name", ["translate_lines", "start_search", "output", "native_model"], ids=str
)
def test_compiled_decoding_never_loads_torch(name):
    assert "torch" not in loaded_by(ROOT / "generation" / f"{name}.py")


@pytest.mark.parametrize(
    "path", [ROOT / "cli.py", *sorted((ROOT / "commands").glob("*.py"))], ids=name_of
)
def test_help_waits_for_no_slow_library(path):
    slow = loaded_by(path) & SLOW_TO_LOAD
    assert not slow, f"{path} loads {slow} at the top"


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("kernels", "model"),
        ("kernels", "data"),
        ("model", "data"),
        ("model", "device"),
        ("model", "checkpoint"),
        ("model", "training"),
        ("model", "generation"),
        ("data", "model"),
        ("data", "training"),
        ("data", "generation"),
        ("checkpoint", "training"),
        ("checkpoint", "generation"),
        ("run_folder", "training"),
        ("validation", "training"),
        ("training", "generation"),
        ("training", "scoring"),
        ("generation", "training"),
        ("generation", "scoring"),
        ("generation", "validation"),
        ("scoring", "training"),
        ("scoring", "generation"),
        ("scoring", "model"),
        ("figures", "training"),
        ("export", "training"),
        ("export", "generation"),
    ],
    ids=lambda name: name,
)
def test_a_part_does_not_import(part, other):
    assert not is_within(other, MAY_IMPORT[part])
    for path in MODULES:
        if part_of(path) == part:
            found = {name for name in imported_parts(parsed(path)) if is_within(name, {other})}
            assert not found, f"{path} imports {found}"


def test_data_imports_no_kernel_but_the_layout_of_a_batch():
    for path in (ROOT / "data").glob("*.py"):
        found = {name for name in imported_parts(parsed(path)) if name.startswith("kernels")}
        assert found <= {"kernels.layout"}, f"{path} imports {found}"


@pytest.mark.parametrize(
    "part", sorted({part_of(path) for path in MODULES} - {"cli", "commands", "__main__"})
)
def test_nothing_but_the_program_imports_commands(part):
    for path in MODULES:
        if part_of(path) == part:
            assert not {"cli", "commands"} & {
                name.split(".")[0] for name in imported_parts(parsed(path))
            }


def test_the_arrows_have_no_circle():
    arrows = {
        part: {name.split(".")[0] for name in names} for part, names in MAY_IMPORT.items()
    }
    waiting = set(arrows) - {"__main__"}
    while waiting:
        free = {part for part in waiting if not arrows[part] & waiting}
        assert free, f"a circle among {sorted(waiting)}"
        waiting -= free


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import aiayn.data.text", {"data.text"}),
        ("from aiayn import console, __version__", {"console"}),
        ("from aiayn.data import text", {"data.text"}),
        ("from aiayn.data.text import read_lines", {"data.text"}),
        ("from aiayn.not_there.yet import Thing", {"not_there"}),
        ("def f():\n    from aiayn.config import Config", {"config"}),
        ("import torch\nfrom pathlib import Path", set()),
    ],
)
def test_an_import_is_seen_however_it_is_written(code, found):
    assert imported_parts(ast.parse(code)) == found
