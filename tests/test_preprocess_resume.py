"""The same bytes for any number of workers, after any interruption, and nothing mixed."""

from dataclasses import replace
from itertools import islice

import pytest

from aiayn.data.atomic import lock_folder
from aiayn.data.folder import UNFINISHED_FOLDER, DataFolder
from aiayn.data.inputs import PAIRS_PER_BLOCK, ParallelText
from aiayn.data.preprocess import preprocess
from aiayn.data.settings import Settings
from aiayn.errors import DataError, Interrupted, UsageError

BLOCKS, BLOCKS_PER_SHARD = 5, 2
SETTINGS = Settings(subword="char", max_length=15, dedup=True, shard_size=70_000)


@pytest.fixture
def text(tmp_path):
    paths = tmp_path / "train.en", tmp_path / "train.de"
    for path, word in zip(paths, ("line", "Zeile"), strict=True):
        numbers = (n % 9500 for n in range(BLOCKS * PAIRS_PER_BLOCK))
        path.write_text("".join(f"{word} {n} {'x' * (n % 8)}\n" for n in numbers))
    return ParallelText(*paths)


@pytest.fixture
def make(text, tmp_path):
    """Return a function that makes a data folder from the text and lists what it drops."""
    short = ParallelText(tmp_path / "valid.en", tmp_path / "valid.de")
    for path in short.files:
        path.write_text("line 3\n\nline 4\n")

    def run(name, train=text, settings=SETTINGS, **options):
        inputs = {"train": [train], "valid": [short]}
        dropped = tmp_path / f"{name}.tsv"
        return preprocess(
            inputs, tmp_path / name, settings=settings, dropped=dropped, **options
        )

    return run


class Breaking(ParallelText):
    """A text during the reading of which somebody presses Ctrl-C, in the second pass."""

    def __init__(self, text, blocks):
        super().__init__(*text.files)
        self.blocks = blocks

    def read(self):
        read = super().read
        if (self.files[0].parent / "broken" / UNFINISHED_FOLDER / "state.json").exists():
            yield from islice(read(), self.blocks)
            raise KeyboardInterrupt
        yield from read()


def contents(folder):
    dropped = folder.path.with_suffix(".tsv")
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    named = {str(path.relative_to(folder.path)): path.read_bytes() for path in files}
    return named | {"dropped": dropped.read_bytes()}


def test_any_number_of_workers_writes_the_same_bytes(make):
    alone_, together = contents(make("one", workers=1)), contents(make("two", workers=2))
    assert alone_ == together
    shards = [name for name in alone_ if name.startswith("train") and name.endswith(".bin")]
    assert len(shards) == -(-BLOCKS // BLOCKS_PER_SHARD)
    assert alone_["dropped"].count(b"\n") > 500


@pytest.mark.parametrize("blocks", [0, 3, BLOCKS])
def test_an_interrupted_run_resumes_and_ends_in_the_same_bytes(make, text, blocks, tmp_path):
    with pytest.raises(Interrupted):
        make("broken", train=Breaking(text, blocks), workers=1)
    finished = {path.name for path in (tmp_path / "broken").glob("*.bin")}
    assert len(finished) == blocks // BLOCKS_PER_SHARD
    stamps = {name: (tmp_path / "broken" / name).stat().st_mtime_ns for name in finished}
    broken = make("broken", workers=1)
    assert contents(broken) == contents(make("whole", workers=1))
    for name, stamp in stamps.items():
        assert (broken.path / name).stat().st_mtime_ns == stamp


def test_what_a_killed_run_was_writing_is_no_obstacle(make, text, tmp_path):
    with pytest.raises(Interrupted):
        make("broken", train=Breaking(text, 2), workers=1)
    (tmp_path / "broken" / "train-00001.bin.partial").write_bytes(b"truncated")
    (tmp_path / "broken" / "train-00001.bin").write_bytes(b"without its index and its record")
    assert contents(make("broken")) == contents(make("whole"))


def test_an_unfinished_folder_is_not_opened(make, text, tmp_path):
    with pytest.raises(Interrupted):
        make("broken", train=Breaking(text, 2), workers=1)
    with pytest.raises(UsageError, match="unfinished"):
        DataFolder.open(tmp_path / "broken")


def test_a_finished_folder_is_up_to_date(make, capsys):
    made = contents(make("data"))
    capsys.readouterr()
    assert contents(make("data")) == made
    assert "up to date" in capsys.readouterr().err


def test_the_same_text_under_another_name_is_up_to_date(make, text, capsys):
    make("data")
    moved = ParallelText(text.files[0].with_name("moved"), text.files[1])
    moved.files[0].write_bytes(text.files[0].read_bytes())
    capsys.readouterr()
    make("data", train=moved)
    assert "up to date" in capsys.readouterr().err


def test_another_setting_is_refused_with_the_difference(make, text):
    made = contents(make("data"))
    with pytest.raises(UsageError, match="--max-length was 15 and is 16"):
        make("data", settings=replace(SETTINGS, max_length=16))
    assert contents(make("data")) == made


def test_another_text_is_refused_by_name(make, text):
    make("data")
    text.files[1].write_text(text.files[1].read_text().replace("Zeile", "Reihe"))
    with pytest.raises(UsageError, match=r"train\.de"):
        make("data")


def test_force_replaces_what_the_folder_holds(make):
    make("data")
    longer = replace(SETTINGS, max_length=16, shard_size=10**6)
    forced = make("data", settings=longer, force=True)
    assert contents(forced) == contents(make("fresh", settings=longer))


def test_an_interrupted_run_is_not_mixed_with_another(make, text):
    with pytest.raises(Interrupted):
        make("broken", train=Breaking(text, 2), workers=1)
    with pytest.raises(UsageError, match="--max-length was 15 and is 16"):
        make("broken", settings=replace(SETTINGS, max_length=16))


def test_a_run_that_failed_on_its_text_can_be_run_on_better_text(make, text):
    good = text.files[0].read_bytes()
    text.files[0].write_bytes(good + b"\xff\n")
    with pytest.raises(DataError):
        make("data")
    text.files[0].write_bytes(good)
    make("data", settings=replace(SETTINGS, max_length=16))


def test_a_run_that_kept_nothing_can_be_run_with_wider_filters(make):
    with pytest.raises(DataError, match="no train pair is left"):
        make("data", settings=replace(SETTINGS, max_length=1))
    make("data")


def test_a_folder_with_other_things_is_left_alone(make, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="other files"):
        make("data", force=True)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["thesis.txt"]


def test_two_runs_do_not_write_one_folder_at_a_time(make, tmp_path):
    with lock_folder(tmp_path / "data"), pytest.raises(UsageError, match="another run"):
        make("data")
    make("data")


def test_dropped_pairs_cannot_be_listed_afterwards(make, tmp_path):
    make("data")
    (tmp_path / "data.tsv").unlink()
    with pytest.raises(UsageError) as caught:
        make("data")
    assert "--force" in caught.value.fix
