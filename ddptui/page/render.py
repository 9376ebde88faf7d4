"""Renders templates; charts as shapes of SVG. Text from runs and presets is not trusted: it is sanitized, then
escaped.

Horizontal places are in percent of the chart's width, vertical ones in pixels: so a chart has any width, and its texts
keep their size.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from ddptui.report.bars import Bar, laid_out, legend
from ddptui.text.drawing import Frame, Point, frame, is_finite, paragraph, shorten
from ddptui.text.sanitize import at_the_door
from ddptui.text.tables import order
from ddptui.text.words import chosen, seconds

MOST_LINES = 3  # of a text in a picture
TEMPLATES = Path(__file__).parent / "templates"
CODE = ("page.css", "chart.css", "page.js")
# The Markdown that a preset's text may use: no HTML, no images (they would be fetched), and no links.
MARKDOWN = ["backticks", "emphasis", "list", "escape", "newline"]


def rendered(template: str, **parts: object) -> str:
    """Renders a template to printable ASCII, which is the same in every encoding."""
    page = _environment().get_template(template).render({"lang": chosen()} | parts)
    return page.encode("ascii", "xmlcharrefreplace").decode()


def prose(text: str) -> Markup:
    """Converts a preset's Markdown to HTML."""
    markdown = MarkdownIt("zero", {"html": False}).enable(MARKDOWN)
    return Markup(markdown.render(at_the_door(text, is_terminal=False)))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page, charts, script = (Markup((TEMPLATES / name).read_text("utf-8")) for name in CODE)
    style = page + charts
    environment.filters.update(with_code=_with_code, shortened=shorten)
    environment.filters["lines"] = partial(paragraph, max_lines=MOST_LINES, placeholder=" …")
    environment.globals.update(style=style, style_hash=_hash(style), script=script, script_hash=_hash(script))
    environment.globals.update(prose=prose, order=order)
    # Programs that draw papers know no variables, so a picture has the colors of the light scheme, which come first.
    colors = dict(reversed(re.findall(r"(--[\w]+): ([^;]+);", page)))
    environment.globals["picture_style"] = Markup(re.sub(r"var\((--\w+)\)", lambda name: colors[name[1]], charts))
    return environment


def _printable(value: object) -> object:
    """Makes control characters and direction marks in a template's values visible."""
    return at_the_door(value, is_terminal=False) if type(value) is str else value


def _with_code(text: str) -> Markup:
    """Converts text between backticks in a sentence to code elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(_printable(text)))))


def _hash(text: str) -> str:
    """The hash by which the page's content security policy allows its style and its script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


UNITS_X, UNITS_Y = 1500, 1000  # a path's own units; it is stretched to the chart's width and to its strip's height
FROM_THE_END = 95  # percent: labels of ticks beyond this are right-aligned
TICKS = 38  # pixels below a chart, for its ticks and their unit
MOST_TICKS_X, MOST_TICKS_Y = 8, 6
ROOM = 0.02  # margin on each side of curves, so that no mark is cut off
COLORS, DASHES = 6, 4  # number of line colors and dash patterns; after all combinations, looks repeat
NAME_WIDTH = 40  # characters of a bar's name
UNSEEN = 0.0005  # part of the longest bar: narrower pieces are left out
PITCH, BAR_TOP, BAR = 42, 18, 16  # of bars, in pixels: from one to the next, below its name, and its own height
CURVES_TOP, CURVES = 22, 240  # pixels above curves, for the name of the axis, and their height


class Shape(NamedTuple):
    """An element of SVG. text: what it shows, or its tooltip; attributes: none comes from a run."""

    tag: str
    text: str
    attributes: Mapping[str, object]


class Chart(NamedTuple):
    """A chart, and what stands around it."""

    name: str  # the caption
    about: str  # the chart in words, for screen readers
    height: int  # in pixels
    shapes: Sequence[Shape]  # in drawing order
    left: Sequence[tuple[float, str]] = ()  # labels to the left: y, text
    key: Sequence[tuple[str, str]] = ()  # the legend: look, words
    notes: Sequence[str] = ()  # sentences below the chart
    width: int = 0  # in pixels; 0: as wide as the page
    can_zoom: bool = False


class CurveSeries(NamedTuple):
    """One curve's data; logarithms if an axis is logarithmic. figure: stands beside its name in the legend."""

    name: str
    points: Sequence[Point]
    figure: str = ""
    marks: Sequence[Point] = ()


class Axis(NamedTuple):
    """The name of an axis, and what returns at most so many ticks between two values: places and labels."""

    name: str
    ticks: Callable[[float, float, int], Iterable[tuple[float, str]]]


def shape(tag: str, look: str, text: str = "", **attributes: object) -> Shape:
    """Returns a shape. look: its CSS classes. A path lies in a strip of the chart, whose y and height it has."""
    return Shape(tag, text, {"class": look, **attributes})


def line(look: str, x: str, top: float, bottom: float) -> Shape:
    """Returns a vertical line."""
    return shape("line", look, x1=x, x2=x, y1=top, y2=bottom)


