"""Tags that name the language to translate to, for models that translate into several.

Beyond the paper. A line opens with its tag, as in `>>deu<< It rains.`, which is one piece of
the vocabulary: SentencePiece never cuts it, and puts at most the piece of a space before it.
"""

import re
from collections.abc import Collection, Sequence

from aiayn.data.codec import Codec
from aiayn.data.settings import TAG
from aiayn.data.shards import Ids
from aiayn.data.vocabulary import SPACE, Vocabulary
from aiayn.errors import UsageError

# What is unusual about a line, in the words of `generate`.
TAG_PROBLEMS = NO_TAG, SECOND_TAG = (
    "without a language tag",
    "with a language tag beside that of --to",
)

# Languages with two letters, of ISO 639-1, and with three, of ISO 639-3.
CODES = dict(
    re.findall(
        r"(\w+):(\w+)",
        "ar:ara az:aze be:bel bg:bul bn:ben bs:bos ca:cat cs:ces cy:cym da:dan de:deu el:ell"
        " en:eng eo:epo es:spa et:est eu:eus fa:fas fi:fin fr:fra ga:gle gl:glg gu:guj he:heb"
        " hi:hin hr:hrv hu:hun hy:hye id:ind is:isl it:ita ja:jpn ka:kat kk:kaz km:khm ko:kor"
        " ky:kir lt:lit lv:lav mk:mkd ml:mal mn:mon mr:mar ms:msa mt:mlt nb:nob ne:nep nl:nld"
        " no:nor pa:pan pl:pol ps:pus pt:por ro:ron ru:rus si:sin sk:slk sl:slv so:som sq:sqi"
        " sr:srp sv:swe sw:swa ta:tam te:tel th:tha tl:tgl tr:tur uk:ukr ur:urd uz:uzb vi:vie"
        " zh:zho",
    )
)


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


def find_tag(language: str | None, codec: Codec) -> str:
    """Return the tag of a language, such as `deu` or `de`; none for None.

    One that the vocabulary lacks is refused.
    """
    if language is None:
        return ""
    tag = language if TAG.fullmatch(language) else f">>{language}<<"
    for one in (tag, f">>{CODES.get(language)}<<"):
        if codec.source.knows(one):
            return one
    known = codec.source.tags()
    raise UsageError(
        f"this model has no language tag {tag}",
        fix=f"choose from {' '.join(known)}"
        if known
        else "it translates into one language: leave --to out",
    )


def language_of(tag: str) -> str:
    """Return the language of a tag: its two letters where it has some."""
    name = tag[2:-2]
    return next((two for two, three in CODES.items() if three == name), name)


def tag_problem(line: str, tag: str, known: Collection[str]) -> str:
    """Return what is unusual about a line that gets a tag, or none; "" if nothing is."""
    found = TAG.match(line.lstrip())
    has_one = found is not None and found[0] in known
    if not known or not line.strip() or has_one != bool(tag):
        return ""
    return SECOND_TAG if tag else NO_TAG


def tag_warning(problem: str, number: int, known: Collection[str]) -> str:
    """Return a warning about the first line that has this problem."""
    return f"line {number:,} is {problem}; the model knows {' '.join(known)}"
