"""A projection as terminal text with a plot in braille dots, as Markdown, CSV and JSON. Pure."""

from collections.abc import Callable, Sequence
from math import log2, log10
from typing import NamedTuple

import msgspec

from ddptui.projection import Point, Projection
from ddptui.projection.sentences import BAND, efficiency_note, ms, percent
from ddptui.text import braille, tables
from ddptui.text.braille import Frame
from ddptui.text.door import ascii_json
from ddptui.text.drawing import linear_ticks, log_ticks
from ddptui.text.tables import Column, Filled, Table, as_markdown, as_text, fill, total
from ddptui.text.units import NOTHING
from ddptui.text.words import paragraph, sentence

PLOT_HEIGHT, PLOT_WIDTH = 12, 100  # at most
LEAST = (20, 4)  # columns and rows of a plot; in fewer nothing can be read
WIDE = 20.0  # ratio of the largest to the least value from which on the axis is logarithmic
BAND_EVERY = 3  # columns of dots: the band looks lighter than the line
MEASURED = "×"
MOST_IN_FULL = 2  # strategies
ROUGH = "~"

COLUMNS: tuple[Column[Point], ...] = (
    Column("ranks", lambda point: str(point.ranks), 10, about="How many ranks."),
    Column(
        "step ms",
        lambda point: ms(point.step_ms),
        9,
        about="The predicted step: work, wait and exposed transfer.",
    ),
    Column(
        "10…90 %",
        lambda point: NOTHING if point.low_ms is None else f"{ms(point.low_ms)}…{ms(point.high_ms)}",
        2,
        about=f"The step between its 10th and 90th percentile: {BAND}.",
    ),
    Column("work", lambda point: ms(point.work_ms), 3, about="A rank's own work in a step, in ms, the mean of ranks."),
    Column("wait", lambda point: ms(point.wait_ms), 5, about="How long ranks wait for the slowest one, in ms a step."),
    Column("transfer", lambda point: ms(point.transfer_ms), 1, about="Communication in a step, in ms."),
    Column(
        "exposed",
        lambda point: ms(point.exposed_ms),
        4,
        about="Transfer that backward does not hide, in ms a step.",
    ),
    Column(
        "efficiency",
        lambda point: percent(point.efficiency, 1),
        8,
        about="The measured work as a part of the step; under strong scaling, a rank's share of that work.",
    ),
    Column(
        "measured",
        lambda point: ms(point.measured_ms),
        7,
        about="The step in ms of a trial of the same run with this strategy and number of ranks, if there is one.",
    ),
    Column(
        "error",
        lambda point: NOTHING if point.error is None else f"{point.error:+.1%}",
        6,
        about="How far the predicted step is off the measured one; + means that it is too long.",
    ),
)


def text(projection: Projection, width: int) -> str:
    """The findings; the first strategy in full and plotted, all strategies side by side; then notes."""
    strategies = list(dict.fromkeys(point.strategy for point in projection.points))
    lines = [title(projection), "", *paragraph(" ".join(map(sentence, projection.said)), width), ""]
    for strategy in strategies if len(strategies) <= MOST_IN_FULL else strategies[:1]:
        points = [point for point in projection.points if point.strategy == strategy]
        efficiency = efficiency_note(projection.scaling, projection.measured_ranks)
        lines += [name_of(points[0]), *as_text(in_full(points), width, rule=False), efficiency, ""]
        if drawn := plot(points, min(width, PLOT_WIDTH), PLOT_HEIGHT):
            band, dots = ([f"the band: {BAND}"], "; dots: its band, 10 to 90 %") if _has_band(projection) else ([], "")
            marks = f"; {MEASURED}: measured" if any(point.measured_ms is not None for point in points) else ""
            lines += [*drawn, f"line: step{dots}{marks}", *band, ""]
    if len(strategies) > 1:
        lines += ["step ms by strategy and ranks", *as_text(side_by_side(projection, width), width, rule=False), ""]
    return "\n".join([*lines, *projection.notes]) + "\n"


def markdown(projection: Projection) -> str:
    """All strategies in full, as a Markdown section."""
    names = Filled("strategy", [name_of(point) for point in projection.points], left=True)
    table = as_markdown(Table([names, *fill(COLUMNS, projection.points)]))
    efficiency = efficiency_note(projection.scaling, projection.measured_ranks)
    band = [f"10…90 %: {BAND}"] if _has_band(projection) else []
    said = " ".join(map(sentence, projection.said))
    notes = (f"- {note}" for note in (efficiency, *band, *projection.notes))
    return "\n".join([f"## {title(projection)}", "", said, "", *table, "", *notes]) + "\n"


def as_csv(projection: Projection) -> str:
    """A line for each strategy and number of ranks, figures unrounded."""
    common = {"run": projection.run, "trial": projection.trial, "scaling": projection.scaling}
    rows = (common | msgspec.structs.asdict(point) for point in projection.points)
    return tables.as_csv([*common, *Point.__struct_fields__], rows)


