"""Follows a running run for the console: its state, and the judgement of its last steps. The caller passes the time."""

from collections import deque
from collections.abc import Iterable
from itertools import dropwhile, product
from math import inf

import msgspec

from ddptui.analysis.check_log import CheckLog
from ddptui.analysis.clocks import ClockSpread, clock_spread, in_console_time
from ddptui.analysis.policy import FEWEST_STEPS
from ddptui.analysis.repeats import of_reading, takes_cores
from ddptui.analysis.results import PlaceTime
from ddptui.analysis.waits import AlignedStep, AlignedSteps, align_steps
from ddptui.config.checks import still_to_come
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.findings.checks import Checked
from ddptui.findings.judgement import Judgement, judge, sleeps
from ddptui.findings.repeat import NO_OUTCOMES, Outcomes
from ddptui.live.fold import fold
from ddptui.live.state import MOST_RECENT, Live, recent
from ddptui.wire.records import Launched, Message

JUDGE_EVERY_NS = 1e9  # an analysis costs some milliseconds
YOUNG_NS = 3e9  # within this time after a change of delays, measurements alone do not name a culprit
TAKEN_UP_NS = 1e9  # within this time after a change of delays, a rank may not have received them yet
MOST_AT_ONCE = 400  # ranks times steps aligned per call of `look`: with short steps, some are left out


