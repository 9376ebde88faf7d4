"""Runs of a small world in which all is known: what ranks work, and what a network makes of their all_reduces."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddptui.record import Run
from ddptui.wire import Message
from tests.console.builders import done, ended, hello, launched, preset_of, ready, write_run
from tests.console.traces import BETWEEN, MS, Call, Program, Work, simulate

TENSORS = (200_000, 1_000, 60_000)  # bytes
ALPHA_NS, BETA_NS = 100_000, 2.0  # a message, a byte
STEPS = 400
FIXED_MS = 5.0  # of a step's work; what comes on top of it is chance, exponential, with as large a mean
TWO_AND_FOUR = [{"name": "two"}, {"name": "four", "world_size": 4, "batch_size": 16}]
TRIAL = {"batch_size": 8, "threads": 1, "dataset": "random", "model": "mlp"}


def ring_ns(size: int, ranks: int) -> int:
    return round(2 * (ranks - 1) * (ALPHA_NS + size / ranks * BETA_NS))


def program(work_ms: float, ranks: int, sizes: Sequence[int]) -> Program:
    calls = [Call(str(at), "all_reduce", ring_ns(size, ranks), bytes=size) for at, size in enumerate(sizes)]
    parts = {phase: [Work(round(work_ms * MS * part))] for phase, part in (("forward", 0.4), ("backward", 0.6))}
    return [(BETWEEN, [Work(0)]), *parts.items(), ("aggregate", calls), ("optimizer", [Work(1)])]


def journal(
    trial: str,
    ranks: int,
    *,
    seed: int,
    repeat: int = 1,
    longer: float = 0.0,
    slower: float = 0.0,
    sizes: Sequence[int] = TENSORS,
) -> list[Message]:
    """A launch. What ranks work longer in each step, ms: all of them, or rank 1."""
    draw = random.Random(seed)
    programs = []
    for _ in range(STEPS):
        works = [FIXED_MS + draw.expovariate(1 / FIXED_MS) + longer + slower * (rank == 1) for rank in range(ranks)]
        programs.append({rank: program(work, ranks, sizes) for rank, work in enumerate(works)})
    told = simulate(programs, start_ns=1000 * MS)
    names = dict.fromkeys((f"tensor-{at}" for at in range(len(sizes))), "hash")
    messages: list[Message] = [launched(trial, repeat)]
    messages += [hello(rank, world_size=ranks) for rank in range(ranks)]
    messages += [ready(rank, STEPS) for rank in range(ranks)]
    messages += [step for own in told.values() for step in own]
    return [*messages, *(done(rank, parameters=names) for rank in range(ranks)), ended()]


def made(runs: Path, *journals: list[Message], trials: Sequence[dict[str, Any]] = TWO_AND_FOUR, **fields: Any) -> Run:
    """A run of these trials with these journals."""
    preset = preset_of({"repeats": 1, "defaults": TRIAL, "trial": list(trials)} | fields)
    return write_run(runs, preset, *journals)
