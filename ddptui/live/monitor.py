"""What the console shows of a running launch: its state, and what is computed from it. The caller supplies the time."""

from collections import deque
from collections.abc import Iterable
from math import inf

import msgspec

from ddptui.analysis.cautions import FEWEST_STEPS
from ddptui.analysis.clock_sync import ClockSpread, clock_spread, in_console_time
from ddptui.analysis.disturbance import of_reading, takes_cores
from ddptui.analysis.operations import drop_inconsistent
from ddptui.analysis.waits import AlignedStep, AlignedSteps, align_steps
from ddptui.config.preset import Preset
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.findings.verdict import WaitAnalysis, analyze_aligned
from ddptui.live.fold import fold
from ddptui.live.state import MOST_RECENT, Live, recent
from ddptui.wire.records import Launched, Message

JUDGE_EVERY_NS = 1e9  # an analysis costs some milliseconds
LAST_STEPS, FEW = 24, 3  # that panes show, at most and at least
MOST_AT_ONCE = 400  # ranks times steps that one look aligns: where steps are short, some are left out


class RunMonitor:
    """Follows one run: its state, and an analysis of its last steps that is at most a second old."""

    def __init__(self, outcomes: Outcomes = NO_OUTCOMES) -> None:
        """`outcomes`: the launches that a resumed run has already."""
        failed = [outcome for outcome in outcomes.values() if outcome.status == "failed"]
        self.live = Live(
            finished=len(outcomes),
            resumed=len(outcomes),
            over={outcome.trial: outcome.repeat for outcome in failed},
            failures={outcome.trial: (outcome.error or "").partition("\n")[0] for outcome in failed},
        )
        self.joined: deque[AlignedStep] = deque(maxlen=MOST_RECENT)  # the last steps that all ranks have, no warm-up
        self.mismatch: str | None = None  # how the ranks' operations differ, if they do
        self.judgement: WaitAnalysis | None = None  # of the last two seconds, or of a few long steps
        self.apart: ClockSpread | None = None  # how far apart the ranks' clocks may be, if they have several
        self.before: RunMonitor | None = None  # as it was when the launch before had ended, if that had steps to show
        self._next = 0  # step to be joined
        self._judged_ns = 0

    @property
    def culprit(self) -> int | None:
        """The rank that holds the others up right now; None if no rank stands out."""
        return self.judgement.culprit.rank if self.judgement and self.judgement.culprit else None

    @property
    def shown(self) -> "RunMonitor":
        """What panes draw steps and losses of: while a launch starts, of the one before."""
        is_starting = self.live.status == "running" and not self.joined
        return self.before if self.before is not None and is_starting else self

    @property
    def last(self) -> list[AlignedStep]:
        """The last steps, as many as panes show."""
        return list(self.joined)[-LAST_STEPS:]

    @property
    def latest(self) -> list[AlignedStep]:
        """The steps that the verdict is about: those of the last two seconds, and a few in any case."""
        # None if the ranks' clocks are too far apart to tell who waited.
        return [] if self.judgement and self.judgement.withheld else recent(self.last, _ended, FEW)

    @property
    def are_clocks_known(self) -> bool:
        """Whether the times of all ranks can be compared."""
        return self.apart is None or self.apart.largest_ns(self.live.ranks) < inf

    def world_size(self, preset: Preset) -> int:
        """How many ranks the launch has, or will have."""
        here = len(self.live.ranks)
        return max(here, next((trial.ranks for trial in preset.trials if trial.name == self.live.trial), 0))

    def add(self, messages: Iterable[Message]) -> None:
        """Apply messages, in order."""
        for message in messages:
            if isinstance(message, Launched):
                self._begin()
            fold(self.live, [message])

    def look(self, now_ns: int) -> None:
        """Bring up to date what the panes show."""
        self._join()
        if self.live.status == "running" and self.joined and now_ns - self._judged_ns >= JUDGE_EVERY_NS:
            self._judged_ns = now_ns
            self.judgement = self.judge()

    def judge(self) -> WaitAnalysis | None:
        """Analyze the last two seconds; None if there is nothing to analyze."""
        self._join()
        load = self.live.load
        disturbed = load is not None and takes_cores(of_reading(load))
        return analyze_aligned(AlignedSteps(recent(list(self.joined), _ended, FEWEST_STEPS), {}), disturbed=disturbed)

    def _begin(self) -> None:
        """Forget the launch before, but for how it looked at its end."""
        self._join()
        if self.joined:
            self.before = RunMonitor()
            self.before.live, self.before.joined = msgspec.structs.replace(self.live), self.joined
            self.before.judgement, self.before.apart = self.judgement, self.apart
        self.joined = deque(maxlen=MOST_RECENT)
        self.mismatch = self.judgement = self.apart = None
        self._next = self._judged_ns = 0

    def _join(self) -> None:
        """Align the steps that have come since the last look."""
        end = self.live.step
        first = max(self._next, end - max(1, MOST_AT_ONCE // max(1, len(self.live.ranks))))
        if first >= end:
            return
        ranks = self.live.ranks.values()
        clocks = self.live.clocks  # as known now: steps converted before and after a probe would not fit each other
        # The step before goes along: what a rank did between two steps belongs to the second.
        new_steps = {rank.rank: [step for step in rank.recent if first - 1 <= step.step < end] for rank in ranks}
        self.apart = clock_spread(clocks, new_steps)
        if not self.are_clocks_known:
            return
        self._next = end
        steps = {rank: [in_console_time(step, clocks) for step in rank_steps] for rank, rank_steps in new_steps.items()}
        fitting, wrong = drop_inconsistent(steps)
        pauses = [in_console_time(pause, clocks) for pause in self.live.pauses]
        aligned_steps = align_steps(fitting, pauses, self.apart, {rank.rank: rank.device for rank in ranks})
        if self.joined and self.joined[-1].ranks.keys() != steps.keys():  # a rank has come meanwhile
            self.joined.clear()
        ended_ns = _ended(self.joined[-1]) if self.joined else 0
        self.joined.extend(step for step in aligned_steps.steps if step.number >= first and _ended(step) > ended_ns)
        self.mismatch = next(reversed([*wrong.values(), *aligned_steps.mismatches.values()]), None)


def _ended(step: AlignedStep) -> int:
    return max(rank_step.step.end_ns for rank_step in step.ranks.values())
