"""The state of an unfinished preprocess: read back as it was, and two jobs told apart."""

from dataclasses import replace

import pytest

from aiayn.data.folder import UNFINISHED_FOLDER
from aiayn.data.manifest import Counts, InputFile, SideCounts
from aiayn.data.settings import Settings
from aiayn.data.shards import Shard
from aiayn.data.unfinished import Job, ShardRecord, State, clear, refuse_foreign
from aiayn.errors import UsageError

FILES = [
    InputFile(path="a.en", sha256="1", bytes=3),
    InputFile(path="a.de", sha256="2", bytes=4),
]
JOB = Job(settings=Settings(subword="char", max_ratio=1.5), inputs={"train": FILES})
RECORD = ShardRecord(
    shard=Shard(name="train-00000", pairs=1, tokens=5, bin_sha256="b", idx_sha256="i"),
    counts=Counts(read=2, dropped={"empty": 1}, source=SideCounts(tokens=3)),
    blocks=1,
    text_sha256={},
)


def test_the_state_is_read_back_as_it_was(tmp_path):
    (tmp_path / UNFINISHED_FOLDER).mkdir()
    assert State.load(tmp_path) is None
    state = State(job=JOB, pairs={"train": 2}, records={"train": [RECORD]})
    state.save(tmp_path)
    assert State.load(tmp_path) == state


def test_the_same_job_is_accepted():
    JOB.refuse_other(replace(JOB), "data")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(JOB, settings=Settings(subword="bpe", max_ratio=1.5)), "--subword was bpe"),
        (replace(JOB, inputs={"train": FILES[:1]}), "train had 1 file and has 2"),
        (replace(JOB, inputs={"train": FILES, "valid": FILES}), "valid had 2 files and has 0"),
        (replace(JOB, inputs={"train": FILES[::-1]}), "a.en is not the text that a.de was"),
    ],
)
def test_another_job_is_refused_with_the_difference(other, said):
    with pytest.raises(UsageError, match=said):
        JOB.refuse_other(other, "data")


def test_clearing_a_folder_leaves_what_preprocess_did_not_write(tmp_path):
    for name in ("manifest.json", "train-00000.bin", "train-00000.idx.partial", "notes.txt"):
        (tmp_path / name).touch()
    refuse_foreign(tmp_path)
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(UsageError, match="other files"):
        refuse_foreign(tmp_path)
