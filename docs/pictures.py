"""Make the README's pictures, docs/run.svg and docs/result.svg, from a real run.

    python docs/pictures.py [RUN]

Without a RUN (a folder) the preset `bottleneck-where` is run first, once through its trials.
"""

import asyncio
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import msgspec

from ddptui.host.machine import describe
from ddptui.live.monitor import RunMonitor
from ddptui.run.playback import Playback
from ddptui.run.session import Session
from ddptui.store.outcomes import results_of
from ddptui.store.presets import load
from ddptui.store.runs import Run
from ddptui.tui.app import Console
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen

HERE = Path(__file__).parent
SIZE = (120, 40)
TRIAL, STEP = "aggregate", 150  # what is to be seen of the run, and when


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as threads:
        run = Run(Path(sys.argv[1])) if len(sys.argv) > 1 else run_it(Path(folder), threads)
        asyncio.run(take(run, Path(folder)))


def run_it(runs: Path, threads: ThreadPoolExecutor) -> Run:
    preset = msgspec.structs.replace(load("bottleneck-where"), repeats=1)
    run = Run.create(runs, preset, describe())
    wait([Session(preset, run, threads).work])
    return run


async def take(run: Run, runs: Path) -> None:
    """Both pictures."""
    preset = run.preset()
    told = Playback(run, preset, clock=lambda: 0)
    told.seek(seconds_until(Playback(run, preset, clock=lambda: 0)))
    screens = {"run": RunScreen(told), "result": ResultScreen(run, preset, results_of(run, preset))}
    app = Console(runs)
    async with app.run_test(size=SIZE) as pilot:
        for name, screen in screens.items():
            await app.push_screen(screen)
            await pilot.pause()
            (HERE / f"{name}.svg").write_text(app.export_screenshot(title=f"ddptui: {name}"), encoding="utf-8")


def seconds_until(told: Playback) -> float:
    """How long after the beginning of the run all ranks had finished the step that is to be seen."""
    watched = RunMonitor()
    while not (watched.live.trial == TRIAL and watched.live.step >= STEP):
        told.step()
        watched.add(told.drain())
    return (told.now_ns() - told.begin_ns) / 1e9


if __name__ == "__main__":
    main()
