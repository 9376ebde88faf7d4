"""What looking costs: the loop with all its instruments, a console that hears and keeps everything, against the same
loop without.

Goal: at most 1.01 times with 128 samples a step, 1.03 with 8. The same two ranks train block after block, now with
instruments, now without, the order turned each round; a step takes as long as on the slower rank. Medians of the
rounds' ratios.

    python benchmarks/looking.py [ROUNDS]
"""

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.ranks import join
from ddptui.config.trial import Trial
from ddptui.config.trial_values import make_trial
from ddptui.engines.hub import Hub
from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import HUB, TOKEN
from workers.aggregate import strategy_of
from workers.instruments.clock import Clock
from workers.instruments.records import StepRecord
from workers.instruments.reporter import Reporter
from workers.rank.delays import RankDelays
from workers.rank.device import DeviceChoice
from workers.rank.group import host_store
from workers.rank.process import Rank, hello
from workers.train import train
from workers.training.instruments import make_progress

RANKS = 2
CASES = (("all_reduce", 8), ("ddp", 8), ("all_reduce", 128), ("ddp", 128))  # strategy, samples a step
STEPS, WARM_UP = 110, 10
CPU = torch.device("cpu")


def block(rank: int, trial: Trial, reporter: Reporter) -> float:
    """Train once; ms a step, on the slower rank."""
    delays = RankDelays((), rank, seed=0, warmup_steps=WARM_UP)
    me = Rank(trial, rank, RANKS, CPU, reporter, delays)
    progress = make_progress(me)
    plain, moments = progress.step, []

    def watched(record: StepRecord, clock: Clock) -> None:
        if record.step == WARM_UP:
            moments.append(record.timer.moments[0])
        if record.step == STEPS - 1:
            moments.append(record.timer.moments[-1])
        plain(record, clock)

    progress.step = watched  # type: ignore[method-assign]
    train(me, strategy_of(trial), progress)
    took = torch.tensor((moments[1] - moments[0]) / (STEPS - WARM_UP) / 1e6)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def run_rank(rank: int, port: int, rounds: int) -> None:
    join(rank, RANKS, port)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (each step that is seen prints a line now and then)
    heard = Reporter(rank)
    del os.environ[HUB]
    unheard = Reporter(rank, heartbeat=False)  # with no console to speak to
    heard.send(hello(make_trial({}), rank, DeviceChoice(CPU), 1))
    for strategy, samples in CASES:
        values = {"strategy": strategy, "batch_size": samples, "steps": STEPS, "warmup_steps": WARM_UP, "lr": 0.001}
        looking, blind = make_trial(values), make_trial(values | {"instruments": "off"})
        sides: list[tuple[Trial, Reporter]] = [(looking, heard), (blind, unheard)]
        times: dict[str, list[float]] = {"on": [], "off": []}
        for number in range(rounds + 1):
            for trial, reporter in sides if number % 2 else sides[::-1]:
                took = block(rank, trial, reporter)
                if number:
                    times[trial.instruments].append(took)
        if rank == 0:
            report(strategy, samples, times["on"], times["off"])
    heard.close()
    dist.destroy_process_group()


def report(strategy: str, samples: int, on: list[float], off: list[float]) -> None:
    ratios = [a / b for a, b in zip(on, off, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    figures = f"{median(on):6.2f} against {median(off):6.2f} ms   ratio {median(ratios):.3f}"
    print(f"net, {strategy:10} {samples:4} a step: {figures}   middle half {low:.2f} to {high:.2f}", file=sys.stderr)


def console(hub: Hub, over: threading.Event) -> None:
    """Hear, fold and keep, as the console does."""
    live = Live()
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "messages.jsonl").open("wb") as journal:
        repeat = RepeatJournal(Path(folder), 1, journal)
        while not over.is_set():
            messages = hub.receive(100)
            for message in messages:
                repeat.write(message)
            fold(live, messages)
        repeat.close()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    store = host_store()
    with Hub(RANKS) as hub:
        os.environ |= {HUB: hub.endpoint, TOKEN: hub.token}
        over = threading.Event()
        hearing = threading.Thread(target=console, args=(hub, over))
        hearing.start()
        start: Callable[..., object] = mp.start_processes
        start(run_rank, (store.port, rounds), nprocs=RANKS, start_method="spawn")
        over.set()
        hearing.join()


if __name__ == "__main__":
    main()
