"""Splits the time of an uninstrumented training loop into phases and steps, by the torch calls that the loop makes.

    for inputs, labels in loader:               data: the call that fetches a batch
        optimizer.zero_grad()                   forward: everything after that, until backward begins
        loss = criterion(model(inputs), labels)
        loss.backward()                         backward: this call
        average_gradients(model)                aggregate: everything after that, if it includes collectives
        optimizer.step()                        optimizer: this call
        if step % 100 == 0: save(model)         between steps: everything else

Calls may be nested: an optimizer may call forward and backward itself, for example. A phase's time excludes the phases
nested in it. A step lasts from the end of one optimizer step to the end of the next, so all time belongs to some step.
A step is known to have ended when the next batch is fetched, since a loop with two optimizers calls both in one step.
In a loop without a loader, a step has ended when forward or backward begins after each optimizer has made a step, or
when an optimizer makes its second.

A pass over a loader was an evaluation if it ends before backward has used any of its batches. A batch belongs to an
evaluation if a module runs on it without gradients, and none with gradients, before the next batch. If a pass over a
loader begins anew before backward has used a batch of the previous pass, the loop had only inspected those batches.

A loop may mark its phases and the ends of its steps itself (ddptui/wire/phases.py). A mark counts like the torch call.

The relay reads the calls from a rank's notes. So does the rank itself, while it injects delays.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from ddptui.wire.phases import BETWEEN, PHASES

from ..instruments.clock import UNKNOWN, Clock
from ..instruments.records import Call, PhaseTimer
from ..instruments.sampler import Scheduled
from .notes import LENGTHS, NAMES, OF_LOOP

DATA, FORWARD, BACKWARD, AGGREGATE, OPTIMIZER = PHASES
MARKED = 0  # the optimizer's id in a marked phase
ENDS = ("optimizer_ends", "stepped_unseen", "step_ends")


class LoopStepEnd(NamedTuple):
    """The end of a step's last optimizer step, as counts of what the step contained until then."""

    phases: int
    calls: int  # calls of collectives
    samples: int
    losses: int


class FinishedStep(NamedTuple):
    """A finished step."""

    timer: PhaseTimer
    calls: list[Call]
    samples: int
    losses: list[Any]  # the losses on which backward was called; their sum is the loss that the step descends
    epoch: int  # how many training passes over the data were made before
    scheduled: Scheduled  # CPU time and queueing of the loop's thread


