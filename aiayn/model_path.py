"""Which file of a run folder is the model."""

import zipfile
from pathlib import Path

from aiayn import console
from aiayn.errors import UsageError

# The first that exists and is not outdated.
DEFAULT_MODELS = ("average.pt", "best.pt", "last.pt")


def find_model(path: Path) -> Path:
    """Return the model file that a path means: itself, or that of a run folder."""
    if not path.is_dir():
        return path
    found = [
        path / name
        for name in DEFAULT_MODELS
        if (path / name).exists() and (name != "average.pt" or has_current_average(path))
    ]
    # Of a torn file, the end is missing, which lists what a zip archive holds.
    whole = [file for file in found if zipfile.is_zipfile(file)]
    if whole and whole[0] != found[0]:
        console.warn(f"{found[0]} is damaged; taking {whole[0]} in its place")
    if found:
        return (whole or found)[0]
    fix = "give the folder that `aiayn train -o` wrote, or a model file"
    if (path / "model.bin").exists():
        fix = "it is made for CTranslate2: give the model it was made of, --engine ctranslate2"
    elif (path / "config.json").exists():
        fix = (
            "it looks like a model of another toolkit: aiayn import reads those of transformers"
        )
    raise UsageError(
        f"{path} holds no model: none of {', '.join(DEFAULT_MODELS)} is there", fix=fix
    )


def has_current_average(run: Path) -> bool:
    """Return whether average.pt is as recent as last.pt."""
    average, last = run / "average.pt", run / "last.pt"
    if not (average.exists() and last.exists()):
        return average.exists()
    if average.stat().st_mtime_ns >= last.stat().st_mtime_ns:
        return True
    # Copying a folder may change the times of its files. This is rare, and so torch is needed.
    import torch

    from aiayn.plain_file import UNREADABLE

    try:
        steps = [
            torch.load(path, map_location="cpu", weights_only=True, mmap=True)["step"]
            for path in (average, last)
        ]
    except (*UNREADABLE, KeyError, TypeError):
        return False
    return bool(steps[0] == steps[1])
