"""How long each trial trained, split into work, delay, wait and transfer."""

from collections.abc import Callable, Sequence
from statistics import median

from ddptui.analysis.counted import counted
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.report.sentences import status_of
from ddptui.text.drawing import GLYPHS, Line, bar, legend, shorten, wrap
from ddptui.text.words import count
from ddptui.tui.widgets.canvas import Canvas

PART_FOR_NAME = 3  # at most a third of the width is for the trial's name
BASELINE = "◆"


class TimeBars(Canvas):
    """Draws a bar per trial: the median of its repeats. With more trials than lines, those around the chosen one."""

    _results: Results | None = None
    _chosen: str | None = None

    def show(self, results: Results, chosen: str | None) -> None:
        """Draw a bar for each trial, and mark the chosen one."""
        if results is not self._results or chosen != self._chosen:
            self._results, self._chosen = results, chosen
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        trials = self._results.trials if self._results else []
        if not trials:
            return [[("no trial yet", "muted")]]
        names = min(max(len(trial.name) for trial in trials), width // PART_FOR_NAME)
        longest = max((_train_s(trial) for trial in trials), default=0.0) or 1.0
        scale = max(1, width - names - len(f"  {longest:.2f} s {BASELINE} ") - 1) / longest
        shown = self._window(trials, max(1, height - 1))
        lines = [self._line(trial, names, scale) for trial in shown]
        if (others := len(trials) - len(shown)) and height > 2:
            lines.append([(f"and {count(others, 'trial')} more", "muted")])
        entries = legend(["work", "wait", "transfer", *(["unknown"] if any(map(_is_withheld, trials)) else [])])
        if any(_delayed(repeat) for trial in trials for repeat in trial.repeats):
            entries.append([(GLYPHS["delay"], "delay"), (" delay put in", "muted")])
        entries.append([(f"{BASELINE} baseline", "muted")])
        return [*lines, [("  ", ""), *wrap(entries, width - 2, 1)[0]]]

    def _window(self, trials: list[TrialResult], room: int) -> list[TrialResult]:
        if len(trials) <= room:
            return trials
        room = max(1, room - 1)
        chosen = next((at for at, trial in enumerate(trials) if trial.name == self._chosen), 0)
        first = min(max(0, chosen - room // 2), len(trials) - room)
        return trials[first : first + room]

    def _line(self, trial: TrialResult, names: int, scale: float) -> Line:
        chosen = trial.name == self._chosen
        name = f"{'▸' if chosen else ' '} {shorten(trial.name, names):<{names}} "
        label = (name, "strong" if chosen else "")
        if trial.summary is None:
            first, *_ = (trial.error or "").splitlines() or [""]
            why = f"{trial.status}: {first}" if first else status_of(trial) or "not reached"
            return [label, (why, "culprit" if trial.status == "failed" else "muted")]
        baseline = f" {BASELINE}" if self._results and trial.name == self._results.baseline else ""
        return [label, *bar(_parts(trial), scale), (f" {_train_s(trial):.2f} s", ""), (baseline, "muted")]


def _train_s(trial: TrialResult) -> float:
    return trial.summary.train_time_s.median if trial.summary else 0.0


def _is_withheld(trial: TrialResult) -> bool:
    """Whether the waits are hidden because the clock error exceeds them."""
    return any(repeat.clock_error_ms is not None and repeat.wait_share is None for repeat in counted(trial.repeats))


def _parts(trial: TrialResult) -> list[tuple[str, float]]:
    """Return each part's seconds. Work is what is no wait, transfer or injected delay."""
    train_s = _train_s(trial)
    if _is_withheld(trial):  # the ranks' clocks are too far apart to tell
        return [("unknown", train_s)]
    wait = _share(trial, lambda repeat: repeat.wait_share)
    transfer = min(_share(trial, lambda repeat: repeat.transfer_share), 1 - wait)
    delay = min(_share(trial, _delayed), 1 - wait - transfer)
    shares = {"work": 1 - wait - transfer - delay, "delay": delay, "wait": wait, "transfer": transfer}
    return [(kind, share * train_s) for kind, share in shares.items()]


def _delayed(repeat: RepeatResult) -> float:
    """Return the delays' share of the training time, mean over ranks. Delays at the start are not part of it."""
    total = sum(delay.s for delay in repeat.injected if delay.at != "start")
    return total / len(repeat.ranks) / repeat.train_time_s


def _share(trial: TrialResult, figure: Callable[[RepeatResult], float | None]) -> float:
    known = [share for repeat in counted(trial.repeats) if (share := figure(repeat)) is not None]
    return min(1.0, max(0.0, median(known))) if known else 0.0
