"""Before a run: waits until other programs no longer use its cores; prepares resuming an interrupted run.

The run is locked first, until it ends: otherwise another console could launch the same missing repeats.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from ddptui.analysis.policy import MOST_OTHER_LOAD
from ddptui.analysis.repeats import busy_now
from ddptui.config.preset import Preset
from ddptui.engines.checks import prepare
from ddptui.engines.local.training import training_that_runs
from ddptui.findings.repeat import Outcomes
from ddptui.host.load import LoadMeter, descendants
from ddptui.store.overview import outcomes_of, recomputed
from ddptui.store.runs import Run, RunError

CALM_READINGS = 4  # quiet readings in a row, which take two seconds: many programs pause for a moment
LOOK_EVERY_S = 0.1


class Calm:
    """Finds out whether this machine has become quiet. `busy`: what used its cores at the last reading; empty: it was
    quiet."""

    def __init__(self, busy: str = "") -> None:
        self.busy = busy
        self._meter = LoadMeter(descendants, MOST_OTHER_LOAD, looks=True)
        self._readings = 0

    def busy_so_far(self, *, now: bool = True) -> str:
        """What has used the cores since the last reading; empty: nothing. now: read again, even if the last reading was
        only a moment ago."""
        for load in self._meter.read(now=now):
            self.busy = busy_now(load)
            self._readings = 0 if self.busy else self._readings + 1
        return self.busy

    def is_there(self) -> bool:
        """Read the load if a reading is due. Returns whether the last CALM_READINGS readings were quiet."""
        self.busy_so_far(now=False)
        return self._readings >= CALM_READINGS


def wait_until_quiet(within_s: float, say: Callable[[str], object]) -> None:
    """Wait until this machine is quiet, at most within_s. say: receives a line if the machine is busy, and one at the
    end."""
    calm, ends_at, waits = Calm(), time.monotonic() + within_s, False
    while not (is_quiet := calm.is_there()) and time.monotonic() < ends_at:
        if calm.busy and not waits:
            waits = True
            say(f"waiting until this machine is quiet, {within_s:g} s at most: {calm.busy}")
        time.sleep(LOOK_EVERY_S)
    if waits:
        say("this machine is quiet" if is_quiet else f"not quiet after {within_s:g} s, starting anyway: {calm.busy}")


def can_wait(preset: Preset) -> bool:
    """Whether a run may wait for this machine to be quiet. The user's own training never waits."""
    return preset.kind != "command" and preset.engine.name == "local"


class Resumption(NamedTuple):
    """A run that this process has locked in order to resume it. Closing or dropping `lock` releases the run."""

    run: Run
    preset: Preset  # checked for the hosts on which its ranks will run
    lock: ExitStack

    def finished(self) -> Outcomes:
        """The outcomes of repeats that need not be launched again. Reads all journals, which may take seconds. Raises
        RunError."""
        return recomputed(outcomes_of(self.run, self.preset))


def begin_resumption(run: Run) -> Resumption:
    """Lock a run and check its preset. Raises RunError if another console holds the run, or if the watched training of
    this run is still running; also raises PresetError."""
    with ExitStack() as lock:
        lock.enter_context(run.held())
        preset = run.preset()
        if training_that_runs(run, preset):
            raise RunError(f"{run.name}: its training still runs: `ddptui attach {run.name}` watches it again")
        return Resumption(run, prepare(preset), lock.pop_all())
