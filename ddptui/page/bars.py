"""Stacked bars of each trial's train time, and of its difference to the baseline's, split into parts."""

from collections.abc import Sequence
from typing import NamedTuple

from ddptui.analysis.breakdown import breakdown
from ddptui.analysis.results import Results
from ddptui.page.charts import percent
from ddptui.report.differences import Stretch, as_sum, parts, signed, stacked
from ddptui.report.rows import from_baseline, mark_of, what_became
from ddptui.text.units import seconds

UNSEEN = 0.0005  # part of the longest bar: narrower pieces are left out

# The kinds of parts and their names, in the order of the legend.
KINDS = {
    "work": "own work",
    "delay": "injected delays",
    "wait": "waiting for a late rank",
    "transfer": "transfer",
    "unknown": "unexplained",
}


class Piece(NamedTuple):
    """A piece of a bar."""

    kind: str  # gives the color
    x: str  # left edge, in percent
    width: str  # in percent
    said: str  # name and time, for the tooltip


class Bar(NamedTuple):
    """The bar of one trial or one rank."""

    name: str
    is_baseline: bool
    pieces: list[Piece]
    figure: str  # the number beside the bar
    said: str  # the pieces in words
    total: str = ""  # position of the tick, e.g. at the end of a difference; empty: no tick


class Bars(NamedTuple):
    """Bars on one scale."""

    bars: list[Bar]
    zero: str  # where bars begin, if not at the left edge; otherwise empty
    kinds: dict[str, str]  # legend: kind -> name


def train_times(results: Results) -> Bars:
    """A bar for each trial's train time. For a trial without figures, its outcome stands instead of the time."""
    found = [(trial, times) for trial in results.trials if (times := breakdown(trial))]
    stretches = {trial.name: stacked(parts(times, trial)) for trial, times in found}
    scale = _Scale(list(stretches.values()))
    bars = []
    for trial in results.trials:
        time = trial.summary.train_time_s if trial.summary else None
        figure = f"{time.median:.2f} s{mark_of(trial)}" if time else what_became(trial)
        said, pieces = scale.pieces(stretches.get(trial.name, []))
        bars.append(Bar(trial.name, results.base_of(trial) is trial, pieces, figure, said))
    return Bars(bars, "", scale.kinds)


def differences(results: Results) -> Bars | None:
    """A bar for each trial's difference to the baseline, which begins there; None if no trial can be compared."""
    found = [(trial, apart) for trial in results.trials if (apart := from_baseline(trial, results))]
    stretches = {trial.name: stacked(parts(apart, trial)) for trial, apart in found}
    if not found:
        return None
    scale = _Scale(list(stretches.values()))
    bars = []
    for trial, apart in found:
        mark = mark_of(trial, results)
        figure, said, total = f"{signed(apart.total)} s{mark}", as_sum(apart, trial) + mark, scale.place(apart.total)
        bars.append(Bar(trial.name, False, scale.pieces(stretches[trial.name])[1], figure, said, total))
    return Bars(bars, scale.place(0.0), scale.kinds)


class _Scale:
    """Converts seconds to percent of the width that all bars share."""

    def __init__(self, bars: Sequence[Sequence[Stretch]]) -> None:
        ends = [end for bar in bars for each in bar for end in (each.begin_s, each.end_s)]
        self._low = min([0.0, *ends])
        self._length = (max([0.0, *ends]) - self._low) or 1.0
        used = {each.part.kind for bar in bars for each in bar}
        self.kinds = {kind: words for kind, words in KINDS.items() if kind in used}

    def place(self, s: float) -> str:
        return percent(100 * (s - self._low) / self._length)

    def pieces(self, stretches: Sequence[Stretch]) -> tuple[str, list[Piece]]:
        """The visible stretches, in words and as pieces."""
        pieces = [
            Piece(
                part.kind,
                self.place(begin),
                percent(100 * (end - begin) / self._length),
                f"{part.name} {seconds(part.s)}",
            )
            for part, begin, end in stretches
            if end - begin >= UNSEEN * self._length
        ]
        return ", ".join(piece.said for piece in pieces), pieces
