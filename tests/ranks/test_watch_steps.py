"""Notes of a loop that had begun unseen become steps with the same numbers on each rank."""

from typing import Any, cast

import pytest

from ddptui.wire.messages import Done, Line, Pause, Place, Position, Step
from ddptui.wire.relay_file import Watching
from workers.instruments.reporter import Reporter
from workers.relay import steps
from workers.relay.steps import Steps
from workers.watch.notes import CODES, KINDS, LENGTHS


class Rank:
    """What a relay hears of a rank whose loop was let alone until so many batches had come to backward."""

    dropped = 0

    def __init__(self, batches_before: int, a_step: int = 1, **asked: Any) -> None:
        """a_step: so many batches make one."""
        self.sent, self.is_over, self._at_ns = list[Any](), False, 0
        self._batch, self._a_step = batches_before, a_step
        self._notes: list[Any] = []
        self.steps = Steps(
            0, Watching(**{"skip": 2, **asked}), cast(Reporter, self), at_ns=0, signs=batches_before, over=self._end
        )

    def _end(self) -> None:
        self.is_over = True

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def trains(self, batches: int) -> None:
        for _ in range(batches):
            self._batch += 1
            self.fetches(self._batch)
            self.backward()
            if self._batch % self._a_step == 0:
                self.optimizer()
        self.read()

    def fetches(self, batch: int, batches: int | None = None) -> None:
        self.note("data_begins", True)
        self.note("data_ends", 8, True, False, batch, batches, 1)

    def backward(self) -> None:
        self.note("backward_begins", 1.0)
        self.note("backward_ends")

    def optimizer(self, which: int = 1) -> None:
        self.note("optimizer_begins", which)
        self.note("optimizer_ends", which)

    def note(self, call: str, *arguments: Any) -> None:
        self._at_ns += 1
        assert LENGTHS[CODES[call]] == 2 + len(arguments)
        self._notes += [CODES[call], self._at_ns, *arguments]

    def read(self) -> None:
        notes, self._notes = self._notes, []
        self.steps.read(iter(notes))

    def seen(self) -> list[tuple[int, bool]]:
        """The number of each step, and whether it is one of the warm-up."""
        return [(step.step, step.warmup) for step in self.sent if isinstance(step, Step)]


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
    with pytest.raises(ValueError, match="not every step calls backward equally often"):
        uneven.trains(9)


def test_the_loss_of_a_step_is_the_sum_of_those_that_its_gradients_add_up() -> None:
    rank = Rank(0, a_step=4)  # each batch's loss, divided by 4, is 1.0
    rank.trains(8)
    rank.steps.close()
    assert [step.loss for step in rank.sent if isinstance(step, Step)] == [4.0, 4.0]


def test_as_many_steps_are_seen_as_were_asked_for() -> None:
    rank = Rank(0, steps=3)
    rank.trains(9)
    assert rank.is_over
    rank.steps.close()
    assert [number for number, _ in rank.seen()] == [0, 1, 2]


def test_a_training_that_makes_no_step_is_let_go_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_PHASES", 50)
    rank = Rank(0)
    for _ in range(30):
        rank.backward()
    with pytest.raises(ValueError, match="the rank made no optimizer step in 50 calls"):
        rank.read()


def test_a_call_that_ends_after_it_was_sent_is_the_steps_with_its_end() -> None:
    rank = Rank(0)
    rank.note("backward_begins", None)
    line = (("train.py", 44, "log_metrics", True),)
    rank.note("collective", 5, "all_reduce", 400, None, (0, 2), line, True, 3, None, None, None, None)
    rank.read()
    position = rank.steps.position()
    assert (position.kind, position.group, position.calls) == ("all_reduce", (0, 2), 1)
    rank.note("collective_ended", 5, True, 4, 5, 7, 8)
    rank.note("backward_ends")
    rank.optimizer()
    rank.read()
    rank.steps.close()
    line, step = rank.sent
    assert line.stack == (Place("train.py", 44, "log_metrics", True),)
    [call] = step.collectives
    assert call.line == line.number
    assert (call.kind, call.bytes, call.group, call.root) == ("all_reduce", 400, (0, 2), None)
    assert (call.enter_ns, call.awaited_ns, call.exit_ns) == (3, 5, 7)


def test_delays_count_from_the_warm_up_on_and_stand_in_their_step() -> None:
    rank = Rank(0)
    for _ in range(4):
        rank.note("slept", 1, rank._at_ns + 1, rank._at_ns + 21)  # before the call that shows that a step has ended
        rank.trains(1)
    rank.note("paused", 5, 9)
    rank.read()
    rank.steps.close()
    assert [len(step.slept) for step in rank.sent if isinstance(step, Step)] == [1, 1, 1, 1]
    assert rank.sent[3] == Pause(rank=0, begin_ns=5, end_ns=9)
    done = rank.steps.done()
    assert isinstance(done, Done)
    assert (done.bottleneck_fired, done.bottleneck_ns) == (2, 40)


def reduces(
    rank: Rank, *, kind: str = "all_reduce", group: tuple[int, ...] = (0, 1), size: int = 400, ends: bool = True
) -> None:
    """The rank calls a collective, and waits for it at once."""
    now = rank._at_ns + 1
    end = now if ends else None
    rank.note("collective", 5, kind, size, None, group, (), False, now, end, end, None, end)


