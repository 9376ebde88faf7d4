"""As much of a run as a list of runs shows: read fast, and never an error, whatever lies in its folder."""

from typing import NamedTuple

import msgspec

from ddptui.columns import NOTHING
from ddptui.failure import printable
from ddptui.preset import Preset
from ddptui.record import Run, RunError, started


class Overview(NamedTuple):
    """`problem`: why the run cannot be opened; None if it can."""

    run: Run
    when: str
    preset: str
    status: str
    trials: str = NOTHING
    baseline: str = NOTHING  # its train time in s
    fastest: str = NOTHING
    problem: str | None = None

    def fits(self, wanted: str) -> bool:
        """Whether all words of a filter are in it."""
        text = f"{self.run.name} {self.when} {self.preset} {self.status}".casefold()
        return all(word in text for word in wanted.casefold().split())


class _Time(msgspec.Struct):
    median: float


class _Summary(msgspec.Struct):
    train_time_s: _Time


class _Trial(msgspec.Struct):
    name: str
    status: str
    summary: _Summary | None


class _Results(msgspec.Struct):
    status: str
    trials: list[_Trial]


def overview(run: Run) -> Overview:
    """Read from the preset and results.json; the journals are left alone."""
    when = _when(run.name)
    try:
        preset = run.preset()
    except RunError as error:
        return Overview(run, when, printable(run.name), "cannot be read", problem=printable(str(error)))
    title = printable(preset.name)
    try:
        results = msgspec.json.decode((run.folder / "results.json").read_bytes(), type=_Results)
    except FileNotFoundError:
        return Overview(run, when, title, "interrupted", str(len(preset.trials)))
    except (OSError, ValueError):
        return Overview(run, when, title, "results.json cannot be read", str(len(preset.trials)))
    return Overview(run, when, title, results.status, _trials(results), *_times(results, preset))


def _when(name: str) -> str:
    began = started(name)
    return NOTHING if began is None else f"{began:%Y-%m-%d %H:%M}"


def _trials(results: _Results) -> str:
    """How many, and how many of them are ok where that is not all."""
    fine = sum(trial.status == "ok" for trial in results.trials)
    return str(fine) if fine == len(results.trials) else f"{fine} of {len(results.trials)}"


def _times(results: _Results, preset: Preset) -> tuple[str, str]:
    """The baseline's train time; the fastest trial and its own."""
    times = {trial.name: trial.summary.train_time_s.median for trial in results.trials if trial.summary}
    if not times:
        return NOTHING, NOTHING
    fastest = min(times, key=lambda name: times[name])
    baseline = f"{times[preset.baseline]:.2f}" if preset.baseline in times else NOTHING
    return baseline, f"{times[fastest]:.2f} {printable(fastest)}"
