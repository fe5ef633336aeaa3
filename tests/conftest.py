"""What tests share: a data folder and a trained run, each made once, and the command line."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

# Before torch is loaded, here and in every process that a test starts: models as small as these
# are fastest on one thread.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
from browser import Browser, is_installed
from hypothesis import HealthCheck, settings
from toy import make_data, run_training, tiny_config

from aiayn.cli import main
from aiayn.data.folder import DataFolder

# The same few random inputs each time; with HYPOTHESIS_PROFILE=long thousands of new ones.
ANY_TIME = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
settings.register_profile("short", max_examples=10, derandomize=True, **ANY_TIME)
settings.register_profile("long", max_examples=400, print_blob=True, **ANY_TIME)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """A data folder of the toy language."""
    return make_data(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def trained(data: DataFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose model has learned the toy language rather well."""
    run = tmp_path_factory.mktemp("trained") / "run"
    config = tiny_config(
        "model.dropout=0",
        "batch.tokens=1000",
        "batch.micro_tokens=1000",
        "train.steps=250",
        "train.save_every=50",
        "train.valid_every=0",
        "train.log_every=50",
    )
    run_training(data.path, run, config)
    return run


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A window of a real browser."""
    if not is_installed():
        pytest.skip("chromium and chromedriver are not installed")
    window = Browser(tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


@pytest.fixture
def give_stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Return a function that makes bytes the standard input, as a file would be."""
    with ExitStack() as files:

        def give(content: bytes) -> None:
            file = files.enter_context(tempfile.TemporaryFile())
            file.write(content)
            file.seek(0)
            monkeypatch.setattr(sys, "stdin", file)

        yield give


@pytest.fixture
def aiayn(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    give_stdin: Callable[[bytes], None],
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command line: exit code, stdout, stderr."""

    def run(*line: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["aiayn", *map(str, line)])
        give_stdin(stdin)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run
