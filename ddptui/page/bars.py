"""Stacked bars: the train time of each trial, and its difference to the baseline's, from the sums of their parts."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.breakdown import breakdown, difference
from ddptui.analysis.results import Results, TrialResult
from ddptui.page.charts import percent
from ddptui.report.differences import Part, Stretch, as_sum, parts, signed, stacked
from ddptui.report.sentences import what_became
from ddptui.text.units import seconds

UNSEEN = 0.0005  # of the longest bar: narrower parts are left out

# What each kind of part is, in the order of the legend.
KINDS = {
    "work": "own work",
    "delay": "injected delays",
    "wait": "waiting for a late rank",
    "transfer": "transfer",
    "unknown": "unexplained",
}


class Piece(NamedTuple):
    """A part of a bar: its color, place and width, and what it is."""

    kind: str
    x: str
    width: str
    said: str


class Bar(NamedTuple):
    """One trial, or one rank. total: where its tick stands, as where a difference ends; empty without one."""

    name: str
    is_baseline: bool
    pieces: list[Piece]
    figure: str
    said: str
    total: str = ""


class Bars(NamedTuple):
    """Bars on one scale. zero: the place at which they begin, if it is not the left edge."""

    bars: list[Bar]
    zero: str
    kinds: dict[str, str]


def train_times(results: Results) -> Bars:
    """A bar for each trial's train time; a trial without figures says what became of it."""
    found = [(trial, times) for trial in results.trials if (times := breakdown(trial))]
    stretches = {trial.name: stacked(parts(times, trial)) for trial, times in found}
    scale = _Scale(list(stretches.values()))
    bars = []
    for trial in results.trials:
        time = trial.summary.train_time_s if trial.summary else None
        figure = f"{time.median:.2f} s" if time else what_became(trial)
        bars.append(_bar(trial, results, stretches.get(trial.name, []), scale, figure, ""))
    return Bars(bars, "", scale.kinds)


def differences(results: Results) -> Bars | None:
    """A bar for each trial's difference to the baseline, which begins there; None if no trial can be compared."""
    base = results.base
    others = [trial for trial in results.trials if trial is not base]
    found = [(trial, apart) for trial in others if (apart := difference(trial, base))]
    stretches = {trial.name: stacked(parts(apart, trial)) for trial, apart in found}
    if not found:
        return None
    scale = _Scale(list(stretches.values()))
    bars = [
        _bar(trial, results, stretches[trial.name], scale, f"{signed(apart.total)} s", as_sum(apart, trial))._replace(
            total=scale.place(apart.total)
        )
        for trial, apart in found
    ]
    return Bars(bars, scale.place(0.0), scale.kinds)


class _Scale:
    """From seconds to percent, such that all bars have room."""

    def __init__(self, bars: Sequence[Sequence[Stretch]]) -> None:
        ends = [end for bar in bars for each in bar for end in (each.begin_s, each.end_s)]
        self._low = min([0.0, *ends])
        self._length = (max([0.0, *ends]) - self._low) or 1.0
        used = {each.part.kind for bar in bars for each in bar}
        self.kinds = {kind: words for kind, words in KINDS.items() if kind in used}

    def place(self, s: float) -> str:
        return percent(100 * (s - self._low) / self._length)

    def piece(self, stretch: Stretch) -> Piece:
        width = percent(100 * (stretch.end_s - stretch.begin_s) / self._length)
        return Piece(stretch.part.kind, self.place(stretch.begin_s), width, _said(stretch.part))

    def shows(self, stretch: Stretch) -> bool:
        return stretch.end_s - stretch.begin_s >= UNSEEN * self._length


def _bar(
    trial: TrialResult, results: Results, stretches: Sequence[Stretch], scale: _Scale, figure: str, said: str
) -> Bar:
    pieces = [scale.piece(stretch) for stretch in stretches if scale.shows(stretch)]
    words = said or ", ".join(_said(stretch.part) for stretch in stretches if scale.shows(stretch))
    return Bar(trial.name, trial.name == results.baseline, pieces, figure, words)


def _said(part: Part) -> str:
    return f"{part.name} {seconds(part.s)}"
