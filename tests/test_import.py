"""Models of transformers as model files of ours: equal logits, equal translations."""

import io
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from random_models import random_model
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from toy import TINY, sentences, translation

from aiayn.checkpoint import ModelFile, load_model, save_model
from aiayn.data.codec import Codec
from aiayn.errors import DataError

os.environ["HF_HUB_OFFLINE"] = "1"
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

from aiayn.export.from_huggingface import read
from aiayn.export.huggingface import write

LINES = [f"{line}." for line in sentences(300, seed=7)]
VARIANTS = {
    "as published": {},
    "relu": {"activation_function": "relu"},
    "untied": {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False},
    "own embeddings": {"share_encoder_decoder_embeddings": False},
    "embedding not scaled": {"scale_embedding": False},
    "two vocabularies": {"separate": True, "share_encoder_decoder_embeddings": False},
}
SIZE = 90
"""Of each vocabulary; padding has the last id."""
LANGUAGES = {"source_lang": "en", "target_lang": "ROMANCE"}
SETTINGS = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 128,
    "vocab_size": SIZE,
    "pad_token_id": SIZE - 1,
    "decoder_start_token_id": SIZE - 1,
    "eos_token_id": 0,
    "forced_eos_token_id": None,
    "init_std": 0.3,
}


def learn(lines: list[str], kind: str) -> bytes:
    """Learn subwords as Marian's users do: with marks of their own, and normalization."""
    model = io.BytesIO()
    options = {"model_type": kind, "vocab_size": 40, "hard_vocab_limit": False}
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, minloglevel=2, **options
    )
    return model.getvalue()


