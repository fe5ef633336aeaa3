"""Print the plan of a training run whose data do not exist yet, for `--dry-run` of a recipe.

plan.py VOCABULARY OPTIONS...      the options of `aiayn train`
"""

import argparse
import re
from pathlib import Path

from aiayn.commands.info import parse_sizes
from aiayn.commands.train import resolve
from aiayn.presets import preset
from aiayn.training.cost import parameters_of, training_flops


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("vocabulary", type=parse_sizes)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--steps")
    known, rest = parser.parse_known_args()
    settings = [word for word in rest if re.match(r"\w+\.\w+=", word)]
    if known.steps:
        settings.append(f"train.steps={known.steps}")
    config = resolve(preset(known.preset), known.config, settings)
    tokens = config.train.steps * config.batch.tokens
    flops = training_flops(
        config.model, known.vocabulary, (tokens, tokens), passes=config.optim.passes
    )
    parameters = parameters_of(config.model, *known.vocabulary)["total"]
    print(
        f"    {parameters:,} parameters, {config.train.steps:,} updates of"
        f" {config.batch.tokens:,} tokens per side, {flops:.2g} floating-point operations"
    )


if __name__ == "__main__":
    main()
