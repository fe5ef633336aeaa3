"""The Python that prepares text, for the READMEs of exported folders."""

from typing import NamedTuple

from aiayn.data.settings import CodecSettings


class Preparing(NamedTuple):
    """Lines of Python around a translation, all about a variable `text`."""

    imports: list[str]
    before: list[str]
    after: list[str]


def preparing(settings: CodecSettings) -> Preparing:
    """Return the Python for pretokenization and lower case, as the model was trained."""
    lines = Preparing([], [], [])
    if settings.pretokenize == "moses":
        lines.imports.append("from sacremoses import MosesDetokenizer, MosesTokenizer")
        source, target = settings.source_language, settings.target_language
        lines.before.append(
            f"text = MosesTokenizer('{source}').tokenize(text, return_str=True)"
        )
        lines.after.append(f"text = MosesDetokenizer('{target}').detokenize(text.split(' '))")
    if settings.lowercase:
        lines.before.append("text = text.lower()")
    return lines


def packages(settings: CodecSettings, *names: str) -> str:
    """Return the packages to install for that Python."""
    return " ".join([*names, *(["sacremoses"] if settings.pretokenize == "moses" else [])])
