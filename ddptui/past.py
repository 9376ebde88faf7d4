"""What earlier runs have left: a line about each of the last ones, and the figures that estimates are made from."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

import msgspec

from ddptui.columns import NOTHING
from ddptui.record import Run, RunError, all_runs, started
from ddptui.results import Results

MOST_RUNS = 30  # whose figures are read
MOST_LINES = 10


class Line(NamedTuple):
    """One run in a list of runs. when: the time of today's runs, the day of others."""

    run: Run
    when: str
    preset: str
    status: str


class Past(NamedTuple):
    """Both newest first."""

    lines: list[Line]
    results: list[Results]


def read(runs: Path, today: date) -> Past:
    """Of a folder of runs. What cannot be read is left out, or said in its line."""
    try:
        newest = all_runs(runs)[:MOST_RUNS]
    except OSError:
        newest = []
    return Past([_line(run, today) for run in newest[:MOST_LINES]], list(_results(newest)))


def _line(run: Run, today: date) -> Line:
    try:
        preset = str(run.environment().get("preset", run.name))
    except RunError:
        preset = run.name
    return Line(run, _when_in_short(run.name, today), preset, run.status())


def _when_in_short(name: str, today: date) -> str:
    began = started(name)
    return NOTHING if began is None else began.strftime("%H:%M" if began.date() == today else "%m-%d")


def _results(runs: list[Run]) -> Iterator[Results]:
    for run in runs:
        try:
            yield msgspec.json.decode((run.folder / "results.json").read_bytes(), type=Results)
        except (OSError, ValueError):
            continue
