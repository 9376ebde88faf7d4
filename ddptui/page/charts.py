"""Charts for a page: lines and points in a square of 1,000 units, which the browser stretches to its width."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from ddptui.text.braille import Frame, Point, frame, is_finite

UNITS = 1000
FROM_THE_END = 95  # percent: labels beyond end at their tick
ROOM = 0.02  # at each side of a chart, so that no mark is cut
COLORS, DASHES = 6, 4  # of lines: then they look like an earlier one


class Series(NamedTuple):
    """One line of a chart, as it comes: on logarithmic axes, logarithms. said: its last value, or what else is said
    of it in the legend."""

    name: str
    points: Sequence[Point]
    said: str = ""
    marks: Sequence[Point] = ()


class Drawn(NamedTuple):
    """One line: path in units, marks in percent."""

    name: str
    said: str
    look: str  # the classes that give it color and dashes
    path: str
    marks: list[tuple[str, str]]


class Tick(NamedTuple):
    """A tick: its place in percent from the left or the top, and its label."""

    at: str
    label: str

    @property
    def anchor(self) -> str:
        """The class of a label below a horizontal axis that would be cut at an end of it; empty for the others."""
        place = float(self.at.removesuffix("%"))
        return "first" if place == 0 else "last" if place > FROM_THE_END else ""


class Chart(NamedTuple):
    """A chart. about: what it shows, for those who do not see it."""

    name: str
    about: str
    x_label: str
    y_label: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    lines: list[Drawn]


class Axis(NamedTuple):
    """What stands beside an axis, and its ticks with their labels; those beyond the chart's frame are left out."""

    label: str
    ticks: Iterable[tuple[float, str]]


def frame_of(series: Sequence[Series]) -> Frame | None:
    """The frame that holds all that is drawn; None if that is nothing."""
    return frame(points for each in series for points in (each.points, each.marks))


def chart(name: str, about: str, series: Sequence[Series], within: Frame, x: Axis, y: Axis) -> Chart:
    """The chart of these series, with some room around the frame."""
    room_x, room_y = ROOM * (within.right - within.left), ROOM * (within.high - within.low)
    within = Frame(within.left - room_x, within.right + room_x, within.low - room_y, within.high + room_y)
    across, up = within.right - within.left, within.high - within.low
    x_ticks = _ticks((100 * (value - within.left) / across, label) for value, label in x.ticks)
    y_ticks = _ticks((100 * (within.high - value) / up, label) for value, label in y.ticks)
    lines = [_drawn(number, each, within) for number, each in enumerate(series)]
    return Chart(name, about, x.label, y.label, x_ticks, y_ticks, lines)


def _ticks(places: Iterable[tuple[float, str]]) -> list[Tick]:
    return [Tick(percent(at), label) for at, label in places if 0 <= at <= 100]


def percent(part: float) -> str:
    """A coordinate or a length in percent."""
    return f"{round(part, 2) + 0.0:.2f}".rstrip("0").rstrip(".") + "%"  # never -0%


def _drawn(number: int, series: Series, within: Frame) -> Drawn:
    look = f"c{number % COLORS} d{number // COLORS % DASHES}"
    path = "".join(_path(piece) for piece in _pieces(series.points, within))
    points = [point for piece in _pieces(series.marks, within) for point in piece]
    marks = [(percent(100 * x / UNITS), percent(100 * y / UNITS)) for x, y in points]
    return Drawn(series.name, series.said, look, path, marks)


def _pieces(points: Iterable[Point], within: Frame) -> list[list[tuple[int, int]]]:
    """The stretches of points between gaps, in units from the top left."""
    across, up = UNITS / (within.right - within.left), UNITS / (within.high - within.low)
    return [
        [(round((x - within.left) * across), round((within.high - y) * up)) for x, y in piece if y is not None]
        for has_value, piece in groupby(points, key=lambda point: is_finite(point[1]))
        if has_value
    ]


def _path(points: Sequence[tuple[int, int]]) -> str:
    """An SVG path in relative moves, which takes the fewest characters. A single point becomes a dash."""
    (x, y), *others = points
    path = f"M{x} {y}" + ("" if others else "h1")
    for next_x, next_y in others:
        path += f"l{next_x - x} {next_y - y}"
        x, y = next_x, next_y
    return path
