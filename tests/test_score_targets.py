"""How probable given translations are: by hand, in any batch, and as the search has it."""

import pytest
import torch
from toy import sentences, translation

from aiayn.checkpoint import load_model
from aiayn.generation.score_targets import score_targets
from aiayn.generation.search import BeamSearch, length_penalty
from aiayn.generation.translator import Translator


@pytest.fixture(scope="module")
def file(trained):
    return load_model(trained / "average.pt")


def test_the_probability_of_a_translation_is_the_product_over_its_tokens(file):
    model, codec = file.build(), file.codec
    (found,) = score_targets(model, codec, ["ba be"], ["ab eb"])
    source, target = codec.encode_source("ba be"), codec.encode_target("ab eb")
    logits = model(torch.tensor([source]), torch.tensor([target]))[0]
    wanted = [
        row.log_softmax(0)[token].item() for row, token in zip(logits, target, strict=True)
    ]
    assert found.log_p == pytest.approx(wanted, rel=1e-4)
    assert found.total == pytest.approx(sum(wanted), rel=1e-4)
    assert found.pieces[-1] == "</s>"


def test_a_right_translation_is_more_probable_than_a_wrong_one(file):
    lines = sentences(20, seed=31)
    right = score_targets(file.build(), file.codec, lines, list(map(translation, lines)))
    wrong = score_targets(file.build(), file.codec, lines, lines)
    assert all(one.total > other.total for one, other in zip(right, wrong, strict=True))


def test_probabilities_are_batch_invariant(file):
    lines = sentences(20, seed=32)
    targets = list(map(translation, lines))
    one, other = (
        [
            found.total
            for found in score_targets(file.build(), file.codec, lines, targets, batch_tokens=n)
        ]
        for n in (1, 4096)
    )
    assert one == pytest.approx(other, rel=1e-4, abs=1e-5)


def test_the_score_of_the_search_is_the_probability_over_the_penalty(file):
    model, codec, lines = file.build(), file.codec, sentences(10, seed=33)
    translations = list(Translator([model], codec, BeamSearch()).translate(lines))
    given = score_targets(model, codec, lines, [found.text for found in translations])
    for found, scored in zip(translations, given, strict=True):
        (best,) = found.outputs
        assert len(scored.log_p) == len(best.pairs[0][1])
        penalty = length_penalty(len(scored.log_p), 0.6)
        assert best.score == pytest.approx(scored.total / penalty, rel=1e-3, abs=1e-5)
