"""Lines in, translations out: one each, in order, batch-invariant, at once."""

import threading
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
import torch
from random_models import vocabulary
from toy import sentences, tiny_config, translation

from aiayn.checkpoint import build_model, load_model
from aiayn.data.codec import Codec
from aiayn.data.settings import CodecSettings
from aiayn.data.vocabulary import TableVocabulary
from aiayn.distributed import ProcessGroup
from aiayn.errors import MemoryTooSmall
from aiayn.generation import streaming
from aiayn.generation import translator as translator_module
from aiayn.generation.search import BeamSearch
from aiayn.generation.segmentation import cut
from aiayn.generation.streaming import Line, windows
from aiayn.generation.translate_lines import translate_lines
from aiayn.generation.translator import Output, Translator
from aiayn.model_path import find_model
from aiayn.special_ids import EOS


@pytest.fixture(scope="module")
def translator(trained):
    file = load_model(find_model(trained))
    return Translator([file.build()], file.codec, BeamSearch())


@pytest.fixture
def untrained(data):
    """A translator that produces noise up to the limit, with few positions to spend."""
    torch.manual_seed(3)
    config = tiny_config("model.positions=learned", "model.max_positions=12")
    return Translator([build_model(config, data.codec).eval()], data.codec, BeamSearch())


def texts(translator, lines):
    return [found.text for found in translator.translate(lines)]


def test_a_trained_model_translates_most_sentences_rightly(translator):
    lines = sentences(60, seed=77)
    wanted = list(map(translation, lines))
    right = sum(map(str.__eq__, texts(translator, lines), wanted))
    assert right > 30


def test_the_order_of_lines_is_kept_whatever_their_lengths(translator):
    lines = sorted(sentences(40, seed=5), key=len)
    forwards = texts(translator, lines)
    assert len(set(forwards)) > 20
    assert texts(translator, lines[::-1]) == forwards[::-1]


def test_an_empty_or_blank_line_gives_an_empty_line(translator):
    lines = ["", "ba", "  ", "\t", "\u2028", "be", ""]
    found = list(translator.translate(lines))
    assert [bool(one.text) for one in found] == [False, True, False, False, False, True, False]
    assert [one.pieces for one in found] == [0, 1, 0, 0, 0, 1, 0]
    assert found[0].outputs == [Output("", 0, True, [])]


def test_no_lines_give_no_lines(translator):
    assert texts(translator, []) == []


@pytest.mark.parametrize("model", ["translator", "untrained"])
def test_a_sentence_is_translated_the_same_in_any_batch(model, request):
    found = request.getfixturevalue(model)
    lines = sentences(64, seed=9, longest=8)
    longest = max(len(line.split()) for line in lines) + 1
    answers = [texts(replace(found, batch_tokens=rows * longest), lines) for rows in (1, 7, 64)]
    assert answers[0] == answers[1] == answers[2]


def test_a_sentence_is_translated_the_same_alone(translator):
    lines = sentences(12, seed=11)
    assert texts(translator, lines) == [texts(translator, [line])[0] for line in lines]


def test_more_lines_than_a_window_holds_are_all_answered(translator, monkeypatch):
    lines = sentences(20, seed=12)
    wanted = texts(translator, lines)
    monkeypatch.setattr(translator_module, "WINDOW", 3)
    assert texts(translator, lines) == wanted


def test_a_long_line_is_translated_in_pieces_and_nothing_is_lost(translator):
    translator = replace(translator, longest=5)
    words = sentences(1, seed=4, longest=1)[0].split() * 10
    (found,) = translator.translate([" ".join(words)])
    parts = [" ".join(words[start : start + 4]) for start in range(0, 10, 4)]
    assert found.pieces == 3
    assert found.text == " ".join(texts(translator, parts))


def test_a_line_with_more_tokens_than_positions_is_translated_in_pieces(untrained):
    (found,) = untrained.translate(["ba " * 40])
    assert found.pieces == 4
    assert found.text


