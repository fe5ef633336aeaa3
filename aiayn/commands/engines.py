"""What searches for `aiayn generate`: our own network, or CTranslate2."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never, cast

from aiayn import console
from aiayn.errors import UsageError

if TYPE_CHECKING:
    from aiayn.commands.generate import GenerateOptions
    from aiayn.distributed import ProcessGroup
    from aiayn.generation.translator import Translator
    from aiayn.kernels.native import NativeKernels

EngineName = Literal["torch", "ctranslate2"]
USE_OURS = "pass --engine torch"


def require_engine(options: "GenerateOptions") -> None:
    """Refuse options that the engine does not have, and an engine that is not installed."""
    if options.engine == "torch":
        return
    if options.compile:
        raise UsageError(
            "--compile is for our own search, and --engine is ctranslate2", fix="leave one out"
        )
    if options.sample:
        raise UsageError(
            "--engine ctranslate2 excludes --sample: what it draws depends on the other lines",
            fix=USE_OURS,
        )
    if options.beam_rule == "marian":
        raise UsageError(
            "--engine ctranslate2 excludes --beam-rule marian: its search is its own",
            fix=USE_OURS,
        )
    if len(options.models) > 1:
        raise UsageError(
            "--engine ctranslate2 has no ensembles", fix=f"{USE_OURS}, or one model"
        )
    if options.device == "mps":
        raise UsageError("--engine ctranslate2 excludes --device mps", fix="pass --device cpu")
    if find_spec("ctranslate2") is None:
        raise UsageError(
            "ctranslate2 is not installed, and --engine ctranslate2 needs it",
            fix=f"pip install 'aiayn[export]', or {USE_OURS}",
        )


def open_translator(
    options: "GenerateOptions", paths: list[Path], group: "ProcessGroup"
) -> "Translator":
    """Return the models, ready to translate."""
    match options.engine:
        case "torch":
            return _open_ours(options, paths, group)
        case "ctranslate2":
            return _open_ctranslate2(options, paths[0], group)
        case _:
            assert_never(options.engine)


def _open_ours(
    options: "GenerateOptions", paths: list[Path], group: "ProcessGroup"
) -> "Translator":
    from aiayn.device import share_cores
    from aiayn.generation.prepare import load_models
    from aiayn.generation.translator import Translator

    kernels = _compile(options, group) if options.compile else None
    files, networks = load_models(paths, group.device, options.precision, kernels)
    decode = files[0].config.decode
    return Translator(
        networks,
        files[0].codec,
        options.search(decode),
        options.extra_length_of(decode),
        options.batch_tokens,
        workers=share_cores(group.device, options.threads),
        longest=decode.longest,
        aligns=options.align,
        alignment_heads=[file.config.alignment_heads for file in files],
    )


def _compile(options: "GenerateOptions", group: "ProcessGroup") -> "NativeKernels":
    """Return compiled kernels for the models' precision."""
    from aiayn.data.cache import cache_folder
    from aiayn.kernels.native import compile_once

    if group.device.type != "cpu":
        raise UsageError(
            f"--compile is for the CPU, and the device is {group.device.type}",
            fix="leave --compile out, or pass --device cpu",
        )
    kernels, seconds = compile_once(cache_folder())
    if seconds and group.is_first:
        console.say(f"compiled the network in {seconds:.1f} s, kept in {cache_folder()}")
    if not kernels.supports(options.precision):
        raise UsageError(
            f"--compile has no --precision {options.precision} on this processor",
            fix="leave --compile out, or pass --precision float32",
        )
    return kernels


def _open_ctranslate2(
    options: "GenerateOptions", path: Path, group: "ProcessGroup"
) -> "Translator":
    import ctranslate2

    from aiayn.checkpoint import load_model
    from aiayn.device import share_cores
    from aiayn.export.converted import convert_once
    from aiayn.export.ctranslate2 import POSITIONS
    from aiayn.generation.ctranslate2 import CTranslate2Translator
    from aiayn.generation.search import BeamSearch

    file = load_model(path)
    if file.codec.settings.task == "parsing":
        raise UsageError(f"--engine ctranslate2 does not parse, as {path} does", fix=USE_OURS)
    if file.config.model.attention_window:
        raise UsageError(
            f"model.attention_window is set in {path}, and CTranslate2 looks at every position",
            fix=USE_OURS,
        )
    device = "cuda" if group.device.type == "cuda" else "cpu"
    if options.precision not in ctranslate2.get_supported_compute_types(device):
        raise UsageError(
            f"--engine ctranslate2 has no --precision {options.precision} on this {device}",
            fix=f"pass --precision float32 or int8, or {USE_OURS}",
        )
    model, decode = file.config.model, file.config.decode
    workers = share_cores(group.device, options.threads)
    return CTranslate2Translator(
        models=(),
        codec=file.codec,
        search=cast(BeamSearch, options.search(decode)),
        extra_length=options.extra_length_of(decode),
        batch_tokens=options.batch_tokens,
        workers=workers,
        longest=decode.longest,
        aligns=options.align,
        engine=ctranslate2.Translator(
            str(convert_once(path, file)),
            device=device,
            device_index=group.device.index or 0,
            compute_type=options.precision,
            inter_threads=workers,
            intra_threads=1,
        ),
        table_rows=model.max_positions if model.positions == "learned" else POSITIONS,
    )
