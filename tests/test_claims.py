"""The claims of the text and the costs of table 1: what their recipes count and judge."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from torch import nn

RECIPES = Path(__file__).parents[1] / "recipes"
NAMES = ("count", "measure", "transformer", "counted", "train", "table")


@pytest.fixture
def recipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the recipe, by name, as its run.sh lets them find one another."""
    for folder in ("walkthrough", "table1_complexity", "claims"):
        monkeypatch.syspath_prepend(str(RECIPES / folder))
    yield {name: import_module(name) for name in NAMES}
    for name in NAMES:
        sys.modules.pop(name, None)


def expected() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((RECIPES / "claims/expected.yaml").read_text())
    return content


def test_every_claim_that_is_counted_is_judged(recipes: dict[str, ModuleType]) -> None:
    assert [claim.__name__ for claim in recipes["counted"].CLAIMS] == list(
        expected()["counted"]
    )


@pytest.mark.parametrize(
    "name", ["masked_decoder", "positions_are_linear", "wavelengths", "heads_cost_the_same"]
)
def test_a_claim_of_the_text_holds(name: str, recipes: dict[str, ModuleType]) -> None:
    value, shown = getattr(recipes["counted"], name)()
    claim = expected()["counted"][name]
    assert recipes["table"].judge_counted({"value": value}, claim) == "holds"
    assert shown


@pytest.mark.parametrize(
    ("finding", "theirs", "verdict"),
    [
        ("lower", [3.0, 3.1], "holds"),
        ("lower", [0.1, 0.2], "does not hold"),
        ("lower", [1.0, 1.2], "within noise"),
        ("alike", [1.0, 1.2], "holds"),
        ("alike", [3.0, 3.1], "does not hold"),
    ],
)
def test_a_difference_counts_if_it_exceeds_that_of_the_seeds(
    finding: str, theirs: list[float], verdict: str, recipes: dict[str, ModuleType]
) -> None:
    def seeds(losses: list[float]) -> list[dict[str, Any]]:
        return [{"longest": 1, "losses": {"1": loss, "2": 9.0}} for loss in losses]

    runs = {"ours-16": seeds([1.0, 1.1]), "theirs-16": seeds(theirs)}
    claim = {"runs": ["ours-16", "theirs-16"], "lengths": "seen", "finding": finding}
    assert recipes["table"].judge_trained(runs, claim)[1] == verdict


def test_without_the_scale_scores_are_products_of_queries_and_keys(
    recipes: dict[str, ModuleType],
) -> None:
    train = recipes["train"]
    models = {}
    for kind in ("scaled", "unscaled"):
        torch.manual_seed(1)
        options = {"attention": kind, "d_k": 16, "positions": "sinusoidal"}
        models[kind] = train.build(train.argparse.Namespace(**options)).encoder[0]
    x = torch.randn(1, 3, train.D)
    queries = {kind: layer.self_attention.w_q(x) for kind, layer in models.items()}
    torch.testing.assert_close(queries["unscaled"], 4 * queries["scaled"])


def test_operations_are_multiply_adds_of_products_and_numbers_made(
    recipes: dict[str, ModuleType],
) -> None:
    product, x = nn.Linear(3, 5, bias=False), torch.randn(7, 3)
    operations = recipes["count"].operations
    assert operations(product, x) == 7 * 3 * 5
    assert operations(lambda x: product(x).T.relu(), x) == 7 * 3 * 5 + 7 * 5


def test_additive_attention_keeps_a_hidden_layer_for_each_pair(
    recipes: dict[str, ModuleType],
) -> None:
    measure = recipes["measure"]
    n, d = 32, measure.D_K
    kept = measure.bytes_kept(measure.additive_attention(d, 0), torch.randn(1, n, d))
    plain = measure.bytes_kept(measure.self_attention(d, 0), torch.randn(1, n, d))
    assert plain < 4 * n * n * d <= kept