def test_every_piece_of_a_long_line_begins_with_the_language_of_the_line():
    plain = vocabulary()
    table = ("<pad>", "</s>", "<unk>", ">>fra<<", *plain.pieces(range(3, len(plain))))
    side = TableVocabulary(plain.model_bytes, "bpe", table)
    codec = Codec(side, side, CodecSettings())
    model = build_model(tiny_config(), codec).eval()
    translator = Translator([model], codec, BeamSearch(beam=1), longest=6)
    line = ">>fra<<ba be bi bo bu da de di do"
    (found,) = translator.translate([line])
    sources = [source for source, _ in found.outputs[0].pairs]
    language, *words, _ = side.encode_batch([line])[0]
    assert side.pieces([language]) == [">>fra<<"]
    assert [(len(source) <= 6, source[0]) for source in sources] == 3 * [(True, language)]
    assert [i for source in sources for i in source[1:-1]] == words


def test_an_output_has_at_most_so_many_more_tokens_than_the_input(untrained):
    free = replace(untrained, extra_length=3, search=BeamSearch(beam=1))
    lines = sentences(20, seed=6)
    lengths = [len(one.outputs[0].pairs[0][1]) - 1 for one in free.translate(lines)]
    words = [len(line.split()) for line in lines]
    assert all(length <= count + 3 for length, count in zip(lengths, words, strict=True))
    assert any(length == count + 3 for length, count in zip(lengths, words, strict=True))


def test_a_live_pipe_is_answered_before_its_end(translator):
    answered = threading.Event()

    def live():
        yield "ba"
        assert answered.wait(60), "the next line comes only after an answer to the first"
        yield "be"

    count = 0
    for count, _ in enumerate(translator.translate(live()), start=1):  # noqa: B007
        answered.set()
    assert count == 2


def test_what_goes_wrong_while_reading_comes_after_the_lines_before_it(translator):
    def broken():
        yield "ba"
        raise ValueError("the disk is gone")

    answers = translator.translate(broken())
    assert next(answers).pieces == 1
    with pytest.raises(ValueError, match="the disk is gone"):
        next(answers)


@dataclass(frozen=True)
class SmallMemory:
    """A search for which only so many sentences fit in memory at once."""

    rows: int
    kind: type[Exception] = torch.OutOfMemoryError
    width: int = 4

    def start(self):
        state = BeamSearch().start()
        admit = state.admit

        def admit_if_there_is_room(tasks):
            if state.count + len(tasks) > self.rows:
                raise self.kind("DefaultCPUAllocator: can't allocate memory")
            admit(tasks)

        state.admit = admit_if_there_is_room
        return state


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, RuntimeError, MemoryError])
def test_sentences_that_do_not_fit_in_memory_are_searched_fewer_at_once(translator, kind):
    lines = sentences(30, seed=8)
    small = replace(translator, search=SmallMemory(4, kind))
    assert texts(small, lines) == texts(translator, lines)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sentence_that_does_not_fit_in_memory_by_itself_is_told(translator, workers):
    small = replace(translator, search=SmallMemory(0), workers=workers, batch_tokens=1)
    with (
        closing(small),
        pytest.raises(MemoryTooSmall, match="of 3 tokens does not fit") as told,
    ):
        texts(small, ["ba be", "ba be"])
    assert "--beam" in told.value.fix
    assert "--batch-tokens" in told.value.fix


def test_another_error_of_the_search_is_not_taken_for_a_lack_of_memory(translator):
    broken = replace(translator, search=SmallMemory(0, ValueError))
    with pytest.raises(ValueError, match="allocate"):
        texts(broken, ["ba"])


def spell(ids):
    return [str(i) for i in ids]


def test_pieces_end_in_eos_and_together_hold_all_tokens():
    assert cut([5, 6, 7, EOS], 4, spell) == [[5, 6, 7, EOS]]
    assert cut([5, 6, 7, EOS], 3, spell) == [[5, 6, EOS], [7, EOS]]
    assert cut([EOS], 3, spell) == []


