"""What a run has reached so far, from its folder: `aiayn info RUN`."""

from pathlib import Path
from typing import Any

from aiayn.checkpoint import ModelFile
from aiayn.run_folder import Progress, RunFolder, list_steps
from aiayn.training.cost import PAPER_COST, paper_flops, training_flops


def summarize(run: Path, last: ModelFile) -> dict[str, Any]:
    """Return how far a run is, how good, and what it has cost."""
    progress = Progress.of(last)
    validations = [row for row in RunFolder(run).read_metrics() if "valid" in row]
    best = next((row for row in reversed(validations) if row["best"]), None)
    tokens = (progress.source_tokens, progress.target_tokens)
    config = last.config
    flops = training_flops(config.model, last.codec.sizes, tokens, passes=config.optim.passes)
    return {
        "run": str(run),
        "updates": f"{progress.step:,} of {config.train.steps:,}",
        "epoch": progress.epoch,
        "target tokens": progress.target_tokens,
        "hours": round(progress.seconds / 3600, 3),
        "tokens a second": round(progress.target_tokens / max(progress.seconds, 1e-9)),
        **_corpora(run, progress),
        "checkpoints": list(list_steps(run)),
        "best": {"step": best["step"], **best["valid"]} if best else {},
        "last": {"step": validations[-1]["step"], **validations[-1]["valid"]}
        if validations
        else {},
        "cost": {
            "floating-point operations": flops,
            "as the paper counts, on one P100": paper_flops(progress.seconds, 1),
            **{f"the paper's {name}": cost for name, cost in PAPER_COST.items()},
        },
    }


def _corpora(run: Path, progress: Progress) -> dict[str, Any]:
    """Return the share of each data folder and what it has given, where there are several."""
    shares = RunFolder(run).shares()
    found = {
        path: {"share": share, "epoch": epoch, "target tokens": tokens}
        for (path, share), (epoch, _, tokens) in zip(
            shares.items(), progress.places, strict=False
        )
    }
    return {"corpora": found} if found else {}
