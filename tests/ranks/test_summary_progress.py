"""A rank without instruments says when it began and ended, and nothing in between; what is left out is only that."""

import pytest
import torch

from ddptui.config.trial import Trial
from ddptui.wire.messages import Pause, RankMessage, Trained
from tests.support.builders import ready
from tests.support.worlds import one_rank
from workers.instruments import reporter as reporter_module
from workers.instruments.clock import Clock
from workers.instruments.progress import Progress, SummaryProgress
from workers.instruments.records import PhaseTimer, StepRecord
from workers.instruments.reporter import STOOD_STILL_MS, Deferred, Reporter
from workers.training.instruments import make_progress

SAMPLES = 8


class Ear(Reporter):
    """Keeps what is said, as often as it must ask for it."""

    def __init__(self) -> None:
        super().__init__(0, heartbeat=False)
        self.sent: list[RankMessage] = []

    def send(self, message: RankMessage | Deferred) -> None:
        if not callable(message):
            self.sent.append(message)
            return
        while (messages := message()) is None:
            pass
        self.sent += messages


class SlowClock(Clock):
    """A device that is asked three times before it has got there."""

    asked = 0

    def resolve(self, marks: object) -> list[int] | None:
        self.asked += 1
        return super().resolve(marks) if self.asked > 3 else None  # type: ignore[arg-type]


def mark(step: int, loss: float = 0.5) -> StepRecord:
    timer = PhaseTimer(Clock())
    timer.moments = [1000 * step, 1000 * step + 400, 1000 * step + 900]
    timer.phases = ["data", "optimizer"]
    return StepRecord(step, 0, timer, SAMPLES, torch.tensor(loss), [], False, ())


def quiet(steps: int, warmup: int, clock: Clock | None = None, last_loss: float = 0.25) -> list[RankMessage]:
    ear, clock = Ear(), clock or Clock()
    progress = SummaryProgress(0, warmup, ear)
    progress.ready(ready(steps=steps))
    [_] = ear.sent
    for step in range(steps):
        assert len(ear.sent) == 1
        progress.step(mark(step, last_loss if step == steps - 1 else 9.0), clock)
    return ear.sent[1:]


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (10, 0), (4, 3), (10, 3)])
def test_it_says_once_when_it_began_and_ended(steps: int, warmup: int) -> None:
    assert quiet(steps, warmup) == [
        Trained(
            rank=0,
            first_ns=0,
            begin_ns=1000 * warmup,
            end_ns=1000 * (steps - 1) + 900,
            steps=steps - warmup,
            samples=SAMPLES * (steps - warmup),
            loss=0.25,
        )
    ]


def test_a_loss_that_is_no_number_is_none() -> None:
    [words] = quiet(5, 3, last_loss=float("nan"))
    assert isinstance(words, Trained)
    assert words.loss is None


def test_it_waits_for_the_device_only_at_the_end() -> None:
    clock = SlowClock()
    [words] = quiet(5, 3, clock)
    assert isinstance(words, Trained)
    assert clock.asked == 4


def test_the_trial_chooses() -> None:
    def kind(trial: Trial) -> type[Progress]:
        return type(make_progress(one_rank(trial, reporter=Ear())))

    assert kind(Trial()) is Progress
    assert kind(Trial(instruments="off")) is SummaryProgress


# The reporter


def test_a_thread_that_wakes_much_too_late_says_that_the_process_stood_still() -> None:
    half = reporter_module.LOOK_EVERY_MS * 1_000_000 // 2  # of the time between two looks
    late = STOOD_STILL_MS * 1_000_000 - half
    for later, noted in ((late + 1, [Pause(rank=0, begin_ns=5_000 - half, end_ns=5_001 + late)]), (late, [])):
        reporter = Reporter(0)
        reporter._note_pause(5_000, 5_000 + later)
        assert reporter._take() == [] == list(reporter._queue)
        assert reporter._unsent == noted
