"""What a trial's train time differs by from the baseline's, as a sum of parts with names."""

from collections.abc import Iterable
from typing import NamedTuple

from ddptui.analysis.breakdown import Breakdown
from ddptui.analysis.results import TrialResult
from ddptui.findings.words import part_name
from ddptui.text.units import MS_PER_S

COLORS = {"culprit_wait": "wait", "other_wait": "wait", "hidden": "unknown", "unexplained": "unknown"}  # else its name
IN_MS_BELOW_S = 0.1  # the largest part: shorter ones would be lost in hundredths of a second


class Part(NamedTuple):
    """A part of a time, or of a difference of times. kind names its color: work, delay, wait, transfer or unknown."""

    kind: str
    name: str
    s: float


def parts(times: Breakdown, trial: TrialResult) -> list[Part]:
    """The parts of a trial's time, or of its difference to the baseline, in the order in which bars show them."""
    culprit = trial.summary.culprit if trial.summary else None
    return [Part(COLORS.get(name, name), part_name(name, culprit), s) for name, s in times._asdict().items() if s]


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
    named = parts(difference, trial)
    in_ms = max((abs(part.s) for part in named), default=0.0) < IN_MS_BELOW_S
    unit, factor, places = ("ms", MS_PER_S, 1) if in_ms else ("s", 1.0, 2)
    told = [(signed(part.s * factor, places), part.name) for part in named]
    shown = " ".join(f"{figure} {name}" for figure, name in told if float(figure))
    return f"{signed(difference.total * factor, places)} {unit}" + f" = {shown}" * bool(shown)


def signed(figure: float, places: int = 2) -> str:
    """As in +1.74 or -0.05; 0.00 without a sign."""
    shown = f"{figure:+.{places}f}"
    return shown if float(shown) else shown[1:]
