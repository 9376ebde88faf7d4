"""Loops of many kinds, each as the calls that it makes: what is seen of them are the right phases and steps."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from workers.instruments.clock import Clock
from workers.instruments.records import PhaseTimer
from workers.watch.loop import Cut, Loop


class Ticking(Clock):
    """A clock that only goes on where a test says so."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at


class Training:
    """A training that is watched: each call takes the time that it is given, and what was seen are its steps."""

    def __init__(self) -> None:
        self.clock, self.called, self.seen = Ticking(), 0, list[Cut]()
        self.loop = Loop(self.clock, lambda: self.called, self._ended)

    def _ended(self, cut: Cut) -> None:
        self.called -= cut.calls
        self.seen.append(cut)

    def passes(self, time: int) -> None:
        self.clock.at += time

    def fetches(
        self, time: int = 1, samples: int | None = 8, *, trains: bool = True, is_first: bool = False, loader: int = 1
    ) -> None:
        self.loop.data_begins(trains)
        self.passes(time)
        self.loop.data_ends(samples, trains, is_first, loader)

    def calls_ddp(self, time: int, *, trains: bool = True) -> None:
        self.loop.forward_begins(trains)
        self.passes(time)
        self.loop.forward_ends(trains)

    def goes_backward(self, time: int = 3, within: Callable[[], None] = lambda: None) -> None:
        self.loop.backward_begins(1.0)
        within()
        self.passes(time)
        self.loop.backward_ends()

    def steps(self, time: int = 4, optimizer: int = 1, within: Callable[[], None] = lambda: None) -> None:
        self.loop.optimizer_begins(optimizer)
        within()
        self.passes(time)
        self.loop.optimizer_ends(optimizer)

    def reduces(self, time: int) -> None:
        self.called += 1
        self.passes(time)


def pieces(timer: PhaseTimer) -> list[tuple[str, int]]:
    """The phases of a step that took time, neighbors of the same phase as one."""
    found: list[tuple[str, int]] = []
    for phase, (begin, end) in zip(timer.phases, pairwise(timer.moments), strict=True):
        if end == begin:
            continue
        before = found.pop()[1] if found and found[-1][0] == phase else 0
        found.append((phase, before + end - begin))
    return found


@pytest.fixture
def training() -> Training:
    return Training()


def plain_step(training: Training) -> None:
    training.fetches(1)
    training.passes(2)
    training.goes_backward(3)
    training.steps(4)


def closure(training: Training) -> None:
    training.passes(2)
    training.goes_backward(3)


PLAIN = [("data", 1), ("forward", 2), ("backward", 3), ("optimizer", 4)]


def test_a_plain_loop(training: Training) -> None:
    for _ in range(3):
        plain_step(training)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [PLAIN] * 3
    assert [(cut.timer.step, cut.samples, len(cut.losses)) for cut in training.seen] == [(n, 8, 1) for n in range(3)]


def test_steps_leave_no_time_out(training: Training) -> None:
    for _ in range(4):
        plain_step(training)
        training.passes(7)
    training.loop.close()
    ends = [(cut.timer.moments[0], cut.timer.moments[-1]) for cut in training.seen]
    assert all(end == begin for (_, end), (begin, _) in pairwise(ends))


def test_what_one_rank_does_after_its_step_is_between_steps(training: Training) -> None:
    plain_step(training)
    training.passes(50)  # it writes a checkpoint
    plain_step(training)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [PLAIN, [("between steps", 50), *PLAIN]]


def test_collectives_after_a_step_belong_to_the_next_one(training: Training) -> None:
    training.fetches()
    training.reduces(5)
    training.goes_backward()
    training.steps()
    training.reduces(6)  # a barrier after a checkpoint
    plain_step(training)
    training.loop.close()
    assert [cut.calls for cut in training.seen] == [1, 1]


def test_gradients_of_several_batches_make_a_step(training: Training) -> None:
    for _ in range(2):
        for _ in range(3):
            training.fetches(1)
            training.passes(2)
            training.goes_backward(3)
        training.steps(4)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [[*PLAIN[:3] * 3, ("optimizer", 4)]] * 2
    assert [(cut.samples, len(cut.losses)) for cut in training.seen] == [(24, 3)] * 2


def test_a_mean_of_gradients_by_hand_is_the_aggregation(training: Training) -> None:
    training.fetches(1)
    training.passes(2)
    training.goes_backward(3)
    training.passes(10)
    training.reduces(5)
    training.steps(4)
    training.loop.close()
    assert pieces(training.seen[0].timer) == [*PLAIN[:3], ("aggregate", 15), ("optimizer", 4)]


