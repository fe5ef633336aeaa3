"""Bracketing scores: small cases counted by hand, and what must hold for any trees."""

import random

import pytest

from aiayn.errors import DataError
from aiayn.scoring.brackets import BracketingReport, score_trees
from aiayn.scoring.checks import check_trees
from aiayn.scoring.evalb_parameters import COLLINS, read_parameters
from aiayn.scoring.evalb_trees import split_trees

DOG = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"  # S 0-3, NP 0-2, VP 2-3
FORTY_ONE = "(S " + "(NN w) " * 41 + ")"


def figures(gold, test, parameters=COLLINS) -> dict[str, float]:
    """Return every figure by its name; a tree alone stands for a file of one."""
    gold, test = ([side] if isinstance(side, str) else side for side in (gold, test))
    records = [r for s in score_trees(gold, test, parameters).scores() for r in s.records()]
    return {record["name"]: record["value"] for record in records}


def messages(gold: str, test: str) -> list[str]:
    return score_trees([gold], [test]).messages()


def parameters(*lines: str):
    return read_parameters(lines, "my.prm")


def test_a_tree_against_itself_is_perfect():
    found = figures(DOG, DOG)
    assert [found[k] for k in ("LR", "LP", "F1", "exact", "tagging")] == [100] * 5
    assert (found["crossing"], found["no-crossing"], found["errors"]) == (0, 100, 0)


def test_one_bracket_of_three_right_is_a_third():
    found = figures(DOG, "(S (NP (DT the)) (VP (NN dog) (VBZ barks)))")
    assert found["LR"] == found["LP"] == found["F1"] == pytest.approx(100 / 3)
    assert (found["exact"], found["crossing"], found["no-crossing"]) == (0, 1, 0)
    assert found["tagging"] == 100


def test_a_flat_tree_is_precise_and_remembers_little():
    found = figures(DOG, "(S (DT the) (NN dog) (VBZ barks))")
    assert (found["LP"], found["LR"]) == (100, pytest.approx(100 / 3))
    assert found["F1"] == pytest.approx(50)


def test_a_wrong_label_is_a_wrong_bracket_and_a_wrong_tag_is_none():
    found = figures(DOG, "(S (XP (DT the) (NN dog)) (VP (VBD barks)))")
    assert found["F1"] == pytest.approx(200 / 3)
    assert found["tagging"] == pytest.approx(200 / 3)


def test_a_label_counts_as_often_as_it_is_in_the_gold_tree():
    found = figures("(S (A (X x)))", "(S (A (A (X x))))")
    assert (found["LR"], found["LP"]) == (100, pytest.approx(200 / 3))


def test_sums_are_over_brackets_and_not_over_sentences():
    found = figures([DOG, "(S (X x))"], [DOG, "(Q (X x))"])
    assert found["F1"] == 75
    assert found["exact"] == 50


def test_crossing_counts_brackets_of_the_test_tree_and_not_pairs():
    two = "(S (X (A a) (B b)) (Y (C c) (D d)))"
    one = "(S (A a) (Z (B b) (C c)) (D d))"
    assert figures(two, one)["crossing"] == 1
    assert figures(one, two)["crossing"] == 2


def test_three_crossings_are_more_than_two():
    gold = "(S (N a) (X (N b) (N c) (N d) (N e) (N f)))"
    test = "(S (A (B (C (N a) (N b)) (N c)) (N d)) (N e) (N f))"
    found = figures(gold, test)
    assert (found["crossing"], found["crossing<=2"]) == (3, 0)


def test_nested_and_neighboring_brackets_do_not_cross():
    assert (
        figures("(S (X (A a) (B b)) (C c))", "(S (A a) (Y (X (B b)) (C c)))")["crossing"] == 1
    )
    assert figures("(S (X (A a)) (Y (B b)))", "(S (Z (X (A a)) (Y (B b))))")["crossing"] == 0


def test_punctuation_and_the_root_are_left_out():
    gold = "(TOP (S (NP (NNS dogs)) (VP (VBP bark)) (. .)))"
    test = "(S (`` ``) (NP (NNS dogs)) (VP (VBP bark) (. .)))"
    assert figures(gold, test)["exact"] == 100


