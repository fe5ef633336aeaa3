"""What a run has reached so far, from its folder: `aiayn info RUN`."""

from pathlib import Path
from typing import Any

from aiayn.checkpoint import ModelFile, list_steps
from aiayn.training.cost import PAPER_COST, paper_flops, training_flops
from aiayn.training.run import RunFolder
from aiayn.training.state import Place


def summarize(run: Path, last: ModelFile) -> dict[str, Any]:
    """Return how far a run is, how good, and what it has cost."""
    place = Place(**last.training["place"])
    validations = [row for row in RunFolder(run).read_metrics() if "valid" in row]
    best = next((row for row in reversed(validations) if row["best"]), None)
    shared = last.codec.shared
    flops = training_flops(
        last.config.model,
        source_vocabulary=len(last.codec.source),
        target_vocabulary=None if shared else len(last.codec.target),
        source_tokens=place.source_tokens,
        target_tokens=place.target_tokens,
    )
    hours = place.seconds / 3600
    return {
        "run": str(run),
        "updates": f"{place.step:,} of {last.config.train.steps:,}",
        "epoch": place.epoch,
        "target tokens": place.target_tokens,
        "hours": round(hours, 3),
        "tokens a second": round(place.target_tokens / max(place.seconds, 1e-9)),
        "checkpoints": list(list_steps(run)),
        "best": {"step": best["step"], **best["valid"]} if best else {},
        "last": {"step": validations[-1]["step"], **validations[-1]["valid"]}
        if validations
        else {},
        "cost": {
            "floating-point operations": flops,
            "as the paper counts, on one P100": paper_flops(place.seconds, 1),
            **{f"the paper's {name}": cost for name, cost in PAPER_COST.items()},
        },
    }
