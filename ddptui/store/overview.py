"""Summarizes earlier runs: a line for each in lists, a record for scripts; recomputes results from journals."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from ddptui.analysis.repeats import ResultsOutline, finished, repeats_done, shortfall, trials_done
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.repeat import Outcomes, outcome_of_messages
from ddptui.store.runs import STAMP_FORMAT, Run, RunError, all_runs
from ddptui.text.words import NOTHING


def results_of(run: Run, preset: Preset) -> Results:
    """A run's results, computed from its journals like those in results.json, with notes on damaged journals."""
    unread: list[str] = []
    results = compare(preset, run.name, run.environment(), outcomes_of(run, preset, unread))
    return msgspec.structs.replace(results, unread=unread) if unread else results


def outcomes_of(run: Run, preset: Preset, unread: list[str] | None = None) -> Outcomes:
    """The outcome of every repeat that has one. Notes on damaged journals are added to `unread`."""
    return {
        (trial.name, number): outcome
        for trial in preset.trials
        for number in range(1, preset.repeats + 1)
        if (outcome := outcome_of_messages(run.messages(trial.name, number, unread)))
    }


def recomputed(outcomes: Outcomes) -> Outcomes:
    """The outcomes of repeats that need not be run again: those that ended well or failed, not interrupted or skipped
    ones."""
    return {key: outcome for key, outcome in outcomes.items() if outcome.status in ("ok", "failed")}


UNDER_WAY = "under way"  # status of a run that a console is running
SKIPPED = "trials skipped"  # status of a run that ended well, except that the user skipped trials


class Overview(NamedTuple):
    """A run in the list of all runs."""

    run: Run
    when: str
    preset: str
    status: str
    trials: str = NOTHING
    baseline: str = NOTHING  # train time of the baseline, s
    fastest: str = NOTHING  # train time of the fastest trial, s, and its name
    problem: str | None = None  # why the run cannot be opened
    shortfall: str = ""  # which of the preset's trials and repeats are missing
    damage: str | None = None  # why results.json cannot be read; the journals hold the same information

    @property
    def why(self) -> str | None:
        """Which file of the run cannot be read, and why; None if all can."""
        return self.problem or self.damage

    def fits(self, wanted: str) -> bool:
        """Whether the line contains all words of a filter, ignoring case."""
        text = f"{self.run.name} {self.when} {self.preset} {self.status}".casefold()
        return all(word in text for word in wanted.casefold().split())


def overview(run: Run) -> Overview:
    """A run's line in lists, from its preset and results.json. Journals are only checked for their size."""
    began = started_at(run.name)
    when = NOTHING if began is None else f"{began:%Y-%m-%d %H:%M}"
    preset, results, status, damage, problem = _contents(run)
    if preset is None:
        return Overview(run, when, run.name, status, problem=problem)
    status = _status_shown(run, results, status)
    if results is None:
        return Overview(run, when, preset.name, status, str(len(preset.trials)), damage=damage)
    trials = ", ".join(filter(None, [trials_done(results), repeats_done(results)]))
    return Overview(run, when, preset.name, status, trials, *_times(results, preset), shortfall=shortfall(results))


def _status_shown(run: Run, results: ResultsOutline | None, status: str) -> str:
    """The status that lists show."""
    has_skipped = results is not None and any(trial.status == "skipped" for trial in results.trials)
    return UNDER_WAY if run.is_held() else SKIPPED if status == "ok" and has_skipped else status


class TrialRecord(msgspec.Struct, frozen=True):
    """A trial in `ddptui runs --json`."""

    name: str
    status: str | None  # None: no results yet
    repeats: int = 0  # number of repeats that ended well
    train_time_s: float | None = None  # median over these repeats


class RunRecord(msgspec.Struct, frozen=True):
    """A run in `ddptui runs --json`. Scripts read these keys: add, never rename. docs/report.md explains them."""

    name: str
    folder: str
    started: str | None  # local time, ISO 8601; None: the folder's name does not start with a time
    status: str  # as in results.json; "unreadable": `problem` says why
    under_way: bool  # a console is running it
    preset: str | None
    repeats: int | None  # planned repeats of each trial, from the preset
    baseline: str | None
    fastest: str | None  # the trial with the shortest train time
    trials: list[TrialRecord]
    problem: str | None  # what cannot be read, and why


