"""Where the checks of GPUs run presets: as `ddptui run` does, in a process of its own."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ddptui.analysis.results import Results
from ddptui.host.folders import python_path
from ddptui.host.rank_place import without_launchers
from ddptui.store.journal import tail
from ddptui.store.presets import as_toml
from ddptui.store.runs import Run, all_runs
from ddptui.wire.records import Ended
from tests.gpu.judging import Recorded
from tests.gpu.plans import Plan, planned
from tests.support.runner import arguments

RunPlan = Callable[..., Recorded]
REFUSED = 2  # the exit code of a run of which nothing was started
STOP_S = 15.0  # for a console to stop its ranks once it has been asked to
LINES_OF_A_LOG = 15


def run_plan(folder: Path, plan: Plan, minutes: float) -> Recorded:
    """What a run of this plan has left. Prints the last lines of the logs of what did not end well. What the console
    refuses is skipped; a run that has not come to its end fails."""
    preset, errors = folder / f"{plan.preset}.toml", folder / "stderr"
    preset.write_text(as_toml(planned(plan)), encoding="utf-8")
    environment = {**without_launchers(os.environ), "PYTHONPATH": python_path()}
    command = arguments("run", str(preset), "--no-ui", "--runs", str(folder))
    with errors.open("wb") as file:
        none = subprocess.DEVNULL
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=none, stdout=none, stderr=file)
        code = ended_within(process, minutes * 60)
    said = last_lines(errors)
    if code == REFUSED:
        pytest.skip(said[-1].removeprefix("Error: "))
    print(*said, *(line for run in all_runs(folder) for line in logs_of_unfinished(run)), sep="\n")
    if code is None:
        pytest.fail(f"not over after {minutes:g} min: stopped")
    [run] = all_runs(folder)
    return recorded_by(run)


def recorded_by(run: Run) -> Recorded:
    """What a run has left."""
    results = run.results(Results)
    return Recorded(results, {trial.name: list(run.messages(trial.name, 1)) for trial in results.trials})


def ended_within(process: "subprocess.Popen[bytes]", within_s: float) -> int | None:
    """The exit code; None if the console had to be stopped. Its ranks end with it."""
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.terminate()  # it stops its ranks, and keeps what they have sent
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        return None
    finally:
        process.kill()
        process.wait()


def logs_of_unfinished(run: Run) -> Iterator[str]:
    """The last lines of each log of the launches that did not end well."""
    for folder in sorted(run.folder.glob("trial-*/repeat-1")):
        trial = folder.parent.name.removeprefix("trial-")
        if not any(isinstance(told, Ended) and told.status == "ok" for told in run.messages(trial, 1)):
            for path in sorted(folder.glob("*.log")):
                yield from (f"{trial}, {path.name}:", *last_lines(path))


def last_lines(path: Path) -> list[str]:
    """The last lines of a log that are not empty."""
    return [line for line in tail(path).splitlines() if line.strip()][-LINES_OF_A_LOG:]
