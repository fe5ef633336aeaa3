"""How much is searched at once: what is fast on a CPU, or what the memory of a GPU holds."""

from collections.abc import Sequence

from aiayn.config import DECODING_BATCH_TOKENS
from aiayn.device import free_memory
from aiayn.generation.engine import ROWS, USUAL_BEAM
from aiayn.model.transformer import Transformer

# Of the free memory: longer sentences than the usual ones take more, and so do copies.
USED_PART = 0.5
# Tokens of a sentence that room is made for, in source and target.
USUAL_LENGTH = 64
MOST_ROWS = 4096
# log P, the logits before it, and what choosing the best takes.
COPIES_OF_LOGITS = 3


def batch_that_fits(models: Sequence[Transformer], width: int) -> tuple[int, int]:
    """Return how many padded source tokens and how many hypotheses to search at once.

    Where memory does not suffice after all, fewer sentences are searched at once.
    """
    free = free_memory(models[0].target_embedding.weight.device)
    if free is None:
        return DECODING_BATCH_TOKENS, ROWS
    fitting = int(free * USED_PART) // sum(bytes_of_row(model, width) for model in models)
    rows = min(MOST_ROWS, max(ROWS, fitting))
    # As `tokens_at_once` counts them.
    return rows // width * USUAL_LENGTH * max(1, width // USUAL_BEAM), rows


def bytes_of_row(model: Transformer, width: int) -> int:
    """Return the memory of one of `width` hypotheses of a sentence of the usual length."""
    c, weight = model.config, model.target_embedding.weight
    keys_and_values = c.heads * (c.d_k + c.d_v) * c.decoder_depth
    # Those of the source serve all hypotheses of a sentence, as do its encoder's activations.
    of_sentence = keys_and_values + c.d_ff + 4 * c.d_model
    of_tokens = (keys_and_values + -(-of_sentence // width)) * USUAL_LENGTH
    logits = COPIES_OF_LOGITS * len(weight) * 4
    return of_tokens * weight.element_size() + logits
