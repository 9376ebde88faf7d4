"""Loops of many kinds, each as the calls that it makes: what is seen of them are the right phases and steps."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from workers.instruments.records import Call, PhaseTimer
from workers.watch.loop import FinishedStep, Loop


class Training:
    """A training that is watched, and its steps, as they are seen. Its calls are written as letters with the time that
    they take; what is in brackets is called within the call before:

        f1   a batch of 8 samples is fetched; f1- the loader has no more; f1~ without gradients; f1! a pass begins;
             f1@2 of another loader
        d1   the outermost module is called; d1~ without gradients
        b1   backward
        s1   an optimizer's step; s1@2 another one's
        r1   a collective
        p1   time passes
        u    a compiled optimizer has stepped, which a call shows afterwards
    """

    def __init__(self) -> None:
        self.seen = list[FinishedStep]()
        self.loop = Loop(0, self.seen.append)

    def calls(self, written: str) -> None:
        self._call(iter(re.findall(r"[a-z]\d*[-~!]*(?:@\d)?|[()]", written)))

    def _call(self, calls: Iterator[str]) -> None:
        """Up to the end, or to the bracket that ends what is within a call."""
        ends: list[Any] = []
        for each in calls:
            if each == "(":
                self._call(calls)
                continue
            for end in ends:
                end()
            ends = []
            if each == ")":
                return
            ends = self._begin(each[0], int(re.sub(r"\D.*", "", each[1:]) or 0), each)
        for end in ends:
            end()

    def _begin(self, letter: str, time: int, written: str) -> list[Any]:
        """Begin a call; what ends it."""
        trains, which = "~" not in written, int(written.partition("@")[2] or 1)
        passes = lambda: self.passes(time)  # noqa: E731
        match letter:
            case "f":
                samples = None if "-" in written else 8
                self.loop.data_begins(trains)
                return [passes, lambda: self.loop.data_ends(samples, trains, "!" in written, loader=which)]
            case "d":
                self.loop.forward_begins(trains)
                return [passes, lambda: self.loop.forward_ends(trains)]
            case "b":
                self.loop.backward_begins(1.0)
                return [passes, self.loop.backward_ends]
            case "s":
                self.loop.optimizer_begins(which)
                return [passes, lambda: self.loop.optimizer_ends(which)]
            case "r":
                self.loop.collective(Call("all_reduce", 8, None, (), False, 0, 0))
            case "u":
                self.loop.stepped_unseen()
        self.passes(time)
        return []

    def passes(self, time: int) -> None:
        self.loop.at += time

    def figures(self, name: str) -> list[Any]:
        """Of each step."""
        of_a_step = {
            "samples": lambda cut: cut.samples,
            "losses": lambda cut: len(cut.losses),
            "epochs": lambda cut: cut.epoch,
            "calls": lambda cut: len(cut.calls),
            "numbers": lambda cut: cut.timer.step,
        }
        return [of_a_step[name](cut) for cut in self.seen]


def pieces(timer: PhaseTimer) -> str:
    """The phases of a step that took time, neighbors of the same phase as one."""
    found: list[tuple[str, int]] = []
    for phase, (begin, end) in zip(timer.phases, pairwise(timer.moments), strict=True):
        if end == begin:
            continue
        before = found.pop()[1] if found and found[-1][0] == phase else 0
        found.append((phase, before + end - begin))
    return ", ".join(f"{phase.removesuffix(' steps')} {time}" for phase, time in found)


@pytest.fixture
def training() -> Training:
    return Training()


STEP, BATCH = " f1 p2 b3 s4 ", " f1 p2 b3 "
PLAIN, TRAINED = "data 1, forward 2, backward 3, optimizer 4", "data 1, forward 2, backward 3"
OF_CLOSURE = "data 1, forward 2, backward 3, optimizer 4"


class Case(NamedTuple):
    calls: str
    phases: list[str] | None = None  # of each step; None: another case looks at them
    figures: dict[str, list[int]] = {}  # noqa: RUF012 (nobody changes it)


CASES = {
    "a plain loop": Case(STEP * 3, [PLAIN] * 3, {"numbers": [0, 1, 2], "samples": [8] * 3, "losses": [1] * 3}),
    "what one rank does after its step is between steps": Case(STEP + "p50" + STEP, [PLAIN, f"between 50, {PLAIN}"]),
    "collectives after a step belong to the next one": Case("f1 r5 b3 s4 r6" + STEP, None, {"calls": [1, 1]}),
    "gradients of several batches make a step": Case(
        (BATCH * 3 + "s4") * 2, [f"{TRAINED}, {TRAINED}, {PLAIN}"] * 2, {"samples": [24] * 2, "losses": [3] * 2}
    ),
    "a mean of gradients by hand is the aggregation": Case(
        BATCH + "p10 r5 s4", [f"{TRAINED}, aggregate 15, optimizer 4"]
    ),
    "what follows backward without a collective is none": Case(
        BATCH + "p10 s4", [f"{TRAINED}, between 10, optimizer 4"]
    ),
    "an evaluation is no step": Case(
        STEP + "f20~ p30 f20~ p30 f1-~" + STEP, [PLAIN, f"between 101, {PLAIN}"], {"samples": [8, 8]}
    ),
    # As transformers does: gradients are switched off after the batch is there.
    "an evaluation that shows only in its forward": Case(
        STEP + "f20 d30~ f20 d30~" + STEP, [PLAIN, f"between 100, {PLAIN}"], {"samples": [8, 8]}
    ),
    # Of a model that is no DDP, and does record gradients or switches them off by itself.
    "an evaluation that shows only in that nothing came to backward": Case(
        STEP + "f20! p30 f20 p30 f1-" + STEP, [PLAIN, f"between 101, {PLAIN}"], {"samples": [8, 8], "epochs": [0, 0]}
    ),
    "an evaluation between batches whose gradients add up is in no phase": Case(
        "f1! p2 b3 f20! p30 f1-" + STEP, [f"{TRAINED}, between 51, {PLAIN}"], {"samples": [16], "epochs": [0]}
    ),
    "a second loader that begins anew is no evaluation": Case(
        "f1 f1- f1! p2 b3 s4" * 2, ["data 3, forward 2, backward 3, optimizer 4"] * 2, {"samples": [16, 16]}
    ),
    "passes are counted where batches are fetched ahead": Case(
        "f1! f1 b3 s4 f1- b3 s4 f1! f1-" * 2, None, {"epochs": [0, 0, 1, 1], "samples": [16, 0] * 2}
    ),
    # A model that is no DDP shows at its first backward.
    "a pass that had begun before the loop was seen is the first": Case(
        "b3 s4 f1 b3 s4 f1! b3 s4 f1! b3 s4 f1!", None, {"epochs": [0, 0, 1, 2]}
    ),
    "an optimizer that calls the loop itself": Case("f1 s4(p2 b3)" * 2, [OF_CLOSURE] * 2),
    "an optimizer that calls the loop for the last of several batches": Case(
        (BATCH + "r5 f1 s4(p2 b3)") * 2, [f"{TRAINED}, between 5, {PLAIN}"] * 2
    ),
    # In the last call the model is no DDP: nobody can tell when it began.
    "an optimizer that calls the loop more than once": Case(
        "s4(d2 p1 b3 p5 d2 p1 b3 p5 p2 b3)",
        ["forward 3, backward 3, optimizer 5, forward 3, backward 3, optimizer 7, backward 3, optimizer 4"],
    ),
    "two optimizers that call the loop themselves": Case(
        "f1 s4(p2 b3) s4@2(p2 b3)" * 2, [f"{PLAIN}, forward 2, backward 3, optimizer 4"] * 2
    ),
    "an optimizer that is compiled is in no phase and ends its step": Case(
        (BATCH + "p4 u") * 3, [f"{TRAINED}, between 4"] * 3, {"losses": [1] * 3}
    ),
    "one that is compiled, without a loader": Case(
        "p2 b3 p4 u" * 3, ["between 2, backward 3, between 4"] * 3, {"losses": [1] * 3}
    ),
    # By register_post_accumulate_grad_hook.
    "a backward that calls an optimizer for each parameter": Case(
        "f1 p2 b3(s4 s5@2)" * 3, ["data 1, forward 2, optimizer 9, backward 3"] * 3, {"losses": [1] * 3}
    ),
    "a backward that does so, without a loader": Case(
        "p2 b3(s4 s5@2)" * 3, ["between 2, optimizer 9, backward 3"] * 3, {"losses": [1] * 3}
    ),
    "a scaler around an optimizer is one step": Case("f1 p2 b3 s1(s3)" + STEP, [PLAIN] * 2),
    "two optimizers step in one step": Case("f1 b3 s4 b3 s4@2" * 4, None, {"losses": [2] * 4}),
    # The first optimizer's first step looks like a whole one: the second is not known yet.
    "two optimizers without a loader": Case("b3 s4 b3 s4@2" * 4, None, {"losses": [1, 2, 2, 2, 1]}),
    # In the first 10, a batch is made, and forward runs: who can tell?
    "without a loader only what is sure is called a phase": Case(
        "p10 b3 s4" * 3, ["between 10, backward 3, optimizer 4"] * 3
    ),
    "without a loader ddp shows where forward begins": Case(
        "p10 d2 p1 b3 s4" * 3, ["between 10, forward 3, backward 3, optimizer 4"] * 3
    ),
    # Of a teacher, or a target network.
    "a forward without gradients before the one that trains takes no batch away": Case(
        "f1 d5~ d2 b3 s4" * 2, ["data 1, between 5, forward 2, backward 3, optimizer 4"] * 2, {"samples": [8, 8]}
    ),
    # Activations are made anew.
    "a backward within backward has no loss of its own": Case("f1 p2 b0(b3) s4", [PLAIN], {"losses": [1]}),
    # next(iter(loader)), to print its shape.
    "a batch that is only looked at has no samples of a step": Case(
        "f1! f1! b3 s4 f1 b3 s4 f1 b3 s4 f1-" * 2, None, {"samples": [8] * 6}
    ),
    "a pass that is left before its end keeps the samples of its steps": Case(
        "f1! b3 s4 f1 b3 s4 f1" * 2, None, {"samples": [8] * 4}
    ),
    "batches of several loaders that come to backward together all count": Case(
        "f1! f1!@2 b3 s4 f1 f1@2 b3 s4", None, {"samples": [16] * 2}
    ),
    # LBFGS.
    "an optimizer that looks at a loss from several places has one loss": Case(
        "f1 s4(b3 b3 b3)", None, {"losses": [1]}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_loop_is_seen_as_its_phases_and_steps(case: Case, training: Training) -> None:
    training.calls(case.calls)
    training.loop.close()
    if case.phases is not None:
        assert [pieces(cut.timer) for cut in training.seen] == case.phases
    assert {name: training.figures(name) for name in case.figures} == case.figures


def test_steps_leave_no_time_out(training: Training) -> None:
    training.calls((STEP + "p7") * 4)
    training.loop.close()
    ends = [(cut.timer.moments[0], cut.timer.moments[-1]) for cut in training.seen]
    assert all(end == begin for (_, end), (begin, _) in pairwise(ends))


def test_an_optimizer_that_had_begun_before_its_loop_was_seen(training: Training) -> None:
    training.calls("b3")  # within the optimizer's closure: it shows that there is a loop
    training.loop.optimizer_ends(1)
    training.calls(STEP)
    training.loop.close()
    assert training.figures("losses") == [2]


def test_forward_is_over_for_the_calls_of_backward_and_not_for_those_of_the_next_forward(training: Training) -> None:
    training.calls("f1")
    assert not training.loop.timer.forward_is_over
    training.loop.forward_begins(True)  # DDP broadcasts buffers here
    assert not training.loop.timer.forward_is_over
    training.loop.forward_ends(True)
    training.loop.backward_begins()
    assert training.loop.timer.forward_is_over
    training.loop.backward_ends()
    training.calls("f1")  # of the same step: gradients add up
    assert not training.loop.timer.forward_is_over


def test_where_a_loop_says_that_a_step_ends_no_other_sign_counts(training: Training) -> None:
    for _ in range(3):
        training.calls(STEP * 2)
        training.loop.step_ends(7.0, 5)
    training.loop.close()
    phases = [pieces(cut.timer) for cut in training.seen]
    assert phases == [PLAIN, PLAIN, f"{PLAIN}, {PLAIN}", f"{PLAIN}, {PLAIN}"]  # at first it had not said so yet
    assert [(cut.samples, cut.losses) for cut in training.seen[2:]] == [(21, [7.0])] * 2


def test_batches_fetched_ahead_of_their_step_are_counted_once(training: Training) -> None:
    training.calls("f1! f1 b3 s4 f1 b3 s4 f1 b3 s4 f1 f1- f1! b3 s4")
    training.calls("b3 s4 f1 b3 s4 f1 b3 s4 f1 f1- f1! b3 s4")
    training.loop.close()
    assert sum(training.figures("samples")) == 8 * (1 + 4 + 1 + 3 + 1)  # the last one is of a pass that was not made


def test_the_phase_is_named_once_a_call_has_shown_it(training: Training) -> None:
    assert training.loop.phase == "between steps"
    training.loop.data_begins(True)
    assert training.loop.phase == "data"
    training.loop.data_ends(8, True, is_first=True)
    assert training.loop.phase == "forward"
    training.calls("b3")
    assert training.loop.phase == "between steps"
