"""Export to Hugging Face transformers: a MarianMTModel with its MarianTokenizer."""

import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from transformers import GenerationConfig, MarianMTModel, MarianTokenizer
from transformers.utils import logging

from aiayn.checkpoint import ModelFile
from aiayn.data.atomic import write_bytes, write_json
from aiayn.data.codec import Codec
from aiayn.data.folder import VOCABULARY_FOLDER
from aiayn.data.vocabulary import Vocabulary
from aiayn.errors import UsageError
from aiayn.export import marian_mt_model
from aiayn.export.marian_mt_model import NORM_EPSILON, OUTPUT_BIAS, SHARED
from aiayn.export.readme import readme
from aiayn.model.transformer import Transformer
from aiayn.special_ids import EOS, PAD, UNK

# The longest sentence: transformers makes this many sinusoids.
POSITIONS = 1024
# Added to the logit of padding, which no search may choose; float16 can hold it.
NEVER = -1e4

# Lines that are translated at once when the models are compared.
LINES_PER_BATCH = 16
TOKENS = {
    "pad_token_id": PAD,
    "eos_token_id": EOS,
    "bos_token_id": None,
    "decoder_start_token_id": PAD,
    "forced_eos_token_id": None,
}


def write(file: ModelFile, folder: Path) -> None:
    """Write a model into an empty folder, with its vocabulary and a README."""
    _check(file)
    model = file.build()
    marian_mt_model.scale_norms(model, math.sqrt(NORM_EPSILON / file.config.model.norm_epsilon))
    weights = save(_weights(model), metadata={"format": "pt"})
    write_bytes(folder / "model.safetensors", weights)
    write_json(folder / "config.json", _config(file, model))
    search = {"num_beams": file.config.decode.beam, "length_penalty": file.config.decode.alpha}
    generation = {**search, "max_length": POSITIONS // 2, **TOKENS}
    write_json(folder / "generation_config.json", generation)
    _write_tokenizer(file.codec, folder)
    file.codec.save(folder / VOCABULARY_FOLDER)
    write_bytes(folder / "README.md", _readme(file).encode())


def _check(file: ModelFile) -> None:
    """Refuse what a MarianMTModel cannot be."""
    c, codec = file.config.model, file.codec
    width = f"d_model / heads = {c.d_model / c.heads:g}"
    kinds = codec.source.kind, codec.target.kind
    found = {
        f"model.d_k is {c.d_k}, and {width}": c.d_k * c.heads != c.d_model,
        f"model.d_v is {c.d_v}, and {width}": c.d_v * c.heads != c.d_model,
        f"model.positions is {c.positions}, and sinusoidal": c.positions != "sinusoidal",
        "model.norm_epsilon is 0, and more": not c.norm_epsilon,
        f"model.attention_window is {c.attention_window}, and 0": c.attention_window,
        "the vocabulary is of whole words, and one of subwords": "word" in kinds,
        "the vocabulary is of BPE codes, and one of SentencePiece": (
            codec.source.suffix != "model" or codec.target.suffix != "model"
        ),
    }
    if reasons := [f"{problem} is wanted" for problem, is_so in found.items() if is_so]:
        raise UsageError(
            f"a MarianMTModel cannot be this model: {'; '.join(reasons)}",
            fix="export to ctranslate2, which has more forms, or train with these settings",
        )


@torch.no_grad()
def _weights(model: Transformer) -> dict[str, Tensor]:
    """Return the parameters under their names in transformers, with its order of dimensions."""
    c = model.config
    # The decoder starts from padding, which must be the zero vector. As no search may choose
    # it, this row of a tied output matrix does not matter.
    for embedding in (model.source_embedding, model.target_embedding):
        embedding.weight[PAD] = 0
    order = marian_mt_model.sines_first(c.d_model)
    found = {
        marian_mt_model.their_name(name): marian_mt_model.reorder(
            name, weight, order
        ).contiguous()
        for name, weight in model.state_dict().items()
    }
    bias = found.get(OUTPUT_BIAS, torch.zeros(model.output.out_features)).clone()
    # A MarianMTModel always has a bias on the logits; it keeps padding from being chosen.
    bias[PAD] = NEVER
    found[OUTPUT_BIAS] = bias[None]
    # Its projections always have a bias.
    if not c.attention_bias:
        projections = [name.removesuffix("weight") for name in found if "_proj." in name]
        found |= {f"{name}bias": torch.zeros(c.d_model) for name in projections}
    if model.output.weight is model.target_embedding.weight:
        del found["lm_head.weight"]
    if model.source_embedding.weight is model.target_embedding.weight:
        found[SHARED] = found.pop("model.encoder.embed_tokens.weight")
        del found["model.decoder.embed_tokens.weight"]
    return found


def _config(file: ModelFile, model: Transformer) -> dict[str, Any]:
    """Return the settings under their names in config.json."""
    c = file.config.model
    sides = {"attention_heads": c.heads, "ffn_dim": c.d_ff}
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "d_model": c.d_model,
        "encoder_layers": c.layers,
        "decoder_layers": c.decoder_depth,
        **{f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in sides.items()},
        "activation_function": marian_mt_model.their_activation(c.activation),
        "dropout": c.dropout,
        "attention_dropout": c.attention_dropout,
        "activation_dropout": c.relu_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(file.codec.source),
        "decoder_vocab_size": len(file.codec.target),
        "share_encoder_decoder_embeddings": (
            model.source_embedding.weight is model.target_embedding.weight
        ),
        "tie_word_embeddings": model.output.weight is model.target_embedding.weight,
        **TOKENS,
        "dtype": "float32",
    }


