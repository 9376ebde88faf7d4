"""A training that was left running is watched by one console at a time, whichever of its runs names it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from ddptui.engines.local.training import TRAINING_FILE, hold, training_of
from ddptui.store.runs import Run, all_runs
from tests.support.runner import ENOUGH_S, arguments, environment
from tests.support.waiting import until

TRAINING = [sys.executable, "-c", "import time; time.sleep(3600)"]
REFUSED_WITHIN_S = 60


@contextmanager
def console(runs: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(arguments(*words), env=environment(runs), stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def await_watched(runs: Path, number: int) -> Run:
    """The newest of so many runs, once it is being watched."""
    until(lambda: len(list(runs.glob(f"*/trial-*/repeat-1/{TRAINING_FILE}"))) >= number)
    return all_runs(runs)[0]


def test_a_second_console_that_attaches_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    with console(tmp_path, "watch", "--no-ui", "--", *TRAINING) as starter:
        first = await_watched(tmp_path, 1)
        [training] = [child for child in psutil.Process(starter.pid).children() if child.cmdline() == TRAINING]
        starter.kill()
    try:
        with console(tmp_path, "attach", first.name) as watcher:
            second = await_watched(tmp_path, 2)
            for run, why in [(first, "another console is attached to it"), (second, "another console has it open")]:
                with console(tmp_path, "attach", run.name) as refused:
                    _, said = refused.communicate(timeout=REFUSED_WITHIN_S)
                assert (refused.returncode, why in said) == (2, True), said
            assert len(all_runs(tmp_path)) == 2
            watcher.send_signal(signal.SIGINT)
            watcher.communicate(timeout=ENOUGH_S)
        for run in (first, second):
            hold(training_of(run)).lock.close()
    finally:
        training.kill()
