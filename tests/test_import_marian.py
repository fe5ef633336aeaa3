"""Marian's models as model files of ours, and hostile files that are refused."""

import io
import itertools
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from random_models import pairs, random_model
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from toy import sentences, translation

from aiayn.errors import DataError, UsageError
from aiayn.export.from_marian import read
from aiayn.export.marian import write
from aiayn.export.pymarian import PyMarian
from aiayn.export.verify import verify
from aiayn.special_ids import EOS, PAD, UNK

LINES = sentences(300, seed=7)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as Marian leaves it: a SentencePiece model with its own ids, no padding."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=40,
        hard_vocab_limit=False,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    (tmp_path / "vocab.spm").write_bytes(model.getvalue())
    file = random_model(positions="halves")
    (ours := tmp_path / "ours").mkdir()
    write(file, ours)
    with np.load(ours / "model.npz") as content:
        arrays = dict(content)
    size = SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()
    arrays["Wemb"] = arrays["Wemb"][:size]
    arrays["decoder_ff_logit_out_b"] = np.zeros((1, size), dtype=np.float32)
    save(tmp_path / "model.npz", arrays, {"dim-vocabs": [size, size]})
    return tmp_path


def save(path: Path, arrays: dict[str, np.ndarray], changes: dict[str, object]) -> None:
    """Write arrays as a .npz, with other settings."""
    settings = yaml.safe_load(arrays["special:model.yml"].tobytes().rstrip(b"\0"))
    text = yaml.safe_dump({**settings, **changes}).encode() + b"\0"
    arrays = {**arrays, "special:model.yml": np.frombuffer(text, dtype=np.int8)}
    with path.open("wb") as out:
        np.savez(out, **arrays)


def load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as content:
        return dict(content)


def test_ids_are_those_of_sentencepiece_renumbered(folder):
    codec = read(folder).codec
    theirs = SentencePieceProcessor(model_proto=(folder / "vocab.spm").read_bytes())
    assert codec.source.pieces([PAD, EOS, UNK]) == ["<pad>", "</s>", "<unk>"]
    for line in [*LINES[:5], "\u2603 ba", ">>fra<< ba", ""]:
        ids, expected = codec.encode_source(line), theirs.encode(line)
        assert codec.source.pieces(ids[:-1]) == [theirs.id_to_piece(i) for i in expected]
        assert codec.decode_target(codec.encode_target(line)) == theirs.decode(expected).strip()


def test_rows_follow_their_pieces(folder):
    file, arrays = read(folder), load(folder / "model.npz")
    embedding = file.weights["target_embedding.weight"]
    theirs = SentencePieceProcessor(model_proto=(folder / "vocab.spm").read_bytes())
    for i in range(theirs.get_piece_size()):
        ours = file.codec.target.table.index(theirs.id_to_piece(i))
        assert torch.equal(embedding[ours], torch.from_numpy(arrays["Wemb"][i]))
    assert not embedding[PAD].any()


def test_settings_of_marian_come_along(folder):
    (folder / "model.npz.decoder.yml").write_text(
        "vocabs: [vocab.spm, vocab.spm]\nbeam-size: 6\nnormalize: 0.5\n"
    )
    file = read(folder / "model.npz")
    c = file.config.model
    assert (c.layers, c.d_ff, c.heads, c.positions, c.tie) == (2, 64, 2, "halves", "all")
    assert (c.norm_epsilon, c.output_bias) == (1e-9, False)
    decode = file.config.decode
    assert (decode.beam, decode.alpha, decode.beam_rule) == (6, 0.5, "marian")