class RunMonitor:
    """Follows one run: its state, and the judgement of its last steps, renewed about once a second."""

    def __init__(self, outcomes: Outcomes = NO_OUTCOMES) -> None:
        """`outcomes`: the launches that a resumed run already has."""
        failed = [outcome for outcome in outcomes.values() if outcome.status == "failed"]
        self.live = Live(
            finished=len(outcomes),
            resumed=len(outcomes),
            over={outcome.trial: outcome.repeat for outcome in failed},
            failures={outcome.trial: (outcome.error or "").partition("\n")[0] for outcome in failed},
        )
        self.finished = outcomes
        # The last measured steps that all ranks have made under the current delays.
        self.joined: deque[AlignedStep] = deque(maxlen=MOST_RECENT)
        self.mismatch: str | None = None  # how the ranks' operations differ, if they do
        self.judgement: Judgement | None = None  # on the last two seconds or, if steps are long, on a few steps
        self.checked = Checked(CheckLog())  # renewed with the judgement
        self.apart: ClockSpread | None = None  # the clock error between ranks; None: they share one clock
        self.before: RunMonitor | None = None  # the monitor at the end of the previous launch, if that had steps
        self._next = 0  # the next step to join
        self._judged: AlignedStep | None = None  # the last step that was judged
        self._judged_ns = -inf
        self._changed_ns = 0  # the change of delays after which the joined steps begin

    @property
    def culprit(self) -> int | None:
        """The rank that the others wait for right now; None if that is uncertain."""
        return self.judgement.rank if self.judgement else None

    @property
    def shown(self) -> "RunMonitor":
        """The monitor whose steps and losses the panes draw: while a launch starts, that of the previous launch."""
        is_starting = self.live.status == "running" and not self.joined and not self.live.changed_ns
        return self.before if self.before is not None and is_starting else self

    @property
    def judged(self) -> list[AlignedStep]:
        """The steps that the judgement is based on."""
        return self.judgement.steps if self.judgement else []

    def places(self) -> list[PlaceTime]:
        """Where in the user's code the ranks worked in the last steps, the most costly first."""
        from ddptui.analysis.places import place_times, spots_of  # after the first judgement, as these import numpy

        steps = list(self.joined)
        return place_times(spots_of(steps, self.live.lines), len(steps))

    @property
    def are_clocks_known(self) -> bool:
        """Whether the times of all ranks can be compared."""
        return self.apart is None or self.apart.largest_ns(self.live.ranks) < inf

    def world_size(self, preset: Preset) -> int:
        """The number of ranks that the launch has or will have."""
        trial = self.trial(preset)
        return max(len(self.live.ranks), trial.ranks if trial else 0)

    def trial(self, preset: Preset) -> Trial | None:
        """The trial of the current launch; before the first launch, the trial that will be launched first."""
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
        """Align new steps, and renew the judgement if the last one is a second old. at_once: renew it now."""
        self._join()
        if not self.joined or self.joined[-1] is self._judged:
            return
        is_cheap = self.live.status != "running" or len(self.joined) < FEWEST_STEPS
        if at_once or is_cheap or now_ns - self._judged_ns >= JUDGE_EVERY_NS:
            self._judged, self._judged_ns, self.judgement = self.joined[-1], now_ns, self.judge()
            # With fewer steps, ranks may just not have averaged yet.
            enough = self.live.checks.steps >= FEWEST_STEPS or self.live.status != "running"
            self.checked = Checked(self.live.checks if enough else CheckLog())

    def judge(self) -> Judgement | None:
        """Judge the last two seconds, if the delays did not change meanwhile; None without a step to judge."""
        self._join()
        if not self.joined:
            return None
        load, changed_ns = self.live.load, self.live.changed_ns
        return judge(
            AlignedSteps(recent(list(self.joined), _ended, FEWEST_STEPS), {}, self.live.lines, self.live.loaders),
            disturbed=load is not None and takes_cores(of_reading(load)),
            is_young=changed_ns > 0 and _ended(self.joined[-1]) - changed_ns < YOUNG_NS,
        )

    def _begin(self) -> None:
        """Start a launch: keep the final state of the previous one in `before`, and reset the rest."""
        self.look(0, at_once=True)
        if self.joined:
            self.before = RunMonitor()
            self.before.live, self.before.joined = msgspec.structs.replace(self.live), self.joined
            self.before.judgement, self.before.apart = self.judgement, self.apart
        self.joined = deque(maxlen=MOST_RECENT)
        self.mismatch = self.judgement = self.apart = self._judged = None
        self.checked = Checked(CheckLog())
        self._next, self._judged_ns, self._changed_ns = 0, -inf, 0

    def _join(self) -> None:
        """Align the steps that have arrived since the last call; start over if the delays were changed."""
        if self._changed_ns != self.live.changed_ns:
            self._changed_ns = self.live.changed_ns
            self.joined.clear()
            self.judgement = None
        end = self.live.step
        first = max(self._next, end - max(1, MOST_AT_ONCE // max(1, len(self.live.ranks))))
        if first >= end:
            return
        ranks = self.live.ranks.values()
        clocks = self.live.clocks  # convert all steps with the same state of the clocks: a later probe would shift some
        # Include the step before: the work between two steps belongs to the second.
        new_steps = {rank.rank: [step for step in rank.recent if first - 1 <= step.step < end] for rank in ranks}
        self.apart = clock_spread(clocks, new_steps)
        if not self.are_clocks_known:
            return
        self._next = end
        steps = {rank: [in_console_time(step, clocks) for step in rank_steps] for rank, rank_steps in new_steps.items()}
        pauses = [in_console_time(pause, clocks) for pause in self.live.pauses]
        aligned_steps = align_steps(steps, pauses, self.apart, {rank.rank: rank.device for rank in ranks})
        if self.joined and self.joined[-1].ranks.keys() != steps.keys():  # a rank has connected meanwhile
            self.joined.clear()
        ended_ns = _ended(self.joined[-1]) if self.joined else 0
        new = [step for step in aligned_steps.steps if step.number >= first and _ended(step) > ended_ns]
        self.joined.extend(new if self.joined else dropwhile(self._is_before_change, new))
        self.mismatch = next(reversed(aligned_steps.mismatches.values()), None)

    def _is_before_change(self, step: AlignedStep) -> bool:
        """Whether any rank made this step with other delays than the current ones."""
        begun_ns = min(own.step.begin_ns for own in step.ranks.values())
        if not self._changed_ns or begun_ns > self._changed_ns + TAKEN_UP_NS:
            return False
        delays = [delay for delay in still_to_come(self.live.injected or ()) if delay.sleep_ms]
        return begun_ns < self._changed_ns or any(
            sleeps(step, rank) != {delay.at for delay in delays if rank in delay.ranks} for rank in step.ranks
        )


def _ended(step: AlignedStep) -> int:
    return max(rank_step.step.end_ns for rank_step in step.ranks.values())
