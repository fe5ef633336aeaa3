"""The program as a whole: what the system refuses, odd names and closed streams."""

from pathlib import Path

import pytest

LONG = 300 * "x"
EXPORT = "export TRAINED --to huggingface -o /proc/exp"
PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="nobody may write to /proc")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("score afile/x -i afile", "afile/x: not a directory"),
        (f"score {LONG} -i afile", f"{LONG}: file name too long"),
        (f"generate {LONG}", f"{LONG}: file name too long"),
        ("generate TRAINED -i afile/x", "afile/x: not a directory"),
        (f"generate TRAINED -i {LONG}", f"{LONG}: file name too long"),
        ("train DATA -o afile/run", "afile/run/checkpoints: not a directory"),
        pytest.param("train DATA -o /proc/run", "/proc/run: ", marks=PROC),
        pytest.param(EXPORT, "/proc/exp.partial: ", marks=PROC),
    ],
    ids=lambda text: text.replace(LONG, "LONG"),
)
def test_a_path_that_the_system_refuses_is_a_usage_error(
    aiayn, data, trained, tmp_path, monkeypatch, line, message
):
    if line == EXPORT:
        pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").touch()
    places = {"DATA": data.path, "TRAINED": trained}
    code, out, err = aiayn(*(places.get(word, word) for word in line.split()))
    assert (code, out) == (2, "")
    assert f"error: {message}" in err
    assert "fix: " in err
