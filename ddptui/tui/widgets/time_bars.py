"""Bars of each trial's train time, split into parts, or of its difference to the baseline."""

from collections.abc import Sequence
from itertools import groupby

from ddptui.analysis.results import Results
from ddptui.findings.questions import why_none
from ddptui.report.bars import ONLY_BASE, Bar, differences, laid_out, legend, times
from ddptui.text.drawing import GLYPHS, Line, cell_len, ljust, paragraph, shorten, wrap
from ddptui.text.words import count
from ddptui.tui.widgets.canvas import Canvas

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

    def turn(self) -> None:
        """Switch between whole times and differences to the baseline."""
        self.shows_differences = not self.shows_differences
        if self._results:
            self.show(self._results, self._chosen)

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
        told = paragraph(self._bars[at].more, max(1, width - 2))[:MOST_WORDS] if self.shows_differences else []
        room = max(1, height - 1 - len(told))
        if more := max(0, len(self._bars) - room):
            room, more = max(1, room - 1), more + 1
        first = min(max(0, at - room // 2), max(0, len(self._bars) - room))
        lines = self._lines(width, first, first + room)
        key = [[(GLYPHS[kind], kind), (f" {name}", "muted")] for kind, name in legend(self._bars).items()]
        drawn = {kind for line in lines for _, kind in line}
        key = [entry for entry in key if entry[0][1] in drawn] + [[(f"{BASELINE} baseline", "muted")]]
        if more and height > 2:
            lines.append([(f"and {count(more, 'trial')} more", "muted")])
        return [*lines, [("  ", ""), *wrap(key, width - 2, 1)[0]], *([(f"  {line}", "")] for line in told)]

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
