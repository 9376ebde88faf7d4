"""Where the checks of the GPU report run: presets as `ddptui run` runs them, and probes, in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.parser import PresetError
from ddptui.doctor.gpu_report.check import Bench, Check, Failure, Impossible, Observed, Recorded, Result, result_of
from ddptui.doctor.gpu_report.plans import Plan, planned
from ddptui.host.folders import python_path
from ddptui.host.keeper import die_with
from ddptui.host.launchers import without_launchers
from ddptui.host.rank_side import Child, NoAnswer
from ddptui.store.journal import tail
from ddptui.store.presets import as_toml
from ddptui.store.runs import Run, RunError, all_runs
from ddptui.text.words import count, first_line
from ddptui.wire.records import Ended

PROBE = "workers.doctor.gpu"
STOP_S = 15.0  # for a console to stop its ranks once it has been asked to
LINES_OF_A_LOG = 15
REPORT = "this is a bug in the check: please report it"


class Workbench(Bench):
    """Runs what checks ask for, in a folder of its own."""

    def __init__(self, folder: Path, gpus: int, facts: Mapping[str, Any]) -> None:
        """gpus: how many torch sees; facts: what the probe knows of this torch."""
        self.gpus = gpus
        self.facts = facts
        self.log: list[str] = []  # the last lines of what the current check has started
        self._folder = folder
        self._ended: dict[bytes, Recorded | Impossible | Failure] = {}  # by plan

    def perform(self, check: Check) -> Result:
        """Run a check. Never raises for what it finds."""
        if self.gpus < check.gpus:
            return result_of(check, "not run", f"needs {count(check.gpus, 'GPU')}; torch sees {self.gpus}")
        self.log, begin = [], time.monotonic()
        try:
            ok, text = check.run(self, check.minutes * 60)
        except Impossible as why:
            return result_of(check, "not run", str(why))
        except Failure as why:
            ok, text = False, str(why)
        except Exception as error:
            ok, text = False, f"{first_line(error)}: {REPORT}"
        return result_of(check, "ok" if ok else "NOT AS EXPECTED", text, time.monotonic() - begin, self.log)

    def ask(self, question: str, within_s: float) -> dict[str, Any]:
        """The answer of the probe, in a process of its own. Raises Failure."""
        with Child(PROBE) as child:
            try:
                return child.ask(question, within_s)
            except NoAnswer as why:
                raise Failure(str(why)) from None

    def run(self, plan: Plan, within_s: float) -> Recorded:
        """Run a preset, unless it has been run already. Raises Impossible if it is refused, Failure if it has left no
        results, or has not come to its end."""
        key = msgspec.json.encode(plan)
        if key not in self._ended:
            try:
                self._ended[key] = self._run(plan, within_s)
            except (Impossible, Failure) as why:
                self._ended[key] = why
        ended = self._ended[key]
        if isinstance(ended, Recorded):
            return ended
        raise ended

    def _run(self, plan: Plan, within_s: float) -> Recorded:
        runs = self._folder / f"runs-{len(list(self._folder.iterdir()))}"
        runs.mkdir()
        preset, errors = write(plan, runs), runs / "stderr"
        command = ["run", str(preset), "--no-ui", "--no-retry", "--runs", str(runs)]
        code = run_within(command, errors, plan.env, within_s)
        run = next(iter(all_runs(runs)), None)
        self.log = last_lines(tail(errors))
        refusal = (self.log or [f"ended with exit code {code}"])[-1].removeprefix("Error: ")
        self.log += logs_of_unfinished(run) if run else []
        if code is None:
            raise Failure(f"not over after {within_s / 60:g} min: stopped")
        if run is None:
            raise Impossible(refusal)
        return read(run)


def write(plan: Plan, folder: Path) -> Path:
    """The file of a plan's preset. Raises Impossible if a field no longer fits."""
    path = folder / f"{plan.preset}.toml"
    try:
        path.write_text(as_toml(planned(plan)), encoding="utf-8")
    except PresetError as why:
        raise Impossible(str(why)) from None
    return path


def run_within(words: Sequence[str], errors: Path, variables: Mapping[str, str], within_s: float) -> int | None:
    """Run a command of ddptui, its stderr into a file. Returns the exit code; None if it had to be stopped. Whatever
    ends the wait, or this process, no process is left."""
    environment = {**without_launchers(os.environ), "PYTHONPATH": python_path(), **variables}
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ddptui", *words],
            cwd=errors.parent,  # where no preset of the user's is found
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),  # its ranks end with it
        )
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a console that is still there, and what is left of its session."""
    if process.poll() is None:
        process.terminate()  # it stops its ranks, and keeps what they have sent
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    with suppress(ProcessLookupError, PermissionError):  # none is left; macOS: only zombies
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read(run: Run) -> Recorded:
    """What a run has left. Raises Failure."""
    try:
        results = run.results(Results)
        return Recorded(results, {trial.name: list(run.messages(trial.name, 1)) for trial in results.trials})
    except (OSError, RunError) as error:
        raise Failure(f"its results cannot be read: {first_line(error)}") from None


def logs_of_unfinished(run: Run) -> list[str]:
    """The last lines of each log of the launches that did not end well."""
    lines: list[str] = []
    for folder in sorted(run.folder.glob("trial-*/repeat-1")):
        trial = folder.parent.name.removeprefix("trial-")
        for path in [] if ended_well(run, trial) else sorted(folder.glob("*.log")):
            lines += [f"{trial}, {path.name}:", *last_lines(tail(path))]
    return lines


def ended_well(run: Run, trial: str) -> bool:
    """Whether a trial's launch came to its end without a failure."""
    with suppress(RunError):
        last = deque(run.messages(trial, 1), maxlen=1)
        return bool(last) and isinstance(last[0], Ended) and last[0].status == "ok"
    return False


def last_lines(text: str) -> list[str]:
    """The last lines that are not empty."""
    return [line for line in text.splitlines() if line.strip()][-LINES_OF_A_LOG:]


def of_preset(plan: Plan, evaluate: Callable[[Recorded], Observed]) -> Callable[[Bench, float], Observed]:
    """What runs a preset and looks at what it has left."""
    return lambda bench, within_s: evaluate(bench.run(plan, within_s))


def of_probe(question: str, evaluate: Callable[[dict[str, Any]], Observed]) -> Callable[[Bench, float], Observed]:
    """What asks the probe and looks at its answer."""
    return lambda bench, within_s: evaluate(bench.ask(question, within_s))