def test_what_follows_backward_without_a_collective_is_none(training: Training) -> None:
    training.fetches(1)
    training.passes(2)
    training.goes_backward(3)
    training.passes(10)  # gradients are clipped, say
    training.steps(4)
    training.loop.close()
    assert pieces(training.seen[0].timer) == [*PLAIN[:3], ("between steps", 10), ("optimizer", 4)]


def test_an_evaluation_is_no_step(training: Training) -> None:
    plain_step(training)
    for _ in range(2):
        training.fetches(20, trains=False)
        training.passes(30)
    training.fetches(1, None, trains=False)
    plain_step(training)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [PLAIN, [("between steps", 101), *PLAIN]]
    assert training.seen[1].samples == 8


def test_an_evaluation_that_shows_only_in_its_forward_is_no_step(training: Training) -> None:
    plain_step(training)
    for _ in range(2):
        training.fetches(20)  # as transformers does: gradients are switched off after the batch is there
        training.calls_ddp(30, trains=False)
    plain_step(training)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [PLAIN, [("between steps", 100), *PLAIN]]
    assert training.seen[1].samples == 8


def test_an_evaluation_that_shows_only_in_that_nothing_came_to_backward_is_no_step(training: Training) -> None:
    plain_step(training)
    for number in range(2):
        training.fetches(20, is_first=number == 0)
        training.passes(30)  # a model that is no DDP, and does record gradients or switches them off by itself
    training.fetches(1, None)
    plain_step(training)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [PLAIN, [("between steps", 101), *PLAIN]]
    assert [(cut.samples, cut.epoch) for cut in training.seen] == [(8, 0), (8, 0)]


def test_an_evaluation_between_batches_whose_gradients_add_up_is_in_no_phase(training: Training) -> None:
    training.fetches(1, is_first=True)
    training.passes(2)
    training.goes_backward(3)
    training.fetches(20, is_first=True)
    training.passes(30)
    training.fetches(1, None)
    plain_step(training)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [[*PLAIN[:3], ("between steps", 51), *PLAIN]]
    assert [(cut.samples, cut.epoch) for cut in training.seen] == [(16, 0)]


def test_a_second_loader_that_begins_anew_is_no_evaluation(training: Training) -> None:
    for _ in range(2):
        training.fetches(1)  # of the one
        training.fetches(1, None)  # of the other: its pass has ended
        training.fetches(1, is_first=True)
        training.passes(2)
        training.goes_backward(3)
        training.steps(4)
    training.loop.close()
    assert [pieces(cut.timer)[:2] for cut in training.seen] == [[("data", 3), ("forward", 2)]] * 2
    assert [cut.samples for cut in training.seen] == [16, 16]


def test_passes_over_the_data_are_counted_where_batches_are_fetched_ahead(training: Training) -> None:
    for _ in range(2):
        training.fetches(is_first=True)
        for samples in (8, None):
            training.fetches(samples=samples)
            training.goes_backward()
            training.steps()
        for samples in (8, None):  # an evaluation
            training.fetches(samples=samples, is_first=samples is not None)
    training.loop.close()
    assert [cut.epoch for cut in training.seen] == [0, 0, 1, 1]
    assert [cut.samples for cut in training.seen] == [16, 0] * 2


def test_a_pass_that_had_begun_before_the_loop_was_seen_is_the_first(training: Training) -> None:
    for is_first in (False, True):  # a model that is no DDP shows at its first backward
        training.goes_backward()
        training.steps()
        training.fetches(is_first=is_first)
        training.goes_backward()
        training.steps()
        training.fetches(is_first=True)
    training.loop.close()
    assert [cut.epoch for cut in training.seen] == [0, 0, 1, 2]


def test_an_optimizer_that_calls_the_loop_itself(training: Training) -> None:
    for _ in range(2):
        training.fetches(1)
        training.steps(4, within=lambda: closure(training))  # as Lightning does
    training.loop.close()
    expected = [("data", 1), ("forward", 2), ("backward", 3), ("optimizer", 4)]
    assert [pieces(cut.timer) for cut in training.seen] == [expected] * 2


def test_an_optimizer_that_calls_the_loop_for_the_last_of_several_batches(training: Training) -> None:
    for _ in range(2):
        training.fetches(1)
        training.passes(2)
        training.goes_backward(3)
        training.reduces(5)  # ranks agree to go on, say
        training.fetches(1)
        training.steps(4, within=lambda: closure(training))
    training.loop.close()
    expected = [*PLAIN[:3], ("between steps", 5), *PLAIN]
    assert [pieces(cut.timer) for cut in training.seen] == [expected] * 2


