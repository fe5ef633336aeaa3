"""What the bodies of requests ask for, checked value by value."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus
from urllib.parse import parse_qsl

from aiayn.serving.connection import JSON, Refused, Request
from aiayn.serving.languages import LanguagePair

AUTO = "auto"
MOST_ALTERNATIVES = 10

Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class TranslateQuery:
    """Texts to translate, and what is wanted beside the translations."""

    texts: list[str]
    is_list: bool
    """Whether the answer is a list, too."""
    pair: LanguagePair
    detected: bool
    """Whether the client has left the source language open."""
    alternatives: int
    scores: bool
    alignments: bool


@dataclass(frozen=True, slots=True)
class AttentionQuery:
    """A sentence, and perhaps its translation, to show the attention of."""

    text: str
    pair: LanguagePair
    translation: str | None


def read_fields(request: Request) -> Fields:
    """Return the fields of a body in JSON or of a form."""
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind.startswith("multipart/"):
        raise bad("a form has to be sent as application/x-www-form-urlencoded")
    try:
        text = request.body.decode()
        if kind == "application/x-www-form-urlencoded":
            return dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
        fields = json.loads(text)
    # Deep nesting ends in a RecursionError.
    except (ValueError, RecursionError):
        raise bad("the body is neither JSON nor a form") from None
    if not isinstance(fields, dict):
        raise bad("the body is not a JSON object")
    return fields


def check_key(fields: Fields, request: Request, keys: Sequence[str]) -> None:
    """Refuse a request without one of the API keys, where there are some."""
    if not keys:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else fields.get("api_key", "")
    if not isinstance(given, str) or not given:
        raise Refused(HTTPStatus.FORBIDDEN, "an API key is needed, and none is given")
    # All keys are compared, so that the time taken tells nothing about them.
    known = [compare_digest(given.encode(errors="replace"), key.encode()) for key in keys]
    if not any(known):
        raise Refused(HTTPStatus.FORBIDDEN, "the API key is not known")


def read_translate_query(
    fields: Fields, pairs: Sequence[LanguagePair], longest: int
) -> TranslateQuery:
    """Return what a body of `POST /translate` asks for."""
    q = fields.get("q")
    if q is None:
        raise bad("q is missing: the text to translate, or a list of texts")
    asked = q if isinstance(q, list) else [q]
    texts = [text for text in asked if isinstance(text, str)]
    if len(texts) < len(asked):
        raise bad("q is neither a text nor a list of texts")
    if fields.get("format", "text") != "text":
        raise bad('format can only be "text"')
    return TranslateQuery(
        texts=_clean(texts, longest),
        is_list=isinstance(q, list),
        pair=_read_pair(fields, pairs),
        detected=fields.get("source") == AUTO,
        alternatives=_read_count(fields, "alternatives", MOST_ALTERNATIVES),
        scores=_read_flag(fields, "scores"),
        alignments=_read_flag(fields, "alignments"),
    )


def read_attention_query(
    fields: Fields, pairs: Sequence[LanguagePair], longest: int
) -> AttentionQuery:
    """Return what a body of `POST /attention` asks for."""
    q, translation = fields.get("q"), fields.get("translation")
    if not isinstance(q, str):
        raise bad("q is not a text")
    if translation is not None and not isinstance(translation, str):
        raise bad("translation is not a text")
    text, *rest = _clean([q] if translation is None else [q, translation], longest)
    return AttentionQuery(text, _read_pair(fields, pairs), rest[0] if rest else None)


def _clean(texts: list[str], longest: int) -> list[str]:
    """Return texts without halves of characters; refuse too many characters in all."""
    if (found := sum(map(len, texts))) > longest:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the text has {found:,} characters, and at most {longest:,} are taken",
        )
    # JSON can spell half of a surrogate pair, which is no character.
    return [
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts
    ]


def _read_pair(fields: Fields, pairs: Sequence[LanguagePair]) -> LanguagePair:
    """Return the pair of languages that is asked for."""
    source, target = fields.get("source"), fields.get("target")
    for name, value in (("source", source), ("target", target)):
        if not isinstance(value, str):
            raise bad(f"{name} is not the code of a language")
    fitting = [pair for pair in pairs if pair[1] == target and source in (pair[0], AUTO)]
    if not fitting:
        known = ", ".join(f"{source}-{target}" for source, target in pairs)
        raise bad(f"{str(source)[:9]}-{str(target)[:9]} is not translated here, but {known}")
    if len(fitting) > 1:
        raise bad(f'source "{AUTO}" could be {" or ".join(pair[0] for pair in fitting)}')
    return fitting[0]


def _read_count(fields: Fields, name: str, most: int) -> int:
    """Return a number, which is a text in forms."""
    value = fields.get(name, 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise bad(f"{name} is not a whole number from 0 to {most}")
    return value


def _read_flag(fields: Fields, name: str) -> bool:
    """Return true or false, which are texts in forms."""
    value = fields.get(name, False)
    if value in ("true", "false"):
        value = value == "true"
    if not isinstance(value, bool):
        raise bad(f"{name} is neither true nor false")
    return value


def bad(message: str) -> Refused:
    """Return the refusal of a request that does not fit."""
    return Refused(HTTPStatus.BAD_REQUEST, message)
