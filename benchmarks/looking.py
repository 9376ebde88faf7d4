"""What looking costs: the loop with all its instruments, a console that hears and keeps everything, against the same
loop without.

Goal: at most 1.05 times with 8 samples a step, 1.03 with 128. (The floor, below, is about 1.03 and 1.01 here.) The same
two ranks train block after block, now with instruments, now without, the order turned each round; a step takes as long
as on the slower rank. Medians of the rounds' ratios.

torch DDP shows Python its collectives only through a communication hook in Python (torch 2.14 has other hooks). So the
same ranks also train under `ddp` with torch's own hook, without instruments: no instruments cost less than that.
Goal with 8 samples: at most 1.03 times this.

Pairs differ by more than looking costs. So it is also measured in CPU time: of a step, on one rank that waits for
nobody, in its loop and in its other threads; and of a message, in the console. The sum over ranks, divided by the cores
that they and the console share, is the floor: a step takes at least that much longer.

    python benchmarks/looking.py [ROUNDS]
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from benchmarks.ranks import join
from ddptui.config.trial import Trial
from ddptui.config.values import make_trial
from ddptui.engines.rank_server import RankServer
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.run.runner import ALIVE_EVERY_S
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import HUB, TOKEN
from ddptui.wire.records import Alive
from workers.aggregate import strategy_of
from workers.aggregate.ddp import DDP
from workers.aggregate.strategy import Strategy
from workers.instruments.clock import Clock
from workers.instruments.delays import Delays
from workers.instruments.records import StepRecord
from workers.instruments.reporter import Reporter
from workers.rank.device import DeviceChoice
from workers.rank.group import host_store
from workers.rank.process import Rank, hello
from workers.train import train
from workers.training.instruments import make_progress

RANKS = 2
CASES = (("all_reduce", 8), ("ddp", 8), ("all_reduce", 128), ("ddp", 128))  # strategy, samples a step
ALONE = ("all_reduce", "ddp")  # strategies
SMALL = {"model": "mlp", "width": 8, "depth": 3, "batch_size": 8}  # as many tensors as `net` has, and short steps
STEPS, WARM_UP = 110, 10
ROUNDS_ALONE = 5  # × those of two ranks: its steps are short
CPU = torch.device("cpu")


class Block(NamedTuple):
    """What a step took, on average."""

    wall_ms: float
    loop_us: float  # of CPU
    beside_us: float  # of CPU, in the rank's other threads


class Moment(NamedTuple):
    wall_ns: int
    loop_s: float
    all_s: float


class Hooked(DDP):
    """torch DDP with torch's own communication hook, which does what DDP does without."""

    def prepare(self, model: nn.Module) -> nn.Module:
        super().prepare(model)
        self.network.register_comm_hook(None, allreduce_hook)
        return self.network


class Side(NamedTuple):
    """One of the ways to train that are compared."""

    trial: Trial
    reporter: Reporter
    strategy: Callable[[Trial], Strategy] = strategy_of


def train_block(rank: int, ranks: int, side: Side) -> Block:
    """Train once."""
    me = Rank(side.trial, rank, ranks, CPU, side.reporter, Delays((), rank, seed=0, warmup_steps=WARM_UP))
    progress = make_progress(me)
    plain, moments = progress.step, []

    def watched(record: StepRecord, clock: Clock) -> None:
        plain(record, clock)
        if record.step in (WARM_UP - 1, STEPS - 1):
            moments.append(Moment(record.timer.moments[-1], time.thread_time(), time.process_time()))

    progress.step = watched  # type: ignore[method-assign]
    train(me, side.strategy(side.trial), progress)
    begin, end = moments
    loop_s = end.loop_s - begin.loop_s
    total = (end.wall_ns - begin.wall_ns) / 1e6, loop_s * 1e6, (end.all_s - begin.all_s - loop_s) * 1e6
    return Block(*(figure / (STEPS - WARM_UP) for figure in total))


class Reporters(NamedTuple):
    heard: Reporter
    unheard: Reporter

    @classmethod
    def make(cls, rank: int, ranks: int) -> "Reporters":
        heard = Reporter(rank)
        del os.environ[HUB]
        heard.send(hello(make_trial({"world_size": ranks, "strategy": "ddp"}), rank, DeviceChoice(CPU), 1))
        return cls(heard, Reporter(rank, heartbeat=False))  # the other has no console to speak to