def table(*models: bytes) -> dict[str, int]:
    """Return ids as Marian gives them: end, unknown, the pieces, padding last."""
    pieces = ["</s>", "<unk>", ">>deu<<", ">>fra<<"]
    for model in models:
        processor = SentencePieceProcessor(model_proto=model)
        pieces += [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    pieces = list(dict.fromkeys(pieces))
    pieces += [f"rare {i}" for i in range(SIZE - len(pieces) - 1)]
    return {piece: i for i, piece in enumerate([*pieces, "<pad>"])}


@pytest.fixture
def marian(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes the folder of a random MarianMTModel."""

    def make(
        *,
        separate: bool = False,
        kind: str = "unigram",
        talkative: bool = False,
        **changes: object,
    ) -> Path:
        folder = tmp_path / "marian"
        models = learn(LINES, kind), learn([translation(line) for line in LINES], kind)
        config = MarianConfig(**{**SETTINGS, **changes})
        torch.manual_seed(3)
        model = MarianMTModel(config)
        model.final_logits_bias.normal_()
        if talkative:
            # Else it says its last word again and again, or nothing at all.
            for parameter in model.model.decoder.layers.parameters():
                parameter.data *= 3
            model.final_logits_bias[0, 0] = -5
        model.save_pretrained(folder)
        for side, content in zip(("source", "target"), models, strict=True):
            (folder / f"{side}.spm").write_bytes(content)
        files = {"vocab.json": table(*models)}
        if separate:
            files = {"vocab.json": table(models[0]), "target_vocab.json": table(models[1])}
        files["tokenizer_config.json"] = {"separate_vocabs": separate, **LANGUAGES}
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content))
        return folder

    return make


def change(path: Path, **values: object) -> None:
    """Change settings of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def theirs(folder: Path) -> tuple[MarianMTModel, MarianTokenizer]:
    return MarianMTModel.from_pretrained(folder).eval(), MarianTokenizer.from_pretrained(folder)


def assert_equal_logits(folder: Path, file: ModelFile) -> None:
    """Compare both sides on a pair of sentences that their tokenizer has made ids of."""
    model, tokenizer = theirs(folder)
    inputs = tokenizer([LINES[0]], text_target=[LINES[1]], return_tensors="pt")
    source, target = file.codec.encode_source(LINES[0]), file.codec.encode_target(LINES[1])
    with torch.inference_mode():
        found = model(**inputs).logits[0]
        ours = file.build()(torch.tensor([source]), torch.tensor([target]))[0]
    name = "vocab.json" if file.codec.shared else "target_vocab.json"
    ids = json.loads((folder / name).read_text())
    order = [ids[piece] for piece in file.codec.target.pieces(range(SIZE))]
    # All but padding, which nobody may choose.
    torch.testing.assert_close(ours[:, 1:], found[:, order[1:]], rtol=0, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_logits_are_equal(variant, marian):
    folder = marian(**variant)
    assert_equal_logits(folder, read(folder))


@pytest.mark.parametrize(
    ("variant", "beam"), [*((name, 1) for name in VARIANTS), ("as published", 3)]
)
def test_translations_are_equal(variant, beam, marian, tmp_path, aiayn):
    folder = marian(**VARIANTS[variant], talkative=True)
    lines = [*LINES[:6], "na\u00efve  caf\u00e9s?", ">>fra<< ba da.", "\u00bd \u2603"]
    model, tokenizer = theirs(folder)
    expected = []
    for line in lines:
        inputs = tokenizer(line, return_tensors="pt")
        most = {"max_new_tokens": inputs["input_ids"].size(1) + 9, "early_stopping": "never"}
        search = GenerationConfig(num_beams=beam, length_penalty=0.0, **most)
        (found,) = model.generate(**inputs, generation_config=search)
        expected.append(tokenizer.decode(found, skip_special_tokens=True))
    imported = tmp_path / "model.pt"
    assert aiayn("import", folder, "--from", "huggingface", "-o", imported)[0] == 0
    text = "".join(f"{line}\n" for line in lines).encode()
    options = ("--beam", beam, "--alpha", 0, "--extra-length", 10, "--device", "cpu")
    code, out, _ = aiayn("generate", imported, *options, stdin=text)
    assert (code, out.splitlines()) == (0, expected)
    assert any(expected)


def test_ids_are_those_of_their_tokenizer_renumbered(marian):
    folder = marian()
    file, (_, tokenizer) = read(folder), theirs(folder)
    for text in [*LINES[:5], ">>deu<< ba", ">>xyz<<ba", "\u2603 x", "\ufb01 \u2581 z", ""]:
        for side in ("source", "target"):
            named = {"text": text} if side == "source" else {"text_target": text}
            expected = tokenizer.convert_ids_to_tokens(tokenizer(**named)["input_ids"])
            ids = getattr(file.codec, f"encode_{side}")(text)
            assert getattr(file.codec, side).pieces(ids) == expected


def test_ids_begin_with_padding_end_and_unknown(marian):
    codec = read(marian()).codec
    assert codec.source.pieces([0, 1, 2]) == ["<pad>", "</s>", "<unk>"]
    assert codec.shared
    assert codec.encode_source("da ba") != codec.encode_target("da ba")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_kind_of_subwords_is_recognised(kind, marian):
    assert read(marian(kind=kind)).codec.settings.subword == kind


def test_settings_come_along(marian):
    folder = marian()
    change(folder / "generation_config.json", num_beams=6)
    file = read(folder)
    c = file.config.model
    assert (c.layers, c.d_ff, c.heads, c.d_k, c.activation) == (2, 48, 4, 8, "swish")
    assert (c.tie, c.output_bias, c.norm_epsilon) == ("all", True, 1e-5)
    assert file.config.decode.beam == 6


def test_older_weights_are_read_too(marian):
    folder = marian()
    expected = read(folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    found = read(folder)
    assert found.weights.keys() == expected.weights.keys()
    assert all(torch.equal(found.weights[k], expected.weights[k]) for k in found.weights)


def test_half_precision_becomes_float32(marian):
    folder = marian()
    weights = load_file(folder / "model.safetensors")
    halves = {name: weight.half() for name, weight in weights.items()}
    save_file(halves, folder / "model.safetensors")
    assert {weight.dtype for weight in read(folder).weights.values()} == {torch.float32}


def test_a_file_that_stands_there_is_replaced_only_if_asked(marian, tmp_path, aiayn):
    (tmp_path / "model.pt").write_text("weeks of training")
    line = ("import", marian(), "--from", "huggingface", "-o", tmp_path / "model.pt")
    code, _, err = aiayn(*line)
    assert (code, "add --force" in err) == (2, True)
    assert (tmp_path / "model.pt").read_text() == "weeks of training"
    assert aiayn(*line, "--force")[0] == 0
    assert load_model(tmp_path / "model.pt").codec.source


def test_a_model_that_has_learned_something_translates_alike(trained, tmp_path, aiayn):
    folder = tmp_path / "marian"
    aiayn("export", trained, "--to", "huggingface", "-o", folder, "--verify", 0)
    shutil.rmtree(folder / "vocab")  # as if it came from elsewhere
    aiayn("import", folder, "--from", "huggingface", "-o", tmp_path / "back.pt")
    text = "".join(f"{line}\n" for line in sentences(20, seed=77)).encode()
    ours = aiayn("generate", trained, "--device", "cpu", stdin=text)[1]
    assert aiayn("generate", tmp_path / "back.pt", "--device", "cpu", stdin=text)[1] == ours
    assert len(set(ours.splitlines())) > 10


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
@pytest.mark.parametrize("lowercase", [True, False], ids=["lower case", "as it is"])
def test_there_and_back_again_translates_alike(shared, lowercase, tmp_path, aiayn):
    file = random_model(shared=shared, codec={"lowercase": lowercase})
    save_model(tmp_path / "ours.pt", file)
    (tmp_path / "marian").mkdir()
    write(file, tmp_path / "marian")
    back = read(tmp_path / "marian")
    save_model(tmp_path / "back.pt", back)
    assert back.codec.fingerprint == file.codec.fingerprint
    text = "Ba DE \u2581 gi\n\nka ka\n".encode()
    outputs = [
        aiayn("generate", tmp_path / name, "--device", "cpu", stdin=text)[:2]
        for name in ("ours.pt", "back.pt")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == 0


def test_an_imported_model_can_be_exported_again(marian, tmp_path):
    file = read(marian())
    (tmp_path / "again").mkdir()
    write(file, tmp_path / "again")
    assert_equal_logits(tmp_path / "again", file)


@pytest.mark.parametrize("separate", [True, False])
def test_an_imported_vocabulary_survives_files_and_processes(separate, marian, tmp_path):
    file = read(marian(separate=separate, share_encoder_decoder_embeddings=not separate))
    save_model(tmp_path / "model.pt", file)
    file.codec.save(tmp_path / "vocab")
    sent = pickle.loads(pickle.dumps(file.codec))
    for codec in (
        load_model(tmp_path / "model.pt").codec,
        Codec.load(tmp_path / "vocab"),
        sent,
    ):
        assert codec.fingerprint == file.codec.fingerprint
        assert codec.shared == (not separate)
        assert codec.encode_source(LINES[3]) == file.codec.encode_source(LINES[3])
        assert codec.decode_target(codec.encode_target(LINES[3])) == LINES[3]


def test_an_imported_model_can_be_trained_on(marian, tmp_path, aiayn):
    imported = tmp_path / "model.pt"
    aiayn("import", marian(), "--from", "huggingface", "-o", imported)
    for side in ("source", "target"):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in LINES[:40]))
    texts = (tmp_path / "source", tmp_path / "target")
    options = ("-o", tmp_path / "data", "--vocab-from", imported, "--workers", 1)
    assert aiayn("preprocess", *texts, *options)[0] == 0
    line = ("train", tmp_path / "data", "-o", tmp_path / "run", "--init-from", imported)
    line = (*line, *TINY, "train.steps=1", "optim.factor=0", "--device", "cpu")
    code, _, err = aiayn(*line)
    assert (code, "model.layers: 2 -> 1" in err) == (2, True)
    c = load_model(imported).config.model
    settings = [f"model.{name}={value}" for name, value in asdict(c).items()]
    assert aiayn(*line, *settings)[0] == 0
    before, after = (load_model(p).weights for p in (imported, tmp_path / "run" / "last.pt"))
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"model_type": "bart"}, "model_type is bart, expected marian"),
        (
            {"activation_function": "gelu"},
            "activation_function is gelu, expected relu or swish",
        ),
        ({"normalize_before": True}, "normalize_before is True"),
        ({"normalize_embedding": True}, "normalize_embedding is True"),
        ({"static_position_embeddings": False}, "static_position_embeddings is False"),
        ({"decoder_layers": "one"}, "decoder_layers is 'one', and 1 to"),
        ({"decoder_attention_heads": 2}, "decoder_attention_heads is 2, expected 4"),
        ({"decoder_start_token_id": 0}, "decoder_start_token_id is 0"),
        ({"eos_token_id": 5}, "eos_token_id is 5"),
        ({"vocab_size": 70, "decoder_vocab_size": 70}, r"vocab\.json has 90 ids"),
        ({"d_model": 64}, r"is \[90, 32\], and config\.json says \[90, 64\]"),
        ({"d_model": 31}, "d_model is 31"),
        ({"encoder_layers": 10**5, "decoder_layers": 10**5}, "100,000 layers"),
        ({"d_model": "wide"}, "d_model is 'wide'"),
        ({"d_model": 2**40}, "d_model is 1099511627776"),
        ({"vocab_size": 2**31}, "vocab_size is 2147483648"),
        ({"decoder_vocab_size": [1]}, r"decoder_vocab_size is '\[1\]'"),
        ({"encoder_attention_heads": 0, "decoder_attention_heads": 0}, "attention_heads is 0"),
        ({"dropout": "high"}, "dropout is 'high'"),
        ({"dropout": -3}, "dropout is -3"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_named(settings, named, marian):
    folder = marian()
    change(folder / "config.json", **settings)
    with pytest.raises(DataError, match=named):
        read(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[" * 10**5),
        ("vocab.json", '{"<pad>": [0], "</s>": null, "<unk>": 1e400}'),
        ("tokenizer_config.json", '{"pad_token": {}}'),
        ("tokenizer_config.json", '{"pad_token": [1]}'),
    ],
)
def test_json_of_another_kind_is_refused(name, content, marian):
    folder = marian()
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=name):
        read(folder)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ([1], "not hold the weights"),
        ({"a": 3}, "not hold the weights"),
        ({"a": Path("x")}, "cannot be read"),
        ({"a": torch.zeros(1, dtype=torch.float16).expand(9999, 99999)}, "claims to unpack"),
    ],
)
def test_older_weights_are_not_believed(content, named, marian):
    folder = marian()
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=named):
        read(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json"]
)
def test_a_missing_or_truncated_file_is_named(name, marian):
    folder = marian()
    (folder / name).write_bytes(b"truncated")
    with pytest.raises(DataError) as refusal:
        read(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=name) as missing:
        read(folder)
    assert str(folder) in refusal.value.message
    assert str(folder) in missing.value.message


def test_a_start_that_is_not_zero_is_refused(marian):
    folder = marian()
    weights = load_file(folder / "model.safetensors")
    weights["model.shared.weight"][-1] = 1
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(DataError, match="padding"):
        read(folder)


def test_a_missing_weight_is_named(marian):
    folder = marian()
    weights = load_file(folder / "model.safetensors")
    del weights["model.encoder.layers.1.fc1.bias"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(DataError, match=r"model\.encoder\.layers\.1\.fc1\.bias"):
        read(folder)


def test_a_zip_bomb_is_refused(marian):
    folder = marian()
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(10**8))
    with pytest.raises(DataError, match="claims to unpack to 100,000,000 bytes"):
        read(folder)
