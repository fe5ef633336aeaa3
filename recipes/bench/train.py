"""Training speed as ratios in one run.

    python recipes/bench/train.py [--what step|feed|plan|ranks] [--size base|small]
                                  [--device cpu|cuda]

step: ours in float32 and bfloat16, a torch.nn.Transformer loop and matrix products take turns
on the same batches of random ids, with lengths like those of captions; the medians are
compared. Each side has a process, and so a peak memory, of its own.
feed: how long the step waits for its data, on a data folder made of `aiayn sample` pairs.
plan: seconds of planning an epoch, and the memory that lengths and plan take.
ranks: two processes of one thread each against one process of two threads; or all GPUs, one
process each, against one.

On a GPU, float32 products are TF32 on every side, and the clock stops when the device is done.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from aiayn.cli import ENVIRONMENT
from aiayn.config import BatchConfig, Config, ModelConfig
from aiayn.data.batch import Batch, collate
from aiayn.data.folder import DataFolder
from aiayn.data.plan import micro_batches, plan_epoch
from aiayn.device import choose_device, peak_memory, prepare_device
from aiayn.distributed import ProcessGroup, join_process_group
from aiayn.model.transformer import Transformer, shift_right
from aiayn.training.cost import training_flops
from aiayn.training.gradients import Gradients
from aiayn.training.loader import Update, prefetched, updates_from
from aiayn.training.state import TrainState, build_optimizer
from aiayn.training.update import run_update

WORDS = 8000
SIZES = {
    "base": ModelConfig(),
    "small": ModelConfig(layers=3, d_model=256, d_ff=1024, heads=4),
}
CPU = torch.device("cpu")
CORES = len(os.sched_getaffinity(0))
AS_AIAYN = ENVIRONMENT | os.environ
"""What `aiayn` sets before it loads torch."""


def make_updates(
    count: int, tokens: int, micro_tokens: int, device: torch.device = CPU
) -> list[Update]:
    """Return updates of random ids, planned as training plans them."""
    random = np.random.default_rng(1)
    target = np.clip(random.normal(16, 4.5, 40_000), 5, 45).astype(np.int32)
    source = np.clip(target + random.normal(-0.5, 2, len(target)), 4, 45).astype(np.int32)
    plan = plan_epoch(source, target, BatchConfig(tokens=tokens), seed=1, epoch=0)
    updates = []
    for number in range(count):
        pairs = plan.pairs(number)
        pieces = micro_batches(pairs, source, target, limit=micro_tokens)
        batches = [
            collate(
                [
                    (random.integers(3, WORDS, source[i]), random.integers(3, WORDS, target[i]))
                    for i in piece
                ]
            ).to(device)
            for piece in pieces
        ]
        updates.append(
            Update(
                0,
                number,
                len(plan),
                int(source[pairs].sum()),
                int(target[pairs].sum()),
                list(enumerate(batches)),
            )
        )
    return updates


class PlainTransformer(nn.Module):
    """What one writes with torch.nn.Transformer in an afternoon."""

    def __init__(self, c: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, c.d_model, padding_idx=0)
        self.scale = math.sqrt(c.d_model)
        self.positions = nn.Parameter(torch.randn(512, c.d_model), requires_grad=False)
        self.transformer = nn.Transformer(
            c.d_model, c.heads, c.layers, c.decoder_depth, c.d_ff, c.dropout, batch_first=True
        )
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.embedding(source) * self.scale + self.positions[: source.size(1)])
        y = self.dropout(self.embedding(target) * self.scale + self.positions[: target.size(1)])
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1), source.device)
        hidden = source == 0
        states = self.transformer(
            x,
            y,
            tgt_mask=causal,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        return F.log_softmax(states @ self.embedding.weight.T, dim=-1)


def plain_loss(model: PlainTransformer, batch: Batch, smoothing: float = 0.1) -> torch.Tensor:
    log_p = model(batch.source_BS, shift_right(batch.target_BT))
    gold = batch.target_BT
    wrong = smoothing / (WORDS - 1)
    nll = -log_p.gather(-1, gold[..., None]).squeeze(-1)
    loss = (1 - smoothing - wrong) * nll - wrong * log_p.sum(-1)
    return loss[gold != 0].sum()


def plain_side(config: Config, group: ProcessGroup):
    model = PlainTransformer(config.model).to(group.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step(update: Update) -> None:
        optimizer.zero_grad()
        for _, batch in update.micro:
            (plain_loss(model, batch) / update.target_tokens).backward()
        optimizer.step()

    return step


def our_side(
    config: Config, group: ProcessGroup, words: int = WORDS, dtype: torch.dtype = torch.float32
):
    torch.manual_seed(1)
    model = Transformer(config.model, words).to(group.device).train()
    optimizer = build_optimizer(model, config.optim)
    scaler = torch.amp.GradScaler(group.device.type, enabled=False)
    state = TrainState(config, None, model, optimizer, scaler, Gradients(model))
    return lambda update: run_update(state, update, group, dtype)


def matrix_side(config: Config, group: ProcessGroup):
    d, f = config.model.d_model, config.model.d_ff
    shapes = [(4096, d, f), (4096, f, d), (4096, d, d), (2048, 2048, 2048)]
    products = [
        (torch.randn(n, i, device=group.device), torch.randn(i, o, device=group.device))
        for n, i, o in shapes
    ]

    def step(_: Update) -> list[float]:
        rates = []
        for a, b in products:
            begin = now(group.device)
            for _ in range(5):
                a @ b
            seconds = now(group.device) - begin
            rates.append(10 * a.size(0) * a.size(1) * b.size(1) / seconds)
        return rates

    return step


def now(device: torch.device) -> float:
    """Return the time in seconds, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def alone(a: argparse.Namespace) -> ProcessGroup:
    """Return a group of one process, on a device that is set up as in training."""
    device = choose_device(a.device)
    prepare_device(device)
    torch.set_float32_matmul_precision("high")
    return ProcessGroup(0, 1, device)