def blocks(rank: int, ranks: int, values: dict[str, object], rounds: int, to: Reporters) -> list[list[Block]]:
    """A block of every side, round after round: with instruments, under `ddp` with torch's hook alone, and without
    anything. The first round is a warm-up."""
    values = values | {"steps": STEPS, "warmup_steps": WARM_UP, "lr": 0.001}
    blind = make_trial(values | {"instruments": "off"})
    sides = [Side(make_trial(values), to.heard), Side(blind, to.unheard)]
    if values["strategy"] == "ddp":
        sides.insert(1, Side(blind, to.unheard, Hooked))
    found = []
    for number in range(rounds + 1):
        order = 1 if number % 2 else -1
        found.append([train_block(rank, ranks, side) for side in sides[::order]][::order])
    return found[1:]


def run_rank(rank: int, ranks: int, port: int, rounds: int) -> None:
    join(rank, ranks, port)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (each step that is seen prints a line now and then)
    to = Reporters.make(rank, ranks)
    if ranks == 1:
        for strategy in ALONE:
            found = blocks(0, 1, {"strategy": strategy, **SMALL}, rounds * ROUNDS_ALONE, to)
            on, *hooked, off = zip(*found, strict=True)
            report_cpu(strategy, on, off)
            for hook in hooked:
                report_cpu("hook alone", hook, off)
    else:
        for strategy, samples in CASES:
            found = blocks(rank, ranks, {"strategy": strategy, "batch_size": samples}, rounds, to)
            took = torch.tensor([[block.wall_ms for block in sides] for sides in found])
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            if rank == 0:
                on, *hooked, off = took.T.tolist()
                report(f"{strategy:10} {samples:4} a step", on, off)
                for hook in hooked:
                    report("     torch's hook alone", hook, off)
    to.heard.close()
    dist.destroy_process_group()


def report(what: str, on: list[float], off: list[float]) -> None:
    low, middle, high = quantiles([a / b for a, b in zip(on, off, strict=True)], n=4)
    figures = f"{median(on):6.2f} against {median(off):6.2f} ms   ratio {middle:.3f}"
    print(f"net, {what}: {figures}   middle half {low:.2f} to {high:.2f}", file=sys.stderr)


def report_cpu(what: str, on: Sequence[Block], off: Sequence[Block]) -> None:
    loop = spread([a.loop_us - b.loop_us for a, b in zip(on, off, strict=True)])
    beside = spread([a.beside_us - b.beside_us for a, b in zip(on, off, strict=True)])
    print(f"CPU a step, {what:10}: {loop} in the loop, {beside} beside it", file=sys.stderr)


def spread(us: list[float]) -> str:
    low, middle, high = quantiles(us, n=4)
    return f"{middle:.0f} µs (middle half {low:.0f} to {high:.0f})"


def console(hub: RankServer, over: threading.Event) -> None:
    """Hear, fold and keep, as the console does."""
    live = Live()
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "messages.jsonl").open("wb") as journal:
        repeat = RepeatJournal(Path(folder), 1, journal)
        begin_s, heard, alive_sent = time.thread_time(), 0, 0.0
        while not over.is_set():
            if time.monotonic() - alive_sent > ALIVE_EVERY_S:
                alive_sent = time.monotonic()
                hub.send(Alive())  # else the ranks end after five minutes
            messages = hub.receive(100)
            for message in messages:
                repeat.write(message)
            fold(live, messages)
            heard += len(messages)
        spent_us = (time.thread_time() - begin_s) * 1e6
        repeat.close()
    print(f"CPU a message, console: {spent_us / heard:.0f} µs", file=sys.stderr)


def measure(ranks: int, rounds: int) -> None:
    store = host_store()
    with RankServer(ranks) as hub:
        os.environ |= {HUB: hub.endpoint, TOKEN: hub.token}
        over = threading.Event()
        hearing = threading.Thread(target=console, args=(hub, over))
        hearing.start()
        start: Callable[..., object] = mp.start_processes
        start(run_rank, (ranks, store.port, rounds), nprocs=ranks, start_method="spawn")
        over.set()
        hearing.join()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    measure(RANKS, rounds)
    measure(1, rounds)


if __name__ == "__main__":
    main()