def test_an_optimizer_that_calls_the_loop_more_than_once(training: Training) -> None:
    def closure_of_ddp() -> None:
        training.calls_ddp(2)
        training.passes(1)  # the loss
        training.goes_backward(3)

    def search() -> None:
        for _ in range(2):
            closure_of_ddp()
            training.passes(5)  # the optimizer's own work
        closure(training)  # of a model that is no DDP: nobody can tell when it began

    training.steps(4, within=search)
    training.loop.close()
    once = [("forward", 3), ("backward", 3), ("optimizer", 5)]
    expected = [*once, *once[:2], ("optimizer", 7), ("backward", 3), ("optimizer", 4)]
    assert [pieces(cut.timer) for cut in training.seen] == [expected]


def test_two_optimizers_that_call_the_loop_themselves(training: Training) -> None:
    for _ in range(2):
        training.fetches(1)
        training.steps(4, 1, within=lambda: closure(training))
        training.steps(4, 2, within=lambda: closure(training))
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [[*PLAIN, *PLAIN[1:]]] * 2


@pytest.mark.parametrize("has_loader", [True, False])
def test_an_optimizer_that_is_compiled_is_in_no_phase_and_ends_its_step(training: Training, has_loader: bool) -> None:
    for _ in range(3):
        if has_loader:
            training.fetches(1)
        training.passes(2)
        training.goes_backward(3)
        training.passes(4)
        training.loop.stepped_unseen()  # the next call has found it out
    training.loop.close()
    before = [("data", 1), ("forward", 2)] if has_loader else [("between steps", 2)]
    expected = [*before, ("backward", 3), ("between steps", 4)]
    assert [pieces(cut.timer) for cut in training.seen] == [expected] * 3
    assert [len(cut.losses) for cut in training.seen] == [1] * 3


@pytest.mark.parametrize("has_loader", [True, False])
def test_a_backward_that_calls_an_optimizer_for_each_parameter(training: Training, has_loader: bool) -> None:
    def steps() -> None:
        training.steps(4, 1)
        training.steps(5, 2)

    for _ in range(3):
        if has_loader:
            training.fetches(1)
        training.passes(2)
        training.goes_backward(3, within=steps)  # by register_post_accumulate_grad_hook
    training.loop.close()
    before = [("data", 1), ("forward", 2)] if has_loader else [("between steps", 2)]
    expected = [*before, ("optimizer", 9), ("backward", 3)]
    assert [pieces(cut.timer) for cut in training.seen] == [expected] * 3
    assert [len(cut.losses) for cut in training.seen] == [1] * 3


def test_an_optimizer_that_had_begun_before_its_loop_was_seen(training: Training) -> None:
    training.goes_backward(3)  # within the optimizer's closure: it shows that there is a loop
    training.loop.optimizer_ends(1)
    plain_step(training)
    training.loop.close()
    assert [len(cut.losses) for cut in training.seen] == [2]


def test_a_scaler_around_an_optimizer_is_one_step_and_so_is_one_that_it_leaves_out(training: Training) -> None:
    training.fetches(1)
    training.passes(2)
    training.goes_backward(3)
    training.steps(1, within=lambda: training.steps(3))
    plain_step(training)  # here the scaler's own call is all there is
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [PLAIN] * 2


@pytest.mark.parametrize("has_loader", [True, False])
def test_two_optimizers_step_in_one_step(training: Training, has_loader: bool) -> None:
    for _ in range(4):
        if has_loader:
            training.fetches(1)
        for optimizer in (1, 2):
            training.goes_backward(3)
            training.steps(4, optimizer)
    training.loop.close()
    # Without a loader, the first optimizer's first step looks like a whole one: the second is not known yet.
    assert [len(cut.losses) for cut in training.seen] == ([2] * 4 if has_loader else [1, 2, 2, 2, 1])


def test_without_a_loader_only_what_is_sure_is_called_a_phase(training: Training) -> None:
    for _ in range(3):
        training.passes(10)  # a batch is made, and forward runs: who can tell?
        training.goes_backward(3)
        training.steps(4)
    training.loop.close()
    assert [pieces(cut.timer) for cut in training.seen] == [
        [("between steps", 10), ("backward", 3), ("optimizer", 4)]
    ] * 3


def test_without_a_loader_ddp_shows_where_forward_begins(training: Training) -> None:
    for _ in range(3):
        training.passes(10)
        training.calls_ddp(2)
        training.passes(1)  # the loss
        training.goes_backward(3)
        training.steps(4)
    training.loop.close()
    expected = [("between steps", 10), ("forward", 3), ("backward", 3), ("optimizer", 4)]
    assert [pieces(cut.timer) for cut in training.seen] == [expected] * 3


