"""What searches for `aiayn generate`: our own network, or CTranslate2."""

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never, cast

from aiayn import console
from aiayn.config import DECODING_BATCH_TOKENS
from aiayn.data.workers import count_cores
from aiayn.errors import UsageError
from aiayn.memory import keep_freed_memory
from aiayn.single_process import SingleProcess

if TYPE_CHECKING:
    import torch

    from aiayn.commands.generate import GenerateOptions
    from aiayn.config import Config
    from aiayn.data.codec import Codec
    from aiayn.generation.start_search import Network
    from aiayn.generation.translate_lines import Processes
    from aiayn.generation.translator import Translator

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


@contextmanager
def join_processes(options: "GenerateOptions") -> "Iterator[Processes]":
    """Join the processes that torchrun started; without torchrun, there is one."""
    if options.compile:
        require_cpu(options.device)
        if "RANK" not in os.environ:
            keep_freed_memory()
            yield SingleProcess()
            return
    # Loaded here: torch takes a second, and compiled code does without it.
    from aiayn.distributed import join_process_group

    with join_process_group("cpu" if options.compile else options.device) as group:
        yield group


def require_cpu(device: str) -> None:
    """Refuse another device for compiled code; auto is the CPU there."""
    if device not in ("auto", "cpu"):
        raise UsageError(
            f"--compile is for the CPU, and --device is {device}",
            fix="leave --compile out, or pass --device cpu",
        )


def open_translator(
    options: "GenerateOptions", paths: list[Path], group: "Processes"
) -> "Translator":
    """Return the models, ready to translate."""
    if options.compile:
        return _open_compiled(options, paths, say=group.is_first)
    assert not isinstance(group, SingleProcess)
    match options.engine:
        case "torch":
            return _open_torch(options, paths, group.device)
        case "ctranslate2":
            return _open_ctranslate2(options, paths[0], group.device)
        case _:
            assert_never(options.engine)


def _open_torch(
    options: "GenerateOptions", paths: list[Path], device: "torch.device"
) -> "Translator":
    from aiayn.device import share_cores
    from aiayn.generation.batch_size import batch_that_fits
    from aiayn.generation.prepare import load_models

    files, networks = load_models(paths, device, options.precision)
    configs, codec = [file.config for file in files], files[0].codec
    workers = share_cores(device, options.threads)
    translator = _translator(options, networks, configs, codec, workers)
    tokens, rows = batch_that_fits(networks, translator.search.width)
    return replace(translator, batch_tokens=options.batch_tokens or tokens, rows=rows)


def _open_compiled(options: "GenerateOptions", paths: list[Path], *, say: bool) -> "Translator":
    from aiayn.data.cache import cache_folder
    from aiayn.generation.native_model import compile_kernels, load_native_models

    kernels, seconds = compile_kernels(options.precision)
    if seconds and say:
        console.say(f"compiled the network in {seconds:.1f} s, kept in {cache_folder()}")
    models = load_native_models(paths, kernels, options.precision)
    configs, codec = [model.packed.config for model in models], models[0].packed.codec
    workers = share_cores_compiled(options.threads)
    translator = _translator(options, models, configs, codec, workers)
    # What is needed beside the kernels is loaded now, for all processes at once.
    translator.steps(deque())
    if options.align:
        _ = [model.plain for model in models]
    return translator


def _translator(
    options: "GenerateOptions",
    models: "Sequence[Network]",
    configs: "Sequence[Config]",
    codec: "Codec",
    workers: int,
) -> "Translator":
    from aiayn.generation.translator import Translator

    decode = configs[0].decode
    return Translator(
        models,
        codec,
        options.search(decode),
        options.extra_length_of(decode),
        options.batch_tokens or DECODING_BATCH_TOKENS,
        workers=workers,
        longest=decode.longest,
        aligns=options.align,
        alignment_heads=[config.alignment_heads for config in configs],
    )


def share_cores_compiled(threads: int) -> int:
    """Return how many processes may translate in parallel, as `share_cores` does for torch."""
    if sys.platform != "linux":
        return 1
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(allowed) if allowed.isascii() and allowed.isdigit() else 0
    return min(threads or cores or count_cores(), os.cpu_count() or 1)


def _open_ctranslate2(
    options: "GenerateOptions", path: Path, where: "torch.device"
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
    device = "cuda" if where.type == "cuda" else "cpu"
    if options.precision not in ctranslate2.get_supported_compute_types(device):
        raise UsageError(
            f"--engine ctranslate2 has no --precision {options.precision} on this {device}",
            fix=f"pass --precision float32 or int8, or {USE_OURS}",
        )
    model, decode = file.config.model, file.config.decode
    workers = share_cores(where, options.threads)
    return CTranslate2Translator(
        models=(),
        codec=file.codec,
        search=cast(BeamSearch, options.search(decode)),
        extra_length=options.extra_length_of(decode),
        batch_tokens=options.batch_tokens or DECODING_BATCH_TOKENS,
        workers=workers,
        longest=decode.longest,
        aligns=options.align,
        engine=ctranslate2.Translator(
            str(convert_once(path, file)),
            device=device,
            device_index=where.index or 0,
            compute_type=options.precision,
            inter_threads=workers,
            intra_threads=1,
        ),
        table_rows=model.max_positions if model.positions == "learned" else POSITIONS,
    )