def test_a_model_of_six_and_two_layers_is_imported(folder, tmp_path):
    arrays = load(folder / "model.npz")
    for name in [name for name in arrays if name.startswith("encoder_l1_")]:
        for number in (3, 4, 5, 6):
            arrays[name.replace("_l1_", f"_l{number}_")] = arrays[name] * (1 + number / 9)
    save(folder / "model.npz", arrays, {"enc-depth": 6, "dec-depth": 2})
    file = read(folder)
    c, model = file.config.model, file.build()
    assert (c.layers, c.decoder_layers) == (6, 2)
    assert (len(model.encoder), len(model.decoder)) == (6, 2)
    third = torch.from_numpy(arrays["encoder_l3_self_Wq"]).T
    assert torch.equal(file.weights["encoder.2.self_attention.w_q.weight"], third)


def test_vocabularies_in_yaml_lie_beside_sentencepiece_models(folder):
    whole = read(folder)
    theirs = SentencePieceProcessor(model_proto=(folder / "vocab.spm").read_bytes())
    ids = {theirs.id_to_piece(i): i for i in range(theirs.get_piece_size())}
    (folder / "vocab.yml").write_text(json.dumps(ids))
    (folder / "decoder.yml").write_text("vocabs: [vocab.yml, vocab.yml]\n")
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes((folder / "vocab.spm").read_bytes())
    found = read(folder)
    assert found.codec.source.table == whole.codec.source.table
    assert all(torch.equal(found.weights[name], whole.weights[name]) for name in found.weights)


def test_an_older_output_matrix_is_turned(folder):
    expected, arrays = read(folder), load(folder / "model.npz")
    arrays["decoder_ff_logit_out_W"] = arrays["Wemb"].T
    save(folder / "model.npz", arrays, {"tied-embeddings-all": False})
    found = read(folder)
    assert found.config.model.tie == "none"
    assert torch.equal(found.weights["output.weight"], expected.weights["output.weight"])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"type": "amun"}, "type is 'amun', and 'transformer' or 'transformer-new'"),
        ({"transformer-preprocess": "n"}, "transformer-preprocess is 'n', and ''"),
        ({"transformer-postprocess": "da"}, "transformer-postprocess is 'da'"),
        ({"transformer-decoder-autoreg": "rnn"}, "transformer-decoder-autoreg is 'rnn'"),
        ({"transformer-tied-layers": [1, 1]}, "transformer-tied-layers is"),
        ({"transformer-ffn-activation": "gelu"}, "transformer-ffn-activation is 'gelu'"),
        ({"dec-depth": 0}, "dec-depth is 0, and 1 to"),
        ({"enc-depth": 10**12, "dec-depth": 10**12}, "enc-depth is 1000000000000"),
        ({"enc-depth": 10**5, "dec-depth": 10**5}, "100,000 layers, and the weights fewer"),
        ({"dim-emb": "wide"}, "dim-emb is 'wide'"),
        ({"dim-emb": 10**12}, "dim-emb is 1000000000000"),
        ({"dim-emb": 64}, r"Wemb is \[\d+, 32\], and settings and vocabulary want \[\d+, 64\]"),
        ({"transformer-dim-ffn": 63}, "ffn_W1 is"),
        ({"transformer-heads": 3}, "transformer-heads does not divide"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_named(settings, named, folder):
    save(folder / "model.npz", load(folder / "model.npz"), settings)
    with pytest.raises(DataError, match=named):
        read(folder)


def test_missing_files_are_named(folder):
    (folder / "vocab.spm").rename(folder / "elsewhere")
    with pytest.raises(DataError, match="0 vocabularies"):
        read(folder)
    (folder / "decoder.yml").write_text("vocabs: [a.spm, a.spm]\n")
    with pytest.raises(DataError, match=r"lacks a\.spm"):
        read(folder)
    (folder / "a.spm").write_bytes(b"not SentencePiece")
    with pytest.raises(DataError, match=r"a\.spm is not a SentencePiece model"):
        read(folder)
    (folder / "model.npz").unlink()
    with pytest.raises(UsageError, match="not a model of Marian"):
        read(folder)


def test_a_missing_array_is_named(folder):
    arrays = load(folder / "model.npz")
    del arrays["encoder_l2_self_Wq"]
    save(folder / "model.npz", arrays, {})
    with pytest.raises(DataError, match="lacks encoder_l2_self_Wq"):
        read(folder)


def header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    """Return an array of numpy's format without its content."""
    out = io.BytesIO()
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, fields)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (header((10**6, 10**6)), "claims 4000000000000 bytes"),
        (header((-1, 4)) + bytes(16), "claims -16 bytes"),
        (header((2,), "|O") + b"cos\nsystem\n(S'false'\ntR.", "of type object"),
        (b"\x93NUMPY\x09\x00", "cannot be read"),
        (b"", "cannot be read"),
    ],
)
def test_an_array_that_is_not_what_it_claims_is_refused(content, named, folder):
    with zipfile.ZipFile(folder / "model.npz", "w") as archive:
        archive.writestr("Wemb.npy", content)
    with pytest.raises(DataError, match=named):
        read(folder)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in itertools.pairwise("abcdefghijk")
)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"{BOMB}type: *k\n", "type is '"),
        (f"{BOMB}type: transformer\ndim-emb: *k\n", "is"),
        ("[" * 1500, "not YAML"),
        ("a: !!python/object/apply:os.system [false]", "not YAML"),
        ("- type", "not names with values"),
    ],
)
def test_settings_that_grow_or_run_are_refused(text, named, folder):
    arrays = load(folder / "model.npz")
    arrays["special:model.yml"] = np.frombuffer(text.encode(), dtype=np.int8)
    with (folder / "model.npz").open("wb") as out:
        np.savez(out, **arrays)
    with pytest.raises(DataError, match=named) as refusal:
        read(folder)
    assert len(refusal.value.message) < 1000


