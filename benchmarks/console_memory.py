"""How much memory does the console take for a run of an hour: while it goes on, and while it is replayed?

Goal: no more after 60 minutes than after 15. Ranks make steps of 10 ms with two collectives each. Their messages pass
through the journal, the results and the monitor, as in a session and its screen, but as fast as these can. The replay
goes at the highest speed, in a process of its own; near the end it goes 5 s back. A long run is thinned in
memory. Its results at the end are an analysis of as many steps as are kept of any launch.

    python -m benchmarks.console_memory [RANKS ...]
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from ddptui.config.preset import Preset
from ddptui.config.values import make_trial
from ddptui.findings.compare import RunningResults
from ddptui.live.monitor import RunMonitor
from ddptui.run.playback import SPEEDS, Playback
from ddptui.store.runs import Run
from ddptui.wire.messages import VERSION, Collective, Done, Heartbeat, Hello, Ready, Step
from ddptui.wire.records import Ended, Launched, Load, Message

MINUTES = (5, 15, 30, 60)
STEP_NS, S = 10_000_000, 1_000_000_000
PER_S = S // STEP_NS
LOOK_EVERY_S = 0.25
MB = 2**20


def second(number: int, ranks: int) -> Iterator[Message]:
    """What the ranks send in one second of their training, a batch each."""
    begin_ns = (number + 10) * S
    for rank in range(ranks):
        for place in range(PER_S):
            at_ns = begin_ns + place * STEP_NS
            late_ns = 500_000 * (rank == 1)
            calls = tuple(
                Collective("all_reduce", call, 100_000, at, at + late_ns, at + late_ns, at + 1_000_000, bucket=call)
                for call, at in enumerate((at_ns + 6_000_000, at_ns + 8_000_000))
            )
            yield Step(rank=rank, step=number * PER_S + place, epoch=0, warmup=number == 0, begin_ns=at_ns,
                       end_ns=at_ns + STEP_NS - 1000, phases_ns=(100_000, 3_000_000, 3_000_000, 2_000_000, 1_000_000),
                       samples=64, loss=1 / (1 + number), collectives=calls)  # fmt: skip
        yield Heartbeat(rank=rank, at_ns=begin_ns + S, cpu_percent=97.0, rss_bytes=5 * 10**8)
    yield Load(at_ns=begin_ns + S, busy=2.0, own=1.9)


def begin(ranks: int) -> Iterator[Message]:
    yield Launched(trial="hour", repeat=1, at_ns=8 * S, command=())
    for rank in range(ranks):
        yield Hello(version=VERSION, token="", rank=rank, world_size=ranks, at_ns=9 * S, host="here", pid=rank,
                    device="cpu", threads=1, torch="none")  # fmt: skip
        yield Ready(rank=rank, at_ns=9 * S, steps=60 * MINUTES[-1] * PER_S, parameters=100_000)


def end(ranks: int, seconds: int) -> Iterator[Message]:
    end_ns = (seconds + 11) * S
    for rank in range(ranks):
        yield Done(rank=rank, at_ns=end_ns, correct=1, evaluated=1, parameters={}, buffers={}, bottleneck_fired=0,
                   bottleneck_ns=0)  # fmt: skip
    yield Ended(at_ns=end_ns, status="ok")


def preset(ranks: int) -> Preset:
    trial = make_trial({"name": "hour", "world_size": ranks, "batch_size": 64 * ranks, "steps": 1_000_000})
    return Preset(name="memory", title="", group="", about="", baseline="hour", repeats=1, trials=(trial,))


def record(folder: Path, ranks: int, seconds: int) -> float:
    """A run under way: its memory after so long, in MB."""
    asked = preset(ranks)
    run = Run.create(folder, asked, {})
    results, monitor = RunningResults(asked, run.name, {}), RunMonitor()
    with run.begin("hour", 1) as journal:

        def take(messages: Iterator[Message]) -> None:
            for message in messages:
                journal.write(message)
                results.add(message)
                monitor.add([message])

        take(begin(ranks))
        for number in range(seconds):
            take(second(number, ranks))
            monitor.look((number + 11) * S)
        under_way_mb = psutil.Process().memory_info().rss / MB
        take(end(ranks, seconds))
    return under_way_mb


class Replayed(NamedTuple):
    """Figures of a replay, in s and MB; peaks include the program."""

    opened_s: float
    longest_look_s: float  # on the way
    back_s: float
    peak_mb: float  # on the way
    peak_with_results_mb: float


def replay(folder: Path) -> Replayed:
    """A replay of the run, as a screen drives it."""
    [run] = [Run(path) for path in folder.iterdir()]
    now_ns = [0]
    began = time.monotonic()
    playback, monitor = Playback(run, run.preset(), lambda: now_ns[0]), RunMonitor()
    opened_s = time.monotonic() - began
    playback.faster(len(SPEEDS))

    def look() -> float:
        nonlocal monitor
        began = time.monotonic()
        now_ns[0] += round(LOOK_EVERY_S * S)
        if playback.restarted:
            monitor = RunMonitor()
            monitor.live = playback.state()
        monitor.add(playback.drain())
        monitor.look(playback.now_ns())
        return time.monotonic() - began

    longest_s = 0.0
    while playback.now_ns() < playback.end_ns - 20 * S:
        longest_s = max(longest_s, look())
    before_ns = playback.now_ns()
    playback.seek(-5)
    back_s = look()
    while playback.now_ns() < before_ns - 5 * S:
        back_s += look()
    peak_mb = peak()
    while not playback.is_over:
        look()
    return Replayed(opened_s, longest_s, back_s, peak_mb, peak())


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(work: Callable[..., Any], *args: object) -> Any:
    """What `work` returns, in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *args).result()


def main() -> None:
    for ranks in map(int, sys.argv[1:] or ("2", "8")):
        for minutes in MINUTES:
            with tempfile.TemporaryDirectory() as folder:
                under_way_mb = apart(record, Path(folder), ranks, 60 * minutes)
                figures: Replayed = apart(replay, Path(folder))
            words = (
                f"under way {under_way_mb:5.0f} MB",
                f"replayed {figures.peak_mb:5.0f} MB, with its results {figures.peak_with_results_mb:5.0f} MB",
                f"open after {figures.opened_s:5.1f} s, longest look {figures.longest_look_s:5.2f} s",
                f"5 s back {figures.back_s:5.2f} s",
            )
            print(f"{ranks} ranks, {minutes:2} minutes:", "; ".join(words), flush=True)


if __name__ == "__main__":
    main()
