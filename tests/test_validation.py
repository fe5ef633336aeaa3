"""Validation: its loss and its score are those of `aiayn generate` and `aiayn score`."""

import json
import math

import pytest
import torch
from toy import TINY

from aiayn.checkpoint import load_model
from aiayn.distributed import ProcessGroup
from aiayn.run_folder import Progress, RunFolder, validation_key
from aiayn.scoring.score import Score
from aiayn.training.loss import validation_loss
from aiayn.validation import Validation, validation_score

ALONE = ProcessGroup(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def file(trained):
    return load_model(trained / "average.pt")


@pytest.mark.parametrize("limit", [1, 40, 10_000])
def test_the_perplexity_is_that_of_score_for_any_size_of_batch(
    trained, file, data, aiayn, limit
):
    found = validation_loss(file.build(), data.corpus("valid"), ALONE, torch.float32, limit)
    valid = (data.path / "valid.src", data.path / "valid.ref")
    _, out, _ = aiayn("score", "--model", trained / "average.pt", *valid, "--json")
    assert math.exp(found) == pytest.approx(json.loads(out)["scores"][0]["value"], rel=1e-4)


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_score_is_that_of_generate_and_score(trained, file, data, aiayn, metric):
    found = validation_score(data, file.config.decode, metric)(file.build(), ALONE)
    _, out, _ = aiayn("generate", trained / "average.pt", "-i", data.path / "valid.src")
    ref = data.path / "valid.ref"
    code, line, _ = aiayn("score", ref, "-m", metric, stdin=out.encode())
    assert (code, line.split("=")[0].strip()) == (0, f"{found.name}|{found.signature}")
    assert f"= {found.value:.2f}" in line


def test_metrics_hold_the_score_by_its_name():
    score = Score(name="BLEU", value=20.0, signature="")
    assert Validation(0.0).metrics == {"loss": 0.0, "perplexity": 1.0}
    assert Validation(0.0, score).metrics == {"loss": 0.0, "perplexity": 1.0, "BLEU": 20.0}


def test_a_higher_score_is_better_and_among_equal_scores_a_lower_loss():
    worst, middle, best = (
        {"loss": 3.0, "BLEU": 0.0},
        {"loss": 2.0, "BLEU": 0.0},
        {"loss": 9.0, "BLEU": 1.0},
    )
    assert validation_key(worst) < validation_key(middle) < validation_key(best)
    progress = Progress()
    found = [progress.update_best(valid) for valid in (worst, middle, best, worst)]
    assert found == [True, True, True, False]
    assert (progress.best, progress.best_loss, progress.stale) == (1.0, 9.0, 1)


def test_a_run_is_validated_by_the_metric_that_it_began_with(data, tmp_path, aiayn):
    line = ("train", data.path, "-o", tmp_path / "run", "--preset", "tiny", *TINY, "--steps=6")
    assert aiayn(*line, "train.metric=chrf")[0] == 0
    (valid,) = [row for row in RunFolder(tmp_path / "run").read_metrics() if "valid" in row]
    assert list(valid["valid"]) == ["loss", "perplexity", "chrF2"]
    assert "nc:6" in valid["signature"]
    code, _, err = aiayn(*line)
    assert (code, "train.metric: chrf -> bleu" in err) == (2, True)