@pytest.mark.parametrize("vocabs", ["*k", "3", "ab", "[[a.spm], b]", "[/etc/passwd, ../x.spm]"])
def test_vocabularies_are_files_beside_the_model(vocabs, folder):
    (folder / "decoder.yml").write_text(f"{BOMB}vocabs: {vocabs}\n")
    with pytest.raises(DataError, match=r"not a list of files|lacks passwd|not YAML"):
        read(folder)


@pytest.mark.parametrize("pieces", ["x: a\n</s>: 0\n<unk>: 1\n", f"{BOMB}</s>: 0\n<unk>: 1\n"])
def test_a_vocabulary_in_yaml_without_ids_is_refused(pieces, folder):
    (folder / "vocab.yml").write_text(pieces)
    (folder / "decoder.yml").write_text("vocabs: [vocab.yml, vocab.yml]\n")
    (folder / "source.spm").write_bytes((folder / "vocab.spm").read_bytes())
    with pytest.raises(DataError, match="does not give the ids 0 to"):
        read(folder)


def test_pieces_that_yaml_takes_for_numbers_are_pieces(folder):
    (folder / "vocab.yml").write_text("</s>: 0\n<unk>: 1\n1: 2\nno: 3\n")
    (folder / "decoder.yml").write_text("vocabs: [vocab.yml, vocab.yml]\n")
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes((folder / "vocab.spm").read_bytes())
    with pytest.raises(DataError, match=r"and settings and vocabulary want \[4, 32\]"):
        read(folder)


@pytest.mark.parametrize("name", ["vocab.spm", "decoder.yml", "model.npz"])
def test_a_file_of_ten_gigabytes_is_not_read(name, folder):
    (folder / "decoder.yml").write_text("vocabs: [vocab.spm, vocab.spm]\n")
    with (folder / name).open("wb") as sparse:
        sparse.truncate(10 * 2**30)
    with pytest.raises(DataError, match=rf"{name} (has more than|cannot be read)"):
        read(folder)


