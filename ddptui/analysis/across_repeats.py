"""What the repeats of a trial say together about its waiting. Pure."""

from collections.abc import Sequence
from statistics import fmean, median

from ddptui.analysis.results import ConfidenceInterval, Culprit, RepeatResult, Verdict, WhatIf
from ddptui.analysis.verdict import FEWEST_STEPS, verdict_for


def verdict_of_repeats(repeats: Sequence[RepeatResult]) -> Verdict:
    """Of the shares in the median repeat."""
    shares = [
        (repeat.wait_share, repeat.transfer_share)
        for repeat in repeats
        if repeat.wait_share is not None and repeat.transfer_share is not None and repeat.steps >= FEWEST_STEPS
    ]
    if not shares:
        return "inconclusive"
    waits, transfers = zip(*shares, strict=True)
    return verdict_for(median(waits), median(transfers))


def culprit_of_repeats(repeats: Sequence[RepeatResult]) -> Culprit | None:
    """The rank that stands out in more than half of the repeats; its figures are means over those. The intervals of
    independent repeats shrink as they are averaged."""
    named = [repeat.culprit for repeat in repeats if repeat.culprit]
    ranks = [found.rank for found in named]
    rank = max(ranks, key=ranks.count, default=None)
    own = [found for found in named if found.rank == rank]
    if len(own) <= len(repeats) / 2:
        return None
    phases = [found.phase for found in own]
    slower = [found.slower for found in own if found.slower is not None]
    half = sum(((found.excess_s.high - found.excess_s.low) / 2) ** 2 for found in own) ** 0.5 / len(own)
    estimate = fmean(found.excess_s.estimate for found in own)
    return Culprit(
        rank=own[0].rank,
        phase=max(phases, key=phases.count),
        phases=_mean_shares([found.phases for found in own]),
        share=fmean(found.share for found in own),
        wait_caused_s=fmean(found.wait_caused_s for found in own),
        excess_s=ConfidenceInterval(estimate=estimate, low=estimate - half, high=estimate + half),
        slower=fmean(slower) if len(slower) > len(own) / 2 else None,
        step=own[0].step if len(own) == 1 else None,
    )


def _mean_shares(repeats: Sequence[dict[str, float]]) -> dict[str, float]:
    """Largest first."""
    means = {phase: fmean(parts.get(phase, 0.0) for parts in repeats) for parts in repeats for phase in parts}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def what_if_of_repeats(repeats: Sequence[RepeatResult], culprit: Culprit | None) -> WhatIf | None:
    """Medians over the repeats; without the culprit, over those that name it."""
    told = [(repeat.culprit, repeat.what_if_s) for repeat in repeats if repeat.what_if_s]
    if not told:
        return None
    without = [
        found.without_culprit
        for named, found in told
        if culprit and named and named.rank == culprit.rank and found.without_culprit is not None
    ]
    return WhatIf(
        without_culprit=median(without) if without else None,
        without_skew=median(found.without_skew for _, found in told),
    )
