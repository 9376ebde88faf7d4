"""How much of its communication each trial hid behind backward, and what that is worth in train time."""

from collections.abc import Iterator

from ddptui.analysis.effect import Effect, beside_baseline
from ddptui.analysis.results import RepeatResult, Results
from ddptui.config.preset import Preset
from ddptui.report.answers.words import times, too_noisy, with_reason
from ddptui.report.rows import median_figure
from ddptui.text.words import count, listed

HIDES = 0.01  # less overlap than this is none


def overlap(results: Results, preset: Preset) -> Iterator[str]:
    """The overlaps of trials on the same link as the baseline; then the train time of the one that hid most, and of the
    fastest of those that hid some."""
    links = {trial.name: trial.bottleneck for trial in preset.trials}
    beside = [trial for trial in results.trials if links[trial.name] == links[preset.baseline]]
    hidden = {trial.name: share for trial in beside if (share := median_figure(trial, _overlap)) is not None}
    by_share = sorted(hidden, key=lambda name: -hidden[name])
    some = [name for name in by_share if hidden[name] >= HIDES]
    if not some:
        yield f"no trial hid any of its communication behind backward: {listed(by_share)}"
        return
    shares = listed([f"{name} {hidden[name]:.0%}" for name in some])
    none = [name for name in by_share if hidden[name] < HIDES]
    yield f"hidden behind backward, of all communication: {shares}{f'; {listed(none)} hid nothing' if none else ''}"
    compared = [effect for effect in beside_baseline(results) if effect.name in some]
    most = [effect for effect in compared if effect.name == some[0]]
    faster = [effect for effect in compared if effect.outcome == "faster"]
    fastest = sorted(faster, key=lambda effect: effect.ratio.median)[:1]
    yield from dict.fromkeys(map(_worth, [*most, *fastest]))


def _worth(effect: Effect) -> str:
    if effect.outcome in ("slower", "faster"):
        return with_reason(f"{effect.name} was {times(effect)} than {effect.baseline.name}", effect)
    if effect.outcome == "unclear":
        return f"cannot tell what {effect.name} saves: {too_noisy(effect)}"
    return f"{effect.name} saved no train time that {count(effect.repeats, 'repeat')} could show"


def _overlap(repeat: RepeatResult) -> float | None:
    return repeat.overlap if len(repeat.ranks) > 1 else None