def test_traces_and_what_only_holds_traces_are_left_out():
    found = figures("(S (NP-SBJ (-NONE- *)) (VP (VB go)))", "(S (VP (VB go)))")
    assert found["exact"] == 100


def test_function_tags_and_indices_are_no_part_of_a_label():
    gold = "(S (NP-SBJ-1 (NN dog)) (VP=2 (VBZ barks)))"
    assert figures(gold, "(S (NP (NN dog)) (VP (VBZ barks)))")["exact"] == 100


def test_an_adverb_phrase_may_be_called_a_particle():
    assert figures("(S (ADVP (RB up)))", "(S (PRT (RB up)))")["exact"] == 100
    assert figures("(S (ADVP (RB up)))", "(S (PRT (RB up)))", parameters("DEBUG 0"))["F1"] == 50


def test_a_broken_tree_is_an_error_and_does_not_touch_the_other_figures():
    found = figures([DOG] * 4, [DOG, DOG[:-1], "(S (NN cat))", DOG.replace("dog", "cat")])
    assert (found["F1"], found["exact"], found["tagging"]) == (100, 100, 100)
    assert (found["sentences"], found["errors"], found["skipped"]) == (4, 3, 0)


def test_the_strict_f1_counts_every_bracket_of_a_broken_tree_as_wrong():
    found = figures([DOG, DOG], [DOG, "(S (NN cat))"])
    # 3 right of 6 in the gold trees, and of 3 + 1 in the others.
    assert found["F1-strict"] == pytest.approx(2 * 3 / (6 + 4) * 100)


def test_an_empty_line_is_skipped_and_strictly_a_miss():
    found = figures([DOG, DOG], [DOG, ""])
    assert (found["F1"], found["errors"], found["skipped"]) == (100, 0, 1)
    assert found["F1-strict"] == pytest.approx(2 * 3 / (6 + 3) * 100)


def test_a_tree_of_nothing_but_punctuation_is_skipped():
    assert figures(DOG, "(S (. .))")["skipped"] == 1


def test_only_broken_trees_score_zero_and_not_a_hundred():
    found = figures([DOG], [")"])
    assert (found["F1"], found["F1-strict"], found["crossing"]) == (0, 0, 0)


def test_errors_beyond_max_error_do_not_stop_the_scoring():
    found = figures([DOG] * 30, ["(S (NN cat))"] * 29 + [DOG])
    assert (found["errors"], found["F1"]) == (29, 100)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("(S (NP (DT the) (NN cat)) (VP (VBZ barks)))", "1 : Words unmatch (dog|cat)"),
        ("(S (NP (DT the) (NN dog)))", "1 : Length unmatch (3|2)"),
        (DOG[:-1], "1 : Bracketing is unbalanced (too many open bracket)"),
        (DOG + ")", "1 : Bracketing unbalance (too many close bracket)"),
        (DOG.replace("(NN dog)", "dog"), "1 : Reading sentence (dog has no bracket)"),
    ],
)
def test_an_error_is_told_as_evalb_tells_it(test, message):
    assert messages(DOG, test)[0] == message


def test_the_tag_xx_on_punctuation_makes_a_sentence_an_error():
    assert messages("(S (NN dog) (. .))", "(S (NN dog) (XX .))") == ["1 : Length unmatch (1|2)"]


def test_many_messages_are_cut_short_with_their_number():
    report = score_trees([DOG] * 50, ["(S (NN cat))"] * 50)
    assert len(report.messages()) == 21
    assert report.messages()[-1] == "and 30 more"


def test_a_sentence_of_41_words_is_not_among_the_short_ones():
    found = figures([DOG, FORTY_ONE], [DOG, FORTY_ONE])
    assert (found["sentences"], found["sentences@40"]) == (2, 1)


def test_a_trace_does_not_make_a_sentence_longer_and_punctuation_does():
    assert figures(FORTY_ONE.replace("NN w", "-NONE- *", 1), FORTY_ONE)["sentences@40"] == 1
    assert figures(FORTY_ONE.replace("NN w", ". .", 1), FORTY_ONE)["sentences@40"] == 0


