"""Prepares to resume a run, in the console and headless.

The run is locked first, until it ends: otherwise another console could launch the same missing repeats.
"""

from contextlib import ExitStack
from typing import NamedTuple

from ddptui.config.preset import Preset
from ddptui.engines.checks import prepare
from ddptui.engines.local.training import training_that_runs
from ddptui.findings.repeat import Outcomes
from ddptui.store.overview import outcomes_of, recomputed
from ddptui.store.runs import Run, RunError


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
