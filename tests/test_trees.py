"""aiayn.data.trees: reading, cleaning, symbols and back."""

import gzip
import random

import pytest

from aiayn.data.trees import (
    EMPTY,
    REPAIRS,
    UNBALANCED,
    UNREADABLE,
    WRONG_LABEL,
    WRONG_LEAVES,
    Tree,
    clean,
    delinearize,
    linearize,
    parse_tree,
    read_trees,
    tag_inventory,
    walk,
    write,
)
from aiayn.errors import DataError

JOHN = "(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))"
WORDS = ["John", "has", "a", "dog", "."]
SYMBOLS = "S NP NNP /NP VP VBZ NP DT NN /NP /VP . /S"
TAGS = frozenset({"NNP", "VBZ", "DT", "NN", "."})
LABELS = ("S", "NP", "VP", "PP")

AS_SHIPPED = """*x*x*x*x*x*x*x*x*x*x*
*x*  Copyright (C) of nobody  *x*
*x*x*x*x*x*x*x*x*x*x*

( (S
    (NP-SBJ-1 (NNP John) )
    (VP (VBZ has)
      (NP=2 (DT a) (NN dog) )
      (S (NP-SBJ (-NONE- *-1) )))
    (. .) ))

( (NP (-NONE- *T*-1) ))
"""


def random_tree(rng, words):
    """A random tree under TOP over so many words."""
    if words == 1 and rng.random() < 0.7:
        tag = rng.choice(sorted(TAGS))
        return Tree(tag, word="." if tag == "." else f"w{rng.randrange(9)}")
    children = []
    while words:
        taken = rng.randint(1, words)
        children.append(random_tree(rng, taken))
        words -= taken
    return Tree(rng.choice(LABELS), tuple(children))


def repair(symbols, words):
    """The repaired tree as text, and the repairs as a plain dictionary."""
    tree, repairs = delinearize(words, symbols.split(), TAGS)
    return write(tree), dict(repairs)


def read(tmp_path, text):
    path = tmp_path / "bank.mrg"
    path.write_text(text)
    return list(read_trees(path))


def test_the_example_of_the_paper_has_these_words_and_symbols():
    assert linearize(parse_tree(JOHN)) == (WORDS, SYMBOLS.split())


def test_a_shipped_file_is_read_past_its_header_and_cleaned(tmp_path):
    full, trace = read(tmp_path, AS_SHIPPED)
    assert write(clean(full)) == JOHN
    assert clean(trace) is None


def test_a_tree_is_read_as_it_stands(tmp_path):
    text = "( (S (NP-SBJ-1 (-NONE- *)) (VP (VB go))))"
    assert [write(tree) for tree in read(tmp_path, text)] == [text]


def test_trees_may_share_a_line_or_take_one_each(tmp_path):
    assert read(tmp_path, f"{JOHN} {JOHN}\n{JOHN}\n") == [parse_tree(JOHN)] * 3


def test_a_comment_sign_inside_a_tree_is_a_word(tmp_path):
    assert read(tmp_path, "(NP (#\n#)\n(CD 5))") == [parse_tree("(NP (# #) (CD 5))")]


def test_a_compressed_file_is_read(tmp_path):
    path = tmp_path / "bank.mrg.gz"
    path.write_bytes(gzip.compress(AS_SHIPPED.encode()))
    assert len(list(read_trees(path))) == 2


def test_a_no_break_space_is_part_of_a_word():
    assert parse_tree("(CD 1\u00a0000)") == Tree("CD", word="1\u00a0000")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (f"{JOHN}\n\n(TOP (S (NN dog))\n  \n", 3, "1 of its brackets open"),
        (f"( (S (NN dog))\n{JOHN})\n", 1, "1 of its brackets open"),
        (f"{JOHN}\n{JOHN})\n", 2, "did not open"),
        (f"{JOHN}\nA sentence\n", 2, "'A' outside brackets"),
        ("(S\n  (NP a dog))", 1, "(NP a ...) gives 2 words one tag"),
        ("(S (NP (DT a) dog))", 1, "'dog' has no tag in (NP ...)"),
        ("(S (NP) (VB go))", 1, "(NP) holds neither"),
    ],
)
def test_a_malformed_tree_is_named_with_the_line_of_its_beginning(
    tmp_path, text, line, problem
):
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert f"bank.mrg, line {line}: " in caught.value.message
    assert problem in caught.value.message
    assert caught.value.fix


def test_a_file_without_a_tree_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no trees"):
        read(tmp_path, "* only a comment\n\n")


@pytest.mark.parametrize("text", ["", "dog", f"{JOHN} dog", f"{JOHN} {JOHN}", "(S (NN dog)"])
def test_what_is_not_one_tree_is_not_parsed(text):
    with pytest.raises(DataError, match=r"^output, line 7: "):
        parse_tree(text, "output, line 7")


@pytest.mark.parametrize("text", ["(())", "()", "(TOP)"])
def test_a_failed_parse_is_a_tree_without_words(text):
    assert clean(parse_tree(text)) is None


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-SBJ=1-3", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("PRP$", "PRP$"),
        ("-LRB-", "-LRB-"),
        ("-", "-"),
        ("``", "``"),
    ],
)
def test_a_label_loses_function_tags_and_indices_only(raw, cleaned):
    assert clean(parse_tree(f"(S ({raw} x))")) == parse_tree(f"(TOP (S ({cleaned} x)))")
    assert clean(parse_tree(f"({raw} (NN x))")) == parse_tree(f"(TOP ({cleaned} (NN x)))")


@pytest.mark.parametrize("root", ["", "TOP", "ROOT", "S1"])
def test_whatever_the_root_is_called_it_becomes_top(root):
    assert write(clean(parse_tree(f"({root} (S (VB go)) (. .))"))) == "(TOP (S (VB go)) (. .))"


