"""Who came when, over the last steps: a bar a rank on one axis, and how late it was step by step."""

from collections.abc import Sequence

from ddptui.live.arrivals import ArrivalsSummary, RankArrivals, most_telling, typical_lateness
from ddptui.text.drawing import GLYPHS, Line, axis, bar, legend, wrap
from ddptui.text.words import count
from ddptui.tui.widgets.canvas import Canvas

PARTS = ("work", "delay", "arrival", "wait", "transfer", "rest")
EIGHTHS = "▁▂▃▄▅▆▇█"
ROOM_FOR_WORDS = 60  # cells, and more: how often a rank came last is said beside its bar
MARK = len(" ◀ culprit")


class Arrivals(Canvas):
    """Work, the arrival (┫), the wait for the others, the transfer, the rest of the step: medians."""

    _found: ArrivalsSummary | None = None
    _culprit: int | None = None

    def show(self, found: ArrivalsSummary | None, culprit: int | None) -> None:
        """`culprit`: the rank that the verdict names. Until there is one, a rank that is mostly last is called late."""
        if (found, culprit) != (self._found, self._culprit):
            self._found, self._culprit = found, culprit
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        found = self._found
        if found is None or len(found.ranks) < 2 or not found.steps or found.withheld:
            return [[(_nothing_to_see(found), "muted")]]
        room = height - 2 if height > 3 else height
        shown = most_telling(found, room if len(found.ranks) <= room else max(1, room - 1), self._culprit)
        left, right = self._margins(found, width)
        cells = max(1, width - left - right)
        lines = self._bars(found, shown, cells, width)
        parts = [part for part in PARTS if part != "delay" or any(each.delay for each in shown)]
        lines.append([(" " * left, ""), *wrap(legend(parts), width - left, 1)[0]])
        strip = self._strip_chart(shown, cells, width)
        return [*lines, *strip] if len(lines) + len(strip) <= height else lines

    def _bars(self, found: ArrivalsSummary, shown: Sequence[RankArrivals], cells: int, width: int) -> list[Line]:
        """On one axis, which is the last line."""
        longest = max(each.lead + each.wait + each.transfer + each.rest for each in shown) or 1.0
        lines: list[Line] = [
            [*self._label(each.rank, width), *_bar(each, cells, longest), *self._words(each, found, width)]
            for each in shown
        ]
        if others := len(found.ranks) - len(shown):
            lines.append([(f"and {count(others, 'rank')} more", "muted")])
        return [*lines, [(" " * self._margins(found, width)[0], ""), (axis(cells, longest, "ms"), "muted")]]

    def _margins(self, found: ArrivalsSummary, width: int) -> tuple[int, int]:
        left = len(self._label(found.ranks[-1].rank, width)[0][0])
        return left, MARK + (len(_last_in(found.steps, found.steps)) if width >= ROOM_FOR_WORDS else 0)

    def _label(self, rank: int, width: int) -> Line:
        widest = len(str(self._found.ranks[-1].rank)) if self._found else 1
        word = "rank " if width >= ROOM_FOR_WORDS else ""
        return [(f"{word}{rank:>{widest}} ", "culprit" if self._mark(rank) else "")]

    def _words(self, rank: RankArrivals, found: ArrivalsSummary, width: int) -> Line:
        mark = self._mark(rank.rank)
        often = _last_in(rank.last_in, found.steps) if rank.last_in and width >= ROOM_FOR_WORDS else ""
        return [(often, ""), (f" ◀ {mark}" if mark else "", "culprit")]

    def _mark(self, rank: int) -> str:
        if rank == self._culprit:
            return "culprit"
        return "late" if self._found and rank == self._found.late else ""

    def _strip_chart(self, ranks: Sequence[RankArrivals], cells: int, width: int) -> list[Line]:
        """A cell a step."""
        largest = max((late for rank in ranks for late in rank.lateness[-cells:]), default=0.0) or 1.0
        lines: list[Line] = [[(f"How late, step by step (█ {largest:.3g} ms)", "muted")]]
        for rank in ranks:
            text = "".join(_height(late / largest) for late in rank.lateness[-cells:])
            kind = "culprit" if self._mark(rank.rank) else "wait"
            typical = f" median {typical_lateness(rank):.3g} ms" if width >= ROOM_FOR_WORDS else ""
            lines.append([*self._label(rank.rank, width), (text.ljust(cells), kind), (typical, "muted")])
        return lines


def _nothing_to_see(found: ArrivalsSummary | None) -> str:
    if found is None:
        return "nothing to compare yet: waiting for the first steps"
    if len(found.ranks) < 2:
        return "one process, so there is nobody to wait for"
    if found.withheld:
        return f"the ranks' clocks agree to ±{found.apart:.2g} ms, and waits are shorter: who came when cannot be told"
    return "no operation of several ranks in these steps: nobody waits"


def _last_in(often: int, steps: int) -> str:
    return f" last in {often} of {steps}"


def _bar(rank: RankArrivals, cells: int, longest: float) -> Line:
    """The bar of a rank, filled up to so many cells. It arrives where its own work, and what held it up, are over."""
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
