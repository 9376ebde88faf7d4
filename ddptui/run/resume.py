"""How a run is resumed, in the console and headless. The lock comes first: until the run ends, no other console may
launch what this one is about to read as missing."""

from contextlib import ExitStack
from typing import NamedTuple

from ddptui.config.preset import Preset
from ddptui.engines.local.training import training_that_runs
from ddptui.engines.preflight import prepare
from ddptui.findings.repeat import Outcomes
from ddptui.store.outcomes import finished, outcomes_of
from ddptui.store.runs import Run, RunError


class Resumption(NamedTuple):
    """A run that this process holds, to be resumed. lock: releases it when it is closed, or dropped."""

    run: Run
    preset: Preset  # checked for the place where its ranks will run
    lock: ExitStack

    def finished(self) -> Outcomes:
        """The launches that need no repetition. Reads all journals, which may take seconds. Raises RunError."""
        return finished(outcomes_of(self.run, self.preset))


def begin_resumption(run: Run) -> Resumption:
    """Lock a run, and check its preset. Raises RunError if another console holds it or if a training of the user's own
    that was watched in it still runs, and PresetError."""
    with ExitStack() as lock:
        lock.enter_context(run.held())
        preset = run.preset()
        if training_that_runs(run, preset):
            raise RunError(f"{run.name}: its training still runs: `ddptui attach {run.name}` watches it again")
        return Resumption(run, prepare(preset), lock.pop_all())
