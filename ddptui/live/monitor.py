"""What the console shows of a running launch: its state, and what is computed from it. The caller supplies the time."""

from collections import deque
from collections.abc import Iterable
from itertools import dropwhile, product
from math import inf

import msgspec

from ddptui.analysis.clock_sync import ClockSpread, clock_spread, in_console_time
from ddptui.analysis.disturbance import of_reading, takes_cores
from ddptui.analysis.operations import drop_inconsistent
from ddptui.analysis.policy import FEWEST_STEPS
from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.config.delays import still_to_come
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.findings.judgement import Judgement, judge, sleeps
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.live.fold import fold
from ddptui.live.state import MOST_RECENT, Live, recent
from ddptui.wire.records import Launched, Message

JUDGE_EVERY_NS = 1e9  # an analysis costs some milliseconds
YOUNG_NS = 3e9  # after delays are changed: before that, no rank is blamed for what was only measured
TAKEN_UP_NS = 1e9  # after delays are changed: a rank that sleeps as before has not received them
MOST_AT_ONCE = 400  # ranks times steps that one look aligns: where steps are short, some are left out


class RunMonitor:
    """Follows one run: its state, and the judgement of its last steps, which is at most a second old."""

    def __init__(self, outcomes: Outcomes = NO_OUTCOMES) -> None:
        """`outcomes`: the launches that a resumed run has already."""
        failed = [outcome for outcome in outcomes.values() if outcome.status == "failed"]
        self.live = Live(
            finished=len(outcomes),
            resumed=len(outcomes),
            over={outcome.trial: outcome.repeat for outcome in failed},
            failures={outcome.trial: (outcome.error or "").partition("\n")[0] for outcome in failed},
        )
        self.finished = outcomes
        # The last steps that all ranks have, without warm-up, all with the delays that the ranks have now.
        self.joined: deque[AlignedStep] = deque(maxlen=MOST_RECENT)
        self.mismatch: str | None = None  # how the ranks' operations differ, if they do
        self.judgement: Judgement | None = None  # of the last two seconds, or of some long steps
        self.apart: ClockSpread | None = None  # how far apart the ranks' clocks may be, if they have several
        self.before: RunMonitor | None = None  # as it was when the launch before had ended, if that had steps to show
        self._next = 0  # step to be joined
        self._judged: AlignedStep | None = None  # the last one
        self._judged_ns = -inf
        self._changed_ns = 0  # when the delays were changed with which the joined steps begin

    @property
    def culprit(self) -> int | None:
        """The rank that the others wait for right now; None if none is sure."""
        return self.judgement.rank if self.judgement else None

    @property
    def shown(self) -> "RunMonitor":
        """What panes draw steps and losses of: while a launch starts, of the one before."""
        is_starting = self.live.status == "running" and not self.joined and not self.live.changed_ns
        return self.before if self.before is not None and is_starting else self

    @property
    def judged(self) -> list[AlignedStep]:
        """The steps of the judgement."""
        return self.judgement.steps if self.judgement else []

    @property
    def are_clocks_known(self) -> bool:
        """Whether the times of all ranks can be compared."""
        return self.apart is None or self.apart.largest_ns(self.live.ranks) < inf

    def world_size(self, preset: Preset) -> int:
        """How many ranks the launch has, or will have."""
        trial = self.trial(preset)
        return max(len(self.live.ranks), trial.ranks if trial else 0)

    def trial(self, preset: Preset) -> Trial | None:
        """The trial of the current launch; before there is one, that of the first launch to come."""
        if self.live.trial is not None:
            return next((trial for trial in preset.trials if trial.name == self.live.trial), None)
        over = {outcome.trial for outcome in self.finished.values() if outcome.status != "ok"}
        all_of_them = product(range(1, preset.repeats + 1), [each for each in preset.trials if each.name not in over])
        return next((trial for repeat, trial in all_of_them if (trial.name, repeat) not in self.finished), None)

    def add(self, messages: Iterable[Message]) -> None:
        """Apply messages, in order."""
        for message in messages:
            if isinstance(message, Launched):
                self._begin()
            fold(self.live, [message])

    def look(self, now_ns: int, *, at_once: bool = False) -> None:
        """Bring up to date what the screen shows. at_once: judge new steps now, though the last judgement is young."""
        self._join()
        if not self.joined or self.joined[-1] is self._judged:
            return
        is_cheap = self.live.status != "running" or len(self.joined) < FEWEST_STEPS
        if at_once or is_cheap or now_ns - self._judged_ns >= JUDGE_EVERY_NS:
            self._judged, self._judged_ns, self.judgement = self.joined[-1], now_ns, self.judge()

    def judge(self) -> Judgement | None:
        """Judge the last two seconds since the delays were changed; None if there is nothing to judge."""
        self._join()
        if not self.joined:
            return None
        load, changed_ns = self.live.load, self.live.changed_ns
        return judge(
            recent(list(self.joined), _ended, FEWEST_STEPS),
            disturbed=load is not None and takes_cores(of_reading(load)),
            is_young=changed_ns > 0 and _ended(self.joined[-1]) - changed_ns < YOUNG_NS,
        )

    def _begin(self) -> None:
        """Forget the launch before, but for how it looked at its end."""
        self.look(0, at_once=True)
        if self.joined:
            self.before = RunMonitor()
            self.before.live, self.before.joined = msgspec.structs.replace(self.live), self.joined
            self.before.judgement, self.before.apart = self.judgement, self.apart
        self.joined = deque(maxlen=MOST_RECENT)
        self.mismatch = self.judgement = self.apart = self._judged = None
        self._next, self._judged_ns, self._changed_ns = 0, -inf, 0

    def _join(self) -> None:
        """Align the steps that have come since the last look; begin anew where delays were changed."""
        if self._changed_ns != self.live.changed_ns:
            self._changed_ns = self.live.changed_ns
            self.joined.clear()
            self.judgement = None
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
        new = [step for step in aligned_steps.steps if step.number >= first and _ended(step) > ended_ns]
        self.joined.extend(new if self.joined else dropwhile(self._is_before_change, new))
        self.mismatch = next(reversed([*wrong.values(), *aligned_steps.mismatches.values()]), None)

    def _is_before_change(self, step: AlignedStep) -> bool:
        """Whether some rank had other delays in this step than it has now."""
        begun_ns = min(own.step.begin_ns for own in step.ranks.values())
        if not self._changed_ns or begun_ns > self._changed_ns + TAKEN_UP_NS:
            return False
        delays = [delay for delay in still_to_come(self.live.injected or ()) if delay.sleep_ms]
        return begun_ns < self._changed_ns or any(
            sleeps(step, rank) != {delay.at for delay in delays if rank in delay.ranks} for rank in step.ranks
        )


def _ended(step: AlignedStep) -> int:
    return max(rank_step.step.end_ns for rank_step in step.ranks.values())