def test_forward_is_over_for_the_calls_of_backward_and_not_for_those_of_the_next_forward(training: Training) -> None:
    training.fetches()
    assert not training.loop.timer.forward_is_over
    training.loop.forward_begins(True)  # DDP broadcasts buffers here
    assert not training.loop.timer.forward_is_over
    training.loop.forward_ends(True)
    training.loop.backward_begins()
    assert training.loop.timer.forward_is_over
    training.loop.backward_ends()
    training.fetches()  # of the same step: gradients add up
    assert not training.loop.timer.forward_is_over


def test_a_forward_without_gradients_before_the_one_that_trains_takes_no_batch_away(training: Training) -> None:
    for _ in range(2):
        training.fetches(1)
        training.calls_ddp(5, trains=False)  # of a teacher, or a target network
        training.calls_ddp(2)
        training.goes_backward(3)
        training.steps(4)
    training.loop.close()
    assert [cut.samples for cut in training.seen] == [8, 8]
    assert pieces(training.seen[1].timer) == [("data", 1), ("between steps", 5), *PLAIN[1:]]


def test_a_backward_within_backward_has_no_loss_of_its_own(training: Training) -> None:
    training.fetches(1)
    training.passes(2)
    training.loop.backward_begins(2.0)
    training.goes_backward(3)  # of activations that are made anew
    training.loop.backward_ends()
    training.steps(4)
    training.loop.close()
    assert pieces(training.seen[0].timer) == PLAIN
    assert training.seen[0].losses == [2.0]


def test_where_a_loop_says_that_a_step_ends_no_other_sign_counts(training: Training) -> None:
    for _ in range(3):
        for _ in range(2):
            training.fetches(1)
            training.passes(2)
            training.goes_backward(3)
            training.steps(4)
        training.loop.step_ends(7.0, 5)
    training.loop.close()
    first, second, *others = training.seen  # it had not said so yet
    assert [pieces(cut.timer) for cut in (first, second)] == [PLAIN, PLAIN]
    assert [pieces(cut.timer) for cut in others] == [PLAIN * 2] * 2
    assert [(cut.samples, cut.losses) for cut in others] == [(21, [7.0])] * 2


def test_a_batch_that_is_only_looked_at_has_no_samples_of_a_step(training: Training) -> None:
    for _ in range(2):
        training.fetches(is_first=True)  # next(iter(loader)), to print its shape
        for number in range(3):
            training.fetches(is_first=number == 0)
            training.goes_backward()
            training.steps()
        training.fetches(samples=None)
    training.loop.close()
    assert [cut.samples for cut in training.seen] == [8] * 6


def test_a_pass_that_is_left_before_its_end_keeps_the_samples_of_the_steps_it_made(training: Training) -> None:
    for _ in range(2):
        for number in range(3):
            training.fetches(is_first=number == 0)
            if number < 2:  # else the loop breaks off
                training.goes_backward()
                training.steps()
    training.loop.close()
    assert [cut.samples for cut in training.seen] == [8] * 4


def test_batches_of_several_loaders_that_come_to_backward_together_all_count(training: Training) -> None:
    for number in range(3):
        for loader in (1, 2):
            training.fetches(is_first=number == 0, loader=loader)
        training.goes_backward()
        training.steps()
    training.loop.close()
    assert [cut.samples for cut in training.seen] == [16] * 3


def test_batches_fetched_ahead_of_their_step_are_counted_once(training: Training) -> None:
    for epoch in range(2):
        for number in range(4):
            if number or not epoch:
                training.fetches(is_first=number == 0)
            if number == 0 and not epoch:
                training.fetches()
            if number == 3:
                training.fetches(samples=None)
                training.fetches(is_first=True)  # of the next pass
            training.goes_backward()
            training.steps()
    training.loop.close()
    fetched = 8 * (1 + 4 + 1 + 3 + 1)  # the last one is that of a pass that was not made
    assert sum(cut.samples for cut in training.seen) == fetched


def test_an_optimizer_that_looks_at_a_loss_from_several_places_has_one_loss(training: Training) -> None:
    def looks() -> None:
        for loss in (4.0, 3.0, 2.0):
            training.loop.backward_begins(loss)
            training.passes(3)
            training.loop.backward_ends()

    training.fetches(1)
    training.steps(4, within=looks)  # LBFGS
    training.loop.close()
    assert training.seen[0].losses == [4.0]


def test_the_phase_is_named_once_a_call_has_shown_it(training: Training) -> None:
    assert training.loop.phase == "between steps"
    training.loop.data_begins(True)
    assert training.loop.phase == "data"
    training.loop.data_ends(8, True, is_first=True)
    assert training.loop.phase == "forward"
    training.goes_backward()
    assert training.loop.phase == "between steps"
