"""Cuts the time of a training loop that nobody prepared into phases and steps, by the calls that it makes.

    for inputs, labels in loader:               data: the call that fetches a batch
        optimizer.zero_grad()                   forward: what follows it, until backward begins
        loss = criterion(model(inputs), labels)
        loss.backward()                         backward: that call
        average_gradients(model)                aggregate: what follows, if the rank calls collectives there
        optimizer.step()                        optimizer: that call
        if step % 100 == 0: save(model)         between steps: all else

Calls may be within others, as where an optimizer calls forward and backward itself. A phase is its own time, less what
is within it. A step goes from the end of one optimizer step to the end of the next, so that no time is in none. It is
known to have ended when the next batch is fetched: a loop with two optimizers calls both in a step. Without a loader it
has ended when forward or backward begin after a step of each optimizer, or one of them makes its second.

A pass over a loader that has ended before any of its batches came to backward was an evaluation; and so was a batch
after which a module ran without gradients, and none with them before the next batch. Where a pass over a loader begins
anew, the batches of the pass that it replaces were only looked at if none has come to backward.

A loop may mark its phases and the ends of its steps itself (ddptui/wire/phases.py). A mark counts as the call would.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ddptui.wire.phases import BETWEEN, PHASES

from ..instruments.clock import Clock
from ..instruments.records import PhaseTimer
from ..instruments.run_queue import Scheduled

DATA, FORWARD, BACKWARD, AGGREGATE, OPTIMIZER = PHASES
MARKED = 0  # stands for an optimizer in a phase that is marked


class End(NamedTuple):
    """Where the last optimizer step of a step ended: after so much of it."""

    phases: int
    calls: int  # of collectives
    samples: int
    losses: int


class Cut(NamedTuple):
    """A step that is over."""

    timer: PhaseTimer
    calls: int  # how many of the collectives so far were called in it
    samples: int
    losses: list[Any]  # what backward was called on; their sum is the loss that the step descends
    epoch: int  # passes over the data that were trained on before
    scheduled: Scheduled  # of its thread
    following: PhaseTimer  # of the step that follows


class Loop:
    """Follows one loop. `ended` is called with each step, between two calls that the loop makes."""

    def __init__(self, clock: Clock, calls: Callable[[], int], ended: Callable[[Cut], None]) -> None:
        """calls: how many collectives the rank has called since the last cut."""
        self.timer = PhaseTimer(clock)
        self._clock, self._calls, self._ended = clock, calls, ended
        self._within: list[str] = []  # the calls that are under way, the innermost last
        self._otherwise = BETWEEN  # the phase while none is
        self._samples = self._cpu_ns = self._queued_ns = 0
        self._losses: list[Any] = []
        self._has_fetched = False  # in this step
        self._looked_at: dict[int, int] = {}  # by loader, samples of a pass under way, fetched since backward began
        self._end: End | None = None  # none: no optimizer has made a step yet
        self._stepping = 0, 0  # the optimizer whose step began last, after so many phases
        self._stepped: set[int] = set()  # the optimizers that have made a step in this step
        self._known: set[int] = set()  # all that ever did
        self._epoch = -1  # none was trained on yet
        self._used = 0, 0  # so many phases and samples of this step are backward's, or were before it
        self._has_new_pass = False  # since backward: the first batch of a pass over the data was fetched
        self._has_evaluated = False  # what was fetched since backward
        self._is_marked = False  # it says itself where a step ends
        self.signs = 0  # of steps: how often backward has ended, or the loop has said that a step ends
        self._after_backward: tuple[int, int] | None = None  # so many phases and collectives, when it had ended
        self._backward_began = self._optimizer_began = 0  # after so many phases

    @property
    def phase(self) -> str:
        """The phase that has begun last, as far as calls have shown it; BETWEEN: none has."""
        return self._within[-1] if self._within else self._otherwise

    # The calls that a loop makes.

    def data_begins(self, trains: bool) -> None:
        """A batch is fetched. trains: gradients are recorded, so it is none of an evaluation."""
        if self._end is not None and not self._within:
            self._cut(self._end)
        if self._has_evaluated:
            self._forget_batches()
        self._has_fetched |= trains
        self._begin(DATA if trains else BETWEEN)

    def data_ends(self, samples: int | None, trains: bool, is_first: bool, loader: int = 0) -> None:
        """samples: in the batch; None: there was none left. is_first: of a pass over the data. loader: identifies
        it."""
        self._finish(DATA, BETWEEN)
        if not self._within:
            self._otherwise = FORWARD if trains and samples is not None else BETWEEN
            self.timer.forward_is_over = False
        if trains and samples is not None:
            before = self._looked_at.pop(loader, 0)
            self._samples += samples - before * (is_first and self._end is None)
            self._looked_at[loader] = samples + before * (not is_first)
            self._has_new_pass |= is_first
        elif samples is None:  # a pass that was made to its end was no look at the data
            self._looked_at.pop(loader, None)
        self._has_evaluated = samples is None and self._has_new_pass

    def forward_begins(self, trains: bool) -> None:
        """The outermost module is called."""
        self._cut_if_all_have_stepped()
        self._has_evaluated = not trains
        self._begin(FORWARD if trains else BETWEEN)

    def forward_ends(self, trains: bool) -> None:
        self._finish(FORWARD, BETWEEN)
        if not self._within:
            self._otherwise = FORWARD if trains else BETWEEN

    def backward_begins(self, loss: Any = None) -> None:
        """loss: what it is called on; None: that is not known."""
        self._cut_if_all_have_stepped()
        if BACKWARD in self._within:  # where activations are made anew, it calls itself
            self._begin(BACKWARD)
            return
        # An optimizer that calls backward several times, as LBFGS does, looks at one loss from several places.
        is_first = OPTIMIZER not in self._within or self._used[0] <= self._optimizer_began
        if loss is not None and is_first:
            self._losses.append(loss)
        self._epoch += self._has_new_pass or self._epoch < 0  # the first pass may have begun unseen
        self._has_new_pass = self._has_evaluated = False
        self._looked_at.clear()
        self._begin(BACKWARD)
        if self._within[-2:-1] == [OPTIMIZER]:
            self._rename(self._closure_began(), {OPTIMIZER: FORWARD})  # which an optimizer calls before backward
            self._rename(0, {AGGREGATE: BETWEEN})  # after another batch's backward
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
            self._after_backward = len(self.timer.phases), self._calls()

    def optimizer_begins(self, optimizer: int) -> None:
        """optimizer: identifies it."""
        if OPTIMIZER in self._within and self._stepping == (optimizer, len(self.timer.phases)):
            self._begin(OPTIMIZER)  # a GradScaler's step calls the optimizer's own
            return
        if OPTIMIZER in self._within and self._stepping[0] == optimizer:
            self._within.clear()  # an exception has ended its step, of which torch tells nothing
        if OPTIMIZER not in self._within:
            if self._end is not None and optimizer in self._stepped:
                self._cut(self._end)
            self._begin(OPTIMIZER)
            self._optimizer_began = len(self.timer.phases)
            self._stepping = optimizer, len(self.timer.phases)
            if self._after_backward and self._calls() > self._after_backward[1]:
                self._rename(self._after_backward[0], {BETWEEN: AGGREGATE})
        else:
            self._begin(OPTIMIZER)

    def optimizer_ends(self, optimizer: int) -> None:
        if OPTIMIZER not in self._within:  # it had begun before this loop was seen
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
        """The loop says so."""
        self._begin(AGGREGATE)

    def aggregate_ends(self) -> None:
        self._finish(AGGREGATE)

    def step_ends(self, loss: Any, samples: int) -> None:
        """The loop says so. loss: None: what backward was called on. samples: besides those that were fetched."""
        self._is_marked = True
        self._note(self.phase)
        self._losses = self._losses if loss is None else [loss]
        self._samples += samples
        self._cut(self._here())
        self.signs += 1

    def scheduled(self, cpu_ns: int, queued_ns: int) -> None:
        """The loop's thread was on a core for so long, and had none for so long."""
        self._cpu_ns += cpu_ns
        self._queued_ns += queued_ns

    @property
    def epoch(self) -> int:
        """How many passes over the data were trained on before the one under way."""
        return max(0, self._epoch + self._has_new_pass)

    def depth(self, phase: str) -> int:
        """How many calls of this phase are under way, one within the other."""
        return self._within.count(phase)

    def stepped_unseen(self) -> None:
        """Since the last call an optimizer has made a step, nobody knows when: the step ends now."""
        if not self._within and not self._is_marked:
            self._note(BETWEEN)  # an optimizer was within it
            self._otherwise = BETWEEN
            self._after_backward = None
            self._end = self._here()

    def close(self) -> None:
        """The loop is over."""
        if self._end is not None:
            self._cut(self._end)

    def _closure_began(self) -> int:
        """After so many phases an optimizer has called forward. Once it has called backward, only DDP's call shows."""
        phases, used = self.timer.phases, self._used[0]
        if used <= self._optimizer_began:
            return self._optimizer_began
        return phases.index(FORWARD, used) if FORWARD in phases[used:] else len(phases)

    def _here(self) -> End:
        return End(len(self.timer.phases), self._calls(), self._samples, len(self._losses))

    # Phases.

    def _begin(self, phase: str) -> None:
        self._note(self.phase)
        self._within.append(phase)

    def _finish(self, *phases: str) -> bool:
        """The innermost call of these phases ends. An exception may have left calls within it without an end. Returns
        whether there was one: it may have begun before this loop was seen."""
        if not {*phases} & {*self._within}:
            return False
        while (phase := self._within.pop()) not in phases:
            self._note(phase)
        self._note(phase)
        return True

    def _note(self, phase: str) -> None:
        """The phase has ended now. (Whether forward is over, PhaseTimer.end could not know here.)"""
        self.timer.phases.append(phase)
        self.timer.moments.append(self._clock.now())

    def _rename(self, first: int, names: dict[str, str]) -> None:
        """Give phases of this step, from the first on, other names, since later calls show what they were."""
        phases = self.timer.phases
        phases[first:] = [names.get(phase, phase) for phase in phases[first:]]

    def _forget_batches(self) -> None:
        """Those that were fetched since backward are an evaluation's."""
        phases, self._samples = self._used
        self._rename(phases, {DATA: BETWEEN, FORWARD: BETWEEN})
        self._has_new_pass = self._has_evaluated = False
        self._looked_at.clear()

    def _cut_if_all_have_stepped(self) -> None:
        """In a loop without a loader, a step is over once no optimizer is left that could make one."""
        is_last = self._stepped == self._known and not self._has_fetched and not self._within
        if self._end is not None and is_last:
            self._cut(self._end)

    def _cut(self, end: End) -> None:
        """A step ended there; what came since then belongs to the one that follows."""
        phases, calls, samples, losses = end
        self._used = max(0, self._used[0] - phases), max(0, self._used[1] - samples)
        over, following = self.timer, PhaseTimer(self._clock, self.timer.step + 1)
        following.phases, over.phases = over.phases[phases:], over.phases[:phases]
        following.moments, over.moments = over.moments[phases:], over.moments[: phases + 1]
        self.timer = following
        self._samples -= samples
        of_step, self._losses = self._losses[:losses], self._losses[losses:]
        self._end = self._after_backward = None
        self._has_fetched = False
        self._looked_at.clear()
        self._stepped.clear()
        scheduled = Scheduled(self._cpu_ns, self._queued_ns)
        self._cpu_ns = self._queued_ns = 0
        self._ended(Cut(over, calls, samples, of_step, max(0, self._epoch), scheduled, following))
