"""The score of held-out text, as training calls it.

The score is that of `aiayn generate` followed by `aiayn score`: there is one way to translate
and one to score.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from aiayn.config import DecodeConfig, ValidationMetric
from aiayn.data.folder import DataFolder
from aiayn.device import float32_products
from aiayn.distributed import ProcessGroup
from aiayn.generation.search import BeamSearch
from aiayn.generation.translator import Translator
from aiayn.model.transformer import Transformer
from aiayn.scoring.bleu import score_text
from aiayn.scoring.brackets import score_trees
from aiayn.scoring.score import Score

# Translates the validation text and returns its score, the same on every process.
ScoreModel = Callable[[Transformer, ProcessGroup], Score]


class Validation(NamedTuple):
    """The result of a validation."""

    loss: float
    """Nats per target token, EOS included, without smoothing and without dropout."""
    score: Score | None = None
    """BLEU or chrF of translations, or F1 of trees."""

    @property
    def perplexity(self) -> float:
        """exp(loss), per subword as in table 3."""
        return math.exp(min(self.loss, 700))

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers by name, as metrics.jsonl holds them."""
        score = {} if self.score is None else {self.score.name: self.score.value}
        return {"loss": self.loss, "perplexity": self.perplexity, **score}


def validation_score(
    data: DataFolder, decode: DecodeConfig, metric: ValidationMetric = "bleu"
) -> ScoreModel:
    """Return a function that translates the validation text with a model and scores it."""
    sources, references = data.text("valid")
    search = BeamSearch.of(decode)

    def score(model: Transformer, group: ProcessGroup) -> Score:
        translator = Translator(
            [model], data.codec, search, decode.extra_length, longest=decode.longest
        )
        share = [line for _, line in group.share(sources)]
        # As `aiayn generate` does, whatever training allows.
        with float32_products("highest"):
            translated = [found.text for found in translator.translate(share)]
        hypotheses = group.gather(translated, len(sources))
        if data.codec.settings.task == "parsing":
            return score_trees(references, hypotheses).scores()[0]  # F1 of all sentences
        return score_text(hypotheses, [references], [metric])[0]

    return score