SIDES = {
    "plain": plain_side,
    "ours": our_side,
    "bfloat16": partial(our_side, dtype=torch.bfloat16),
    "matrix": matrix_side,
}


def serve_step(a: argparse.Namespace) -> None:
    """Run one update whenever a line comes in, and answer with how long it took."""
    torch.set_num_threads(CORES)
    group = alone(a)
    updates = make_updates(a.repeats + 1, a.tokens, a.micro_tokens, group.device)
    step = SIDES[a.side](config_of(a), group)
    for line in sys.stdin:
        begin = now(group.device)
        rates = step(updates[int(line)])
        seconds = now(group.device) - begin
        best = max(rates) if a.side == "matrix" else 0
        memory = peak_memory(group.device)
        print(json.dumps({"seconds": seconds, "rate": best, "memory": memory}), flush=True)


def serve_plan(a: argparse.Namespace) -> None:
    """Plan an epoch of pairs with random lengths; the lengths count as memory, too."""
    before = peak_memory(CPU)
    random = np.random.default_rng(1)
    target = random.integers(1, 60, a.pairs, dtype=np.uint16)
    source = random.integers(1, 60, a.pairs, dtype=np.uint16)
    begin = time.perf_counter()
    plan = plan_epoch(source, target, BatchConfig(), seed=1, epoch=0)
    seconds = time.perf_counter() - begin
    memory = peak_memory(CPU) - before
    print(json.dumps({"seconds": seconds, "memory": memory, "updates": len(plan)}))


