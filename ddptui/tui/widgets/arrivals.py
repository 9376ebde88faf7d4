"""When each rank arrived, over the last steps: a bar per rank on one axis, and its lateness step by step."""

from collections.abc import Sequence

from ddptui.live.arrivals import ArrivalsSummary, RankArrivals, most_telling, typical_lateness
from ddptui.text.drawing import GLYPHS, Line, axis, bar, legend, wrap
from ddptui.text.words import count
from ddptui.tui.widgets.canvas import Canvas

PARTS = ("work", "delay", "arrival", "wait", "transfer", "rest")  # in the order of time
EIGHTHS = "▁▂▃▄▅▆▇█"
ROOM_FOR_WORDS = 60  # cells, from which on the bars have words beside them
MARK = len(" ◀ culprit")


class Arrivals(Canvas):
    """Draws medians: work, the arrival (┫), the wait for the others, the transfer, the rest of the step."""

    _summary: ArrivalsSummary | None = None
    _culprit: int | None = None

    def show(self, summary: ArrivalsSummary | None, culprit: int | None) -> None:
        """Draw a summary. `culprit`: the rank that the verdict names; else the one mostly last is marked."""
        if (summary, culprit) != (self._summary, self._culprit):
            self._summary, self._culprit = summary, culprit
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        summary = self._summary
        if summary is None or len(summary.ranks) < 2 or not summary.steps or summary.withheld:
            return [[(_why_empty(summary), "muted")]]
        room = height - 2 if height > 3 else height
        shown = most_telling(summary, room if len(summary.ranks) <= room else max(1, room - 1), self._culprit)
        left, right = self._margins(summary, width)
        cells = max(1, width - left - right)
        lines = self._bars(summary, shown, cells, width)
        parts = [part for part in PARTS if part != "delay" or any(rank.delay for rank in shown)]
        lines.append([(" " * left, ""), *wrap(legend(parts), width - left, 1)[0]])
        strip = self._strip_chart(shown, cells, width)
        return [*lines, *strip] if len(lines) + len(strip) <= height else lines

    def _bars(self, summary: ArrivalsSummary, shown: Sequence[RankArrivals], cells: int, width: int) -> list[Line]:
        """Return the bars and, as the last line, their axis."""
        longest = max(rank.lead + rank.wait + rank.transfer + rank.rest for rank in shown) or 1.0
        lines: list[Line] = [
            [*self._label(rank.rank, width), *_bar(rank, cells, longest), *self._note(rank, summary, width)]
            for rank in shown
        ]
        if others := len(summary.ranks) - len(shown):
            lines.append([(f"and {count(others, 'rank')} more", "muted")])
        return [*lines, [(" " * self._margins(summary, width)[0], ""), (axis(cells, longest, "ms"), "muted")]]

    def _margins(self, summary: ArrivalsSummary, width: int) -> tuple[int, int]:
        left = len(self._label(summary.ranks[-1].rank, width)[0][0])
        return left, MARK + (len(_last_in(summary.steps, summary.steps)) if width >= ROOM_FOR_WORDS else 0)

    def _label(self, rank: int, width: int) -> Line:
        widest = len(str(self._summary.ranks[-1].rank)) if self._summary else 1
        word = "rank " if width >= ROOM_FOR_WORDS else ""
        return [(f"{word}{rank:>{widest}} ", "culprit" if self._mark(rank) else "")]

    def _note(self, rank: RankArrivals, summary: ArrivalsSummary, width: int) -> Line:
        mark = self._mark(rank.rank)
        often = _last_in(rank.last_in, summary.steps) if rank.last_in and width >= ROOM_FOR_WORDS else ""
        return [(often, ""), (f" ◀ {mark}" if mark else "", "culprit")]

    def _mark(self, rank: int) -> str:
        if rank == self._culprit:
            return "culprit"
        return "late" if self._summary and rank == self._summary.late else ""

    def _strip_chart(self, ranks: Sequence[RankArrivals], cells: int, width: int) -> list[Line]:
        """Return a heading and a line per rank, with a cell per step."""
        largest = max((late for rank in ranks for late in rank.lateness[-cells:]), default=0.0) or 1.0
        lines: list[Line] = [[(f"How late, step by step (█ {largest:.3g} ms)", "muted")]]
        for rank in ranks:
            text = "".join(_height(late / largest) for late in rank.lateness[-cells:])
            kind = "culprit" if self._mark(rank.rank) else "wait"
            typical = f" median {typical_lateness(rank):.3g} ms" if width >= ROOM_FOR_WORDS else ""
            lines.append([*self._label(rank.rank, width), (text.ljust(cells), kind), (typical, "muted")])
        return lines


def _why_empty(summary: ArrivalsSummary | None) -> str:
    if summary is None:
        return "nothing to compare yet: waiting for the first steps"
    if len(summary.ranks) < 2:
        return "one process, so there is nobody to wait for"
    if summary.withheld:
        return f"the clocks agree to ±{summary.apart:.2g} ms, but waits are shorter: the order of arrival is unknown"
    return "no operation of several ranks in these steps, so no rank waits"


def _last_in(often: int, steps: int) -> str:
    return f" last in {often} of {steps}"


def _bar(rank: RankArrivals, cells: int, longest: float) -> Line:
    """Return a rank's bar, padded to `cells`. The rank arrives where its work and its delay end."""
    before = (("work", rank.lead - rank.delay), ("delay", rank.delay))
    after = (("wait", rank.wait), ("transfer", rank.transfer), ("rest", rank.rest))
    spans = bar((*before, *after), cells / longest)
    last = max((at for at, (_, kind) in enumerate(spans) if kind in ("work", "delay")), default=None)
    if last is not None:
        text, kind = spans[last]
        spans[last : last + 1] = [(text[:-1], kind), (GLYPHS["arrival"], "work")]
    drawn = sum(len(text) for text, _ in spans)
    return [*spans, (" " * (cells - drawn), "")]


def _height(part: float) -> str:
    eighths = round(part * 8)
    return EIGHTHS[eighths - 1] if eighths else "·"
