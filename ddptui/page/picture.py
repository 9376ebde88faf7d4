"""Renders a run as one SVG picture for a paper or a README: its question, the finding, and a bar for each trial."""

from textwrap import wrap
from typing import NamedTuple

from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.page.bars import Bar, train_times
from ddptui.page.made import kicker
from ddptui.page.primitives import times_chart
from ddptui.page.render import rendered
from ddptui.report.blocks import Plot
from ddptui.report.notes import answer
from ddptui.report.primitives.report import blocks
from ddptui.report.rows import ROUGH, mark_of, off_by
from ddptui.text.drawing import shorten
from ddptui.text.words import count

TITLE_WIDTH, ANSWER_WIDTH, NAME_WIDTH = 66, 104, 28  # characters per line, and of a trial's name
MOST_LINES = 3  # lines of a title, or of an answer
MOST_TRIALS = 40


class PictureError(ValueError):
    """Raised for a run that has nothing to draw; the text is one line."""


class Line(NamedTuple):
    """A trial's line in the picture: bar, train time and ratio."""

    name: str
    bar: Bar
    time: str
    ratio: str


def picture(preset: Preset, results: Results) -> str:
    """Returns the picture as SVG, 900 units wide. Raises PictureError."""
    more = len(results.trials) - MOST_TRIALS
    left_out = f"{count(more, 'more trial')} {'is' if more == 1 else 'are'} not shown. " if more > 0 else ""
    common = {
        "title": _wrapped(preset.title, TITLE_WIDTH),
        "answer": _wrapped(next(iter(answer(results)), ""), ANSWER_WIDTH),
        "source": f"{left_out}{_caveat(results)}{kicker(results)}",
    }
    if preset.kind == "primitives":
        plots = (block for block in blocks(results, preset) if isinstance(block, Plot))
        drawn = next((chart for plot in plots if (chart := times_chart(plot))), None)
        if drawn is None:
            raise PictureError(f"{results.run}: no primitive was timed at several sizes; use --format html instead")
        return rendered("picture.svg", chart=drawn, lines=[], kinds={}, **common)
    bars = train_times(results)
    shown = [*zip(results.trials, bars.bars, strict=True)][:MOST_TRIALS]
    lines = [Line(shorten(trial.name, NAME_WIDTH), bar, *_figures(trial, results, bar)) for trial, bar in shown]
    return rendered("picture.svg", chart=None, lines=lines, kinds=bars.kinds, **common)


def _figures(trial: TrialResult, results: Results, bar: Bar) -> tuple[str, str]:
    """As in "0.76 ±0.08 s" and "× 1.31"."""
    if trial.summary is None:
        return bar.figure, ""
    time, ratio = trial.summary.train_time_s, trial.summary.ratio
    s = off_by(time.median, time.min, time.max)
    return f"{s} s{mark_of(trial)}", f"× {ratio.median:.2f}{mark_of(trial, results)}" if ratio else ""


def _caveat(results: Results) -> str:
    """What the mark stands for, if a figure carries it."""
    return f"{ROUGH}. " if any(mark_of(trial, results) for trial in results.trials) else ""


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, max_lines=MOST_LINES, break_on_hyphens=False, placeholder=" …")