def as_json(projection: Projection) -> str:
    """All figures unrounded, with the sentences."""
    return ascii_json(msgspec.json.format(msgspec.json.encode(projection), indent=2).decode()) + "\n"


def in_full(points: Sequence[Point]) -> Table:
    """The table of one strategy: a row a number of ranks."""
    return Table(fill(COLUMNS, points))


def side_by_side(projection: Projection, width: int) -> Table:
    """Step times with a row a strategy and a column a number of ranks: as many as fit, always the last one."""
    names = {point.strategy: name_of(point) for point in projection.points}
    ranks = list(dict.fromkeys(point.ranks for point in projection.points))
    step = {(point.strategy, point.ranks): ms(point.step_ms) for point in projection.points}
    for every in range(1, len(ranks) + 1):
        shown = ranks[::-1][::every][::-1]  # counted from the end, so that the last one stays
        steps = [Filled(str(number), [step[strategy, number] for strategy in names]) for number in shown]
        columns = [Filled("", list(names.values()), left=True), *steps]
        if total([column.width for column in columns]) <= width:
            break
    return Table(columns, at_least=len(columns))


class Curves(NamedTuple):
    """The curves of one strategy over the logarithm to 2 of the ranks. is_log: values are logarithms to 10, too."""

    step: list[tuple[float, float]]
    low: list[tuple[float, float]]
    high: list[tuple[float, float]]
    measured: list[tuple[float, float]]
    is_log: bool


def curves(points: Sequence[Point]) -> Curves:
    """The curves of these points, in ms; on a logarithmic axis if they differ much."""
    values = [value for point in points for value in (point.low_ms, point.step_ms, point.high_ms) if value is not None]
    is_log = max(values) > WIDE * min(values)
    step, low, high, measured = (
        [
            (log2(point.ranks), log10(value) if is_log else value)
            for point in points
            if (value := getattr(point, field)) is not None
        ]
        for field in ("step_ms", "low_ms", "high_ms", "measured_ms")
    )
    return Curves(step, low, high, measured, is_log)


def plot(points: Sequence[Point], width: int, height: int) -> list[str]:
    """The plot of one strategy as lines: its step, its band, its measurements. Empty for one number of ranks."""
    if len(points) < 2 or width < LEAST[0] or height < LEAST[1]:
        return []
    step, low, high, measured, log = curves(points)
    seen = braille.frame([step, low, high, measured])
    assert seen is not None
    ticks = (log_ticks if log else linear_ticks)(seen.low, seen.high, max(1, height // 2))
    labels = braille.labels_of(ticks, seen, height)
    left = max(map(len, labels.values()), default=0)
    columns = width - left - 1
    dots = braille.columns(step, seen, columns, height)
    for edge in (low, high):
        for at, bits in enumerate(braille.columns(edge, seen, columns, height)):
            dots[at] |= bits if at % BAND_EVERY == 0 else 0
    canvas = [[" "] * columns for _ in range(height)]
    for row, column, bits in braille.cells(dots, height):
        canvas[row][column] = braille.character(bits)
    for x, y in measured:
        canvas[braille.row_of(y, seen, height)][braille.column_of(x, seen, columns)] = MEASURED
    rows = [
        f"{labels.get(at, ''):>{left}}{'┤' if at in labels else '│'}{''.join(row).rstrip()}"
        for at, row in enumerate(canvas)
    ]
    return ["step ms" + (", logarithmic" if log else ""), *rows, _axis(points, seen, left, width)]


def _axis(points: Sequence[Point], seen: Frame, left: int, width: int) -> str:
    """The numbers of ranks below their columns, as many as fit."""
    line = [" "] * width
    for point in points:
        label = str(point.ranks)
        at = left + 1 + round((log2(point.ranks) - seen.left) / (seen.right - seen.left) * (width - left - 2))
        at = min(at, width - len(label))
        if all(sign == " " for sign in line[max(0, at - 1) : at + len(label) + 1]):
            line[at : at + len(label)] = label
    return "".join(line).rstrip() + " ranks"


def title(projection: Projection) -> str:
    """What was measured, and what it is projected to."""
    what = f"{projection.trial} of {projection.run}, measured on {projection.measured_ranks} ranks"
    return f"{what}, on others: {projection.scaling} scaling"


def name_of(point: Point) -> str:
    """The strategy, marked if its figures are rough."""
    return f"{point.strategy} {ROUGH}" if point.rough else point.strategy


def _has_band(projection: Projection) -> bool:
    return projection.points[0].low_ms is not None  # all points have one, or none has


FORMATS: dict[str, Callable[[Projection], str]] = {"markdown": markdown, "csv": as_csv, "json": as_json}
