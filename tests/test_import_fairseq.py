"""fairseq's checkpoints as model files of ours: judged by a plain decoder of its network."""

import importlib
import pickle
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq_layout import EOS, UNK, PlainFairseq, dictionary, options, weights
from toy import sentences, translation

from aiayn.checkpoint import load_model
from aiayn.data.bpe_codes import Merges
from aiayn.errors import AiaynError, DataError, UsageError
from aiayn.export.from_fairseq import read
from aiayn.export.verify import Greedy, verify

LINES = sentences(200, seed=7)
CODES = b"#version: 0.2\nb a</w>\nd a</w>\nk i</w>\nb e</w>\ng o</w>\na k</w>\ni k</w>\n"
VARIANTS = {
    "as published": {},
    "of 2018": {"older": True},
    "of 2018, untied": {"older": True, "share_all_embeddings": False},
    "untied": {"share_all_embeddings": False},
    "two dictionaries": {"share_all_embeddings": False, "separate": True},
    "embedding not scaled": {"no_scale_embedding": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "2 + 1 layers": {"decoder_layers": 1},
}


@pytest.fixture
def fairseq(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the folder of a random model as fairseq publishes it."""

    def make(*, older: bool = False, separate: bool = False, **changes: object) -> Path:
        merges = Merges(CODES)
        texts = {"en": LINES, "de": [translation(line) for line in LINES]}
        pieces = {
            side: sorted({p for line in lines for w in line.split() for p in merges.segment(w)})
            for side, lines in texts.items()
        }
        if not separate:
            both = sorted({*pieces["en"], *pieces["de"]})
            pieces = dict.fromkeys(pieces, both)
        size = max(map(len, pieces.values()))
        for side, known in pieces.items():
            filled = [*known, *(f"madeupword{i:04}" for i in range(size - len(known)))]
            text = "".join(f"{piece} {i}\n" for i, piece in enumerate(filled))
            (tmp_path / f"dict.{side}.txt").write_text(text)
        (tmp_path / "bpecodes").write_bytes(CODES)
        told = options(**changes)
        torch.manual_seed(3)
        state = weights(size + 4, told, older=older)
        content = {"args": told, "model": state, "extra_state": {"epoch": 3}}
        torch.save(content, tmp_path / "model.pt", _use_new_zipfile_serialization=not older)
        return tmp_path

    return make


def judge(folder: Path) -> PlainFairseq:
    with torch.serialization.safe_globals([Namespace]):
        content = torch.load(folder / "model.pt", weights_only=True)
    return PlainFairseq(content["args"], content["model"])


def ids(folder: Path, side: str, line: str) -> list[int]:
    known = dictionary(folder / f"dict.{side}.txt")
    pieces = [piece for word in line.split() for piece in Merges(CODES).segment(word)]
    return [known.get(piece, UNK) for piece in pieces]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_probabilities_are_equal(variant, fairseq):
    folder = fairseq(**variant)
    file, theirs = read(folder, "none"), judge(folder)
    known = dictionary(folder / "dict.de.txt")
    order = [known[piece] for piece in file.codec.target.table]
    for line in LINES[:3]:
        other = translation(line)
        source = [*ids(folder, "en", line), EOS]
        expected = theirs.log_p(source, [EOS, *ids(folder, "de", other)])[:, order]
        ours = (
            torch.tensor([file.codec.encode_source(line)]),
            torch.tensor([file.codec.encode_target(other)]),
        )
        with torch.no_grad():
            logits = file.build()(*ours)[0]
        logits[:, 0] = -torch.inf
        found = logits.log_softmax(dim=-1)
        torch.testing.assert_close(found[:, 1:], expected[:, 1:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_translations_are_equal(variant, fairseq, aiayn):
    folder = fairseq(**variant)
    theirs, lines = judge(folder), [*LINES[:4], "zz ba"]
    words = list(dictionary(folder / "dict.de.txt"))
    expected = []
    for line in lines:
        source = [*ids(folder, "en", line), EOS]
        found = theirs.greedy(source, len(source) - 1 + 8)
        text = " ".join(words[i] for i in found)
        expected.append(text.replace("@@ ", "").removesuffix("@@"))
    plain = ("import", folder, "--from", "fairseq", "--pretokenize", "none")
    assert aiayn(*plain, "-o", folder / "ours.pt")[0] == 0
    text = "".join(f"{line}\n" for line in lines).encode()
    search = ("--greedy", "--extra-length", 8, "--device", "cpu")
    code, out, _ = aiayn("generate", folder / "ours.pt", *search, stdin=text)
    assert (code, out.splitlines()) == (0, expected)
    assert len(set(expected)) > 1


def test_text_is_prepared_as_fairseq_does(fairseq, aiayn):
    folder = fairseq()
    aiayn("import", folder, "--from", "fairseq", "-o", folder / "ours.pt")
    settings = load_model(folder / "ours.pt").codec.settings
    assert (settings.source_language, settings.target_language) == ("en", "de")
    preparation = settings.source_preparation
    assert list(preparation(["A well-known 'case'."])) == [
        "A well @-@ known &apos; case &apos; ."
    ]
    assert preparation.undo("A well @-@ known case .") == "A well-known case."


def test_newer_checkpoints_have_a_section_for_each_component(fairseq):
    folder = fairseq()
    expected = read(folder, "none")
    content = {"args": None, "model": judge(folder).state}
    content["cfg"] = {"task": {"source_lang": "en", "target_lang": "de"}, "model": options()}
    torch.save(content, folder / "model.pt")
    found = read(folder, "none")
    assert found.config == expected.config
    assert all(
        torch.equal(found.weights[name], expected.weights[name]) for name in found.weights
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"arch": "fconv_wmt_en_fr"}, "arch is 'fconv_wmt_en_fr'"),
        ({"encoder_normalize_before": True}, "encoder_normalize_before is True"),
        ({"adaptive_softmax_cutoff": "1,2"}, "adaptive_softmax_cutoff is '1,2'"),
        ({"layernorm_embedding": True}, "layernorm_embedding is True"),
        ({"activation_fn": "gelu"}, "activation_fn is 'gelu', and 'relu'"),
        ({"decoder_layers": 0}, "decoder_layers is 0, and 1 to"),
        ({"encoder_layers": 10**9, "decoder_layers": 10**9}, "encoder_layers is 1000000000"),
        ({"encoder_embed_dim": 31, "decoder_embed_dim": 31}, "does not divide"),
        (
            {"encoder_ffn_embed_dim": 50, "decoder_ffn_embed_dim": 50},
            r"fc1\.weight is \[48, 32\]",
        ),
        ({"encoder_embed_dim": "wide", "decoder_embed_dim": "wide"}, "embed_dim is 'wide'"),
        ({"source_lang": None}, "languages are None-de"),
    ],
)
def test_what_cannot_be_imported_is_refused_and_named(changes, named, fairseq):
    folder = fairseq()
    content = {
        "args": options(**{"activation_fn": "relu", **changes}),
        "model": judge(folder).state,
    }
    torch.save(content, folder / "model.pt")
    with pytest.raises(DataError, match=named):
        read(folder, "none")


def test_missing_files_and_weights_are_named(fairseq):
    folder = fairseq()
    theirs = judge(folder)
    del theirs.state["encoder.layers.1.fc1.bias"]
    torch.save({"args": theirs.told, "model": theirs.state}, folder / "model.pt")
    with pytest.raises(DataError, match=r"lacks encoder\.layers\.1\.fc1\.bias"):
        read(folder, "none")
    (folder / "dict.de.txt").unlink()
    with pytest.raises(DataError, match=r"dict\.de\.txt"):
        read(folder, "none")
    (folder / "bpecodes").unlink()
    with pytest.raises(DataError, match="0 files of BPE codes"):
        read(folder, "none")
    (folder / "model.pt").unlink()
    with pytest.raises(UsageError, match=r"model\.pt"):
        read(folder, "none")


@pytest.mark.parametrize("text", ["ba 1\nba 2\n", "ba\n", "<pad> 3\n", "ba many\n"])
def test_a_line_that_is_not_of_a_dictionary_is_named(text, fairseq):
    folder = fairseq()
    (folder / "dict.en.txt").write_text(text)
    with pytest.raises(DataError, match=r"dict\.en\.txt, line"):
        read(folder, "none")


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[object, ...]:
        return Path.mkdir, (self.made,)


@pytest.mark.parametrize("new", [True, False], ids=["zip", "of 2018"])
def test_a_pickle_that_runs_code_is_refused_and_does_not_run(new, fairseq, aiayn):
    folder = fairseq()
    content = {"args": Attack(folder / "made"), "model": {}}
    torch.save(content, folder / "model.pt", _use_new_zipfile_serialization=new)
    code, _, err = aiayn("import", folder, "--from", "fairseq", "-o", folder / "ours.pt")
    assert (code, "model.pt cannot be read" in err) == (3, True)
    assert not (folder / "made").exists()
    assert not (folder / "ours.pt").exists()


def test_a_plain_pickle_is_refused(fairseq):
    folder = fairseq()
    (folder / "model.pt").write_bytes(pickle.dumps(Attack(folder / "made")))
    with pytest.raises(DataError):
        read(folder, "none")
    assert not (folder / "made").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", {"model": {}}, [1, 2], {"args": 3}])
def test_what_is_not_a_checkpoint_is_refused(content, fairseq):
    folder = fairseq()
    if isinstance(content, bytes):
        (folder / "model.pt").write_bytes(content)
    else:
        torch.save(content, folder / "model.pt")
    with pytest.raises(AiaynError) as refusal:
        read(folder, "none")
    assert refusal.value.exit_code == 3


def test_a_zip_bomb_is_refused(fairseq):
    folder = fairseq()
    with zipfile.ZipFile(folder / "model.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(10**8))
    with pytest.raises(DataError, match="claims to unpack to 100,000,000 bytes"):
        read(folder, "none")


def nested(levels: int = 12) -> list[object]:
    """Return 10^levels lists in as many objects as there are levels."""
    found: list[object] = ["x"]
    for _ in range(levels):
        found = [found] * 10
    return found


@pytest.mark.parametrize("name", ["encoder_layers", "activation_fn", "source_lang", "dropout"])
def test_an_option_that_would_never_be_printed_is_refused(name, fairseq):
    folder = fairseq()
    state = judge(folder).state
    torch.save({"args": options(**{name: nested()}), "model": state}, folder / "model.pt")
    with pytest.raises(DataError) as refusal:
        read(folder, "none")
    assert len(refusal.value.message) < 1000


HALF = torch.zeros(1, dtype=torch.float16)


@pytest.mark.parametrize(
    ("weight", "named"),
    [
        (HALF.expand(40000, 100000), "claims to unpack to 8,0"),
        (torch.ones(3, 3).to_sparse(), "not hold the weights"),
        (torch.ones(3, 3, dtype=torch.complex64), "not hold the weights"),
        (3, "not hold the weights"),
        (torch.tensor(1.0), r"lacks decoder\.embed_tokens\.weight"),
        (torch.ones(3), r"decoder\.embed_tokens\.weight is \[3\]"),
    ],
)
@pytest.mark.parametrize("new", [True, False], ids=["zip", "of 2018"])
def test_a_weight_that_is_not_what_it_claims_is_refused(new, weight, named, fairseq):
    folder = fairseq()
    theirs = judge(folder)
    theirs.state["decoder.embed_tokens.weight"] = weight
    content = {"args": theirs.told, "model": theirs.state}
    torch.save(content, folder / "model.pt", _use_new_zipfile_serialization=new)
    with pytest.raises(DataError, match=named):
        read(folder, "none")


@pytest.mark.parametrize("name", ["dict.de.txt", "bpecodes", "model.pt"])
def test_a_file_of_ten_gigabytes_is_not_read(name, fairseq):
    folder = fairseq()
    with (folder / name).open("wb") as sparse:
        sparse.truncate(10 * 2**30)
    with pytest.raises(DataError, match=name):
        read(folder, "none")


@pytest.mark.parametrize("size", [0, 20000, -20], ids=["all", "most", "the end"])
@pytest.mark.parametrize("older", [True, False], ids=["of 2018", "zip"])
def test_a_truncated_checkpoint_is_refused(older, size, fairseq):
    folder = fairseq(older=older)
    (folder / "model.pt").write_bytes((folder / "model.pt").read_bytes()[:size])
    with pytest.raises(DataError, match=r"model\.pt cannot be read"):
        read(folder, "none")


def test_an_imported_model_is_exported_to_ctranslate2(fairseq, tmp_path_factory):
    pytest.importorskip("ctranslate2")
    from aiayn.export import ctranslate2

    file = read(fairseq(), "none")
    folder = tmp_path_factory.mktemp("exported")
    ctranslate2.write(file, folder)
    engine = ctranslate2.CTranslate2Model(folder, file.codec)
    encode = file.codec.encode_target
    pairs = [Greedy(line, line, encode(line)[:-1], 20) for line in LINES[:5]]
    assert verify(file, pairs, engine).difference < 1e-3
    assert "apply_bpe" in (folder / "README.md").read_text()


@pytest.mark.parametrize("to", ["huggingface", "marian"])
def test_codes_are_refused_where_sentencepiece_is_wanted(to, fairseq, tmp_path):
    pytest.importorskip("transformers")
    module = importlib.import_module(f"aiayn.export.{to}")
    with pytest.raises(UsageError, match="BPE codes"):
        module.write(read(fairseq(), "none"), tmp_path)