def record(run: Run) -> RunRecord:
    """A run's record for scripts, from the same files as `overview`."""
    began = started_at(run.name)
    preset, results, status, damage, problem = _contents(run)
    known = {trial.name: trial for trial in results.trials} if results else {}
    times = _train_times(results) if results else {}
    trials = [
        TrialRecord(name, known[name].status, finished(known[name]), times.get(name))
        if name in known
        else TrialRecord(name, None)
        for name in (trial.name for trial in (preset.trials if preset else ()))
    ]
    return RunRecord(
        name=run.name,
        folder=str(run.folder.absolute()),
        started=began.isoformat() if began else None,
        status="unreadable" if problem or damage else status,
        under_way=run.is_held(),
        preset=preset.name if preset else None,
        repeats=preset.repeats if preset else None,
        baseline=preset.baseline if preset else None,
        fastest=_fastest(times),
        trials=trials,
        problem=problem or damage,
    )


class _Contents(NamedTuple):
    """The readable contents of a run. preset: None if the run cannot be opened. results: None if they are missing or
    damaged. damage, problem: as in Overview."""

    preset: Preset | None
    results: ResultsOutline | None
    status: str
    damage: str | None = None
    problem: str | None = None


def _contents(run: Run) -> _Contents:
    try:
        preset = run.preset()
        run.journals(preset)
    except RunError as error:
        return _Contents(None, None, "cannot be read", problem=str(error))
    return _Contents(preset, *run.outline())


def started_at(name: str) -> datetime | None:
    """When a run was started, from the time at the start of its name; None if there is none, e.g. in a renamed
    folder."""
    stamp = re.match(r"\d{8}-\d{6}", name)  # strptime alone would also accept fewer digits
    try:
        return datetime.strptime(stamp[0], STAMP_FORMAT) if stamp else None
    except ValueError:
        return None


def _times(results: ResultsOutline, preset: Preset) -> tuple[str, str]:
    """The baseline's train time in s, and that of the fastest trial with its name, as text."""
    times = _train_times(results)
    fastest = _fastest(times)
    baseline = f"{times[preset.baseline]:.2f}" if preset.baseline in times else NOTHING
    return baseline, NOTHING if fastest is None else f"{times[fastest]:.2f} {fastest}"


def _train_times(results: ResultsOutline) -> dict[str, float]:
    """The train time in s of each trial that has one."""
    return {trial.name: trial.summary.train_time_s.median for trial in results.trials if trial.summary}


def _fastest(times: dict[str, float]) -> str | None:
    return min(times, key=lambda name: times[name], default=None)


MOST_RUNS = 30  # number of newest runs whose results are read
MOST_LINES = 10


class RecentResults(NamedTuple):
    """The lines and the results of recent runs, both newest first. A line has only the time (for earlier days the
    date), the preset and the status."""

    lines: list[Overview]
    results: list[Results]


def recent_runs(runs: Path, today: date) -> RecentResults:
    """The newest runs of a folder. Results that cannot be read are left out."""
    newest: list[Run] = []
    with suppress(OSError):
        newest = all_runs(runs)[:MOST_RUNS]
    return RecentResults([_line(run, today) for run in newest[:MOST_LINES]], list(_results(newest)))


def _line(run: Run, today: date) -> Overview:
    try:
        preset = str(run.environment().get("preset", run.name))
    except RunError:
        preset = run.name
    began = started_at(run.name)
    when = NOTHING if began is None else began.strftime("%H:%M" if began.date() == today else "%m-%d")
    results, status, _ = run.outline()
    return Overview(run, when, preset, _status_shown(run, results, status))


def _results(runs: list[Run]) -> Iterator[Results]:
    for run in runs:
        with suppress(FileNotFoundError, RunError):
            yield run.results(Results)