@pytest.mark.parametrize(
    "name", ["Wemb", "encoder_l1_self_Wq", "decoder_ff_logit_out_W", "decoder_ff_logit_out_b"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
def test_an_array_of_another_shape_is_named(name, shape, folder):
    arrays = load(folder / "model.npz") | {name: np.ones(shape, dtype=np.float32)}
    save(folder / "model.npz", arrays, {})
    with pytest.raises(DataError, match=f"{name} is"):
        read(folder)


@pytest.mark.parametrize("text", ["(" * 9000, "-" * 9000 + "1", "{'descr': [('a', '<f4')]}"])
def test_a_header_that_is_not_numpys_is_refused(text, folder):
    content = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text.encode()
    with zipfile.ZipFile(folder / "model.npz", "w") as archive:
        archive.writestr("Wemb.npy", content)
    with pytest.raises(DataError, match="cannot be read"):
        read(folder)


@pytest.mark.parametrize(("place", "value"), [(8, 1), (10, 99)], ids=["encrypted", "method 99"])
def test_an_archive_that_is_not_plain_is_refused(place, value, folder):
    raw = bytearray((folder / "model.npz").read_bytes())
    raw[raw.index(b"PK\x01\x02") + place] = value
    raw[place - 2] = value  # of the first entry itself
    (folder / "model.npz").write_bytes(raw)
    with pytest.raises(DataError, match=r"model\.npz cannot be read"):
        read(folder)


@pytest.mark.parametrize("settings", ["model:\n  layers: 100000000\n", "[" * 1500, "a: b\n"])
def test_our_own_settings_are_not_believed_either(settings, tmp_path):
    write(random_model(), tmp_path)
    (tmp_path / "config.yaml").write_text(settings)
    with pytest.raises(DataError, match=r"the weights fewer|config\.yaml"):
        read(tmp_path)


def test_an_archive_that_unpacks_to_ten_gigabytes_is_refused(folder):
    with zipfile.ZipFile(folder / "model.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Wemb.npy", header((10**9,)) + bytes(10**6))
    raw = bytearray((folder / "model.npz").read_bytes())
    directory = raw.rindex(b"PK\x01\x02")
    raw[directory + 24 : directory + 28] = (4 * 10**9).to_bytes(4, "little")
    (folder / "model.npz").write_bytes(raw)
    with pytest.raises(DataError, match="claims to unpack to 4,000,000,000 bytes"):
        read(folder)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06 cut short", b"\x80\x04K\x01."])
def test_a_damaged_file_is_refused_with_exit_code_3(content, folder, aiayn):
    (folder / "model.npz").write_bytes(content)
    code, _, err = aiayn("import", folder, "--from", "marian", "-o", folder / "model.pt")
    assert (code, "model.npz" in err) == (3, True)
    assert not (folder / "model.pt").exists()


TRAIN = """
import sys
from pymarian import Trainer
sys.exit(Trainer(sys.argv[1]).train())
"""


@pytest.mark.parametrize("type_", ["transformer", "transformer-new"])
def test_what_marian_has_trained_gives_the_same_probabilities(type_, tmp_path):
    pytest.importorskip("pymarian", reason="pip install 'aiayn[marian]', 600 MB")
    for name, lines in (("s", LINES), ("t", [translation(line) for line in LINES])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    options = (
        f"--type {type_} --model model.npz --train-sets s t --vocabs vocab.spm vocab.spm"
        " --dim-vocabs 40 40 --sentencepiece-options=--hard_vocab_limit=false --dim-emb 32"
        " --enc-depth 2 --dec-depth 2 --transformer-heads 4 --transformer-dim-ffn 48"
        " --tied-embeddings-all --mini-batch 50 --after-batches 30 --learn-rate 0.01"
        " --max-length 60 --cpu-threads 1 -w 200 --quiet"
    )
    command = [sys.executable, "-c", TRAIN, options]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    told = {"relative-paths": True, "models": ["model.npz"], "vocabs": ["vocab.spm"] * 2}
    (tmp_path / "decoder.yml").write_text(yaml.safe_dump(told))
    file = read(tmp_path / "model.npz")
    assert verify(file, pairs(file), PyMarian(tmp_path, file.codec)).difference < 1e-3