def test_a_tree_without_a_root_is_put_under_top():
    assert write(clean(parse_tree("(VB go)"))) == "(TOP (VB go))"


def test_cleaning_twice_is_cleaning_once():
    once = clean(parse_tree("( (TOP (S-1 (NP-SBJ (-NONE- *)) (VP (VB go)))))"))
    assert write(once) == "(TOP (S (VP (VB go))))"
    assert clean(once) == once


def test_a_bracket_in_a_word_is_written_as_the_treebank_writes_it():
    assert write(Tree("NN", word="f(x)")) == "(NN f-LRB-x-RRB-)"


def test_trees_are_equal_when_they_look_the_same():
    flat, deep = parse_tree("(S (A a) (B b))"), parse_tree("(S (S (A a)) (B b))")
    assert flat == parse_tree("(S  (A a)\n(B b))")
    assert len({flat, deep, parse_tree(write(flat))}) == 2
    assert repr(flat) == "(S (A a) (B b))"


def test_a_punctuation_tag_stands_on_punctuation_only():
    tree, repairs = repair("S NN . /S", ["?", "dog"])
    assert tree == "(TOP (S (. ?) (XX dog)))"
    assert repairs == {"punctuation tag": 2}


def test_symbols_and_text_give_every_tree_back():
    rng = random.Random(1)
    for _ in range(500):
        tree = Tree("TOP", tuple(random_tree(rng, rng.randint(1, 9)) for _ in range(2)))
        assert delinearize(*linearize(tree), TAGS) == (tree, {})
        assert parse_tree(write(tree)) == tree == clean(tree)


def test_a_tree_of_ten_thousand_levels_makes_the_whole_way(tmp_path):
    text = f"(TOP {'(S ' * 10_000}(NN dog){')' * 10_000})"
    [tree] = read(tmp_path, text)
    words, symbols = linearize(clean(tree))
    again, _ = delinearize(words, symbols, tag_inventory([tree]))
    assert again == tree and hash(again) == hash(tree)
    assert write(again) == text


def test_the_tag_inventory_is_what_stands_over_words():
    assert tag_inventory([parse_tree(JOHN)]) == TAGS


def test_a_symbol_that_is_tag_and_label_is_what_it_is_more_often():
    bank = [parse_tree("(S (X (NN a) (NN b)) (X (NN c)))"), parse_tree("(NN (X a))")]
    assert tag_inventory(bank) == {"NN"}


@pytest.mark.parametrize(
    ("symbols", "tree", "repairs"),
    [
        ("S NP DT NN /NP VP VBZ", "(S (NP (DT a) (NN b)) (VP (VBZ c)))", {UNBALANCED: 2}),
        ("S NP DT NN VBZ /S", "(S (NP (DT a) (NN b) (VBZ c)))", {UNBALANCED: 1}),
        ("NP DT NN /NP VBZ /S", "(S (NP (DT a) (NN b)) (VBZ c))", {UNBALANCED: 1}),
        ("S DT NN VBZ /S /S /S", "(S (DT a) (NN b) (VBZ c))", {UNBALANCED: 2}),
        ("S NP DT NN /PP VBZ /S", "(S (NP (DT a) (NN b)) (VBZ c))", {WRONG_LABEL: 1}),
        ("S DT NN VBZ NN /S", "(S (DT a) (NN b) (VBZ c))", {WRONG_LEAVES: 1}),
        ("S DT /S", "(S (DT a) (XX b) (XX c))", {WRONG_LEAVES: 2}),
        ("DT NN", "(DT a) (NN b) (XX c)", {WRONG_LEAVES: 1}),
        ("S NP /NP DT NN VBZ /S", "(S (DT a) (NN b) (VBZ c))", {EMPTY: 1}),
        ("S DT NN (NP VBZ / /S", "(S (DT a) (NN b) (VBZ c))", {UNREADABLE: 2}),
        ("S ?? DT /?? NN VBZ /S", "(S (?? (DT a)) (NN b) (VBZ c))", {}),
        ("", "(XX a) (XX b) (XX c)", {WRONG_LEAVES: 3}),
        ("/S /NP", "(XX a) (XX b) (XX c)", {UNBALANCED: 2, WRONG_LEAVES: 3}),
    ],
)
def test_each_kind_of_damage_is_repaired_and_counted(symbols, tree, repairs):
    assert repair(symbols, ["a", "b", "c"]) == (f"(TOP {tree})", repairs)


def test_a_missing_word_that_is_its_own_tag_is_tagged_with_it():
    assert repair("S NN /S", ["dog", "."])[0] == "(TOP (S (NN dog) (. .)))"


def test_a_tag_may_begin_with_a_slash():
    tree = parse_tree("(TOP (NP (NN and) (/ or)))")
    assert delinearize(*linearize(tree), tag_inventory([tree])) == (tree, {})


def test_no_words_make_a_tree_without_words():
    assert repair("S NN /S", []) == ("(TOP)", {WRONG_LEAVES: 1, EMPTY: 1})


def test_any_symbols_at_all_make_one_tree_over_the_words():
    rng = random.Random(2)
    alphabet = [*TAGS, *LABELS, *(f"/{label}" for label in LABELS), "/", "", "(", "a b", "TOP"]
    for _ in range(5000):
        words = [f"w{i}" for i in range(rng.randrange(8))]
        symbols = rng.choices(alphabet, k=rng.randrange(30))
        tree, repairs = delinearize(words, symbols, TAGS)
        assert linearize(tree)[0] == words
        assert parse_tree(write(tree)) == tree
        assert all(node.word or node.children for node, _ in walk(tree)) or not words
        assert set(repairs) <= set(REPAIRS)