def test_a_tree_of_a_thousand_words_is_scored():
    tree = "(S " + "(NP (NN w)) " * 1000 + ")"
    assert figures(tree, tree)["exact"] == 100


def test_figures_carry_the_parameters_in_their_signature():
    scores = score_trees([DOG], [DOG]).scores()
    assert [s.signature for s in scores] == [
        "params:COLLINS|labeled:yes|length:all",
        "params:COLLINS|labeled:yes|length:<=40",
    ]
    assert [s.name for s in scores] == ["F1", "F1@40"]
    assert "errors = 0 skipped = 0" in scores[0].line()


def test_unequal_numbers_of_trees_are_refused():
    with pytest.raises(DataError, match="the test has 1 trees and the gold has 2"):
        score_trees([DOG, DOG], [DOG])


def test_the_built_in_parameters_are_those_of_collins_prm():
    lines = ["## comment", "", "DEBUG 0", "MAX_ERROR 10", "CUTOFF_LEN 40", "LABELED 1   "]
    lines += [f"DELETE_LABEL {label}" for label in ("TOP", "-NONE-", ",", ":", "``", "''", ".")]
    lines += [
        "DELETE_LABEL_FOR_LENGTH -NONE-",
        "EQ_LABEL ADVP PRT",
        "# EQ_WORD Example example",
    ]
    assert read_parameters(lines, "COLLINS.prm") is COLLINS


def test_without_labels_only_spans_count():
    found = figures(DOG, DOG.replace("NP", "XP"), parameters("LABELED 0"))
    assert found["F1"] == 100


def test_words_and_tags_can_be_made_equal():
    same = parameters("EQ_WORD dog Dog", "EQ_LABEL NN NNP")
    test = DOG.replace("dog", "Dog").replace("NN", "NNP")
    assert figures(DOG, test)["errors"] == 1
    assert figures(DOG, test, same)["tagging"] == 100


def test_a_word_can_be_deleted():
    gold, test = "(S (UH uh) (NN dog))", "(S (NN dog))"
    assert figures(gold, test)["errors"] == 1
    assert figures(gold, test, parameters("DELETE_WORD uh"))["F1"] == 100


def test_what_equals_a_deleted_label_is_deleted_too():
    same = parameters("DELETE_LABEL TOP", "EQ_LABEL TOP ROOT")
    assert figures(f"(ROOT {DOG})", DOG, same)["exact"] == 100


def test_another_cutoff_names_the_short_figures():
    found = figures([DOG, FORTY_ONE], [DOG, FORTY_ONE], parameters("CUTOFF_LEN 3"))
    assert found["sentences@3"] == 1


