"""Bars of each trial's train time, split into parts, or of its difference to the baseline."""

from collections.abc import Mapping, Sequence
from textwrap import wrap as wrapped

from ddptui.analysis.breakdown import Breakdown, breakdown, difference
from ddptui.analysis.results import Results, TrialResult
from ddptui.findings.questions import why_none
from ddptui.report.differences import as_sum, parts, signed
from ddptui.report.rows import from_baseline, mark_of, status_of
from ddptui.text.drawing import GLYPHS, Line, bar, shorten, width_of, wrap
from ddptui.text.words import count
from ddptui.tui.widgets.canvas import Canvas

PART_FOR_NAME = 3  # the trial's name takes at most a third of the width
BASELINE = "◆"
LINE = "│"  # the baseline's time, where differences begin
KNOWN = {"work": "own work", "delay": "injected delays", "wait": "waiting", "transfer": "transfer"}
MOST_WORDS = 3  # lines for the difference in words

Lengths = list[tuple[str, float]]  # (kind, seconds)


class TimeBars(Canvas, can_focus=True):
    """Draws a bar for each trial's median repeat. With more trials than lines, draws those around the chosen one."""

    _trials: Sequence[TrialResult] = ()
    _results: Results | None = None
    _why_none = ""  # no differences are known
    _chosen: str | None = None
    _times: Mapping[str, Breakdown] = {}  # trial -> its time, for trials with figures
    shows_differences = False  # show differences to the baseline instead of whole times

    def show(self, results: Results, chosen: str | None) -> None:
        """Draw a bar for each trial, and mark the chosen one."""
        if results.trials is not self._trials:
            known = {trial.name: breakdown(trial) for trial in results.trials}
            self._times = {name: times for name, times in known.items() if times}
        elif chosen == self._chosen:
            return
        self._trials, self._results, self._chosen = results.trials, results, chosen
        self._why_none = why_none(results)
        self.redraw()

    def turn(self) -> None:
        """Switch between whole times and differences to the baseline."""
        self.shows_differences = not self.shows_differences
        self.redraw()

    @property
    def wanted_lines(self) -> int:
        """The lines that all trials, the legend and the difference in words take; 0: no trial has a time."""
        return bool(self._times) and len(self._trials) + 1 + (2 if self.shows_differences else 0)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        if not self._trials:
            return [[("no trial yet", "muted")]]
        if self.shows_differences and self._why_none:
            return [[(line, "muted")] for line in wrapped(f"no differences: {self._why_none}", width)]
        words = self._in_words(width) if self.shows_differences else []
        shown = self._window(max(1, height - 1 - len(words)))
        names = min(max(len(trial.name) for trial in self._trials), width // PART_FOR_NAME)
        bars = self._bars(width - names)
        lines = [self._line(trial, names, bars) for trial in shown]
        legend = self._legend({kind for line in lines for _, kind in line}, width)
        if (others := len(self._trials) - len(shown)) and height > 2:
            lines.append([(f"and {count(others, 'trial')} more", "muted")])
        return [*lines, legend, *words]

    def _window(self, room: int) -> Sequence[TrialResult]:
        if len(self._trials) <= room:
            return self._trials
        room = max(1, room - 1)
        chosen = next((at for at, trial in enumerate(self._trials) if trial.name == self._chosen), 0)
        first = min(max(0, chosen - room // 2), len(self._trials) - room)
        return self._trials[first : first + room]

    def _line(self, trial: TrialResult, names: int, bars: Mapping[str, Line]) -> Line:
        chosen = trial.name == self._chosen
        label = (f"{'▸' if chosen else ' '} {shorten(trial.name, names):<{names}} ", "strong" if chosen else "")
        if trial.name in self._times:
            is_base = self._results is not None and self._results.base_of(trial) is trial
            return [label, *bars[trial.name], (f" {BASELINE}" * is_base, "muted")]
        kind = "culprit" if trial.status == "failed" else "muted"
        return [label, (status_of(trial) or "not reached", kind)]  # why: in words, beside it

    def _bars(self, width: int) -> dict[str, Line]:
        """The bar and the amount of each trial with figures. Differences begin at a line: savings left of it, additions
        right of it."""
        turned = self.shows_differences
        base = LINE if turned else ""
        sides, amounts = dict[str, tuple[Lengths, Lengths]](), dict[str, str]()
        for trial in (trial for trial in self._trials if trial.name in self._times):
            times = self._difference(trial) if turned else self._times[trial.name]
            if times is not None:
                lengths = [(part.kind, part.s) for part in parts(times, trial)]
                saved = [(kind, -s) for kind, s in lengths if turned and s < 0]
                added = [(kind, s) for kind, s in lengths if s > 0] if turned else _within(times.total, lengths)
                sides[trial.name] = saved, added
                total = signed(times.total) if turned else f"{times.total:.2f}"
                amounts[trial.name] = f" {total} s{mark_of(trial, self._results if turned else None)}"
        left, right = (max((sum(s for _, s in each[side]) for each in sides.values()), default=0.0) for side in (0, 1))
        beside = len(f"   {BASELINE} ") + max(map(len, amounts.values()), default=0) + 2 * turned
        scale = max(1, width - beside) / (left + right or 1.0)
        room = round(left * scale)
        drawn: dict[str, Line] = {}
        for name in self._times:
            if name in sides:
                before, after = (bar(side, scale) for side in sides[name])
                space = " " * (room - width_of(before))
                drawn[name] = [(space, ""), *reversed(before), (base, "muted"), *after, (amounts[name], "")]
            else:
                drawn[name] = [(" " * room, ""), (base, "muted"), (" nothing to compare with", "muted")]
        return drawn

    def _difference(self, trial: TrialResult) -> Breakdown | None:
        base = self._results.base_of(trial) if self._results else None
        return difference(trial, base) if base else None

    def _in_words(self, width: int) -> list[Line]:
        """The difference of the chosen trial in words, as a sum."""
        trial = next((trial for trial in self._trials if trial.name == self._chosen), None)
        apart = from_baseline(trial, self._results) if trial and self._results else None
        if trial is None or apart is None:
            return []
        told = wrapped(
            as_sum(apart, trial) + mark_of(trial, self._results),
            max(1, width - 2),
            initial_indent="  ",
            subsequent_indent="  ",
        )
        return [[(line, "")] for line in told[:MOST_WORDS]]

    def _legend(self, kinds: set[str], width: int) -> Line:
        """The legend of the kinds of parts that are drawn."""
        unknown = [
            part.name
            for trial in self._trials
            if trial.name in self._times
            for part in parts(self._times[trial.name], trial)
            if part.kind == "unknown"
        ]
        names = KNOWN | {"unknown": " or ".join(dict.fromkeys(unknown))}
        entries: list[Line] = [
            [(GLYPHS[kind], kind), (f" {name}", "muted")] for kind, name in names.items() if kind in kinds
        ]
        entries.append([(f"{BASELINE} baseline", "muted")])
        return [("  ", ""), *wrap(entries, width - 2, 1)[0]]


def _within(total: float, lengths: Lengths) -> Lengths:
    """The lengths, cut off at the total: parts that are measured separately may overlap."""
    kept: Lengths = []
    for kind, s in lengths:
        room = total - sum(before for _, before in kept)
        kept.append((kind, min(max(0.0, s), room)))
    return kept
