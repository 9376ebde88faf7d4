"""Runs of a small world in which all is known: what ranks work, and what a network makes of their all_reduces."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ddptui.store.runs import Run
from ddptui.wire.records import Message
from tests.support.builders import done, ended, hello, launched, preset_of, ready, write_run
from tests.support.traces import BETWEEN, MS, Await, Call, Program, Work, simulate

TENSORS = (200_000, 1_000, 60_000)  # bytes
ALPHA_NS, BETA_NS = 100_000, 2.0  # a message, a byte
STEPS = 400
FIXED_MS = 5.0  # of a step's work; what comes on top of it is chance, exponential, with as large a mean
TWO_AND_FOUR = [{"name": "two"}, {"name": "four", "world_size": 4, "batch_size": 16}]
TRIAL = {"batch_size": 8, "threads": 1, "dataset": "random", "model": "mlp"}


def ring_ns(size: int, ranks: int) -> int:
    return round(2 * (ranks - 1) * (ALPHA_NS + size / ranks * BETA_NS))


def program(work_ms: float, calls: Sequence[Call]) -> Program:
    parts = {phase: [Work(round(work_ms * MS * part))] for phase, part in (("forward", 0.4), ("backward", 0.6))}
    return [(BETWEEN, [Work(0)]), *parts.items(), ("aggregate", calls), ("optimizer", [Work(1)])]


def overlapping(work_ms: float, calls: Sequence[Call]) -> Program:
    """All buckets are ready when half of backward is done, and queue."""
    queued = [sum(call.transfer for call in calls[: at + 1]) for at in range(len(calls))]
    buckets = [call._replace(transfer=until, background=True) for call, until in zip(calls, queued, strict=True)]
    half = Work(round(work_ms * MS * 0.3))
    return [
        (BETWEEN, [Work(0)]),
        ("forward", [Work(round(work_ms * MS * 0.4))]),
        ("backward", [half, *buckets, half]),
        ("aggregate", [Await(bucket.name) for bucket in buckets]),
        ("optimizer", [Work(1)]),
    ]


def journal(
    trial: str,
    ranks: int,
    *,
    seed: int,
    repeat: int = 1,
    sizes: Sequence[int] = TENSORS,
    steps: int = STEPS,
    shape: Callable[[float, Sequence[Call]], Program] = program,
) -> list[Message]:
    """A launch."""
    draw = random.Random(seed)
    calls = [Call(str(at), "all_reduce", ring_ns(size, ranks), bytes=size) for at, size in enumerate(sizes)]
    programs = []
    for _ in range(steps):
        works = [FIXED_MS + draw.expovariate(1 / FIXED_MS) for _ in range(ranks)]
        programs.append({rank: shape(work, calls) for rank, work in enumerate(works)})
    told = simulate(programs, start_ns=1000 * MS)
    names = dict.fromkeys((f"tensor-{at}" for at in range(len(sizes))), "hash")
    messages: list[Message] = [launched(trial, repeat)]
    messages += [hello(rank, world_size=ranks) for rank in range(ranks)]
    messages += [replace(ready(rank, steps), parameters=sum(sizes) // 4) for rank in range(ranks)]
    messages += [step for own in told.values() for step in own]
    return [*messages, *(done(rank, parameters=names) for rank in range(ranks)), ended()]


def made(runs: Path, *journals: list[Message], trials: Sequence[dict[str, Any]] = TWO_AND_FOUR, **fields: Any) -> Run:
    """A run of these trials with these journals."""
    preset = preset_of({"repeats": 1, "defaults": TRIAL, "trial": list(trials)} | fields)
    return write_run(runs, preset, *journals)
