"""Drawings that are cached until something changes: line charts in braille dots, bars of train times."""

from collections.abc import Sequence
from itertools import groupby, takewhile
from typing import Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.widget import Widget

from ddptui.analysis.results import Results
from ddptui.findings.questions import why_none
from ddptui.report.bars import ONLY_BASE, Bar, differences, laid_out, legend, times
from ddptui.text.drawing import (
    GLYPHS,
    SERIES,
    Frame,
    Line,
    Point,
    Signs,
    beside_axis,
    cell_len,
    column_of,
    frame,
    is_finite,
    labels_of,
    linear_ticks,
    ljust,
    log_ticks,
    logarithms,
    paragraph,
    row_of,
    shorten,
    signs_of,
    wrap,
)
from ddptui.text.words import count, seconds

# The kinds of spans by style. Each kind looks the same in all drawings.
STYLES = {
    kind: style
    for style, kinds in {
        "$text-primary": ["work", "arrival", "forward", SERIES[0], "rank-0"],
        "$text-warning": ["wait", SERIES[1], "rank-1"],
        "$text-success": ["transfer", SERIES[2], "rank-2"],
        "$text-error": ["delay", SERIES[3], "rank-3"],
        "$text-accent": ["optimizer", SERIES[4]],
        "$text-secondary": ["backward", SERIES[5]],
        "$text-primary bold": ["mean"],
        "$text-error bold": ["culprit", "wrong"],
        "bold": ["strong"],
        "$foreground 70%": ["rest", "unknown", "muted", "data", "rank"],
        "$foreground 70% strike": ["undefined"],
        "on $primary-muted bold": ["reduced"],
        "": ["", "aggregate"],
    }.items()
    for kind in kinds
}
# Only four colors are easy to tell apart: ranks 4 to 7 use them underlined.
STYLES |= {f"rank-{number + 4}": f"{STYLES[f'rank-{number}']} underline" for number in range(4)}


class Canvas(Widget):
    """A widget that draws lines."""

    ALLOW_SELECT = False  # drawings are not text to copy
    DEFAULT_CSS = "Canvas { height: 1fr; }"
    _drawn: tuple[Size, list[Strip]] | None = None
    _styles_by_kind: dict[str, Style]  # set by `notify_style_update`, which Textual calls before the first drawing

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the lines; called only while the widget is visible. Lines that do not fit are cut off."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw again when the widget is next rendered."""
        self._drawn = None
        self.refresh()

    def notify_style_update(self) -> None:
        self._drawn = None  # a new theme has new colors
        self._styles_by_kind = {}
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if self._drawn is None or self._drawn[0] != self.size:
            lines = self.draw(width, height)[:height] if width > 0 and height > 0 else []
            strips = (Strip([Segment(text, self._style(kind)) for text, kind in line]) for line in lines)
            self._drawn = self.size, [strip.adjust_cell_length(width, self._style("")) for strip in strips]
        drawn = self._drawn[1]
        return drawn[y] if y < len(drawn) else Strip.blank(width, self._style(""))

    def _style(self, kind: str) -> Style:
        if kind not in self._styles_by_kind:  # cached, since there may be thousands of spans per second
            self._styles_by_kind[kind] = (self.visual_style + VisualStyle.parse(STYLES[kind])).rich_style
        return self._styles_by_kind[kind]


ROWS_PER_TICK = 2
PART_FOR_LEGEND = 5  # the legend takes at most a fifth of the height
NOTHING_YET = "nothing to draw yet"

Across = Literal["steps", "seconds"]  # unit of the horizontal axis


class Series(NamedTuple):
    """One line of the chart."""

    name: str
    points: Sequence[Point]  # (step or second, value), in order; value None: not finite
    kind: str  # gives the color: "mean", "rank" (one of many), or a result of `series_kind`
    mark: str = ""  # a character drawn on the line, to identify it without color
    said: str | None = None  # text in the legend; None: the latest value


