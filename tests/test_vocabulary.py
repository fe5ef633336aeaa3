"""Text to ids and back: nothing is lost, ids are fixed, and what cannot be learned is said."""

import pickle
import random

import pytest

from aiayn.data.codec import Codec
from aiayn.data.settings import CodecSettings
from aiayn.data.vocabulary import BYTES, Vocabulary
from aiayn.errors import DataError, UsageError
from aiayn.special_ids import EOS, PAD, UNK

ADJECTIVES = ("red", "blue", "old", "white", "golden", "quiet", "small")
THINGS = ("house", "tree", "river", "castle", "bridge", "garden", "window")
LINES = [
    f"the {adjective} {thing} sees a {thing} over there, doesn't it?"
    for adjective in ADJECTIVES
    for thing in THINGS
]
LOSSLESS = ("bpe", "unigram", "char")
SIZE = {"bpe": 320, "unigram": 290, "char": 300, "word": 50}

ODD = [
    "", " ", "   ", " before", "after ", "two  inside", "tab\tinside", "\t", "x\u2028y\u0085z",
    "\u00a0\u3000", "\u200b\ufeff", "e\u0301 a\u0308", "\U0001f600\U0001f469\u200d\U0001f467",
    "\u4e2d\u6587", "\u2581", "under\u2581score", "a \u2581 b", "\u2585 block", "\ue581",
    "\ue5810\u25811", "</s> <pad> <unk> <0x41>", "\x01\x1f\x7f", "a\rb", "\U0010ffff",
]  # fmt: skip


def learn(kind, lines=LINES):
    return Vocabulary.train(lines, kind=kind, size=SIZE[kind])


def encode(vocabulary, text):
    """The ids of a text, without the end."""
    *ids, end = vocabulary.encode_batch([text])[0]
    assert end == EOS
    return ids


@pytest.mark.parametrize("kind", LOSSLESS)
def test_odd_text_comes_back_as_it_was(kind):
    vocabulary = Vocabulary.train(LINES + ODD, kind=kind, size=320)
    assert [vocabulary.decode(encode(vocabulary, text)) for text in ODD] == ODD


@pytest.mark.parametrize("kind", LOSSLESS)
def test_any_text_comes_back_as_it_was(kind):
    vocabulary = learn(kind)
    draw = random.Random(1)
    letters = "ab 012<>/s\t\r\u2581\u2585\ue581\u0301\u4e2d\U0001f600\u2028"
    for _ in range(500):
        text = "".join(draw.choice(letters) for _ in range(draw.randrange(12)))
        ids = encode(vocabulary, text)
        assert vocabulary.decode(ids) == text
        assert not {PAD, EOS, UNK} & set(ids)


def test_the_marks_have_the_first_ids_and_the_bytes_the_next():
    vocabulary = learn("bpe")
    assert vocabulary.pieces([PAD, EOS, UNK]) == ["<pad>", "</s>", "<unk>"]
    assert vocabulary.pieces([BYTES.start, BYTES[-1]]) == ["<0x00>", "<0xFF>"]
    assert len(vocabulary) == SIZE["bpe"]


def test_a_line_with_an_odd_character_is_learned_from_too():
    frequent = ["\u2585 \u2581 wonderful"] * 200
    assert "\u2581wonderful" in learn("bpe", LINES + frequent).pieces(range(SIZE["bpe"]))


def test_decoding_leaves_out_padding_and_ends():
    vocabulary = learn("bpe")
    ids = encode(vocabulary, "the old house")
    assert vocabulary.decode([PAD, *ids, EOS, PAD]) == "the old house"


def test_bytes_that_spell_a_line_feed_do_not_end_the_line():
    assert learn("bpe").decode([BYTES[ord("a")], BYTES[ord("\n")], BYTES[ord("b")]]) == "a b"


def test_a_batch_is_its_texts_one_by_one():
    for kind in SIZE:
        vocabulary = learn(kind)
        one_by_one = [[*encode(vocabulary, text), EOS] for text in ODD]
        assert vocabulary.encode_batch(ODD) == one_by_one


def test_words_are_what_white_space_separates():
    vocabulary = learn("word", [*LINES, "under\u2581score"])
    assert vocabulary.decode(encode(vocabulary, " the\u00a0old  tree ")) == "the old tree"
    assert vocabulary.decode(encode(vocabulary, "under\u2581score")) == "under\u2581score"


def test_each_unknown_word_is_unknown_on_its_own():
    vocabulary = learn("word")
    the = encode(vocabulary, "the")
    assert encode(vocabulary, "the wurst kam an") == [*the, UNK, UNK, UNK]


