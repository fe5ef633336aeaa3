"""Export to Argos Translate: CTranslate2's form and a SentencePiece model, in one file."""

import json
import zipfile
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from aiayn import __version__
from aiayn.checkpoint import ModelFile
from aiayn.data.atomic import atomic_write, write_bytes
from aiayn.data.codec import Codec
from aiayn.data.settings import LANGUAGES
from aiayn.errors import UsageError
from aiayn.export import ctranslate2

PACKAGE = "model.argosmodel"
TOKENIZER = "sentencepiece.model"
# Of the package; Argos replaces one by another of the same languages that is newer.
VERSION = "1.0"
README = """\
# A translation model for Argos Translate, {source} to {target}

Written by aiayn {version}. After `pip install argostranslate`, in Python:

```python
from argostranslate import package, translate

package.install_from_path('{package}')
print(translate.translate('one sentence', '{source}', '{target}'))
```

Argos cuts a text into sentences itself, searches with a beam and a length penalty of its own,
and writes spaces for underscores. A sentence has at most {positions:,} tokens.
"""


def write(file: ModelFile, folder: Path, *, languages: str = "") -> None:
    """Write a package into an empty folder, and a README."""
    settings = file.codec.settings
    known = languages or f"{settings.source_language}-{settings.target_language}"
    _check(file, known)
    source, target = known.split("-")
    text = README.format(
        source=source,
        target=target,
        version=__version__,
        package=PACKAGE,
        positions=file.config.model.max_positions
        if file.config.model.positions == "learned"
        else ctranslate2.POSITIONS,
    )
    metadata = {
        "package_version": VERSION,
        "argos_version": "1.9",
        "from_code": source,
        "from_name": source,
        "to_code": target,
        "to_name": target,
    }
    top = f"translate-{source}_{target}-{VERSION.replace('.', '_')}"
    with (
        TemporaryDirectory(dir=folder) as scratch,
        atomic_write(folder / PACKAGE) as out,
        zipfile.ZipFile(out, "w") as archive,
    ):
        ctranslate2.write(file, Path(scratch))
        for path in sorted(Path(scratch).glob("*.*")):
            if path.suffix != ".md":
                archive.write(path, f"{top}/model/{path.name}")
        archive.writestr(f"{top}/{TOKENIZER}", file.codec.source.model_bytes)
        archive.writestr(f"{top}/metadata.json", json.dumps(metadata, indent=2))
        archive.writestr(f"{top}/README.md", text)
    write_bytes(folder / "README.md", text.encode())


def _check(file: ModelFile, languages: str) -> None:
    """Refuse what a package of Argos cannot hold."""
    codec = file.codec
    settings = codec.settings
    found = {
        "the vocabulary is separate, and a shared one": codec.source is not codec.target,
        "the vocabulary is of whole words, and one of subwords": codec.source.kind == "word",
        "the vocabulary is of BPE codes, and one of SentencePiece": (
            codec.source.suffix != "model"
        ),
        f"--pretokenize was {settings.pretokenize}, and none": settings.pretokenize != "none",
        "--lowercase was given, and text as it is": settings.lowercase,
        "--case-markup was given, and text as it is": settings.case_markup,
    }
    if reasons := [f"{problem} is wanted" for problem, is_so in found.items() if is_so]:
        raise UsageError(
            f"a package of Argos cannot hold this model: {'; '.join(reasons)}",
            fix="export to ctranslate2, which has more forms, or train with these settings",
        )
    if not LANGUAGES.fullmatch(languages):
        raise UsageError(
            "the model does not know its languages, and a package of Argos names them",
            fix="add --languages en-de, with the languages of source and target",
        )


class ArgosModel(ctranslate2.CTranslate2Model):
    """The exported package as Argos opens it, for `verify`."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        # Argos makes folders in the user's home when it is imported, so only where it is used.
        package = import_module("argostranslate.package")
        with TemporaryDirectory() as unpacked, zipfile.ZipFile(folder / PACKAGE) as archive:
            archive.extractall(unpacked)
            (top,) = Path(unpacked).iterdir()
            self._tokenizer = package.Package(top).tokenizer
            self._tokenizer.encode("")  # reads its file when it is first used
            super().__init__(top / "model", codec)

    def _sources(self, lines: list[str]) -> list[list[str]]:
        return [self._tokenizer.encode(line) for line in lines]

    def _text(self, pieces: list[str]) -> str:
        return str(self._tokenizer.decode(pieces))
