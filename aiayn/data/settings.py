"""What can be chosen about the text and its subwords, and how text is prepared for them."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, Self, get_args

from aiayn.errors import UsageError

Task = Literal["translation", "parsing"]
Subword = Literal["bpe", "unigram", "char", "word"]
Pretokenize = Literal["none", "moses", "moses-a"]

LANGUAGES = re.compile("[a-z]{2,3}-[a-z]{2,3}")
# The language to translate to, at the start of a line.
TAG = re.compile(r">>[^<>\s]+<<")
LONGEST_TAG_BYTES = 64


@dataclass(frozen=True)
class Preparation:
    """What happens to the text of one side before the subwords; it can be sent to a process.

    `moses` puts spaces between words and punctuation, as in the paper's English-German data:
    `tokenizer.perl -no-escape -l LANGUAGE`, so hyphens stay. `moses-a` is that with `-a`, as
    fairseq's models have it: hyphens become words, `@-@`. With `escapes`, quotes and brackets
    are written `&quot;` and so on, which the subwords would only cut to pieces.
    """

    pretokenize: Pretokenize
    language: str
    lowercase: bool
    escapes: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether the subwords see the text as it is."""
        return self.pretokenize == "none" and not self.lowercase

    def __call__(self, texts: Sequence[str]) -> Sequence[str]:
        """Return texts as the subwords see them."""
        if self.pretokenize != "none":
            how = {"return_str": True, "escape": self.escapes}
            how["aggressive_dash_splits"] = self.pretokenize == "moses-a"
            texts = [self._moses[0].tokenize(text, **how) for text in texts]
        if self.lowercase:
            texts = [text.lower() for text in texts]
        return texts

    def undo(self, text: str) -> str:
        """Return plain text; only lower case stays as it is."""
        if self.pretokenize != "none":
            words = text.split(" ")
            return str(self._moses[1].detokenize(words, unescape=self.escapes))
        return text

    @cached_property
    def _moses(self) -> tuple[Any, Any]:
        # Imported only where it is used: this takes a third of a second.
        moses = import_module("sacremoses")
        return moses.MosesTokenizer(self.language), moses.MosesDetokenizer(self.language)


