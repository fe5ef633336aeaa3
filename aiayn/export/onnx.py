"""Export to ONNX: an encoder and a decoder that any runtime of ONNX can run.

The decoder gets the tokens before and returns the logits of the next one. It has no cache: what
a runtime spends on earlier tokens again it need not hand over from step to step.

B sentences; S, T source and target length; W vocabulary.
"""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from aiayn import __version__
from aiayn.checkpoint import ModelFile
from aiayn.data.atomic import write_bytes
from aiayn.data.codec import Codec
from aiayn.data.folder import VOCABULARY_FOLDER
from aiayn.errors import UsageError
from aiayn.kernels.layout import Layout
from aiayn.model.transformer import Transformer, is_token
from aiayn.special_ids import EOS, PAD, UNK

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
# Tokens that a sentence may have, where the model itself has no limit.
POSITIONS = 1024
# Sentences at once, more than anybody has.
MOST_SENTENCES = 1 << 16
README = """\
# A translation model in ONNX

Written by aiayn {version}: `encoder.onnx` from ids to memory, `decoder.onnx` from ids, memory
and the ids before to the logits of the next one. In this folder, after `pip install onnxruntime
aiayn`, the best token at each step:

```python
from pathlib import Path

import numpy
import onnxruntime

from aiayn.data.codec import Codec


def run(session, *inputs):
    names = (each.name for each in session.get_inputs())
    return session.run(None, dict(zip(names, inputs)))[0]


encoder = onnxruntime.InferenceSession('encoder.onnx')
decoder = onnxruntime.InferenceSession('decoder.onnx')
codec = Codec.load(Path('vocab'))

text = 'one sentence'
ids = numpy.array([codec.encode_source(text)])
memory = run(encoder, ids)
before, best = [{pad}], None
while best != {eos} and len(before) < ids.size + 50:
    best = int(run(decoder, ids, memory, numpy.array([before]))[0].argmax())
    before.append(best)
print(codec.decode_target(before))
```

A sentence has at most {longest:,} tokens. Without aiayn, `vocab/` is for SentencePiece, and ids
end in {eos}.
"""


class OnnxEncoder(nn.Module):
    """Source ids (B, S) to the memory (B, S, D)."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_BS: Tensor) -> Tensor:
        """Return the memory."""
        return self.model.encode(source_BS, Layout(is_token(source_BS)))


class OnnxDecoder(nn.Module):
    """Source ids, their memory, and ids before (B, T), padding first, to logits (B, W)."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_BS: Tensor, memory_BSD: Tensor, before_BT: Tensor) -> Tensor:
        """Return the logits of the next token; nobody may choose padding."""
        source = Layout(is_token(source_BS))
        states = self.model.decode(before_BT, memory_BSD, Layout(causal=True), source)
        logits_BW = self.model.logits(states[:, -1])
        never = torch.full_like(logits_BW[:, : PAD + 1], -1e9)
        return torch.cat([never, logits_BW[:, PAD + 1 :]], dim=1)


def write(file: ModelFile, folder: Path) -> None:
    """Write a model into an empty folder, with its vocabulary and a README."""
    if file.config.model.attention_window:
        raise UsageError(
            "model.attention_window is set, and its blocks depend on the length of a sentence",
            fix="export a model with model.attention_window=0",
        )
    model = file.build()
    longest = model.longest or POSITIONS
    for positions in (model.source_positions, model.target_positions):
        # A table that still has to grow could not be part of a graph.
        positions(0, longest)
    sentences = torch.export.Dim("B", min=1, max=MOST_SENTENCES)
    source, target = (torch.export.Dim(name, min=1, max=longest) for name in ("S", "T"))
    ids = torch.tensor([[UNK, UNK, EOS], [UNK, EOS, PAD]])
    with torch.no_grad():
        memory = OnnxEncoder(model)(ids)
    shape = {0: sentences, 1: source}
    _save(OnnxEncoder(model), (ids,), (shape,), folder / ENCODER)
    inputs = (ids, memory, torch.tensor([[PAD, UNK]] * 2))
    _save(
        OnnxDecoder(model), inputs, (shape, shape, {0: sentences, 1: target}), folder / DECODER
    )
    file.codec.save(folder / VOCABULARY_FOLDER)
    text = README.format(version=__version__, eos=EOS, pad=PAD, longest=longest)
    write_bytes(folder / "README.md", text.encode())


def _save(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    shapes: tuple[dict[int, Any], ...],
    path: Path,
) -> None:
    before = logging.root.manager.disable
    # It warns of what other packages could do.
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                module.eval(), inputs, dynamo=True, dynamic_shapes=shapes, verbose=False
            )
    finally:
        logging.disable(before)
    assert program is not None
    program.save(str(path), external_data=False)


class OnnxModel:
    """The exported model in onnxruntime, for `verify`."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        self._codec = codec
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(str(folder / name)) for name in (ENCODER, DECODER)
        )

    def translate(self, lines: list[str], limits: list[int]) -> list[str]:
        """Return the greedy translations of lines, each up to its limit of tokens."""
        texts = []
        for source, limit in zip(self._codec.encode_source_batch(lines), limits, strict=True):
            memory = self._encode(source)
            target: list[int] = []
            while len(target) < limit:
                best = int(self._next(source, memory, target).argmax())
                if best == EOS:
                    break
                target.append(best)
            texts.append(self._codec.decode_target(target))
        return texts

    def log_p(self, lines: list[str], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of given translations and of their EOS."""
        found = []
        for source, target in zip(self._codec.encode_source_batch(lines), targets, strict=True):
            memory, scores = self._encode(source), []
            for i, token in enumerate([*target, EOS]):
                logits = torch.from_numpy(self._next(source, memory, target[:i]))
                scores.append(float(logits.log_softmax(dim=-1)[token]))
            found.append(scores)
        return found

    def _encode(self, source: list[int]) -> Any:
        return _run(self._encoder, np.array([source]))

    def _next(self, source: list[int], memory: Any, target: list[int]) -> Any:
        return _run(self._decoder, np.array([source]), memory, np.array([[PAD, *target]]))[0]


def _run(session: Any, *inputs: Any) -> Any:
    names = (each.name for each in session.get_inputs())
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]
