"""Summarizes earlier runs: a line for each in lists, a record for scripts; recomputes results from journals."""

import re
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
        repeat: outcome
        for repeat, messages in run.repeats(preset, unread).items()
        if (outcome := outcome_of_messages(messages))
    }


def recomputed(outcomes: Outcomes) -> Outcomes:
    """The outcomes of repeats that need not be run again: those that ended well or failed, not interrupted or skipped
    ones."""
    return {key: outcome for key, outcome in outcomes.items() if outcome.status in ("ok", "failed")}


UNDER_WAY = "under way"  # status of a run that a console is running
SKIPPED = "trials skipped"  # status of a run that ended well, except that the user skipped trials


class Overview(NamedTuple):
    """A run in lists, from its preset and results.json."""

    run: Run
    contents: Preset | None  # None: the run cannot be opened
    results: ResultsOutline | None  # None: there are none yet, or they are damaged
    outcome: str  # the status in results.json
    under_way: bool  # a console is running it
    problem: str | None = None  # why the run cannot be opened
    damage: str | None = None  # why results.json cannot be read; the journals hold the same information

    @property
    def preset(self) -> str:
        """The name of the preset; that of the run if it cannot be opened."""
        return self.contents.name if self.contents else self.run.name

    @property
    def why(self) -> str | None:
        """Which file of the run cannot be read, and why; None if all can."""
        return self.problem or self.damage

    @property
    def status(self) -> str:
        """The status that lists show."""
        has_skipped = self.results is not None and any(trial.status == "skipped" for trial in self.results.trials)
        return UNDER_WAY if self.under_way else SKIPPED if self.outcome == "ok" and has_skipped else self.outcome

    @property
    def began(self) -> datetime | None:
        """When the run was started, from the time at the start of its name; None if there is none, e.g. in a renamed
        folder."""
        stamp = re.match(r"\d{8}-\d{6}", self.run.name)  # strptime alone would also accept fewer digits
        try:
            return datetime.strptime(stamp[0], STAMP_FORMAT) if stamp else None
        except ValueError:
            return None

    @property
    def when(self) -> str:
        """The day and the time at which the run was started."""
        return f"{self.began:%Y-%m-%d %H:%M}" if self.began else NOTHING

    @property
    def when_in_short(self) -> str:
        """The time at which the run was started; the day if that is not today."""
        began = self.began
        return began.strftime("%H:%M" if began.date() == date.today() else "%m-%d") if began else NOTHING

    @property
    def trials(self) -> str:
        """How many trials and repeats succeeded; of a run without results, how many trials it has."""
        if self.results is None:
            return str(len(self.contents.trials)) if self.contents else NOTHING
        return ", ".join(filter(None, [trials_done(self.results), repeats_done(self.results)]))

    @property
    def shortfall(self) -> str:
        """Which of the preset's trials and repeats are missing."""
        return shortfall(self.results) if self.results else ""

    @property
    def train_times(self) -> dict[str, float]:
        """The train time in s of each trial that has one: the median over its repeats."""
        trials = self.results.trials if self.results else ()
        return {trial.name: trial.summary.train_time_s.median for trial in trials if trial.summary}

    @property
    def baseline(self) -> str:
        """The train time in s of the baseline."""
        time_s = self.train_times.get(self.contents.baseline) if self.contents else None
        return NOTHING if time_s is None else f"{time_s:.2f}"

    @property
    def fastest(self) -> str:
        """The train time in s of the fastest trial, and its name."""
        times = self.train_times
        return f"{times[name]:.2f} {name}" if (name := fastest_of(times)) else NOTHING

    def fits(self, wanted: str) -> bool:
        """Whether the line contains all words of a filter, ignoring case."""
        text = f"{self.run.name} {self.when} {self.preset} {self.status}".casefold()
        return all(word in text for word in wanted.casefold().split())


def overview(run: Run) -> Overview:
    """A run's line in lists. Journals are only checked for their size."""
    under_way = run.is_held()
    try:
        preset = run.preset()
        run.check_journals(preset)
    except RunError as error:
        return Overview(run, None, None, "cannot be read", under_way, problem=str(error))
    results, status, damage = run.outline()
    return Overview(run, preset, results, status, under_way, damage=damage)


def fastest_of(times: dict[str, float]) -> str | None:
    """The name of the trial with the shortest time; None if there is none."""
    return min(times, key=lambda name: times[name], default=None)


class TrialRecord(msgspec.Struct, frozen=True):
    """A trial in `ddptui runs --json`."""

    name: str
    status: str | None = None  # None: no results yet
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
    """A run's record for scripts."""
    known = overview(run)
    preset, times = known.contents, known.train_times
    trials = {trial.name: TrialRecord(trial.name) for trial in (preset.trials if preset else ())}
    for trial in known.results.trials if known.results else ():
        trials[trial.name] = TrialRecord(trial.name, trial.status, finished(trial), times.get(trial.name))
    return RunRecord(
        name=run.name,
        folder=str(run.folder.absolute()),
        started=known.began.isoformat() if known.began else None,
        status="unreadable" if known.why else known.outcome,
        under_way=known.under_way,
        preset=preset.name if preset else None,
        repeats=preset.repeats if preset else None,
        baseline=preset.baseline if preset else None,
        fastest=fastest_of(times),
        trials=[*trials.values()],
        problem=known.why,
    )


MOST_RUNS = 30  # number of newest runs whose results are read
MOST_LINES = 10


class RecentResults(NamedTuple):
    """The lines and the results of recent runs, both newest first."""

    lines: list[Overview]
    results: list[Results]


def recent_runs(runs: Path) -> RecentResults:
    """The newest runs of a folder. Results that cannot be read are left out."""
    newest, results = list[Run](), list[Results]()
    with suppress(OSError):
        newest = all_runs(runs)[:MOST_RUNS]
    for run in newest:
        with suppress(FileNotFoundError, RunError):
            results.append(run.results(Results))
    return RecentResults([*map(overview, newest[:MOST_LINES])], results)