class Loop:
    """Follows one training loop. Its methods that are named like notes are the calls that the loop makes."""

    def __init__(
        self,
        at: Any,
        ended: Callable[[FinishedStep], None],
        other: Callable[[str, Any, list[Any]], object] = lambda name, at, arguments: None,
    ) -> None:
        """at: the moment at which the first step begins, on whatever clock. ended: called with each finished step.
        other: called with the name, the moment and the arguments of each note that is no call of the loop."""
        self.at = at  # the present moment: that of the notes read so far
        self._ended, self._other = ended, other
        self.timer = PhaseTimer(Clock())
        self.timer.moments = [at]
        self.calls: list[Call] = []  # the collectives since the end of the last step
        self.ends = 0  # optimizer steps and marked step ends so far
        self.place: tuple[int, int | None] = 0, None  # batches fetched in the current pass, and batches in the pass
        # Whether any moment is unknown: in the current step; and since the last optimizer step, which may be its end.
        self.is_untimed = self.is_untimed_since = False
        self._within: list[str] = []  # the phases of the calls in progress, innermost last
        self._otherwise = BETWEEN  # the phase while no call is in progress
        self._samples = self._cpu_ns = self._queued_ns = 0
        self._losses: list[Any] = []
        self._has_fetched = False  # whether this step has fetched a batch for training
        self._looked_at: dict[int, int] = {}  # by loader: samples of its current pass, fetched since backward began
        self._end: LoopStepEnd | None = None  # None: no optimizer has stepped in this step
        self._stepping = 0, 0  # the optimizer that began its step last, and the number of phases until then
        self._stepped: set[int] = set()  # the optimizers that have stepped in this step
        self._known: set[int] = set()  # all optimizers that have ever stepped
        self._epoch = -1  # -1: backward has not used any batch
        self._used = 0, 0  # phases and samples of this step up to the end of the last backward
        self._has_new_pass = False  # whether the first batch of a pass was fetched since backward
        self._has_evaluated = False  # whether the batches fetched since backward were for an evaluation
        self._is_marked = False  # whether the loop marks its step ends itself
        self.signs = 0  # backward calls and marked step ends so far
        self._after_backward: tuple[int, int] | None = None  # phases and collectives at the end of the last backward
        self._backward_began = self._optimizer_began = 0  # as the number of phases until then

    @property
    def phase(self) -> str:
        """The current phase, as far as the calls have shown; BETWEEN if there is none."""
        return self._within[-1] if self._within else self._otherwise

    @property
    def after_step(self) -> LoopStepEnd | None:
        """The end of the step that is over although the next one has not begun; None while a step is under way."""
        return self._end if not self._within and self._otherwise == BETWEEN else None

    def read(self, notes: Iterator[Any]) -> None:
        """Read notes, each of which must be complete. A rank's own have Call objects for its collectives."""
        for code in notes:
            if isinstance(code, Call):
                self.collective(code)
                continue
            name = NAMES[code]
            at, *arguments = islice(notes, LENGTHS[code] - 1)
            if name in OF_LOOP:
                self._pass_to(at, is_end=name in ENDS)
                getattr(self, name)(*arguments)
            else:
                self._other(name, at, arguments)

    def _pass_to(self, at: Any, *, is_end: bool) -> None:
        """The moment `at` has come. is_end: with it, an optimizer step or a marked step ends."""
        is_unknown = at == UNKNOWN
        self.ends += is_end
        if is_end:
            self.is_untimed |= self.is_untimed_since or is_unknown
            self.is_untimed_since = is_unknown  # this end also is the begin of the next step
        else:
            self.is_untimed_since |= is_unknown
        if isinstance(self.at, int) and isinstance(at, int):  # not marks on a device
            self.at = max(self.at, at)  # on another stream, a note may be earlier than the last
        else:
            self.at = at

    # The calls that a loop makes.

    def collective(self, call: Call) -> None:
        """The loop calls a collective."""
        call.forward_is_over = self.timer.forward_is_over
        self.calls.append(call)

    def data_begins(self, trains: bool) -> None:
        """The loop fetches a batch. trains: gradients are recorded, so the batch is not for an evaluation."""
        if self._end is not None and not self._within:
            self._cut(self._end)
        if self._has_evaluated:
            self._forget_batches()
        self._has_fetched |= trains
        self._begin(DATA if trains else BETWEEN)

    def data_ends(
        self,
        samples: int | None,
        trains: bool,
        is_first: bool,
        batch: int = 0,
        batches: int | None = None,
        loader: int = 0,
    ) -> None:
        """samples: the number of samples in the batch; None if the loader was exhausted. is_first: the batch is the
        first of a pass over the data. batch: its number in the pass, from 1 on; 0 if unknown. batches: in the pass.
        loader: an id."""
        if batch:
            self.place = batch, batches
        elif trains and samples is None:  # the pass is over
            self.place = self.place[0], self.place[0]
        self._finish(DATA, BETWEEN)
        if not self._within:
            self._otherwise = FORWARD if trains and samples is not None else BETWEEN
            self.timer.forward_is_over = False
        if trains and samples is not None:
            before = self._looked_at.pop(loader, 0)
            self._samples += samples - before * (is_first and self._end is None)
            self._looked_at[loader] = samples + before * (not is_first)
            self._has_new_pass |= is_first
        elif samples is None:  # the loop did not just inspect the data: it made the whole pass
            self._looked_at.pop(loader, None)
        self._has_evaluated = samples is None and self._has_new_pass

    def forward_begins(self, trains: bool) -> None:
        """The loop calls the outermost module."""
        self._cut_if_all_have_stepped()
        self._has_evaluated = not trains
        self._begin(FORWARD if trains else BETWEEN)

    def forward_ends(self, trains: bool) -> None:
        self._finish(FORWARD, BETWEEN)
        if not self._within:
            self._otherwise = FORWARD if trains else BETWEEN

    def backward_begins(self, loss: Any = None) -> None:
        """loss: the loss on which backward is called; None if unknown."""
        self._cut_if_all_have_stepped()
        if BACKWARD in self._within:  # with activation checkpointing, backward calls itself
            self._begin(BACKWARD)
            return
        # An optimizer that calls backward several times, like LBFGS, evaluates one loss at several points.
        is_first = OPTIMIZER not in self._within or self._used[0] <= self._optimizer_began
        if loss is not None and is_first:
            self._losses.append(loss)
        self._epoch += self._has_new_pass or self._epoch < 0  # we may have missed the first pass's begin
        self._has_new_pass = self._has_evaluated = False
        self._looked_at.clear()
        self._begin(BACKWARD)
        if self._within[-2:-1] == [OPTIMIZER]:
            self._rename(self._closure_began(), {OPTIMIZER: FORWARD})  # an optimizer's closure calls it before backward
            self._rename(0, {AGGREGATE: BETWEEN})  # it followed the backward of another batch
        self._backward_began = len(self.timer.phases)
        self.timer.forward_is_over = True

    def backward_ends(self) -> None:
        if not self._finish(BACKWARD):
            return
        self.signs += 1
        if BACKWARD in self._within:
            return
        self._used = len(self.timer.phases), self._samples
        if self._end is not None and self._end.phases > self._backward_began:  # backward has called the optimizers
            self._end = self._here()
        if not self._within:
            self._otherwise = BETWEEN
            self._after_backward = len(self.timer.phases), len(self.calls)

    def optimizer_begins(self, optimizer: int) -> None:
        """optimizer: an id."""
        if OPTIMIZER in self._within and self._stepping == (optimizer, len(self.timer.phases)):
            self._begin(OPTIMIZER)  # a GradScaler's step calls the optimizer's own
            return
        if OPTIMIZER in self._within and self._stepping[0] == optimizer:
            self._within.clear()  # an exception has ended its previous step; torch then calls no hook
        if OPTIMIZER not in self._within:
            if self._end is not None and optimizer in self._stepped:
                self._cut(self._end)
            self._begin(OPTIMIZER)
            self._optimizer_began = len(self.timer.phases)
            self._stepping = optimizer, len(self.timer.phases)
            if self._after_backward and len(self.calls) > self._after_backward[1]:
                self._rename(self._after_backward[0], {BETWEEN: AGGREGATE})
        else:
            self._begin(OPTIMIZER)

    def optimizer_ends(self, optimizer: int) -> None:
        if OPTIMIZER not in self._within:  # it had begun before we observed the loop
            return
        self._finish(OPTIMIZER)
        if OPTIMIZER in self._within:
            return
        if not self._within:
            self._otherwise = BETWEEN
        self._stepped.add(optimizer)
        self._after_backward = None
        self._known.add(optimizer)
        if not self._is_marked:
            self._end = self._here()

    def aggregate_begins(self) -> None:
        """The loop marks the begin of aggregation."""
        self._begin(AGGREGATE)

    def aggregate_ends(self) -> None:
        self._finish(AGGREGATE)

    def step_ends(self, loss: Any, samples: int) -> None:
        """The loop marks the end of a step. loss: None for the losses on which backward was called. samples: samples in
        addition to those fetched from a loader."""
        self._is_marked = True
        self._note(self.phase)
        self._losses = self._losses if loss is None else [loss]
        self._samples += samples
        self._cut(self._here())
        self.signs += 1

    def scheduled(self, cpu_ns: int, queued_ns: int) -> None:
        """Add the time in which the loop's thread ran on a core, and the time in which it waited for a core."""
        self._cpu_ns += cpu_ns
        self._queued_ns += queued_ns

    @property
    def epoch(self) -> int:
        """How many training passes over the data were made before the current one."""
        return max(0, self._epoch + self._has_new_pass)

    def depth(self, phase: str) -> int:
        """How many nested calls of this phase are in progress."""
        return self._within.count(phase)

    def stepped_unseen(self) -> None:
        """Ends the training step: compiled code has stepped an optimizer, at an unknown time since the last notice."""
        if not self._within and not self._is_marked:
            self._note(BETWEEN)  # includes the optimizer's time
            self._otherwise = BETWEEN
            self._after_backward = None
            self._end = self._here()

    def close(self) -> None:
        """Finish the last step: the loop is over."""
        if self._end is not None:
            self._cut(self._end)

    def _closure_began(self) -> int:
        """The number of phases before an optimizer's closure called forward. After the closure's first backward, we
        only notice the forward calls of a DDP."""
        phases, used = self.timer.phases, self._used[0]
        if used <= self._optimizer_began:
            return self._optimizer_began
        return phases.index(FORWARD, used) if FORWARD in phases[used:] else len(phases)

    def _here(self) -> LoopStepEnd:
        return LoopStepEnd(len(self.timer.phases), len(self.calls), self._samples, len(self._losses))

    # Phases.

    def _begin(self, phase: str) -> None:
        self._note(self.phase)
        self._within.append(phase)

    def _finish(self, *phases: str) -> bool:
        """End the innermost call of these phases, and calls nested in it whose end an exception has skipped. Returns
        False if there was none, since it had begun before we observed the loop."""
        if not {*phases} & {*self._within}:
            return False
        while (phase := self._within.pop()) not in phases:
            self._note(phase)
        self._note(phase)
        return True

    def _note(self, phase: str) -> None:
        """The phase ends now. (Not PhaseTimer.end, which would set `forward_is_over`.)"""
        self.timer.phases.append(phase)
        self.timer.moments.append(self.at)

    def _rename(self, first: int, names: dict[str, str]) -> None:
        """Rename the phases of this step from index `first` on: later calls have shown what they were."""
        phases = self.timer.phases
        phases[first:] = [names.get(phase, phase) for phase in phases[first:]]

    def _forget_batches(self) -> None:
        """Discount the batches fetched since backward: they were for an evaluation."""
        phases, self._samples = self._used
        self._rename(phases, {DATA: BETWEEN, FORWARD: BETWEEN})
        self._has_new_pass = self._has_evaluated = False
        self._looked_at.clear()

    def _cut_if_all_have_stepped(self) -> None:
        """In a loop without a loader, end the step once every known optimizer has stepped."""
        is_last = self._stepped == self._known and not self._has_fetched and not self._within
        if self._end is not None and is_last:
            self._cut(self._end)

    def _cut(self, end: LoopStepEnd) -> None:
        """Finish the step at `end`. Everything since then belongs to the next step."""
        phases, calls, samples, losses = end
        self._used = max(0, self._used[0] - phases), max(0, self._used[1] - samples)
        over, following = self.timer, PhaseTimer(Clock(), self.timer.step + 1)
        following.phases, over.phases = over.phases[phases:], over.phases[:phases]
        following.moments, over.moments = over.moments[phases:], over.moments[: phases + 1]
        self.timer = following
        self._samples -= samples
        of_step, self._losses = self._losses[:losses], self._losses[losses:]
        called, self.calls = self.calls[:calls], self.calls[calls:]
        self._end = self._after_backward = None
        self._has_fetched = False
        self._looked_at.clear()
        self._stepped.clear()
        scheduled = Scheduled(self._cpu_ns, self._queued_ns)
        self._cpu_ns = self._queued_ns = 0
        self._ended(FinishedStep(over, called, samples, of_step, max(0, self._epoch), scheduled))
        self.is_untimed = False  # unknown moments since the step's end concern the next step
