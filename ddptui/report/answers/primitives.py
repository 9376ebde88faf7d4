"""What primitives were shown or measured, and the first findings from their models."""

from collections.abc import Iterator
from itertools import zip_longest

from ddptui.analysis.primitives.cells import combined
from ddptui.analysis.primitives.crossover import findings, steady_times
from ddptui.analysis.primitives.fit import fit_all
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.text.words import count


def primitives(results: Results, preset: Preset) -> Iterator[str]:
    """Which primitives were shown; wrong elements; then what the measured times mean, the ways to average first."""
    launches = {trial.name: combined(trial.primitives) for trial in results.trials if trial.primitives}
    for name, result in launches.items():
        if result.views:
            yield _shown(result)
        if wrong := sum(cell.wrong or 0 for cell in result.cells):
            yield f"do not trust the times of {name}: {count(wrong, 'element')} came out wrong"
    meanings = [
        findings(fit_all(result), steady_times(result), result.cadence) for result in launches.values() if result.cells
    ]
    yield from (sentence for of_all in zip_longest(*map(reversed, meanings)) for sentence in of_all if sentence)


def _shown(result: PrimitivesResult) -> str:
    refused = [view for view in result.views if view.error]
    done = {view.operation for view in result.views if not view.error}
    words = f"{count(len(done), 'primitive')} ran on {result.ranks} ranks over {result.backend}"
    refusals = f"; {result.backend} refused {count(len(refused), 'call')}" if refused else ""
    return f"{words}; what each rank's buffers held before and after is below{refusals}"
