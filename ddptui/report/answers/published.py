"""Whether the order of published figures came out here, too."""

from collections.abc import Iterator
from itertools import combinations

from ddptui.analysis.effect import effects
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.text.words import listed


def published_order(results: Results, preset: Preset) -> Iterator[str]:
    """Reproduced; or which pairs are swapped, and which this run cannot tell apart."""
    trials = {trial.name: trial for trial in results.trials}
    measured = [reference for reference in preset.references if trials[reference.trial].summary]
    known = sorted(measured, key=lambda reference: reference.train_time_s)
    order = [trials[reference.trial] for reference in known]
    if len(order) < 2:
        return
    published = {reference.trial: reference.train_time_s for reference in known}
    apart = [(fast, slow) for fast, slow in combinations(order, 2) if published[fast.name] < published[slow.name]]
    found = effects(results)
    pairs = {(fast.name, slow.name): found.get((slow.name, fast.name)) for fast, slow in apart}
    outcomes = {pair: effect.outcome if effect else "unclear" for pair, effect in pairs.items()}
    swapped = [f"{slow} before {fast}" for (fast, slow), outcome in outcomes.items() if outcome == "faster"]
    unclear = [f"{fast} and {slow}" for (fast, slow), outcome in outcomes.items() if outcome in ("alike", "unclear")]
    as_published = " < ".join(trial.name for trial in order)
    if pairs and len(unclear) == len(pairs):
        yield f"whether the published order ({as_published}) holds cannot be told: the repeats differ too much"
    elif not swapped and not unclear:
        yield f"the published order is reproduced: {as_published}"
    elif swapped:
        yield f"of the published order ({as_published}), this run swaps {listed(swapped)}"
    else:
        pairs_in_it = f"{unclear[0]} are" if len(unclear) == 1 else f"{len(unclear)} pairs ({'; '.join(unclear)}) are"
        yield f"of the published order ({as_published}), {pairs_in_it} within the noise; the rest is reproduced"
