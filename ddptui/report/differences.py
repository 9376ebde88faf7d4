"""What a trial's train time differs by from the baseline's, as a sum of parts with names."""

from collections.abc import Iterable
from typing import NamedTuple

from ddptui.analysis.breakdown import Breakdown
from ddptui.analysis.counted import none_counts, why_not
from ddptui.analysis.results import Culprit, Results, TrialResult

ZERO = "0.00"


class Part(NamedTuple):
    """A part of a time, or of a difference of times. kind names its color: work, delay, wait, transfer or unknown."""

    kind: str
    name: str
    s: float


def parts(times: Breakdown, trial: TrialResult) -> list[Part]:
    """The parts of a trial's time, or of its difference to the baseline, in the order in which bars show them."""
    culprit = trial.summary.culprit if trial.summary else None
    named = [
        Part("work", "own work", times.work),
        Part("delay", "injected delays", times.delay),
        Part("wait", _waiting_for(culprit), times.culprit_wait),
        Part("wait", "other waiting" if culprit else "waiting", times.other_wait),
        Part("transfer", "transfer", times.transfer),
        Part("unknown", "waiting or transfer", times.hidden),
        Part("unknown", "unexplained", times.unexplained),
    ]
    return [part for part in named if part.s]


class Stretch(NamedTuple):
    """A part at its place in a bar, in s from where the bar begins."""

    part: Part
    begin_s: float
    end_s: float


def stacked(parts: Iterable[Part]) -> list[Stretch]:
    """The parts side by side: what takes time to the right of 0, what saves time to its left."""
    stretches: list[Stretch] = []
    left = right = 0.0
    for part in parts:
        if part.s < 0:
            stretches.append(Stretch(part, left + part.s, left))
            left += part.s
        else:
            stretches.append(Stretch(part, right, right + part.s))
            right += part.s
    return stretches


def as_sum(difference: Breakdown, trial: TrialResult) -> str:
    """As in "+1.74 s = +0.03 own work +1.69 waiting for rank 1 (aggregate) +0.02 transfer"; parts that would read 0.00
    are left out."""
    told = [f"{figure} {part.name}" for part in parts(difference, trial) if (figure := signed(part.s)) != ZERO]
    return f"{signed(difference.total)} s" + f" = {' '.join(told)}" * bool(told)


def why_none(results: Results) -> str:
    """Why no trial can be compared with the baseline; empty: it can."""
    base = results.base
    if base.summary is None:
        return f"{base.name}, the baseline, has no figures"
    if none_counts(base.repeats):
        why = " or ".join(dict.fromkeys(filter(None, map(why_not, base.repeats))))
        return f"every repeat of {base.name}, the baseline, was {why}"
    return ""


def signed(s: float) -> str:
    """As in +1.74 or -0.05; 0.00 without a sign."""
    return ZERO if f"{abs(s):.2f}" == ZERO else f"{s:+.2f}"


def _waiting_for(culprit: Culprit | None) -> str:
    return f"waiting for rank {culprit.rank} ({culprit.phase})" if culprit else "waiting for a late rank"