def serve_ranks(a: argparse.Namespace) -> None:
    """Run this process's share of each update, and let the first answer with the seconds."""
    with join_process_group(a.device) as ranks:
        torch.set_float32_matmul_precision("high")
        torch.set_num_threads(max(1, CORES // ranks.world_size))
        step = our_side(config_of(a), ranks)
        updates = make_updates(a.repeats + 1, a.tokens, a.micro_tokens, ranks.device)
        for number, update in enumerate(updates):
            if number == 1:  # the first one warms up
                begin = now(ranks.device)
            step(replace(update, micro=update.micro[ranks.rank :: ranks.world_size]))
        seconds = now(ranks.device) - begin
        if ranks.is_first:
            print(json.dumps({"seconds": seconds}))


def config_of(a: argparse.Namespace) -> Config:
    batch = BatchConfig(tokens=a.tokens, micro_tokens=a.micro_tokens)
    return Config(model=SIZES[a.size], batch=batch)


def bench_step(a: argparse.Namespace) -> None:
    children = {
        side: subprocess.Popen(
            [sys.executable, *again("step"), "--side", side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ) if side == "plain" else AS_AIAYN,
        )
        for side in SIDES
    }
    updates = make_updates(a.repeats + 1, a.tokens, a.micro_tokens)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for number in range(a.repeats + 1):
        for side, child in children.items():
            child.stdin.write(f"{number}\n")
            child.stdin.flush()
            answer = json.loads(child.stdout.readline())
            if number:  # the first round warms up
                found[side].append(answer)
    for child in children.values():
        child.stdin.close()
        child.wait()
    report(a.size, updates[1:], found)


def bench_feed(a: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text, data = f"{folder}/text", f"{folder}/data"
        run_aiayn("sample", text, "--pairs", a.feed_pairs)
        sides = f"{text}/train.en", f"{text}/train.de"
        run_aiayn("preprocess", *sides, "-o", data, "--vocab-size", 2000)
        opened = DataFolder.open(Path(data))
        config = config_of(a)
        group = alone(a)
        step = our_side(config, group, len(opened.codec.source))
        updates = prefetched(
            updates_from(opened.corpus("train"), config.batch, group, seed=1, epoch=0, number=0)
        )
        step(next(updates))
        begin, waited = now(group.device), 0.0
        for _ in range(a.repeats):
            asked = time.perf_counter()
            update = next(updates)
            waited += time.perf_counter() - asked
            step(update)
        share = waited / (now(group.device) - begin)
        updates.close()
    print(f"waiting for data          {share:8.2%}  of the step (goal: below 2%)")


def bench_plan(a: argparse.Namespace) -> None:
    found = answer_of([*again("plan")])
    print(
        f"plan of {a.pairs:,} pairs   {found['seconds']:8.1f}  s (goal 30)"
        f" {found['memory'] / 1e9:6.2f} GB (goal 0.4)"
    )


def bench_ranks(a: argparse.Namespace) -> None:
    count = torch.cuda.device_count() if a.device == "cuda" else CORES
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    ratios = []
    for _ in range(3):
        one = answer_of(again("ranks"))["seconds"]
        ratios.append(one / answer_of([*torchrun, *again("ranks")])["seconds"])
    print(
        f"{count} processes / 1 process   {statistics.median(ratios):8.2f}"
        f"  ({min(ratios):.2f} to {max(ratios):.2f}, goal 0.95 on a CPU)"
    )


def again(part: str) -> list[str]:
    """Return this very command, to run one part in a process of its own."""
    return [__file__, *sys.argv[1:], "--serve", part]


def answer_of(line: list[str]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, *line], env=AS_AIAYN, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def run_aiayn(*line: object) -> None:
    command = [sys.executable, "-m", "aiayn", *map(str, line)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


BENCHES = {"step": bench_step, "feed": bench_feed, "plan": bench_plan, "ranks": bench_ranks}
SERVED = {"step": serve_step, "plan": serve_plan, "ranks": serve_ranks}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--what", choices=BENCHES, nargs="+", default=list(BENCHES))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--micro-tokens", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=36_000_000, help="pairs of the plan")
    parser.add_argument("--feed-pairs", type=int, default=20_000, help="pairs of the feed")
    parser.add_argument("--serve", choices=SERVED, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.serve:
        SERVED[a.serve](a)
        return
    for what in a.what:
        BENCHES[what](a)


def report(size: str, updates: list[Update], found: dict[str, list[dict[str, float]]]) -> None:
    tokens = [update.target_tokens for update in updates]
    flops = [
        training_flops(SIZES[size], (WORDS, None), (update.source_tokens, update.target_tokens))
        for update in updates
    ]
    peak = statistics.median(one["rate"] for one in found["matrix"])
    rates = {}
    print(
        f"{size}, {statistics.median(tokens):.0f} target tokens an update, {len(tokens)} rounds"
    )
    print(f"best matrix product       {peak / 1e9:8.1f} GFLOP/s")
    for side in ("plain", "ours", "bfloat16"):
        seconds = [one["seconds"] for one in found[side]]
        speeds = [t / s for t, s in zip(tokens, seconds, strict=True)]
        rates[side] = statistics.median(f / s for f, s in zip(flops, seconds, strict=True))
        print(
            f"{side:<10} {statistics.median(speeds):8.1f} tokens/s"
            f" ({min(speeds):.1f} to {max(speeds):.1f}) {rates[side] / 1e9:8.1f} GFLOP/s"
            f" {max(one['memory'] for one in found[side]) / 1e9:6.2f} GB"
        )
    ours, plain = median_ratio(found, "plain", "ours"), rates["ours"] / peak
    print(f"ours / plain              {ours:8.2f}  (goal 1.45 on a CPU)")
    print(f"ours / matrix product     {plain:8.2f}  (goal 0.72 on a CPU)")
    half = median_ratio(found, "ours", "bfloat16")
    print(f"bfloat16 / ours           {half:8.2f}  (goal 1.8, where the processor has it)")


def median_ratio(found: dict[str, list[dict[str, float]]], slow: str, fast: str) -> float:
    pairs = zip(found[slow], found[fast], strict=True)
    return statistics.median(one["seconds"] / other["seconds"] for one, other in pairs)


if __name__ == "__main__":
    main()
