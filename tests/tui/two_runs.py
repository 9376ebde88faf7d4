"""Two runs as one on the screen, from results made by hand."""

from pathlib import Path

from textual.screen import Screen

from ddptui.analysis.results import Results
from ddptui.store.runs import Run, TwoRuns
from ddptui.tui.app import screen_of
from ddptui.tui.screens.base import EndedRun
from tests.support.two_runs import compared


def compare_screen(a: Results, b: Results) -> Screen[None]:
    """Runs A and B, whose folders are nowhere."""
    results, preset = compared(a, b)
    both = TwoRuns(*(Run(Path("nowhere") / run.run) for run in (a, b)))
    return screen_of(EndedRun(both, preset, results))