def test_samples_stand_in_the_step_in_which_they_were_due_and_lines_are_told_once() -> None:
    augment, loop = ["train.py", 28, "augment", True], ["train.py", 57, "main", True]
    rank = Rank(0)
    rank.steps.take_samples([[2, 100, 0, [augment, loop], 0], [4, 100, 1, [loop], 0], [5, 100, 0, [], 0]])
    rank.trains(1)  # its step ends at 6
    rank.steps.take_samples([[9, 20, 2, [augment, loop], 0]])
    rank.trains(2)
    first, second, *_ = (message for message in rank.sent if isinstance(message, Step))
    lines = {message.number: message.stack for message in rank.sent if isinstance(message, Line)}
    assert [(sample.at_ns, sample.ns, sample.held_ns) for sample in (*first.lines, *second.lines)] == [
        (2, 100, 0),
        (4, 100, 1),
        (9, 20, 2),
    ]
    assert [lines[sample.line][0].line for sample in (*first.lines, *second.lines)] == [28, 57, 28]
    assert sum(isinstance(message, Line) for message in rank.sent) == 2


def test_names_of_code_are_made_safe_for_a_terminal() -> None:
    rank = Rank(0)
    rank.steps.take_samples([[2, 100, 0, [["\x1b[2J.py", 1, "f\n", True]], 0]])
    rank.trains(1)
    [place] = next(message.stack for message in rank.sent if isinstance(message, Line))
    assert "\x1b" not in place.file
    assert "\n" not in place.function


def test_its_position_numbers_the_unfinished_collective_within_its_group_over_all_steps() -> None:
    rank = Rank(0)
    reduces(rank)
    reduces(rank, group=(0, 2))
    rank.trains(1)
    assert (rank.steps.position().number, rank.steps.position().seq) == (None, 0)
    reduces(rank)
    reduces(rank, kind="broadcast", group=(0, 2), size=8, ends=False)
    rank.read()
    position = rank.steps.position()
    assert (position.kind, position.group, position.seq, position.bytes) == ("broadcast", (0, 2), 2, 8)
    reduces(rank)  # of another group, called while that one runs
    rank.read()
    assert rank.steps.position().seq == 2


def test_its_position_counts_the_collectives_since_the_last_step_until_the_next_one_begins() -> None:
    rank = Rank(0)
    rank.trains(2)
    counts = []
    for _ in range(3):
        reduces(rank)
        rank.read()
        counts.append(rank.steps.position().between)
    assert counts == [1, 2, 3]
    rank.fetches(3)
    rank.note("backward_begins", 1.0)
    reduces(rank, ends=False)
    rank.read()
    position = rank.steps.position()
    assert (position.step, position.between, position.calls) == (2, 3, 4)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        # ends, calls since the last one, calls in all, kind, bytes, whether in backward
        ((2, 1, 3, KINDS.index("all_reduce"), 400, 0), None),  # all that stands there was sent
        (
            (2, 3, 5, KINDS.index("reduce"), 4, 0),
            Position(step=1, passed=("optimizer",), calls=3, number=2, kind="reduce", phase="between steps", seq=5,
                     bytes=4, between=3),
        ),
        (
            (3, 1, 6, KINDS.index("all_reduce"), 400, 2),
            Position(step=3, calls=1, number=0, kind="all_reduce", phase="backward", seq=6, bytes=400),
        ),
        ((3, 1, 6, -1, 8, 2), Position(step=3, calls=1, number=0, phase="backward", seq=6, bytes=8)),
        # It has made a step since, and no call.
        ((3, 0, 3, -1, 0, 0), Position(step=2, passed=("optimizer",), phase="between steps")),
    ],
)  # fmt: skip
def test_a_rank_that_has_died_is_where_its_page_says_if_that_is_newer(
    page: tuple[int, ...], expected: Position | None
) -> None:
    rank = Rank(0)
    reduces(rank)
    reduces(rank)
    rank.trains(2)
    reduces(rank)
    rank.read()
    sent = rank.steps.position()
    assert rank.steps.last_position(page) == (expected or sent)


def test_of_a_page_the_number_within_a_group_is_unknown_if_there_are_several() -> None:
    rank = Rank(0)
    reduces(rank)
    reduces(rank, group=(0, 2))
    rank.trains(1)
    position = rank.steps.last_position((1, 1, 3, KINDS.index("all_reduce"), 8, 1))
    assert (position.step, position.kind, position.seq) == (1, "all_reduce", 0)


def test_its_position_has_the_place_in_the_pass_over_the_data() -> None:
    rank = Rank(0)
    rank.fetches(7, 32)
    rank.read()
    position = rank.steps.position()
    assert (position.step, position.batch, position.batches, position.phase) == (0, 7, 32, "forward")


def test_of_a_training_that_counts_several_optimizer_steps_as_one_the_page_gives_the_step() -> None:
    rank = Rank(0)
    for _ in range(4):  # two optimizers a step, as of a GAN
        rank.fetches(1)
        for optimizer in (1, 2):
            rank.backward()
            rank.optimizer(optimizer)
    reduces(rank)
    rank.read()
    page = (10, 1, 2, KINDS.index("all_reduce"), 8, 1)
    assert rank.steps.last_position(page).step == 5
