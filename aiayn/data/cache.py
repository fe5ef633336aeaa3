"""The folder for what can be made again: converted models, compiled kernels."""

import os
import stat
from pathlib import Path

from aiayn.errors import UsageError

ANOTHER = "name another folder by XDG_CACHE_HOME"


def cache_folder() -> Path:
    """Return a folder that only this user can write to: what is in it will be run."""
    # As the XDG specification says: a relative path does not count.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    root = (named if named.is_absolute() else Path.home() / ".cache") / "aiayn"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"{root} cannot be made ({problem.strerror})", fix=ANOTHER) from None
    about = root.stat()
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if os.name == "posix" and (shared or about.st_uid != os.getuid()):
        raise UsageError(
            f"others may write to {root}, and what is in it is run",
            fix=f"chmod 700 {root}, or {ANOTHER}",
        )
    return root