def percent(part: float) -> str:
    """Formats a coordinate or a length in percent."""
    return f"{round(part, 2) + 0.0:.2f}".rstrip("0").rstrip(".") + "%"  # + 0.0: never -0%


def ticks(places: Iterable[tuple[float, str]], bottom: int, unit: str) -> list[Shape]:
    """Ticks below a chart with their labels and their unit. places: percent, label; those outside are left out."""
    shapes = [shape("text", "last", unit, x="100%", y=bottom + 34)]
    for at, label in places:
        if 0 <= at <= 100:
            look, x = "first" if at == 0 else "last" if at > FROM_THE_END else "middle", percent(at)
            shapes += [line("rule", x, bottom, bottom + 4), shape("text", f"tick {look}", label, x=x, y=bottom + 17)]
    return shapes


def bars(name: str, rows: Sequence[Bar], notes: Sequence[str] = ()) -> Chart:
    """Draws bars on one scale, which includes 0."""
    stretches, low, high = laid_out(rows)
    length = high - low or 1.0
    shapes, about, used = [], [], set()
    for number, (row, bar) in enumerate(zip(rows, stretches, strict=True)):
        top, words = PITCH * number + BAR_TOP, [row.figure]
        row_name = shorten(row.name, NAME_WIDTH) + ", baseline" * row.is_base
        shapes.append(shape("text", "first ink", row_name, x="0%", y=top - 5))
        shapes.append(shape("text", "last ink", row.figure, x="100%", y=top - 5))
        for part, begin, end in bar:
            if end - begin >= UNSEEN * length:
                x, width = (percent(100 * s / length) for s in (begin - low, end - begin))
                words.append(f"{part.name} {seconds(part.s)}")
                shapes.append(shape("rect", part.kind, words[-1], x=x, width=width, y=top, height=BAR))
                used.add(part.kind)
        marks = [("zero", 0.0)] * (low < 0) + ([] if row.tick is None else [("total", row.tick)])
        shapes += [line(look, percent(100 * (s - low) / length), top - 2, top + BAR + 2) for look, s in marks]
        about.append(f"{row_name}: {', '.join(filter(None, words))}")
    key = [(kind, words) for kind, words in legend(rows).items() if kind in used]
    return Chart(name, "; ".join(about), PITCH * len(rows), shapes, key=key, notes=notes)


def curves(name: str, series: Sequence[CurveSeries], x: Axis, y: Axis) -> list[Chart]:
    """Draws curves with a margin around them; no chart without any point."""
    data = frame(points for each in series for points in (each.points, each.marks))
    if data is None:
        return []
    room_x, room_y = ROOM * (data.right - data.left), ROOM * (data.high - data.low)
    within = Frame(data.left - room_x, data.right + room_x, data.low - room_y, data.high + room_y)
    across, up = within.right - within.left, within.high - within.low
    rises = (
        (round(CURVES * (within.high - at) / up, 1), label) for at, label in y.ticks(data.low, data.high, MOST_TICKS_Y)
    )
    seen = [(CURVES_TOP + at, label) for at, label in rises if 0 <= at <= CURVES]
    shapes = [shape("line", "rule", x2="100%", y1=at, y2=at) for at, _ in seen]
    looks = [f"line c{number % COLORS} d{number // COLORS % DASHES}" for number in range(len(series))]
    for look, each in zip(looks, series, strict=True):
        d = "".join(_path(piece) for piece in _pieces(each.points, within))
        shapes.append(shape("path", look, each.name, d=d, y=CURVES_TOP, height=CURVES))
        for at_x, at_y in (point for piece in _pieces(each.marks, within) for point in piece):
            cx, cy = percent(100 * at_x / UNITS_X), round(CURVES_TOP + CURVES * at_y / UNITS_Y, 1)
            shapes.append(shape("circle", look, each.name, r=3.5, cx=cx, cy=cy))
    bottom = CURVES_TOP + CURVES
    places = ((100 * (at - within.left) / across, label) for at, label in x.ticks(data.left, data.right, MOST_TICKS_X))
    shapes += ticks(places, bottom, x.name)
    left = [(10.0, y.name), *((at + 4, label) for at, label in seen)]
    key = [(look, ": ".join(filter(None, [each.name, each.figure]))) for look, each in zip(looks, series, strict=True)]
    about = "; ".join(words for _, words in key)
    return [Chart(name, about, bottom + TICKS, shapes, left, key, can_zoom=True)]


def _pieces(points: Iterable[Point], within: Frame) -> list[list[tuple[int, int]]]:
    """Splits the points at gaps, and converts them to units from the top left."""
    across, up = UNITS_X / (within.right - within.left), UNITS_Y / (within.high - within.low)
    return [
        [(round((x - within.left) * across), round((within.high - y) * up)) for x, y in piece if y is not None]
        for has_value, piece in groupby(points, key=lambda point: is_finite(point[1]))
        if has_value
    ]


def _path(points: Sequence[tuple[int, int]]) -> str:
    """An SVG path. A single point becomes a dash."""
    first, *others = (f"{x} {y}" for x, y in points)
    return f"M{first}" + ("L" + " ".join(others) if others else "h1")
