"""Loading a model is quick: nothing of torch's compiler is imported, and no weight is drawn."""

import subprocess
import sys

import pytest
import torch
from toy import tiny_config

from aiayn.checkpoint import SkipInit
from aiayn.model.transformer import Transformer

RUN_AND_LIST = """
import sys
from aiayn.cli import main
sys.argv[0] = "aiayn"
try:
    main()
finally:
    slow = ("sympy", "torch._dynamo", "torch._inductor", "sacrebleu", "sacremoses")
    print("loaded:", *(name for name in slow if name in sys.modules), file=sys.stderr)
"""


def loaded_by(*line, stdin=""):
    done = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST, *map(str, line)],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "command",
    [
        ("generate", "MODEL"),
        ("attend", "MODEL", "ba be", "--json"),
        ("info", "MODEL"),
        ("info", "--preset", "base"),
    ],
    ids=" ".join,
)
def test_a_command_that_loads_a_model_imports_no_compiler(trained, command):
    line = [trained if word == "MODEL" else word for word in command]
    assert loaded_by(*line, stdin="ba be\n") == "loaded:"


def test_scoring_by_a_model_imports_no_compiler(trained, tmp_path):
    (tmp_path / "text").write_text("ba be\n")
    line = ("score", "--model", trained, tmp_path / "text", tmp_path / "text")
    assert loaded_by(*line) == "loaded:"


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_model_without_initial_weights_has_the_shapes_and_ties_of_another(positions):
    config = tiny_config(f"model.positions={positions}", "model.output_bias=true").model
    state = torch.get_rng_state()
    with SkipInit():
        empty = Transformer(config, 50)
    assert torch.equal(torch.get_rng_state(), state)
    whole = Transformer(config, 50)
    shapes = [{n: w.shape for n, w in m.state_dict().items()} for m in (empty, whole)]
    assert shapes[0] == shapes[1]
    assert empty.output.weight is empty.source_embedding.weight
    empty.load_state_dict(whole.state_dict())
    ids = torch.tensor([[5, 6, 1]])
    assert torch.equal(empty.eval()(ids, ids), whole.eval()(ids, ids))
