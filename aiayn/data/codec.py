"""Plain text to token ids and back, on both sides, in one object that travels with a model.

text -> pretokenize -> lower case -> subwords -> ids, EOS
ids -> subwords -> undo the pretokenization -> text
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from aiayn.data.atomic import write_bytes, write_json
from aiayn.data.bpe_codes import CodesVocabulary
from aiayn.data.case_markup import MARK, CaseMarkup, restore_capitals
from aiayn.data.plain_values import from_dict
from aiayn.data.settings import TAG, CodecSettings, Subword
from aiayn.data.shards import REPAIR
from aiayn.data.vocabulary import BYTES, TableVocabulary, Vocabulary
from aiayn.errors import DataError
from aiayn.special_ids import EOS, PAD, UNK

SETTINGS_FILE = "settings.json"
# Bytes; a million pieces have a tenth of them.
LARGEST_VOCABULARY = 1 << 28


@dataclass(frozen=True)
class Codec:
    """What preprocess did to text, kept with a model.

    A shared vocabulary is the same object on both sides, or has the same table.
    """

    source: Vocabulary
    target: Vocabulary
    settings: CodecSettings

    @property
    def shared(self) -> bool:
        """Whether an id is the same piece on both sides: they may share one embedding."""
        if self.source.table is None:
            return self.source is self.target
        return self.source.table == self.target.table

    @property
    def sizes(self) -> tuple[int, int | None]:
        """Entries of the source's and of the target's vocabulary; None: they are shared."""
        return len(self.source), None if self.shared else len(self.target)

    def encode_source(self, text: str) -> list[int]:
        """Return the ids of a source text, ending in EOS."""
        return self.encode_source_batch([text])[0]

    def encode_target(self, text: str) -> list[int]:
        """Return the ids of a target text, ending in EOS."""
        return self.encode_target_batch([text])[0]

    def encode_source_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many source texts, each ending in EOS."""
        return self.source.encode_batch(self.prepare_source(texts))

    def prepare_source(self, texts: Sequence[str]) -> Sequence[str]:
        """Return source texts as the subwords see them; a language tag stays as it is."""
        prepare = self.settings.source_preparation
        if prepare.changes_nothing and not self.source_markup:
            return texts
        found = [TAG.match(text) for text in texts]
        tags = [match[0] if match and self.source.knows(match[0]) else "" for match in found]
        pairs = list(zip(tags, texts, strict=True))
        prepared = prepare(
            [text[len(tag) :].removeprefix(" ") if tag else text for tag, text in pairs]
        )
        if self.source_markup:
            prepared = list(map(self.source_markup.mark, prepared))
        return [
            f"{tag} {text}" if tag else text for tag, text in zip(tags, prepared, strict=True)
        ]

    def encode_target_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many target texts, each ending in EOS."""
        prepared = self.settings.target_preparation(texts)
        if self.target_markup:
            prepared = list(map(self.target_markup.mark, prepared))
        return self.target.encode_batch(prepared)

    def decode_target(self, ids: Iterable[int], *, forced: int = 0) -> str:
        """Return plain text for target ids; padding and EOS are left out.

        Forced tokens at the begin keep their case: a mark right after them is left out.
        """
        ids = list(ids)
        if (
            self.target_markup
            and forced
            and self.target.pieces(ids[forced : forced + 1]) == [MARK]
        ):
            del ids[forced]
        return self.restore_target(self.target.decode(ids))

    def restore_target(self, text: str) -> str:
        """Return plain text for target text as the subwords see it."""
        if self.target_markup:
            text = restore_capitals(text)
        return self.settings.target_preparation.undo(text)

    @cached_property
    def source_markup(self) -> CaseMarkup | None:
        """What marks words in capitals in source text."""
        return CaseMarkup(self.source) if self.settings.case_markup else None

    @cached_property
    def target_markup(self) -> CaseMarkup | None:
        """What marks words in capitals in target text."""
        return CaseMarkup(self.target) if self.settings.case_markup else None

    @cached_property
    def fingerprint(self) -> str:
        """Sha256 over the settings and the vocabularies: equal when text gives equal ids."""
        settings = self._settings()
        if settings["escapes"]:
            del settings["escapes"]  # the first version did not know it
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for content in self._files().values():
            digest.update(hashlib.sha256(content).digest())
        return digest.hexdigest()

    def _settings(self) -> dict[str, Any]:
        """Return the settings by name; case_markup only where it is on: older ones lack it."""
        found = asdict(self.settings)
        if not found["case_markup"]:
            del found["case_markup"]
        return found

    def _files(self) -> dict[str, bytes]:
        """Return the SentencePiece models or BPE codes, and the tables where there are some."""
        sides = {"source": self.source, "target": self.target}
        if self.source is self.target:
            sides = {"shared": self.source}
        found = {}
        for name, vocabulary in sides.items():
            found[f"{name}.{vocabulary.suffix}"] = vocabulary.model_bytes
            if vocabulary.table is not None:
                table = json.dumps(vocabulary.table, ensure_ascii=False)
                found[f"{name}.table"] = table.encode()
        return found

    def to_state(self) -> dict[str, Any]:
        """Return everything as a flat dictionary of plain values, for a model file."""
        # A model file calls a SentencePiece model `source`, and its table `source.table`.
        models = {name.removesuffix(".model"): x for name, x in self._files().items()}
        return {**self._settings(), **models}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Codec":
        """Return the codec that `to_state` described."""
        names = {field.name for field in fields(CodecSettings)}
        settings = from_dict(CodecSettings, {k: v for k, v in state.items() if k in names})
        if "shared" in state or "shared.codes" in state:
            shared = _vocabulary(state, "shared", settings.subword)
            return cls(shared, shared, settings)
        source = _vocabulary(state, "source", settings.subword)
        return cls(source, _vocabulary(state, "target", settings.target_subword), settings)

    def save(self, folder: Path) -> None:
        """Write the vocabularies and the settings."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._files().items():
            write_bytes(folder / name, content)
        write_json(folder / SETTINGS_FILE, self._settings())

    @classmethod
    def load(cls, folder: Path) -> "Codec":
        """Read what `save` wrote."""
        try:
            state = json.loads((folder / SETTINGS_FILE).read_bytes())
            state |= {path.stem: path.read_bytes() for path in folder.glob("*.model")}
            for suffix in ("table", "codes"):
                state |= {path.name: path.read_bytes() for path in folder.glob(f"*.{suffix}")}
            return cls.from_state(state)
        # A RuntimeError is how SentencePiece refuses a damaged model.
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, DataError) as problem:
            reason = f"{folder} does not hold a complete vocabulary: {problem}"
            raise DataError(reason, fix=REPAIR) from None


