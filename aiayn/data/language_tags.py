"""Tags that name the language to translate to, for models that translate into several.

Beyond the paper. A line opens with its tag, as in `>>deu<< It rains.`, which is one piece of
the vocabulary: SentencePiece never cuts it, and puts at most the piece of a space before it.
"""

from collections.abc import Sequence

from aiayn.data.codec import Codec
from aiayn.data.settings import TAG
from aiayn.data.shards import Ids
from aiayn.data.vocabulary import SPACE, Vocabulary
from aiayn.errors import UsageError


def tag_length(ids: Sequence[int] | Ids, vocabulary: Vocabulary) -> int:
    """Return how many ids at the start of a line are its language tag; 0: it has none."""
    first = vocabulary.pieces(ids[:2])
    begins_with_space = int(first[:1] == [SPACE])
    rest = first[begins_with_space:]
    return 1 + begins_with_space if rest and TAG.fullmatch(rest[0]) else 0


def tag_line(tag: str, line: str) -> str:
    """Return a line with its tag; a blank line, of which nothing is made, stays blank."""
    return f"{tag} {line}" if tag and line.strip() else line


def require_tags(tags: Sequence[str], codec: Codec, *, origin: str) -> None:
    """Refuse tags that are no pieces of a vocabulary."""
    for tag in tags:
        if not codec.source.knows(tag):
            raise UsageError(
                f"the vocabulary of {origin} has no piece {tag}",
                fix="learn it from the text of all languages, with all of their tags",
            )


def find_tag(language: str, codec: Codec) -> str:
    """Return the tag of a language, such as `deu`; refuse one that the vocabulary lacks."""
    tag = language if TAG.fullmatch(language) else f">>{language}<<"
    if not codec.source.knows(tag):
        known = codec.source.tags()
        raise UsageError(
            f"this model has no language tag {tag}",
            fix=f"choose from {' '.join(known)}"
            if known
            else "it translates into one language: leave --to out",
        )
    return tag
