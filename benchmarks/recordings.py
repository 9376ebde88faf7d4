"""Launches of the lab itself with delays drawn at random, recorded quiet and beside busy processes, for benchmarks that
judge them: 2 to 4 ranks of one thread, models of 128 to 2,048 numbers a layer, delays of 3 to 30 ms at every site.

Each launch trains through windows of so many steps: in every second one, one rank is delayed at one site; in the others
nothing is put in.

    python -m benchmarks.recordings FOLDER [LAUNCHES] [BUSY PROCESSES]
"""

import random
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.launches import busy_processes
from ddptui.analysis.launch_data import LaunchData, launch_logs
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, Trial
from ddptui.config.values import make_trial
from ddptui.host.machine import describe
from ddptui.run import runner
from ddptui.store.runs import Run, all_runs

SITES = ("data", "forward", "backward", "aggregate")
STRATEGIES = ("all_reduce", "ddp", "bucketed")
WORLDS, WIDTHS = (2, 3, 4), (128, 256, 512, 1024, 2048)
WINDOWS, STEPS, WARM_UP = 8, 60, 20
SHORTEST_MS, LONGEST_MS = 3.0, 30.0


def drawn(number: int) -> Trial:
    """A launch with its delays, each in a window of its own."""
    world = random.choice(WORLDS)
    values: dict[str, Any] = {"name": f"launch-{number}", "strategy": random.choice(STRATEGIES), "world_size": world}
    values |= {"model": "mlp", "width": random.choice(WIDTHS), "dataset": "random", "samples": 4096, "batch_size": 32}
    values |= {"threads": 1, "sched_batch": random.random() < 0.5, "lr": 0.001, "warmup_steps": WARM_UP}
    delays = tuple(delay(window, world) for window in range(0, WINDOWS, 2))
    return make_trial(values | {"steps": WARM_UP + WINDOWS * STEPS, "bottleneck": delays})


def delay(window: int, world: int) -> Bottleneck:
    """The delay of a window; its length is drawn evenly by its logarithm."""
    first = WARM_UP + window * STEPS
    return Bottleneck(
        at=random.choice(SITES),  # type: ignore[arg-type]
        ranks=(random.randrange(world),),
        sleep_ms=round(SHORTEST_MS * (LONGEST_MS / SHORTEST_MS) ** random.random(), 2),
        from_step=first,
        to_step=first + STEPS - 1,
    )


def record(folder: Path, launches: int, busy: int) -> None:
    """Train, and keep the run in this folder."""
    random.seed(1000 * busy + launches)
    trials = tuple(map(drawn, range(launches)))
    preset = Preset(
        name=f"busy-{busy}", title="", group="", about="", baseline=trials[0].name, repeats=1, trials=trials
    )
    run = Run.create(folder, preset, describe())
    with busy_processes(busy), closing(runner.run_preset(preset, run)) as stream:
        for log in launch_logs(stream):
            print(log.launched.trial if log.launched else "not launched", flush=True)


def recorded(folder: Path) -> Iterator[tuple[Trial, LaunchData]]:
    """The launches of all runs that were recorded there."""
    for run in all_runs(folder):
        for trial in run.preset().trials:
            log = LaunchData()
            for message in run.messages(trial.name, 1):
                log.add(message)
            yield trial, log


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[2:]]
    record(Path(sys.argv[1]), *[*numbers, *(13, 0)[len(numbers) :]])
