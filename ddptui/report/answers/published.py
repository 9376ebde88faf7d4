"""Whether the order of published figures came out here, too."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from ddptui.analysis.counted import counted
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.answers.words import listed


def published_order(results: Results, preset: Preset) -> Iterator[str]:
    """Reproduced; or which pairs are swapped, and which this run cannot tell apart."""
    trials = {trial.name: trial for trial in results.trials}
    known = sorted(
        (reference for reference in preset.references if trials[reference.trial].summary),
        key=lambda reference: reference.train_time_s,
    )
    order = [trials[reference.trial] for reference in known]
    if len(order) < 2:
        return
    pairs = {(fast.name, slow.name): _compare(fast, slow) for fast, slow in combinations(order, 2)}
    swapped = [f"{slow} before {fast}" for (fast, slow), outcome in pairs.items() if outcome > 0]
    unclear = [f"{fast} and {slow}" for (fast, slow), outcome in pairs.items() if outcome == 0]
    as_published = " < ".join(trial.name for trial in order)
    if not swapped and not unclear:
        yield f"the published order is reproduced: {as_published}"
    elif swapped:
        yield f"of the published order ({as_published}), this run swaps {listed(swapped)}"
    else:
        rest = "; the rest is reproduced" if len(unclear) < len(pairs) else ""
        yield f"of the published order ({as_published}), {listed(unclear)} are within the noise{rest}"


def _compare(fast: TrialResult, slow: TrialResult) -> int:
    """-1: the first was faster, as published; 1: the second was; 0: their repeats do not tell."""
    a, b = (_times(trial) for trial in (fast, slow))
    if min(len(a), len(b)) < 2:
        return 0
    return -1 if max(a) < min(b) else 1 if max(b) < min(a) else 0


def _times(trial: TrialResult) -> Sequence[float]:
    return [repeat.train_time_s for repeat in counted(trial.repeats)]
