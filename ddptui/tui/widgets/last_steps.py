"""Drawings of the last steps: a bar per rank with its arrival, and a timeline of what each rank did."""

from collections.abc import Sequence

from ddptui.analysis.policy import HOST_TIME
from ddptui.analysis.waits import AlignedStep
from ddptui.live.timeline import (
    ArrivalsSummary,
    CellRun,
    RankArrivals,
    cell_of,
    last_steps,
    most_telling,
    row,
    runs,
    summary,
    telling_ranks,
    typical_lateness,
    window,
)
from ddptui.text.drawing import GLYPHS, Line, Span, axis, bar, large, legend, wrap
from ddptui.text.words import MS, MS_PER_S, count, seconds
from ddptui.tui.widgets.canvas import Canvas
from ddptui.wire.phases import BETWEEN, PHASES

PARTS = ("work", "delay", "arrival", "wait", "transfer", "rest")  # in order of time
EIGHTHS = "·▁▂▃▄▅▆▇█"
ROOM_FOR_WORDS = 60  # width in cells from which on the bars have words beside them
LAST_IN = " last in {} of {}"
MARK = " ◀ culprit"
SOLID = str.maketrans({GLYPHS["work"]: "█", GLYPHS["arrival"]: "▌"})
LABEL = 12  # in large bars, one in so many cells of the width is for the ranks' numbers
FILL = {"data": "┈", "forward": "─", "backward": "═", "aggregate": "┅", "optimizer": "╍", BETWEEN: " "}
WORDS = {"delay": "injected delay"}
LEGEND: Sequence[Line] = [  # the most important first: the last ones may be cut off
    *([(GLYPHS[kind], kind), (f" {WORDS.get(kind, kind)}", "muted")] for kind in ("wait", "transfer", "delay")),
    *([(phase[0] + FILL[phase], phase), (f" {phase}", "muted")] for phase in PHASES),
]
CELLS_PER_STEP = 30  # with fewer cells, short phases would disappear
FEWEST_STEPS, MOST_STEPS = 2, 4


class Arrivals(Canvas):
    """Draws a bar per rank, with medians: work, arrival (┫), wait for the others, transfer, rest of the step."""

    _summary: ArrivalsSummary | None = None
    _culprit: int | None = None
    _last: AlignedStep | None = None

    def show(self, steps: Sequence[AlignedStep], culprit: int | None) -> None:
        """Draw the arrivals in these steps. `culprit`: the rank that their judgement names."""
        last = steps[-1] if steps else None
        if last is not self._last or culprit != self._culprit:
            self._last, self._summary, self._culprit = last, summary(steps), culprit
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        found = self._summary
        if found is None or len(found.ranks) < 2 or not found.steps or found.withheld:
            return [[(_why_empty(found), "muted")]]
        room = height - 2 if height > 3 else height
        shown = most_telling(found, room if len(found.ranks) <= room else max(1, room - 1), self._culprit)
        is_wide = width >= ROOM_FOR_WORDS
        word, digits = "rank " * is_wide, len(str(found.ranks[-1].rank))
        kinds = {rank.rank: "culprit" if rank.rank == self._culprit else "" for rank in shown}
        labels = {rank: (f"{word}{rank:>{digits}} ", kind) for rank, kind in kinds.items()}
        left, right = len(word) + digits + 1, len(MARK) + len(LAST_IN.format(found.steps, found.steps)) * is_wide
        cells = max(1, width - left - right)
        longest = _longest(shown)
        lines: list[Line] = []
        for rank in shown:
            often = LAST_IN.format(rank.last_in, found.steps) if rank.last_in and is_wide else ""
            mark = MARK if kinds[rank.rank] else ""
            lines.append([labels[rank.rank], *_bar(rank, cells, longest), (often, ""), (mark, "culprit")])
        lines += _below(len(found.ranks) - len(shown), left, axis(cells, longest, "ms"))
        lines.append(_legend(shown, left, width))
        if len(lines) + 1 + len(shown) > height:
            return lines
        largest = max((late for rank in shown for late in rank.lateness[-cells:]), default=0.0) or 1.0
        lines.append([(f"How late, step by step (█ {seconds(largest / MS_PER_S)})", "muted")])
        for rank in shown:
            text = "".join(EIGHTHS[round(late / largest * 8)] for late in rank.lateness[-cells:])
            typical = f" median {seconds(typical_lateness(rank) / MS_PER_S)}" * is_wide
            lines.append([labels[rank.rank], (text.ljust(cells), kinds[rank.rank] or "wait"), (typical, "muted")])
        return lines