def test_a_cut_is_made_after_a_sentence_else_before_a_word_else_anywhere():
    names = {5: "\u2581a", 6: "b", 7: ".", 8: "\u2581c"}

    def pieces(ids):
        return [names[i] for i in ids]

    assert cut([5, 6, 6, 7, 8, 8, 5, EOS], 7, pieces) == [[5, 6, 6, 7, EOS], [8, 8, 5, EOS]]
    assert cut([5, 6, 5, 6, 6, EOS], 5, pieces) == [[5, 6, EOS], [5, 6, 6, EOS]]
    assert cut([5, 6, 6, 6, EOS], 4, pieces) == [[5, 6, 6, EOS], [6, EOS]]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 12])
def test_windows_hold_every_line_once_and_no_more_than_asked(count):
    lines = [str(number) for number in range(count)]
    found = list(windows(lines, 4))
    assert [line for window in found for line in window] == lines
    assert all(1 <= len(window) <= 4 for window in found)


def test_slow_work_gets_small_windows_and_fast_work_large_ones(monkeypatch):
    clock = 0.0
    monkeypatch.setattr(streaming.time, "monotonic", lambda: clock)
    monkeypatch.setattr(streaming, "PAUSE", 5.0)
    monkeypatch.setattr(streaming, "PATIENCE", 5.0)
    source, sizes = windows(range(2000), 640), []
    for seconds_per_line in (0.01, 2.0, 1.0, 0.2, 0.0):
        sizes.append(len(next(source)))
        clock += sizes[-1] * seconds_per_line
    # The first is a 32nd; then as many as 20 seconds allow, from a 32nd to all.
    assert sizes == [20, 640, 20, 20, 100]


def test_a_steady_stream_is_answered_before_a_window_is_full(monkeypatch):
    monkeypatch.setattr(streaming, "PAUSE", 5.0)
    monkeypatch.setattr(streaming, "PATIENCE", 0.05)
    answered = threading.Event()

    def steady():
        while not answered.wait(0.01):
            yield "ba"

    window = next(windows(steady(), 10**6))
    answered.set()
    assert window


class BesideAnother(ProcessGroup):
    """The first of two processes, where the other one fails with this code, or with none."""

    code = 0

    def broadcast(self, value):
        return value

    def max_of_each(self, values):
        return [max(values[0], self.code)]

    def gather(self, items, total):
        raise AssertionError("the other process has left")


@pytest.mark.parametrize(
    ("here", "there", "raised"), [(4, 0, MemoryTooSmall), (0, 4, SystemExit)]
)
def test_what_one_process_cannot_translate_ends_all(
    translator, here, there, raised, monkeypatch
):
    def fail(self, lines, report):
        if here:
            raise MemoryTooSmall("too small")

    monkeypatch.setattr(Translator, "translate_window", fail)
    monkeypatch.setattr(BesideAnother, "code", there)
    group = BesideAnother(0, 2, torch.device("cpu"))
    with pytest.raises(raised) as ended:
        list(translate_lines(translator, [Line("ba")], group, report=lambda lines: None))
    assert 4 in (getattr(ended.value, "code", 0), getattr(ended.value, "exit_code", 0))


class OneOfTwo(ProcessGroup):
    """One of two processes; what the other one found is not there."""

    def broadcast(self, value):
        return value

    def together(self, action):
        return action()

    def gather(self, items, total):
        raise StopIteration


def test_long_and_short_lines_in_turn_are_shared_fairly(translator, monkeypatch):
    words = []

    def count(self, lines, report):
        words.append(sum(len(line.text.split()) for line in lines))
        return []

    monkeypatch.setattr(Translator, "translate_window", count)
    lines = [Line("ba " * (1 + 9 * (n % 2))) for n in range(100)]
    for rank in range(2):
        group = OneOfTwo(rank, 2, torch.device("cpu"))
        monkeypatch.setattr(OneOfTwo, "is_first", True)
        with pytest.raises(RuntimeError):
            list(translate_lines(translator, lines, group, report=lambda lines: None))
    assert words == [275, 275]
