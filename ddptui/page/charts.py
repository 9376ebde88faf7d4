"""Charts for a page: lines and points in a square of 1,000 units, which the browser scales to the chart's size."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from ddptui.text.braille import Frame, Point, frame, is_finite

UNITS = 1000
FROM_THE_END = 95  # percent: labels of ticks beyond this are right-aligned
ROOM = 0.02  # margin on each side of a chart, so that no mark is cut off
COLORS, DASHES = 6, 4  # number of line colors and dash patterns; after all combinations, looks repeat


class Series(NamedTuple):
    """The data of one line of a chart; logarithms if the axis is logarithmic."""

    name: str
    points: Sequence[Point]
    said: str = ""  # text in the legend, e.g. the last value
    marks: Sequence[Point] = ()


class Drawn(NamedTuple):
    """One line as it is drawn."""

    name: str
    said: str
    look: str  # CSS classes for color and dashes
    path: str  # SVG path, in units
    marks: list[tuple[str, str]]  # x and y in percent


class Tick(NamedTuple):
    """A tick with its position, in percent from the left or the top, and its label."""

    at: str
    label: str

    @property
    def anchor(self) -> str:
        """The CSS class of a label that would be cut off at an end of a horizontal axis; empty for other labels."""
        place = float(self.at.removesuffix("%"))
        return "first" if place == 0 else "last" if place > FROM_THE_END else ""


class Chart(NamedTuple):
    """A chart. about: its description for screen readers."""

    name: str
    about: str
    x_label: str
    y_label: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    lines: list[Drawn]


class Axis(NamedTuple):
    """The label of an axis, and its ticks with labels; ticks outside the frame are left out."""

    label: str
    ticks: Iterable[tuple[float, str]]


def frame_of(series: Sequence[Series]) -> Frame | None:
    """The frame around all points and marks; None if there are none."""
    return frame(points for each in series for points in (each.points, each.marks))


def chart(name: str, about: str, series: Sequence[Series], within: Frame, x: Axis, y: Axis) -> Chart:
    """Draws a chart of these series, with a margin around the frame."""
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
    """Formats a coordinate or a length in percent."""
    return f"{round(part, 2) + 0.0:.2f}".rstrip("0").rstrip(".") + "%"  # + 0.0: never -0%


def _drawn(number: int, series: Series, within: Frame) -> Drawn:
    look = f"c{number % COLORS} d{number // COLORS % DASHES}"
    path = "".join(_path(piece) for piece in _pieces(series.points, within))
    points = [point for piece in _pieces(series.marks, within) for point in piece]
    marks = [(percent(100 * x / UNITS), percent(100 * y / UNITS)) for x, y in points]
    return Drawn(series.name, series.said, look, path, marks)


def _pieces(points: Iterable[Point], within: Frame) -> list[list[tuple[int, int]]]:
    """Splits the points at gaps, and converts them to units from the top left."""
    across, up = UNITS / (within.right - within.left), UNITS / (within.high - within.low)
    return [
        [(round((x - within.left) * across), round((within.high - y) * up)) for x, y in piece if y is not None]
        for has_value, piece in groupby(points, key=lambda point: is_finite(point[1]))
        if has_value
    ]


def _path(points: Sequence[tuple[int, int]]) -> str:
    """An SVG path with relative moves, which need the fewest characters. A single point becomes a dash."""
    (x, y), *others = points
    path = f"M{x} {y}" + ("" if others else "h1")
    for next_x, next_y in others:
        path += f"l{next_x - x} {next_y - y}"
        x, y = next_x, next_y
    return path