def _vocabulary(state: dict[str, Any], name: str, kind: Subword) -> Vocabulary:
    """Return the vocabulary of that name, with its table if it has one."""
    table = state.get(f"{name}.table")
    if table is None:
        return Vocabulary(state[name], kind)
    pieces = from_dict(tuple[str, ...], json.loads(table))
    if codes := state.get(f"{name}.codes"):
        return CodesVocabulary(codes, kind, pieces)
    return TableVocabulary(state[name], kind, pieces)


def read_vocabulary(path: Path) -> Vocabulary:
    """Return the vocabulary of a SentencePiece model, with our ids, or of BPE codes."""
    if path.stat().st_size > LARGEST_VOCABULARY:
        raise DataError(
            f"{path} has more than {LARGEST_VOCABULARY:,} bytes, and no vocabulary does",
            fix="name a SentencePiece model or a file of BPE codes",
        )
    content = path.read_bytes()
    try:
        vocabulary = TableVocabulary.of_model(content)
    except RuntimeError:
        try:
            return CodesVocabulary.of_codes(content)
        except DataError as problem:
            raise DataError(
                f"{path} is neither a SentencePiece model nor a file of BPE codes: {problem}",
                fix="name such a file, a data folder, a run or a model file",
            ) from None
    own = Vocabulary(content, vocabulary.kind)
    # One of ours, as the folders of vocabularies hold them, can do more.
    is_ours = own.pieces([PAD, EOS, UNK, BYTES.start]) == ["<pad>", "</s>", "<unk>", "<0x00>"]
    return own if is_ours else vocabulary