class LargeArrivals(Arrivals):
    """Draws bars that fill the room, for a projector, with each rank's number and wait."""

    def draw(self, width: int, height: int) -> Sequence[Line]:
        found = self._summary
        if found is None or len(found.ranks) < 2 or not found.steps or found.withheld:
            return [[(_why_empty(found), "muted")]]
        shown = most_telling(found, max(1, height - 3), self._culprit)
        left, longest = max(len(str(found.ranks[-1].rank)) + 1, width // LABEL), _longest(shown)
        cells = max(1, width - left - len(MARK))
        below = [*_below(len(found.ranks) - len(shown), left, axis(cells, longest, "ms")), _legend(shown, left, width)]
        thick = max(1, (height - len(below)) // len(shown))
        lines = [line for rank in shown for line in self._thick(rank, _bar(rank, cells, longest), left, thick)]
        return [*lines, *map(_solid, below)]

    def _thick(self, rank: RankArrivals, bar: Line, left: int, thick: int) -> list[Line]:
        """Return a rank's bar on several lines, the last one of four or more empty. The middle one says how long the
        rank waits."""
        high, is_culprit = thick - (thick > 3), rank.rank == self._culprit
        number = large(str(rank.rank), left - 1, high) or [str(rank.rank)]
        labels = [*[""] * ((high - len(number)) // 2), *number, *[""] * high][:high]
        wait = f" waits {seconds(rank.wait / MS_PER_S)} "
        lines = [[(label.ljust(left), "culprit" * is_culprit), *_solid(bar)] for label in labels]
        lines[high // 2] = [
            *((text.replace(GLYPHS["wait"] * len(wait), wait, 1), kind) for text, kind in lines[high // 2]),
            (MARK * is_culprit, "culprit"),
        ]
        return [*lines, *[[]] * (thick - high)]


def _solid(line: Line) -> list[Span]:
    """Return a line on which work and arrival are as high as the line: below each other, they make one area."""
    return [(text.translate(SOLID), kind) for text, kind in line]


def _longest(shown: Sequence[RankArrivals]) -> float:
    return max(rank.lead + rank.wait + rank.transfer + rank.rest for rank in shown) or 1.0


def _legend(shown: Sequence[RankArrivals], left: int, width: int) -> Line:
    parts = [part for part in PARTS if part != "delay" or any(rank.delay for rank in shown)]
    return [(" " * left, ""), *wrap(legend(parts), width - left, 1)[0]]


def _below(hidden: int, left: int, scale: str) -> list[Line]:
    """Return the lines below the ranks of a drawing: how many ranks are not drawn, and the axis."""
    more: list[Line] = [[(f"and {count(hidden, 'rank')} more", "muted")]] if hidden else []
    return [*more, [(" " * left, ""), (scale, "muted")]]


def _why_empty(summary: ArrivalsSummary | None) -> str:
    if summary is None:
        return "waiting for the first steps"
    if summary.withheld and summary.apart is None:
        return "times are host times, and devices may be behind: the order of arrival is unknown"
    if summary.withheld:
        return f"the clock error (±{summary.apart:.2g} ms) exceeds the waits: the order of arrival is unknown"
    return "no operation of several ranks in these steps, so no rank waits"


def _bar(rank: RankArrivals, cells: int, longest: float) -> Line:
    """Return a rank's bar, padded to `cells`. The arrival is at the end of work and delay."""
    spans = bar(rank.parts, cells / longest)
    last = max((at for at, (_, kind) in enumerate(spans) if kind in ("work", "delay")), default=None)
    if last is not None:
        text, kind = spans[last]
        spans[last : last + 1] = [(text[:-1], kind), (GLYPHS["arrival"], "work")]
    drawn = sum(len(text) for text, _ in spans)
    return [*spans, (" " * (cells - drawn), "")]


class Timeline(Canvas):
    """Draws a line per rank and, if there is room, a second one with durations in ms."""

    _steps: Sequence[AlignedStep] = ()

    def show(self, steps: Sequence[AlignedStep]) -> None:
        """Draw the last few of these steps."""
        if not (steps and self._steps and steps[-1] is self._steps[-1]):
            self._steps = steps
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not self._steps:
            return [[("waiting for the first steps", "muted")]]
        steps = last_steps(self._steps, min(MOST_STEPS, max(FEWEST_STEPS, width // CELLS_PER_STEP)))
        room = max(1, height - 2)
        ranks = telling_ranks(steps, room if len(steps[0].ranks) <= room else max(1, room - 1))
        left = len(f"{max(steps[0].ranks)} ")
        cells, (begin, end) = max(1, width - left), window(steps)
        tall = height >= 2 * len(ranks) + 2
        lines = [line for rank in ranks for line in _rank(rank, steps, left, cells)[: 2 if tall else 1]]
        scale = axis(cells, (end - begin) / MS, f"ms{HOST_TIME * steps[0].host_time}")
        lines += _below(len(steps[0].ranks) - len(ranks), left, scale)
        return [*lines, *wrap(LEGEND, width, max(1, height - len(lines)))]


def _rank(rank: int, steps: Sequence[AlignedStep], left: int, cells: int) -> list[Line]:
    """Return a line with a rank's phases, and a second line with their durations."""
    within = window(steps)
    cuts = {cell_of(step.ranks[rank].step.begin_ns, within, cells) for step in steps}
    drawn = runs(row(steps, rank), within, cells, cuts)
    lengths: list[Span] = []
    for run in drawn:
        room, text = run.last - run.first, f" {run.ns / MS:.1f}"
        lengths.append(((text if run.what != BETWEEN and len(text) <= room else "").ljust(room), "muted"))
    return [
        [(f"{rank} ".rjust(left), ""), *(span for run in drawn for span in _spans(run, cuts))],
        [(" " * left, ""), *lengths],
    ]


def _spans(run: CellRun, cuts: set[int]) -> Line:
    border = "▏" if run.first in cuts else ""  # at the start of a step
    room = run.last - run.first - len(border)
    fill = GLYPHS.get(run.what) or FILL[run.what]
    word = run.what if run.what in PHASES else ""
    word = word if len(word) < room else word[:1] if room else ""  # the phase's name, or its first letter
    return [(border, "muted"), (word + fill * (room - len(word)), "" if run.what == BETWEEN else run.what)]
