"""What every rank did when, over the last few steps, on one time axis."""

from collections.abc import Sequence
from typing import ClassVar

from ddptui.analysis.waits import AlignedStep
from ddptui.live.timeline import BETWEEN, Run, cell_of, last_steps, row, runs, window
from ddptui.text.drawing import GLYPHS, Line, axis, wrap
from ddptui.text.units import MS
from ddptui.text.words import count
from ddptui.tui.widgets.canvas import Canvas
from ddptui.wire.messages import PHASES

FILL = {"data": "┈", "forward": "─", "backward": "═", "aggregate": "┅", "optimizer": "╍", BETWEEN: " "}
WORDS = {"delay": "delay put in"}
CELLS_PER_STEP = 30  # fewer would hide the short phases
FEWEST_STEPS, MOST_STEPS = 2, 4


class Timeline(Canvas):
    """Draws a line per rank and, where there is room, a second one with durations in ms."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"canvas--{phase}" for phase in PHASES}
    DEFAULT_CSS = """
    Timeline > .canvas--data { color: $text-muted; }
    Timeline > .canvas--forward { color: $text-primary; }
    Timeline > .canvas--backward { color: $text-secondary; }
    Timeline > .canvas--aggregate { color: $text; }
    Timeline > .canvas--optimizer { color: $text-accent; }
    """

    _steps: Sequence[AlignedStep] = ()

    def show(self, steps: Sequence[AlignedStep]) -> None:
        """Draw the last few of these steps."""
        if not (steps and self._steps and steps[-1] is self._steps[-1]):
            self._steps = steps
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not self._steps:
            return [[("nothing to show yet: waiting for the first steps", "muted")]]
        steps = last_steps(self._steps, min(MOST_STEPS, max(FEWEST_STEPS, width // CELLS_PER_STEP)))
        ranks = _chosen(steps, max(1, height - 2))
        left = len(f"{max(steps[0].ranks)} ")
        cells, (begin, end) = max(1, width - left), window(steps)
        tall = height >= 2 * len(ranks) + 2
        lines = [line for rank in ranks for line in _rank(rank, steps, left, cells)[: 2 if tall else 1]]
        if others := len(steps[0].ranks) - len(ranks):
            lines.append([(f"and {count(others, 'rank')} more", "muted")])
        lines.append([(" " * left, ""), (axis(cells, (end - begin) / MS, "ms"), "muted")])
        return [*lines, *wrap(_legend(), width, max(1, height - len(lines)))]


def _rank(rank: int, steps: Sequence[AlignedStep], left: int, cells: int) -> list[Line]:
    """Return a rank's phases and, as a second line, how long they took."""
    within = window(steps)
    cuts = {cell_of(step.ranks[rank].step.begin_ns, within, cells) for step in steps}
    drawn = runs(row(steps, rank), within, cells, cuts)
    return [
        [(f"{rank} ".rjust(left), ""), *(span for run in drawn for span in _spans(run, cuts))],
        [(" " * left, ""), *((_length(run), "muted") for run in drawn)],
    ]


def _chosen(steps: Sequence[AlignedStep], lines: int) -> list[int]:
    """Return all ranks or, if there are too many, those that waited least: the others waited for one of them."""
    ranks = sorted(steps[0].ranks)
    if len(ranks) <= lines:
        return ranks
    waited = {rank: sum(step.ranks[rank].wait_ns for step in steps) for rank in ranks}
    return sorted(sorted(ranks, key=lambda rank: waited[rank])[: max(1, lines - 1)])


def _spans(run: Run, cuts: set[int]) -> Line:
    """Begun by the phase's name, or its first letter; where a step begins, by its border."""
    border = "▏" if run.first in cuts else ""
    room = run.last - run.first - len(border)
    fill = GLYPHS.get(run.what) or FILL[run.what]
    word = run.what if run.what in PHASES else ""
    word = word if len(word) < room else word[:1] if room else ""
    return [(border, "muted"), (word + fill * (room - len(word)), "" if run.what == BETWEEN else run.what)]


def _length(run: Run) -> str:
    """Return the run's duration in ms if it fits."""
    room, text = run.last - run.first, f" {run.ns / MS:.1f}"
    return (text if run.what != BETWEEN and len(text) <= room else "").ljust(room)


def _legend() -> list[Line]:
    """Return the entries, the most important first: the last ones may be cut off."""
    waiting = [(GLYPHS[what], what, WORDS.get(what, what)) for what in ("wait", "transfer", "delay")]
    phases = [(phase[0] + FILL[phase], phase, phase) for phase in PHASES]
    return [[(glyphs, kind), (f" {word}", "muted")] for glyphs, kind, word in [*waiting, *phases]]
