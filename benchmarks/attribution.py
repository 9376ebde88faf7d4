"""What was put in against what is found, in recorded launches (benchmarks/recordings.py), load by load.

Goals, in each load: right rank and phase in 95 of 100 windows whose delay is at least twice the natural skew, which is
the median difference of the ranks' steps in the quiet windows of the launch; hardly anybody named where nothing was put
in, unless as a rank without a core; the interval of the excess holds what was put in, with a lower bound of 0.92
(Wilson).

    python -m benchmarks.attribution FOLDER…
"""

import sys
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.recordings import STEPS, WARM_UP, WINDOWS, recorded
from ddptui.analysis.culprit import WaitAnalysis
from ddptui.analysis.launch_data import steps_within
from ddptui.analysis.waits import AlignedStep, AlignedSteps, align_steps
from ddptui.config.trial import Bottleneck
from ddptui.findings.verdict import analyze_aligned
from ddptui.text.words import MS, MS_PER_S


class Window(NamedTuple):
    """One window; ms a step. Without a delay nothing was put in."""

    delay: Bottleneck | None
    put_in: float
    skew: float  # natural, of the launch
    judged: WaitAnalysis

    @property
    def is_right(self) -> bool:
        culprit = self.judged.culprit
        return bool(culprit and self.delay and (culprit.rank, culprit.phase) == (self.delay.ranks[0], self.delay.at))

    @property
    def off_by(self) -> float:
        """Of an estimate, as a part of what was put in."""
        culprit = self.judged.culprit
        return abs(_a_step(self, culprit.excess_s.estimate) / self.put_in - 1) if culprit else 0.0

    @property
    def holds(self) -> bool:
        culprit = self.judged.culprit
        if culprit is None:
            return False
        return _a_step(self, culprit.excess_s.low) <= self.put_in <= _a_step(self, culprit.excess_s.high)


def _a_step(window: Window, s: float) -> float:
    return s * MS_PER_S / len(window.judged.aligned.steps)


def windows(folder: Path, *, disturbed: bool) -> Iterator[Window]:
    """All windows of the launches that were recorded there."""
    for trial, log in recorded(folder):
        begins = range(WARM_UP, WARM_UP + WINDOWS * STEPS, STEPS)
        steps = [
            align_steps(steps_within(log.measured_steps, range(begin, begin + STEPS)), log.pauses).steps
            for begin in begins
        ]
        skew = median(difference for quiet in steps[1::2] for step in quiet for difference in differences(step))
        for number, of_window in enumerate(steps):
            judged = analyze_aligned(AlignedSteps(of_window, {}), disturbed=disturbed)
            delay = trial.bottleneck[number // 2] if number % 2 == 0 else None
            if judged:
                yield Window(delay, slept_ms(of_window), skew, judged)


def differences(step: AlignedStep) -> Iterator[float]:
    """How far each rank's own work lies from the others' median, in ms."""
    work = {rank: sum(own.work_ns) / MS for rank, own in step.ranks.items()}
    for rank, own in work.items():
        yield abs(own - median(other for number, other in work.items() if number != rank))


def slept_ms(steps: Sequence[AlignedStep]) -> float:
    """What was put in, a step."""
    slept = (delay for step in steps for own in step.ranks.values() for delay in own.step.slept)
    return sum(delay.end_ns - delay.begin_ns for delay in slept) / MS / len(steps)


def share(part: int, whole: int) -> str:
    """With its interval (95 %; Wilson, "Probable inference", 1927)."""
    if not whole:
        return "0 of 0"
    z, p = 1.96, part / whole
    middle, half = (p + z * z / 2 / whole), z * sqrt(p * (1 - p) / whole + z * z / 4 / whole / whole)
    low, high = ((middle + sign * half) / (1 + z * z / whole) for sign in (-1, 1))
    return f"{part} of {whole} ({p:.0%}; {low:.2f} to {high:.2f})"


def main() -> None:
    for name in sys.argv[1:]:
        found = [*windows(Path(name), disturbed="busy" in name)]
        quiet, delayed = [each for each in found if not each.delay], [each for each in found if each.delay]
        clear = [each for each in delayed if each.put_in >= 2 * each.skew]
        right = [each for each in delayed if each.is_right]
        named = [each for each in delayed if each.judged.culprit]
        print(f"{name}: {len(found)} windows")
        print(f"  nothing put in: named {share(sum(bool(each.judged.culprit) for each in quiet), len(quiet))}")
        without_core = sum(each.judged.rank_without_core is not None for each in quiet)
        print(f"  nothing put in: named as a rank without a core in {without_core}")
        print(f"  at least twice the skew: right {share(sum(each.is_right for each in clear), len(clear))}")
        print(f"  delayed: named {len(named)} of {len(delayed)}, of these right {share(len(right), len(named))}")
        print(f"  the interval holds it: {share(sum(each.holds for each in right), len(right))}")
        if right:
            print(f"  the estimate is off by {median(each.off_by for each in right):.1%} (median)")


if __name__ == "__main__":
    main()