def test_a_quote_taken_for_a_possessive_is_put_back():
    gold = "(S (NP (NN dog) ('' ')) (VP (VBZ is)))"
    test = "(S (NP (NN dog) (POS ')) (VP (VBZ is)))"
    deleting = ["DELETE_LABEL ''"]
    assert figures(gold, test, parameters(*deleting))["errors"] == 1
    quotes = parameters(*deleting, "QUOTE_LABEL ''", "QUOTE_LABEL POS")
    for one, other in ((gold, test), (test, gold)):
        found = figures(one, other, quotes)
        assert (found["errors"], found["F1"]) == (0, 100)
        assert found["tagging"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("line", "found", "fix"),
    [
        ("DELETE_LABLE TOP", "DELETE_LABLE is not a parameter of EVALB", "DELETE_LABEL"),
        ("COLOR red", "COLOR is not a parameter", "choose from DEBUG"),
        ("EQ_LABEL ADVP", "EQ_LABEL takes two values, and it has ADVP", "COLLINS.prm"),
        ("CUTOFF_LEN forty", "CUTOFF_LEN takes one whole number", "COLLINS.prm"),
        ("DELETE_LABEL", "DELETE_LABEL takes one value, and it has nothing", "COLLINS.prm"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_line(line, found, fix):
    with pytest.raises(DataError, match=found) as caught:
        parameters("LABELED 1", line)
    assert caught.value.message.startswith("my.prm, line 2: ")
    assert fix in caught.value.fix


def test_discontinuous_constituents_cannot_be_asked_for():
    assert parameters("DISC_ONLY 0").labeled
    with pytest.raises(DataError, match="DISC_ONLY is 1"):
        parameters("DISC_ONLY 1")


SHIPPED = [
    "",
    "( (S",
    "    (NP-SBJ (DT the) (NN dog) )",
    "    (VP (VBZ barks) )",
    "    (. .) ))",
    "( (S (NP (NN rain) )))",
]


def test_trees_over_several_lines_are_put_together_under_top():
    trees = split_trees(SHIPPED, "gold.mrg")
    assert len(trees) == 2
    assert all(tree.startswith("(TOP (S ") for tree in trees)
    assert figures(trees, [DOG, "(S (NP (NN rain)))"])["exact"] == 100


def test_one_tree_a_line_is_left_as_it_is_with_its_empty_lines():
    lines = [DOG, "", DOG[:-1]]
    assert split_trees(lines, "test.mrg") == lines


def test_a_tree_that_is_not_closed_is_named_by_its_first_line():
    with pytest.raises(DataError, match=r"gold\.mrg, line 6: the tree that begins there"):
        split_trees([*SHIPPED[:5], "( (S", "    (NN rain)"], "gold.mrg")


def test_a_bracket_too_many_is_named_by_its_line():
    with pytest.raises(DataError, match=r"gold\.mrg, line 5: a bracket is closed"):
        split_trees([*SHIPPED[:4], "    (. .) )))"], "gold.mrg")


def test_a_root_without_a_label_is_noticed():
    assert "1 trees have a root without" in "".join(check_trees([f"( {DOG})", DOG], 0))
    assert not list(check_trees([DOG], 0))


def test_broken_trees_are_noticed():
    assert "3 broken or empty trees" in "".join(check_trees([DOG], 3))


def grow(pick: random.Random, words: int) -> str:
    """Return a random tree over the given number of words."""
    if words == 1:
        leaf = f"({pick.choice(('NN', 'VB', 'DT'))} w)"
        return f"({pick.choice(('NP', 'VP'))} {leaf})" if pick.random() < 0.3 else leaf
    cut = pick.randint(1, words - 1)
    inside = f"{grow(pick, cut)} {grow(pick, words - cut)}"
    label = pick.choice(("S", "NP", "VP", "NP-SBJ", "ADVP", "PRT", "TOP"))
    return f"({label} {inside})" if pick.random() < 0.8 else inside


def pairs(seed: int) -> tuple[list[str], list[str]]:
    """Return random trees in twos over the same words; some are broken on either side."""
    pick = random.Random(seed)
    lengths = [pick.randint(2, 12) for _ in range(30)]
    one, other = [
        [f"(S {grow(pick, n)})"[: -1 if pick.random() < 0.05 else None] for n in lengths]
        for _ in range(2)
    ]
    return one, other


@pytest.mark.parametrize("seed", range(8))
def test_precision_and_recall_change_places_with_the_trees(seed):
    one, other = pairs(seed)
    there, back = figures(one, other), figures(other, one)
    assert (there["LR"], there["LP"]) == (back["LP"], back["LR"])
    for same in ("F1", "F1-strict", "exact", "tagging", "errors"):
        assert there[same] == pytest.approx(back[same])


@pytest.mark.parametrize("seed", range(8))
def test_the_strict_f1_is_never_above_the_other_and_equal_without_errors(seed):
    one, other = pairs(seed)
    found = figures(one, other)
    assert found["F1-strict"] <= found["F1"]
    closed = [tree for tree in one if tree.count("(") == tree.count(")")]
    assert figures(closed, closed)["F1-strict"] == figures(closed, closed)["F1"] == 100


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_sentences_does_not_matter(seed):
    one, other = pairs(seed)
    order = random.Random(seed).sample(range(30), 30)
    shuffled = figures([one[i] for i in order], [other[i] for i in order])
    assert figures(one, other) == pytest.approx(shuffled)


def test_a_report_knows_how_many_trees_were_left_out():
    report = score_trees([DOG] * 3, [DOG, "", "(S (NN cat))"])
    assert isinstance(report, BracketingReport)
    assert report.broken == 2
