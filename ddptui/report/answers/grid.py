"""Two strategies with the same numbers of ranks: which was faster with how many."""

from collections.abc import Iterator

from ddptui.analysis.effect import Effect, effect_between
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.answers.words import times, too_noisy, with_reason
from ddptui.text.words import count, listed


def is_grid(preset: Preset) -> bool:
    """Whether every strategy is tried with every number of ranks."""
    cells = {(trial.strategy, trial.world_size) for trial in preset.trials}
    strategies, sizes = ({cell[at] for cell in cells} for at in (0, 1))
    return min(len(strategies), len(sizes)) > 1 and len(cells) == len(preset.trials) == len(strategies) * len(sizes)


def grid(results: Results, preset: Preset) -> Iterator[str]:
    """With each number of ranks, the other strategies beside the baseline's; then its sizes beside each other."""
    measured = {trial.name: trial for trial in results.trials if trial.summary}
    base = preset.base
    cells = {(trial.strategy, trial.world_size): measured.get(trial.name) for trial in preset.trials}
    for strategy in dict.fromkeys(trial.strategy for trial in preset.trials if trial.strategy != base.strategy):
        sizes = dict.fromkeys(size for other, size in cells if other == strategy)
        beside = ((size, _effect(cells[strategy, size], cells[base.strategy, size])) for size in sizes)
        known = [(count(size, "rank"), effect) for size, effect in beside if effect]
        told = [f"{_told(effect)} with {size}" for size, effect in known if effect.outcome != "unclear"]
        noisy = [
            f"cannot tell with {size}: {too_noisy(effect)}" for size, effect in known if effect.outcome == "unclear"
        ]
        if known:
            yield "; ".join([f"against {base.strategy}, {strategy} was {listed(told)}"] * bool(told) + noisy)
    for (strategy, size), trial in cells.items():
        if strategy == base.strategy and size != base.world_size:
            effect = _effect(trial, measured.get(base.name))
            if effect and effect.outcome in ("slower", "faster"):
                found = f"under {strategy}, {count(size, 'rank')} trained {times(effect)} than {base.world_size}"
                yield with_reason(found, effect)


def _effect(trial: TrialResult | None, other: TrialResult | None) -> Effect | None:
    return effect_between(trial, other) if trial and other else None


def _told(effect: Effect) -> str:
    return "as fast" if effect.outcome == "alike" else times(effect)