@pytest.mark.parametrize("kind", SIZE)
def test_the_same_lines_give_the_same_vocabulary(kind):
    assert learn(kind).model_bytes == learn(kind).model_bytes


def test_a_vocabulary_can_be_sent_to_another_process():
    vocabulary = learn("word")
    copy = pickle.loads(pickle.dumps(vocabulary))
    assert encode(copy, "the tree") == encode(vocabulary, "the tree")


def test_nothing_is_printed_while_it_learns(capfd):
    learn("unigram")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_large_a_vocabulary_names_the_largest_and_that_one_can_be_had(kind):
    with pytest.raises(UsageError) as caught:
        Vocabulary.train(LINES, kind=kind, size=5000)
    largest = int(caught.value.fix.split()[2])
    assert f"{largest:,}" in caught.value.message
    assert len(Vocabulary.train(LINES, kind=kind, size=largest)) == largest


@pytest.mark.parametrize("kind", LOSSLESS)
def test_too_small_a_vocabulary_names_the_smallest_and_that_one_can_be_had(kind):
    with pytest.raises(UsageError) as caught:
        Vocabulary.train(LINES, kind=kind, size=3)
    smallest = int(caught.value.fix.split()[2])
    assert len(Vocabulary.train(LINES, kind=kind, size=smallest)) == smallest


def test_lines_without_text_teach_nothing():
    with pytest.raises(DataError, match="empty"):
        Vocabulary.train(["", ""], kind="bpe", size=300)


def codec(*, shared=True, **settings):
    source = learn("bpe")
    target = source if shared else learn("bpe", [line[::-1] for line in LINES])
    return Codec(source, target, CodecSettings(**settings))


def test_both_sides_end_in_eos():
    text = "the old tree"
    for ids in (codec().encode_source(text), codec().encode_target(text)):
        assert ids[-1] == EOS
        assert ids.count(EOS) == 1


def moses_codec(**settings):
    languages = {"source_language": "en", "target_language": "de"}
    return codec(pretokenize="moses", **languages, **{"escapes": False, **settings})


def test_codecs_of_the_first_version_keep_the_escapes_of_moses():
    old = moses_codec(escapes=True)
    state = {name: x for name, x in old.to_state().items() if name != "escapes"}
    again = Codec.from_state(state)
    ids = again.encode_source('"so"')
    assert again.source.decode(ids) == "&quot; so &quot;"
    assert again.decode_target(ids) == '"so"'
    assert again.fingerprint == old.fingerprint != moses_codec().fingerprint


def test_moses_is_undone_when_text_comes_back():
    moses = moses_codec()
    text = 'Er sagte "nein" (& ging): 3,5 % [links-rechts].'
    ids = moses.encode_target(text)
    assert moses.target.decode(ids).startswith('Er sagte " nein " ( & ging ) :')
    assert moses.decode_target(ids) == 'Er sagte "nein" (& ging): 3,5% [links-rechts].'


@pytest.mark.parametrize("text", ['it\'s "so"', "R&D [1] | <b>", "&amp; &quot;"])
def test_moses_escapes_nothing(text):
    moses = moses_codec()
    assert moses.source.decode(moses.encode_source(text)).replace(" ", "") == text.replace(
        " ", ""
    )


def test_moses_keeps_hyphens_as_the_paper_did():
    moses = moses_codec()
    assert (
        moses.source.decode(moses.encode_source("a well-known tree.")) == "a well-known tree ."
    )


def test_lower_case_is_stored_and_applied():
    lower = codec(lowercase=True)
    assert lower.encode_source("THE Tree") == codec().encode_source("the tree")


@pytest.mark.parametrize("shared", [True, False])
def test_a_codec_survives_a_folder_and_a_model_file(shared, tmp_path):
    original = codec(shared=shared, lowercase=True, source_language="en")
    original.save(tmp_path)
    state = original.to_state()
    assert {type(value) for value in state.values()} <= {str, bytes, bool, int}
    for copy in (Codec.load(tmp_path), Codec.from_state(state)):
        assert copy.shared == shared
        assert copy.settings == original.settings
        assert copy.fingerprint == original.fingerprint
        assert copy.encode_target("The Tree") == original.encode_target("The Tree")


def test_another_setting_or_vocabulary_has_another_fingerprint():
    codecs = codec(), codec(lowercase=True), codec(shared=False)
    assert len({each.fingerprint for each in codecs}) == 3


def test_a_truncated_vocabulary_is_refused_with_its_folder(tmp_path):
    codec().save(tmp_path)
    (tmp_path / "shared.model").write_bytes(b"truncated")
    with pytest.raises(DataError, match=str(tmp_path)):
        Codec.load(tmp_path)
