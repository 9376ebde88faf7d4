"""Two runs side by side on the screen, from results made by hand."""

from pathlib import Path

from ddptui.analysis.results import Results
from ddptui.report.run_diff import comparison
from ddptui.store.runs import Run
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.compare import CompareScreen
from tests.support.builders import two_trials


def compare_screen(a: Results, b: Results) -> CompareScreen:
    """Runs A and B, whose folders are nowhere."""
    ended = [EndedRun(Run(Path("nowhere") / results.run), two_trials(), results) for results in (a, b)]
    return CompareScreen(*ended, comparison(a, b))
