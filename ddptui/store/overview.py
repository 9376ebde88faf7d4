"""Lists earlier runs, a line each, with the results that estimates of run time are made from."""

import re
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from ddptui.analysis.extent import repeats_done, shortfall, trials_done
from ddptui.analysis.outline import ResultsOutline
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.store.runs import STAMP_FORMAT, Run, RunError, all_runs
from ddptui.text.units import NOTHING
from ddptui.text.words import printable


class Overview(NamedTuple):
    """A run in the list of all runs."""

    run: Run
    when: str
    preset: str
    status: str
    trials: str = NOTHING
    baseline: str = NOTHING  # its train time in s
    fastest: str = NOTHING
    problem: str | None = None  # why it cannot be opened
    shortfall: str = ""  # what is missing of what its preset asks for
    damage: str | None = None  # why results.json cannot be read; the journals have all that is in it

    @property
    def why(self) -> str | None:
        """What cannot be read of it, and why; None if all can."""
        return self.problem or self.damage

    def fits(self, wanted: str) -> bool:
        """Whether the line contains all words of a filter, in any case."""
        text = f"{self.run.name} {self.when} {self.preset} {self.status}".casefold()
        return all(word in text for word in wanted.casefold().split())


def overview(run: Run) -> Overview:
    """A run's line, from its preset and results.json; of its journals only the sizes are looked at."""
    began = started_at(run.name)
    when = NOTHING if began is None else f"{began:%Y-%m-%d %H:%M}"
    try:
        preset = run.preset()
        run.journals(preset)
    except RunError as error:
        return Overview(run, when, printable(run.name), "cannot be read", problem=printable(str(error)))
    title = printable(preset.name)
    try:
        results = run.results(ResultsOutline)
    except FileNotFoundError:
        return Overview(run, when, title, "interrupted", str(len(preset.trials)))
    except RunError as error:
        damage = printable(str(error))
        return Overview(run, when, title, "results.json cannot be read", str(len(preset.trials)), damage=damage)
    trials = ", ".join(filter(None, [trials_done(results), repeats_done(results)]))
    return Overview(run, when, title, results.status, trials, *_times(results, preset), shortfall=shortfall(results))


def started_at(name: str) -> datetime | None:
    """When a run was started, by the stamp at the start of its name; None if it has none, as a renamed folder."""
    stamp = re.match(r"\d{8}-\d{6}", name)  # strptime alone would take fewer digits, too
    try:
        return datetime.strptime(stamp[0], STAMP_FORMAT) if stamp else None
    except ValueError:
        return None


def _times(results: ResultsOutline, preset: Preset) -> tuple[str, str]:
    """The baseline's train time; the fastest trial with its time."""
    times = {trial.name: trial.summary.train_time_s.median for trial in results.trials if trial.summary}
    if not times:
        return NOTHING, NOTHING
    fastest = min(times, key=lambda name: times[name])
    baseline = f"{times[preset.baseline]:.2f}" if preset.baseline in times else NOTHING
    return baseline, f"{times[fastest]:.2f} {printable(fastest)}"


MOST_RUNS = 30  # whose figures are read
MOST_LINES = 10


class RecentRun(NamedTuple):
    """A run in the list of recent runs."""

    run: Run
    when: str  # the time of today's runs, the day of others
    preset: str
    status: str


class RecentRuns(NamedTuple):
    """The lines and the results of recent runs, both newest first."""

    lines: list[RecentRun]
    results: list[Results]


def recent_runs(runs: Path, today: date) -> RecentRuns:
    """The newest runs of a folder. Results that cannot be read are left out."""
    try:
        newest = all_runs(runs)[:MOST_RUNS]
    except OSError:
        newest = []
    return RecentRuns([_line(run, today) for run in newest[:MOST_LINES]], list(_results(newest)))


def _line(run: Run, today: date) -> RecentRun:
    try:
        preset = str(run.environment().get("preset", run.name))
    except RunError:
        preset = run.name
    began = started_at(run.name)
    when = NOTHING if began is None else began.strftime("%H:%M" if began.date() == today else "%m-%d")
    return RecentRun(run, when, preset, run.status())


def _results(runs: list[Run]) -> Iterator[Results]:
    for run in runs:
        try:
            yield run.results(Results)
        except (FileNotFoundError, RunError):
            continue
