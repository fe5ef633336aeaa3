"""An exported model in Marian itself, by its Python package.

In a process of its own: where Marian finds something wrong, it aborts the process it is in.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import torch

from aiayn.data.codec import Codec
from aiayn.errors import OutsideBand
from aiayn.export.marian import DECODER, POSITIONS

PACKAGE = "pymarian"
# Reads options and lines as JSON, and writes translations; Marian itself writes to stderr.
PROGRAM = """
import json, sys
from pymarian import Translator
options, lines = json.load(sys.stdin)
json.dump(Translator(**options).translate(lines), sys.stdout)
"""
SCORES = re.compile(r"WordScores= (\S.*?) \|\|\|")
# Tokens of an output for one of the input, at most.
FACTOR = 60


class PyMarian:
    """The exported model in Marian, for `verify`."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        self._folder, self._codec = folder, codec
        self._ids = {p: i for i, p in enumerate(codec.target.pieces(range(len(codec.target))))}

    def translate(self, lines: list[str], limits: list[int]) -> list[str]:
        """Return the greedy translations of lines, each up to its limit of tokens."""
        texts = list(self._codec.prepare_source(lines))
        found = self._run(texts, texts, no_spm_decode=True)
        return [
            self._codec.decode_target(self._ids[piece] for piece in one.split()[:limit])
            for one, limit in zip(found, limits, strict=True)
        ]

    def log_p(self, lines: list[str], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of given translations.

        That of EOS too, where Marian would end there itself: it forces tokens, but no end.
        """
        codec = self._codec
        sources = [codec.source.pieces(ids[:-1]) for ids in codec.encode_source_batch(lines)]
        pieces = [codec.target.pieces(ids) for ids in targets]
        both = [
            f"{' '.join(source)}\t{' '.join(target)}"
            for source, target in zip(sources, pieces, strict=True)
        ]
        forced = {"force_decode": True, "tsv": True, "tsv_fields": 2, "no_spm_encode": True}
        told = self._run(both, lines, n_best=True, word_scores=True, **forced)
        found = []
        for text, target in zip(told, targets, strict=True):
            scores = SCORES.search(text)
            each = [float(score) for score in scores[1].split()] if scores else []
            ends_there = len(each) == len(target) + 1
            found.append(each if ends_there else each[: len(target)])
        return found

    def _run(self, inputs: list[str], lines: list[str], **options: bool | int) -> list[str]:
        longest = max(map(len, self._codec.encode_source_batch(lines)))
        more = {
            "config": str(self._folder / DECODER),
            "beam_size": 1,
            "normalize": 0,
            # It aborts at the first position that the table does not have.
            "max_length_factor": min(FACTOR, POSITIONS / longest),
            # As our own search here: every token of ours can be forced.
            "allow_unk": True,
            "cpu_threads": torch.get_num_threads(),
            "quiet": True,
        }
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps([{**more, **options}, inputs]),
            capture_output=True,
            encoding="utf-8",
        )
        if ended.returncode:
            reason = next((x for x in ended.stderr.splitlines() if "rror" in x), ended.stderr)
            raise OutsideBand(
                f"Marian cannot use the exported model: {reason}",
                fix="nothing was written; --verify-text chooses other lines, --verify 0 none",
            )
        found: list[str] = json.loads(ended.stdout)
        return found
