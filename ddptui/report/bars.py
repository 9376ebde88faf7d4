"""Bars in parts with names: each trial's train time, and what it differs by from the baseline's."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ddptui.analysis.breakdown import Breakdown, breakdown
from ddptui.analysis.results import Results, TrialResult
from ddptui.findings.words import PART_NAMES, part_name
from ddptui.report.rows import from_baseline, mark_of, off_by, what_became
from ddptui.text.words import MS_PER_S

COLORS = {"culprit_wait": "wait", "other_wait": "wait", "hidden": "unknown", "unexplained": "unknown"}  # else its name
# The names of the kinds of parts, in the order of a legend.
KINDS = {COLORS.get(part, part): name for part, name in PART_NAMES.items()} | {"rest": "rest of the step"}
ONLY_BASE = "only the baseline has figures"  # why there is no difference, if nothing else is
IN_MS_BELOW_S = 0.1  # the largest part: shorter ones would be lost in hundredths of a second


class Part(NamedTuple):
    """A part of a time, or of a difference of times. kind names its color: work, delay, wait, transfer or unknown."""

    kind: str
    name: str
    s: float


class Bar(NamedTuple):
    """A bar. figure: its length in words, or why it has none; tick: a value to mark, in s; more: what there is to say
    beyond the figure."""

    name: str
    figure: str
    parts: Sequence[Part] = ()
    tick: float | None = None
    more: str = ""
    is_base: bool = False


def times(results: Results) -> list[Bar]:
    """Each trial's train time; `more` is the ratio to the baseline's."""
    bars = []
    for trial in results.trials:
        found, figure, more = breakdown(trial), what_became(trial), ""
        if trial.summary:
            time, ratio = trial.summary.train_time_s, trial.summary.ratio
            figure = f"{off_by(time.median, time.min, time.max)} s{mark_of(trial)}"
            more = f"× {ratio.median:.2f}{mark_of(trial, results)}" if ratio else ""
        positive = [part for part in (parts(found, trial) if found else []) if part.s > 0]  # parts may overlap a little
        bars.append(Bar(trial.name, figure, positive, more=more, is_base=results.base_of(trial) is trial))
    return bars


def differences(results: Results) -> list[Bar]:
    """Each trial's difference to the baseline; `more` is the sum in words. Empty if no trial can be compared."""
    bars = []
    for trial in results.trials:
        is_base, apart = results.base_of(trial) is trial, from_baseline(trial, results)
        if apart:
            mark = mark_of(trial, results)
            figure, more = f"{signed(apart.total)} s{mark}", as_sum(apart, trial) + mark
            bars.append(Bar(trial.name, figure, parts(apart, trial), apart.total, more))
        else:
            bars.append(Bar(trial.name, "" if is_base else "nothing to compare", is_base=is_base))
    return bars if any(bar.more for bar in bars) else []


def legend(bars: Iterable[Bar]) -> dict[str, str]:
    """The name of each kind of part that bars may have; of what is unknown, what it may be."""
    unknown = [part.name for bar in bars for part in bar.parts if part.kind == "unknown"]
    return KINDS | {"unknown": " or ".join(dict.fromkeys(unknown))}


def parts(times: Breakdown, trial: TrialResult) -> list[Part]:
    """The parts of a trial's time, or of its difference to the baseline, in the order in which bars show them."""
    culprit = trial.summary.culprit if trial.summary else None
    return [Part(COLORS.get(name, name), part_name(name, culprit), s) for name, s in times._asdict().items() if s]


class BarSegment(NamedTuple):
    """A part at its place in a bar, in s from where the bar begins."""

    part: Part
    begin_s: float
    end_s: float


def stacked(parts: Iterable[Part]) -> list[BarSegment]:
    """The parts side by side: what takes time to the right of 0, what saves time to its left."""
    stretches: list[BarSegment] = []
    left = right = 0.0
    for part in parts:
        if part.s < 0:
            stretches.append(BarSegment(part, left + part.s, left))
            left += part.s
        else:
            stretches.append(BarSegment(part, right, right + part.s))
            right += part.s
    return stretches


def laid_out(bars: Iterable[Bar]) -> tuple[list[list[BarSegment]], float, float]:
    """The stretches of each bar on one scale, which includes 0; and where it begins and ends, in s."""
    stretches = [stacked(bar.parts) for bar in bars]
    ends = [0.0, *(end for bar in stretches for stretch in bar for end in stretch[1:])]
    return stretches, min(ends), max(ends)


def as_sum(difference: Breakdown, trial: TrialResult) -> str:
    """As in "+1.74 s = +0.03 own work +1.69 waiting for rank 1 (aggregate) +0.02 transfer"; parts that would read 0.00
    are left out."""
    named = parts(difference, trial)
    in_ms = max((abs(part.s) for part in named), default=0.0) < IN_MS_BELOW_S
    unit, factor, places = ("ms", MS_PER_S, 1) if in_ms else ("s", 1.0, 2)
    figures = [(signed(part.s * factor, places), part.name) for part in named]
    shown = " ".join(f"{figure} {name}" for figure, name in figures if float(figure))
    return f"{signed(difference.total * factor, places)} {unit}" + f" = {shown}" * bool(shown)


def signed(figure: float, places: int = 2) -> str:
    """As in +1.74 or -0.05; 0.00 without a sign."""
    shown = f"{figure:+.{places}f}"
    return shown if float(shown) else shown[1:]