def _write_tokenizer(codec: Codec, folder: Path) -> None:
    """Write what MarianTokenizer reads: two SentencePiece models, and the id of each piece."""
    write_bytes(folder / "source.spm", codec.source.model_bytes)
    write_bytes(folder / "target.spm", codec.target.model_bytes)
    write_json(folder / "vocab.json", _ids(codec.source))
    if not codec.shared:
        write_json(folder / "target_vocab.json", _ids(codec.target))
    pad, end, unknown = codec.source.pieces([PAD, EOS, UNK])
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": codec.settings.source_language or None,
        "target_lang": codec.settings.target_language or None,
        "separate_vocabs": not codec.shared,
        "model_max_length": POSITIONS,
        "pad_token": pad,
        "eos_token": end,
        "unk_token": unknown,
    }
    write_json(folder / "tokenizer_config.json", settings)


def _ids(vocabulary: Vocabulary) -> dict[str, int]:
    return {piece: i for i, piece in enumerate(vocabulary.pieces(range(len(vocabulary))))}


class MarianModel:
    """The exported model in transformers, for `verify`."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._codec = codec
        self._tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = MarianMTModel.from_pretrained(folder, local_files_only=True).eval()

    @torch.inference_mode()
    def translate(self, lines: list[str], limits: list[int]) -> list[str]:
        """Return the greedy translations of lines, each up to its limit of tokens."""
        greedy = GenerationConfig(num_beams=1, max_new_tokens=max(limits), **TOKENS)
        texts = []
        for start in range(0, len(lines), LINES_PER_BATCH):
            batch = self._inputs(lines[start : start + LINES_PER_BATCH])
            found = self._model.generate(**batch, generation_config=greedy)
            texts += [
                # The first token is the one that the decoder starts from.
                self._tokenizer.decode(ids[1 : limit + 1], skip_special_tokens=True)
                for ids, limit in zip(found, limits[start:], strict=False)
            ]
        return [self._codec.restore_target(text) for text in texts]

    @torch.inference_mode()
    def log_p(self, lines: list[str], targets: list[list[int]]) -> list[list[float]]:
        """Return the log-probability of each token of given translations and of their EOS."""
        found = []
        for line, target in zip(lines, targets, strict=True):
            before = torch.tensor([[PAD, *target]])
            logits = self._model(**self._inputs([line]), decoder_input_ids=before).logits
            gold = torch.tensor([[*target, EOS]])[..., None]
            found.append(logits.log_softmax(dim=-1).gather(2, gold).flatten().tolist())
        return found

    def _inputs(self, lines: list[str]) -> Any:
        texts = list(self._codec.prepare_source(lines))
        return self._tokenizer(texts, return_tensors="pt", padding=True)


NOTES = f"""A sentence has at most {POSITIONS:,} tokens. Text must
have no spaces around it. MarianTokenizer knows no escapes: a text with the signs U+2581 or
U+2585 loses them, and a line that opens with `>>...<<` loses that; aiayn keeps both. `aiayn
import` reads this folder."""


def _readme(file: ModelFile) -> str:
    return readme(
        file.codec,
        toolkit="transformers",
        form="a MarianMTModel",
        packages=["torch", "transformers", "sentencepiece"],
        imports=["from transformers import MarianMTModel, MarianTokenizer"],
        load=[
            "tokenizer = MarianTokenizer.from_pretrained('.')",
            "model = MarianMTModel.from_pretrained('.')",
        ],
        translate=[
            "found = model.generate(**tokenizer(text, return_tensors='pt'))",
            "text = tokenizer.decode(found[0], skip_special_tokens=True)",
        ],
        notes=NOTES,
    )