class LineChart(Canvas):
    """Draws series over one axis. The legend has their latest values, or says since when they are not finite."""

    logarithmic = False
    has_legend = True
    _series: Sequence[Series] = ()
    _top: int | None = None
    _across: Across = "steps"
    _empty = NOTHING_YET

    def show(
        self, series: Sequence[Series], across: Across = "steps", *, top: int | None = None, empty: str = NOTHING_YET
    ) -> None:
        """Draw these series. top: number of the series on top of the others; empty: the text if there are no points."""
        self._series, self._across, self._top, self._empty = series, across, top, empty
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not any(series.points for series in self._series):
            return [[(self._empty, "muted")]]
        legend = self._legend(width, max(1, height // PART_FOR_LEGEND)) if self.has_legend else []
        rows = height - len(legend) - 1
        if rows < 1:
            return legend
        lines = [logarithms(series.points) if self.logarithmic else series.points for series in self._series]
        seen = frame(lines)
        if seen is None:
            return [[("nothing above 0" if self.logarithmic else "no finite value", "muted")], *legend]
        ticks = log_ticks if self.logarithmic else linear_ticks
        labels = labels_of(ticks(seen.low, seen.high, max(1, rows // ROWS_PER_TICK)), seen, rows)
        left = max(map(len, labels.values()), default=0) + 1
        signs = self._signs(lines, seen, max(1, width - left), rows)
        first, last = self._at(seen.left), self._at(seen.right).removeprefix("step ")  # the first label has the unit
        room = width - left - len(first) - len(last)
        scale = ("log scale" if self.logarithmic and room > 10 else "").center(max(1, room))
        return [*beside_axis(signs, labels), [(" " * left + first + scale + last, "muted")], *legend]

    def _legend(self, width: int, most: int) -> list[Line]:
        entries: list[Line] = [
            [(f"{series.mark}━ ", series.kind), (f"{series.name} ", ""), (self._said(series), "strong")]
            for series in self._series
        ]
        return wrap(entries, width, most)

    def _signs(self, lines: Sequence[Sequence[Point]], seen: Frame, width: int, height: int) -> Signs:
        """Draws the lines, the top one last, and their marks, each at a different part so that none hides another."""
        order = sorted(range(len(lines)), key=lambda number: number == self._top)
        signs = signs_of(((lines[number], self._series[number].kind) for number in order), seen, width, height)
        for number in order:
            series = self._series[number]
            points = [(x, y) for x, y in lines[number] if y is not None and is_finite(y)]
            if series.mark and points:
                x, y = points[len(points) * (number + 1) // (len(lines) + 1)]
                signs[row_of(y, seen, height)][column_of(x, seen, width)] = (series.mark, series.kind)
        return signs

    def _said(self, series: Series) -> str:
        if series.said is not None:
            return series.said
        if not series.points:
            return "–"
        value = series.points[-1][1]
        if value is not None and is_finite(value):
            return f"{value:.4g}"
        *_, (since, _) = takewhile(lambda point: not is_finite(point[1]), reversed(series.points))
        return f"not finite from {self._at(since)} on"

    def _at(self, x: float) -> str:
        return f"step {x:g}" if self._across == "steps" else seconds(x)


PART_FOR_NAME = 3  # the trial's name takes at most a third of the width
BASELINE = "◆"
LINE = "│"  # the baseline's time, where differences begin
MOST_WORDS = 3  # lines for the difference in words


class TimeBars(Canvas, can_focus=True):
    """Draws a bar for each trial's median repeat. With more trials than lines, draws those around the chosen one."""

    _results: Results | None = None
    _bars: Sequence[Bar] = ()
    _chosen: str | None = None
    shows_differences = False  # show differences to the baseline instead of whole times

    def show(self, results: Results, chosen: str | None) -> None:
        """Draw a bar for each trial, and mark the chosen one."""
        self._results, self._chosen = results, chosen
        self._bars = differences(results) if self.shows_differences else times(results)
        self.redraw()

    @property
    def wanted_lines(self) -> int:
        """The lines that all trials, the legend and the difference in words take; 0: no trial has a time."""
        trials = self._results.trials if self._results else []
        return len(trials) + 1 + 2 * self.shows_differences if any(trial.summary for trial in trials) else 0

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not self._bars:
            why = f"no differences: {why_none(self._results) or ONLY_BASE}" if self._results else "no trial yet"
            return [[(line, "muted")] for line in paragraph(why, width)]
        at = next((at for at, bar in enumerate(self._bars) if bar.name == self._chosen), 0)
        words = paragraph(self._bars[at].more, max(1, width - 2))[:MOST_WORDS] if self.shows_differences else []
        room = max(1, height - 1 - len(words))
        if more := max(0, len(self._bars) - room):
            room, more = max(1, room - 1), more + 1
        first = min(max(0, at - room // 2), max(0, len(self._bars) - room))
        lines = self._lines(width, first, first + room)
        key = [[(GLYPHS[kind], kind), (f" {name}", "muted")] for kind, name in legend(self._bars).items()]
        drawn = {kind for line in lines for _, kind in line}
        key = [entry for entry in key if entry[0][1] in drawn] + [[(f"{BASELINE} baseline", "muted")]]
        if more and height > 2:
            lines.append([(f"and {count(more, 'trial')} more", "muted")])
        return [*lines, [("  ", ""), *wrap(key, width - 2, 1)[0]], *([(f"  {line}", "")] for line in words)]

    def _lines(self, width: int, first: int, last: int) -> list[Line]:
        """The lines of some trials, on the scale of all. Differences begin at a line: savings left of it, additions
        right of it."""
        names = min(max(cell_len(bar.name) for bar in self._bars), width // PART_FOR_NAME)
        stretches, low, high = laid_out(self._bars)
        beside = (
            names + max(len(bar.figure) for bar in self._bars) + len(f"   {BASELINE} ") + 2 * self.shows_differences
        )
        scale = max(1, width - beside) / (high - low or 1.0)
        zero = round(-low * scale)
        lines: list[Line] = []
        for bar, parts in [*zip(self._bars, stretches, strict=True)][first:last]:
            cells = [""] * zero  # the kind of each
            for part, begin_s, end_s in parts:
                begin, end = (zero + round(s * scale) for s in (begin_s, end_s))
                cells[begin:end] = [part.kind] * (end - begin)
            saved, added = (
                [(GLYPHS.get(kind, " ") * len([*same]), kind) for kind, same in groupby(side)]
                for side in (cells[:zero], cells[zero:])
            )
            is_chosen = bar.name == self._chosen
            label = f"{'▸' if is_chosen else ' '} {ljust(shorten(bar.name, names), names)}"
            drawn = [*saved, *[(LINE, "muted")] * self.shows_differences, *added]
            figure = " ".join(filter(None, [bar.figure, BASELINE * bar.is_base]))
            lines.append([(label, "strong" if is_chosen else ""), (" " * bool(drawn), ""), *drawn, (f" {figure}", "")])
        return lines
