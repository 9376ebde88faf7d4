"""What primitives were shown or measured: how long they take, and why."""

from collections.abc import Iterator

from ddptui.analysis.primitives.cells import combined
from ddptui.analysis.primitives.crossover import steady_times
from ddptui.analysis.primitives.fit import fit_all
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.primitives.meaning import how_long, why
from ddptui.text.words import count


def primitives(results: Results, preset: Preset) -> Iterator[str]:
    """Which primitives were shown; wrong elements; then how long they take with each number of ranks, and why."""
    launches = {trial.name: combined(trial.primitives) for trial in results.trials if trial.primitives}
    for name, result in launches.items():
        if result.views:
            yield _shown(result)
        if wrong := sum(cell.wrong or 0 for cell in result.cells):
            yield f"do not trust the times of {name}: {count(wrong, 'element')} came out wrong"
    measured = [result for result in launches.values() if result.cells]
    yield from filter(None, (how_long(steady_times(result), result.ranks) for result in measured))
    yield from [words for result in measured if (words := why(fit_all(result), result.cadence))][:1]


def _shown(result: PrimitivesResult) -> str:
    refused = [view for view in result.views if view.error]
    done = {view.operation for view in result.views if not view.error}
    words = f"{count(len(done), 'primitive')} ran on {result.ranks} ranks over {result.backend}"
    refusals = f"; {result.backend} refused {count(len(refused), 'call')}" if refused else ""
    return f"{words}; what each rank's buffers held before and after is below{refusals}"
