"""Make the README's pictures from real runs: docs/run.svg, a trial and then the result, docs/result.svg, and
docs/watch.svg, a training that is watched.

    python -m docs.pictures [watch | RUN]

Without a RUN (a folder) the preset `bottleneck-where` is run first, once through its trials. With `watch`, only
docs/watch.svg is made.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import msgspec

from ddptui.config.command_presets import preset_of
from ddptui.config.preset import Preset
from ddptui.engines.local.command import WatchMode
from ddptui.host.machine import describe
from ddptui.run.playback import Playback
from ddptui.run.runner import Session
from ddptui.store.overview import results_of
from ddptui.store.presets import load
from ddptui.store.runs import Run
from ddptui.text.words import S
from ddptui.tui.app import Console
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from docs.moving import Frame, moving

HERE = Path(__file__).parent
SIZE = (120, 40)
TRIAL = "backward"  # what is to be seen of the run
SLOWER = -1  # presses of +: half as fast as it was
FRAME_S, RESULT_S = 0.6, 3.0  # how long each of the trial's pictures shows, and the result


SCRIPT = HERE.parent / "tests" / "support" / "trainings" / "plain.py"
COMMAND = ("torchrun", "--standalone", "--nproc_per_node=2", "train.py", "ddp", "backward", "epochs=6")
SEEN = 0.7  # of the watched launch, when its picture is taken


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as threads:
        watched = asyncio.run(picture_of_watching(watch_it(Path(folder) / "watched", threads)))
        (HERE / "watch.svg").write_text(moving([Frame(watched, 1.0)]), encoding="utf-8")
        if sys.argv[1:] == ["watch"]:
            return
        run = Run(Path(sys.argv[1])) if len(sys.argv) > 1 else run_it(Path(folder), threads)
        *trial, result = asyncio.run(pictures(run, TRIAL, Path(folder)))
    frames = [*(Frame(picture, FRAME_S) for picture in trial), Frame(result, RESULT_S)]
    (HERE / "run.svg").write_text(moving(frames), encoding="utf-8")
    (HERE / "result.svg").write_text(moving(frames[-1:]), encoding="utf-8")


def run_it(runs: Path, threads: ThreadPoolExecutor) -> Run:
    return ran(msgspec.structs.replace(load("bottleneck-where"), repeats=1), runs, threads)


def watch_it(folder: Path, threads: ThreadPoolExecutor) -> Run:
    """Watch a script that knows nothing of ddptui, whose rank 1 sleeps in backward."""
    folder.mkdir()
    shutil.copy(SCRIPT, folder / "train.py")
    os.chdir(folder)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return ran(preset_of(COMMAND, name=None, skip=3, steps=None, overrides={}), folder, threads)


def ran(preset: Preset, runs: Path, threads: ThreadPoolExecutor) -> Run:
    """Run a preset to its end."""
    run = Run.create(runs, preset, describe())
    wait([Session(preset, run, threads, terms=WatchMode()).work])
    return run


async def picture_of_watching(run: Run) -> str:
    """A picture of the Run screen, shortly before the training ends."""
    preset = run.preset()
    told = Playback(run, preset, clock=lambda: 0)
    screen = RunScreen(told)
    app = Console(run.folder.parent)
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(screen)
        begin_ns, end_ns = launch_ns(told, preset.trials[0].name)
        told.go_to(begin_ns + round(SEEN * (end_ns - begin_ns)))
        screen.tick()
        await pilot.pause()
        return app.export_screenshot(title="ddptui watch -- torchrun --nproc_per_node=2 train.py", simplify=True)


async def pictures(run: Run, trial: str, runs: Path) -> list[str]:
    """Pictures of the Run screen through the first launch of a trial, and then that of the Result screen."""
    preset, taken = run.preset(), list[str]()
    told = Playback(run, preset, clock=lambda: 0)  # a clock that stands still: only `seek` moves it
    told.faster(SLOWER)
    screen = RunScreen(told)
    app = Console(runs)
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(screen)
        begin_ns, end_ns = launch_ns(told, trial)
        for moment_ns in range(begin_ns, end_ns, int(FRAME_S * told.speed * S)):
            told.go_to(moment_ns)
            screen.tick()
            await pilot.pause()
            taken.append(app.export_screenshot(title="ddptui", simplify=True))
        await app.push_screen(ResultScreen(run, preset, results_of(run, preset)))
        await pilot.pause()
        return [*taken, app.export_screenshot(title="ddptui", simplify=True)]


def launch_ns(told: Playback, trial: str) -> tuple[int, int]:
    """When the first launch of a trial had warmed up, and when it ended, in console time."""
    number = told.course.trials.index(trial)
    end_ns = told.recording.moments[told.recording.ended[number][0] - 1]
    steps_ns = [at_ns for at_ns in told.course.steps_ns if told.course.firsts_ns[number] <= at_ns <= end_ns]
    return steps_ns[len(steps_ns) // 20], end_ns


if __name__ == "__main__":
    main()