@dataclass(frozen=True, kw_only=True)
class CodecSettings:
    """What happens to text before and after the subwords."""

    task: Task = "translation"
    subword: Subword = "bpe"
    """Kind of units; the target side of the parsing task has whole symbols always."""
    pretokenize: Pretokenize = "none"
    lowercase: bool = False
    case_markup: bool = False
    """Words in capitals are in an ordinary case, with a mark: see CaseMarkup."""
    source_language: str = ""
    target_language: str = ""
    tags: str = ""
    """Parsing: the symbols that stand for a word, with spaces between them."""
    escapes: bool = True
    """Moses: with escapes, as fairseq's models have them, and those of our first version."""

    def __post_init__(self) -> None:
        for name, known in {
            "task": Task,
            "subword": Subword,
            "pretokenize": Pretokenize,
        }.items():
            if getattr(self, name) not in get_args(known):
                raise ValueError(f"{name} is none of {', '.join(get_args(known))}")

    @property
    def target_subword(self) -> Subword:
        """Kind of units on the target side."""
        return "word" if self.task == "parsing" else self.subword

    @cached_property
    def source_preparation(self) -> Preparation:
        """What happens to source text before the subwords."""
        return self._preparation(self.source_language)

    @cached_property
    def target_preparation(self) -> Preparation:
        """What happens to target text before the subwords; nothing, if it is a tree."""
        # A tree has symbols, which neither Moses nor lower case may touch.
        if self.task == "parsing":
            return Preparation("none", "", lowercase=False)
        return self._preparation(self.target_language)

    def _preparation(self, language: str) -> Preparation:
        return Preparation(self.pretokenize, language, self.lowercase, self.escapes)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides, with the text, every byte of a data folder: options of preprocess.

    Without slots, so that a default can be read from the class and inherited.
    """

    task: Task = CodecSettings.task
    subword: Subword = CodecSettings.subword
    vocab_size: int = 37000
    """Units of a vocabulary; about what the paper had for English-German."""
    shared: bool = True
    vocab_from: str = ""
    """Fingerprint of the codec that is used again, if one is."""
    sample_lines: int = 1_000_000
    """Lines to learn the vocabulary from, half of them of each side."""
    seed: int = 1
    pretokenize: Pretokenize = CodecSettings.pretokenize
    languages: str = ""
    """Source and target, as in `en-de`."""
    lowercase: bool = CodecSettings.lowercase
    case_markup: bool = CodecSettings.case_markup
    tag: str = ""
    """Before each source line; of several with spaces between them, one for each input."""
    # Differs from the paper, which is silent: longer pairs are left out.
    max_length: int = 256
    """Subwords of either side, EOS included; 0 is no limit."""
    max_ratio: float = 0.0
    """Subwords of the longer side for one of the shorter; 0 is no limit."""
    dedup: bool = False
    shard_size: int = 64_000_000
    """Bytes of ids after which a new shard begins."""

    def __post_init__(self) -> None:
        if self.languages and not LANGUAGES.fullmatch(self.languages):
            raise UsageError(
                f"--languages {self.languages} does not name two languages",
                fix="write them as in: --languages en-de",
            )
        if self.pretokenize != "none" and not self.languages:
            raise UsageError(
                f"--pretokenize {self.pretokenize} has rules for languages, and none is named",
                fix="add --languages en-de, with the languages of source and target",
            )
        for tag in self.tags:
            if not TAG.fullmatch(tag) or len(tag.encode()) > LONGEST_TAG_BYTES:
                raise UsageError(
                    f"--tag {tag} is not the tag of a language",
                    fix="write it with its brackets, as in: --tag '>>deu<<'",
                )
        if self.tag and self.task == "parsing":
            raise UsageError("--tag is for translation", fix="leave it out")
        self._check_case_markup()
        if not math.isfinite(self.max_ratio):
            raise UsageError(
                f"--max-ratio {self.max_ratio} is not a ratio",
                fix="pass 1.5, or 0 for no limit",
            )
        if self.task == "parsing" and self.pretokenize != "none":
            raise UsageError(
                "a treebank has its words apart, so there is nothing to pretokenize",
                fix="leave --pretokenize out",
            )

    def _check_case_markup(self) -> None:
        """Refuse it where there are no capitals, or no subwords that a mark could follow."""
        others = {
            "--lowercase": self.lowercase,
            "--subword word": self.subword == "word",
            "--task parsing": self.task == "parsing",
        }
        for option, given in others.items():
            if self.case_markup and given:
                raise UsageError(
                    f"--case-markup does not go with {option}", fix="leave one of them out"
                )

    @property
    def tags(self) -> list[str]:
        """The language tags of the inputs, each once."""
        return list(dict.fromkeys(self.tag.split()))

    def codec_settings(self, tags: str = "") -> CodecSettings:
        """Return the part that concerns what happens to a text."""
        source, _, target = self.languages.partition("-")
        return CodecSettings(
            task=self.task,
            subword=self.subword,
            pretokenize=self.pretokenize,
            lowercase=self.lowercase,
            case_markup=self.case_markup,
            source_language=source,
            target_language=target,
            tags=tags,
            # Where nothing is tokenized, nothing is escaped: the fingerprint stays as it was.
            escapes=self.pretokenize == "none",
        )

    def differences(self, other: Self) -> list[str]:
        """Return in words how other settings differ from these."""
        mine, others = asdict(self), asdict(other)
        return [
            f"--{name.replace('_', '-')} was {mine[name]} and is {others[name]}"
            for name in mine
            if mine[name] != others[name]
        ]
