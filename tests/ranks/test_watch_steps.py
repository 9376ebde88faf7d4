"""Notes of a loop that had begun unseen become steps with the same numbers on each rank."""

from typing import Any, cast

import pytest

from ddptui.wire.messages import Step
from ddptui.wire.watching import Watching
from workers.instruments.clock import Clock
from workers.instruments.delays import RankDelays
from workers.instruments.progress import Progress
from workers.instruments.reporter import Reporter
from workers.watch import steps
from workers.watch.steps import Steps


class Ticking(Clock):
    """A clock that goes on by 1 ns whenever it is read."""

    at = 0

    def now(self) -> int:
        self.at += 1
        return self.at


class Rank:
    """A rank whose loop was let alone until so many batches had come to backward."""

    def __init__(self, batches_before: int, a_step: int = 1, **asked: Any) -> None:
        """a_step: so many batches make one."""
        self.clock, self.sent, self.is_over = Ticking(), list[Any](), False
        self._batch, self._a_step = batches_before, a_step
        reporter = cast(Reporter, self)
        self.steps = Steps(
            self.clock,
            Watching(**{"skip": 2, **asked}),
            reporter,
            Progress(0, 2, reporter),
            RankDelays((), 0, seed=0, warmup_steps=2),
            over=self._end,
            signs=batches_before,
        )

    def _end(self) -> None:
        self.is_over = True

    def send(self, deferred: Any) -> None:
        self.sent.append(deferred)

    def trains(self, batches: int) -> None:
        for _ in range(batches):
            self._batch += 1
            self._note("data_begins", True)
            self._note("data_ends", 8, True, False)
            self._note("backward_begins", 1.0)
            self._note("backward_ends")
            if self._batch % self._a_step == 0:
                self._note("optimizer_begins", 1)
                self._note("optimizer_ends", 1)
        self.steps.read()

    def _note(self, call: str, *arguments: Any) -> None:
        self.steps.notes.extend((call, self.clock.now(), arguments))

    def seen(self) -> list[tuple[int, bool]]:
        """The number of each step, and whether it is one of the warm-up."""
        messages = [message for deferred in self.sent for message in deferred()]
        return [(step.step, step.warmup) for step in messages if isinstance(step, Step)]


def test_a_loop_that_is_seen_from_its_first_step_on_counts_from_0() -> None:
    rank = Rank(0)
    rank.trains(5)
    rank.steps.close()
    assert rank.seen() == [(0, True), (1, True), (2, False), (3, False), (4, False)]


@pytest.mark.parametrize("a_step", [1, 4])
def test_ranks_that_are_seen_again_at_different_moments_give_a_step_the_same_number(a_step: int) -> None:
    one, other = Rank(100 * a_step, a_step), Rank(102 * a_step + (a_step - 1), a_step)
    one.trains(10 * a_step)  # both until batch 110 * a_step
    other.trains(7 * a_step + 1 if a_step > 1 else 8)
    assert one.seen() == [(101, True), (102, True), *((number, False) for number in range(103, 109))]
    begins = other.seen()[0][0]
    assert other.seen() == [(begins + more, more < 2) for more in range(109 - begins)]
    assert begins == 103


def test_steps_of_a_loop_that_is_seen_late_and_calls_backward_now_and_then_cannot_be_matched() -> None:
    rank = Rank(7, a_step=4)
    rank.trains(1)  # the step ends, of which three batches were not seen
    rank.trains(12)
    assert rank.is_over is False
    uneven = Rank(7, a_step=3)
    uneven._batch = 8  # 7 backward calls were noticed, 8 were made
    uneven.trains(9)
    assert uneven.is_over
    with pytest.raises(ValueError, match="its steps do not all call backward equally often"):
        uneven.steps.close()


def test_its_position_has_the_place_in_the_pass_over_the_data() -> None:
    rank = Rank(0)
    rank.steps.place = 7, 32
    rank.trains(1)
    assert (rank.steps.position().step, rank.steps.position().batch, rank.steps.position().batches) == (0, 7, 32)


def test_as_many_steps_are_seen_as_were_asked_for() -> None:
    rank = Rank(0, steps=3)
    rank.trains(9)
    assert rank.is_over
    rank.steps.close()
    assert [number for number, _ in rank.seen()] == [0, 1, 2]


def test_what_fails_while_notes_are_read_is_raised_at_the_end() -> None:
    rank = Rank(0)
    rank._note("backward_ends")  # of a call that has not begun
    rank.steps.read()
    assert rank.is_over
    with pytest.raises(IndexError):
        rank.steps.close()


def test_a_training_that_makes_no_step_is_let_go_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_PHASES", 50)
    rank = Rank(0)
    for _ in range(30):
        rank._note("backward_begins", 1.0)
        rank._note("backward_ends")
    rank.steps.read()
    assert rank.is_over
    with pytest.raises(ValueError, match="it made no step of an optimizer in 50 calls"):
        rank.steps.close()


def test_ctrl_c_within_a_note_reaches_the_training_and_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(0)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rank.steps.loop, "backward_begins", interrupted)
    rank._note("backward_begins", 1.0)
    rank._note("backward_ends")
    with pytest.raises(KeyboardInterrupt):
        rank.steps.read()
    assert rank.is_over
    rank.steps.close()
