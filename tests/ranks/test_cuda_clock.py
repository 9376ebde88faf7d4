"""The clock of a GPU, which is simulated: its times are within what is said of them, and nobody waits."""

import random
import threading

import pytest
import torch

from ddptui.text.words import DRIFT_PPM
from ddptui.wire.messages import Step, Tied
from tests.support.failing import failing
from tests.support.simulated_gpu import Event, Gpu, Stream, simulated, true_ns
from workers.instruments import cuda_clock as module
from workers.instruments.clock import Accuracy, Clock
from workers.instruments.cuda_clock import PATIENCE_NS, SPIN_NS, TIE_EVERY_NS, TRIES, WOBBLE_PPM, CudaClock, Mark
from workers.instruments.progress import Progress
from workers.instruments.records import PhaseTimer
from workers.instruments.records import StepRecord as StepMark
from workers.instruments.reporter import Reporter

S = 1_000_000_000  # ns
MS = 1_000_000
STEP_NS = 250 * MS
LOOK_NS = 200 * MS  # of the reporter


class Worst:
    """How far off times were, and by how much more than was said."""

    def __init__(self, said_before_ns: float) -> None:
        self.off_ns = 0.0
        self.beyond_ns = float("-inf")
        self.holds_ns = said_before_ns
        self.said: list[Accuracy] = []

    def look(self, clock: CudaClock, marks: list[Mark], times: list[int]) -> None:
        if said := clock.accuracy_change():
            self.said.append(said)
            self.holds_ns = said.error_ns
            assert said.from_ns == min(times)
        off_ns = max(abs(told - true) for told, true in zip(times, true_ns(marks), strict=True))
        self.off_ns = max(self.off_ns, off_ns)
        self.beyond_ns = max(self.beyond_ns, off_ns - self.holds_ns)


def train(gpu: Gpu, clock: CudaClock, seconds: float) -> Worst:
    """Steps one after another, the host one ahead of the device; they are read as the reporter does it."""
    draw, worst = random.Random(0), Worst(clock._reported_ns)
    queue: list[list[Mark]] = []
    end_ns, next_look = gpu.now_ns + seconds * S, 0
    while gpu.now_ns < end_ns:
        marks = [clock.now()]
        for _ in range(2):
            gpu.main.push(draw.uniform(0.8, 1.2) * STEP_NS / 2)
            marks.append(clock.now())
        queue.append(marks)
        until_ns = gpu.main.free_ns - STEP_NS
        while gpu.now_ns < until_ns:
            gpu.now_ns = round(min(until_ns, max(next_look, gpu.now_ns)))
            gpu.launch_ns = draw.choice([3_000, 6_000, 40_000])
            next_look = gpu.now_ns + LOOK_NS
            while queue and (times := clock.resolve(queue[0])):
                worst.look(clock, queue.pop(0), times)
    assert not gpu.synchronised
    return worst


@pytest.mark.parametrize("ppm", [-DRIFT_PPM, DRIFT_PPM])
def test_for_half_an_hour_times_are_within_what_is_said_of_them(gpu: Gpu, clock: CudaClock, ppm: float) -> None:
    gpu.ppm, gpu.wobble_ppm = ppm, WOBBLE_PPM / 2
    worst = train(gpu, clock, 1800)
    assert worst.beyond_ns <= 0
    assert 0 < worst.off_ns < 25_000  # a tie that takes 40 µs is off by half of it
    assert max(said.error_ns for said in worst.said) < 60_000
    assert len(worst.said) < 20


def test_while_no_tie_succeeds_times_go_on_at_the_pace_of_before(
    gpu: Gpu, clock: CudaClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU that two processes share. Drifting apart by 60 ppm, they would be 240 µs off."""
    train(gpu, clock, 30)
    monkeypatch.setattr(clock, "_best_of", lambda *_: None)
    worst = train(gpu, clock, 4)
    assert worst.off_ns < 40_000
    assert worst.said == [] or worst.said[-1].error_ns < 150_000


def test_a_busy_device_does_not_hold_the_thread_and_the_tie_before_stays(gpu: Gpu, clock: CudaClock) -> None:
    tie, mark = clock._tie, clock.now()
    gpu.pass_(TIE_EVERY_NS)
    gpu.launch_ns = S
    begin_ns = gpu.now_ns
    assert clock.resolve([mark]) is not None
    assert gpu.now_ns - begin_ns < PATIENCE_NS + 50_000
    assert gpu.slept_ns > 0.8 * (PATIENCE_NS - SPIN_NS), "Python's lock was held meanwhile"
    assert clock._tie is tie
    gpu.launch_ns = 5_000
    gpu.pass_(2 * S)
    assert clock.resolve([mark]) is not None
    assert clock._tie is not tie


def test_two_processes_that_share_the_gpu_are_tied_nevertheless(gpu: Gpu, clock: CudaClock) -> None:
    """Each has it for 2 ms: a tie waits for its turn, and the device's work takes twice as long."""
    gpu.slice_ns = 2 * MS
    ties = [clock._tie]
    for _ in range(10):
        worst = train(gpu, clock, 6)
        assert worst.beyond_ns <= 0
        assert worst.off_ns < 25_000
        ties.append(clock._tie)
    assert len({id(tie) for tie in ties}) == len(ties), "for six seconds no tie has succeeded"
    assert max(tie.error_ns for tie in ties[1:]) < 20_000


def test_it_ties_no_more_often_than_it_should_and_for_no_longer(gpu: Gpu, clock: CudaClock) -> None:
    mark = clock.now()
    gpu.pass_(TIE_EVERY_NS)
    begin_ns = gpu.now_ns
    clock.resolve([mark])
    assert gpu.now_ns - begin_ns < TRIES * 30_000
    tie = clock._tie
    gpu.pass_(TIE_EVERY_NS / 2)
    clock.resolve([mark])
    assert clock._tie is tie


def test_a_tie_that_is_worse_than_the_one_before_with_its_drift_is_not_taken(
    gpu: Gpu, clock: CudaClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tie, mark = clock._tie, clock.now()
    gpu.launch_ns = 2 * MS
    monkeypatch.setattr(module, "NAP_S", 200e-6)
    gpu.pass_(TIE_EVERY_NS)
    clock.resolve([mark])
    assert clock._tie is tie
    gpu.pass_(S)  # by then it is better than nothing
    clock.resolve([mark])
    assert clock._tie is not tie


def test_marks_of_a_stream_keep_their_order_whatever_ties_they_are_measured_by(gpu: Gpu, clock: CudaClock) -> None:
    """Else a phase between them would end before it begins."""
    for _ in range(2_000):
        gpu.main.push(3 * MS + gpu.now_ns % 777)
        early = clock.now()
        clock._due_ns = 0
        clock.resolve([])  # makes a tie
        late = clock.now()
        assert early.tie is not late.tie
        gpu.pass_(5 * MS)
        times = clock.resolve([late, early])
        assert times[1] <= times[0]


def test_a_signal_handler_may_mark_while_a_mark_is_taken(
    gpu: Gpu, clock: CudaClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, marks = Event.record, list[Mark | int]()

    def is_interrupted(event: Event, stream: Stream) -> None:
        monkeypatch.setattr(Event, "record", record)
        marks.append(clock.now())  # as a handler that calls a collective
        record(event, stream)

    monkeypatch.setattr(Event, "record", is_interrupted)
    thread = threading.Thread(target=lambda: marks.append(clock.now()), daemon=True)
    thread.start()
    thread.join(30)
    assert len(marks) == 2


def test_nothing_is_known_before_every_stream_has_got_there(gpu: Gpu, clock: CudaClock) -> None:
    other = Stream(gpu)
    other.push(S)
    with gpu.on(other):
        late = clock.now()
    last = clock.now()
    gpu.pass_(MS)
    assert clock.reached(last)
    assert not clock.reached(late)
    assert clock.resolve([late, last]) is None
    gpu.pass_(S)
    assert clock.reached(late)
    assert clock.resolve([late, last]) is not None


def test_a_mark_of_another_thread_is_on_that_threads_stream(gpu: Gpu, clock: CudaClock) -> None:
    marks: list[Mark] = []
    its_own = Stream(gpu)

    def of_autograd() -> None:
        with gpu.on(its_own):
            its_own.push(S)
            marks.append(clock.now())

    thread = threading.Thread(target=of_autograd)
    thread.start()
    thread.join()
    marks.append(clock.now())
    gpu.pass_(2 * S)
    times = clock.resolve(marks)
    assert times[0] - times[1] == pytest.approx(S, rel=0.001)


def test_lengths_do_not_suffer_from_the_way_to_a_tie(gpu: Gpu, clock: CudaClock) -> None:
    """A time that is an hour from its tie comes in steps of 0.25 ms: a float32 of milliseconds."""
    clock._due_ns = 2**62
    gpu.pass_(3600 * S)
    marks = [clock.now()]
    for work_ns in (7_000, 3_000, 2 * MS):
        gpu.main.push(work_ns)
        marks.append(clock.now())
    assert clock.lengths(marks) is None
    gpu.pass_(MS * 3)
    assert clock.lengths(marks) == [7_000, 3_000, 2 * MS]
    assert Clock().lengths([3, 5, 9]) == [2, 4]


def test_an_event_is_taken_again_once_nobody_has_its_mark(gpu: Gpu, clock: CudaClock) -> None:
    first, second = clock.now(), clock.now()
    events = [first.event, second.event]
    gpu.pass_(MS)
    times = clock.resolve([second])
    del first
    third, fourth = clock.now(), clock.now()
    assert third.event is events[0]
    assert fourth.event not in events
    assert clock.resolve([second]) == times


def test_a_value_is_read_on_a_stream_of_its_own_and_waits_for_no_other(gpu: Gpu, clock: CudaClock) -> None:
    read_on: list[Stream] = []

    class Loss(torch.Tensor):
        def item(self) -> float:
            read_on.append(gpu.current_stream())
            return 2.5

    assert clock.read(torch.Tensor._make_subclass(Loss, torch.zeros(()))) == 2.5
    assert read_on == [gpu.side]
    assert gpu.current_stream() is gpu.main


def test_a_device_that_has_failed_says_so(gpu: Gpu, clock: CudaClock, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = clock.now()
    monkeypatch.setattr(Event, "query", failing(RuntimeError("CUDA error: device-side assert triggered")))
    assert clock.reached(mark)  # so nobody waits for it
    with pytest.raises(RuntimeError, match="device-side assert"):
        clock.resolve([mark])


def test_a_device_that_does_not_answer_at_all_is_refused(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.launch_ns = 60 * S
    monkeypatch.setattr(module, "FIRST_PATIENCE_NS", MS)
    with pytest.raises(RuntimeError, match="cuda:0 did not answer within"):
        simulated(monkeypatch, gpu)


# What is told of it


def mark(clock: CudaClock, number: int) -> StepMark:
    timer = PhaseTimer(clock, number)
    for phase in ("data", "forward", "backward", "optimizer"):
        timer.end(phase)
    return StepMark(number, 0, timer, 8, torch.tensor(0.5), [], False, ())


def test_how_exact_times_are_is_told_before_the_step_that_it_holds_for_and_once(gpu: Gpu, clock: CudaClock) -> None:
    progress = Progress(3, 0, Reporter(3))
    gpu.main.push(MS / 2)
    first, second = mark(clock, 0), mark(clock, 1)
    assert progress.messages(first, clock) is None
    gpu.pass_(MS)
    told = progress.messages(first, clock)
    tied, step = told
    assert isinstance(tied, Tied)
    assert isinstance(step, Step)
    assert (tied.rank, tied.at_ns) == (3, step.begin_ns)
    assert [type(message) for message in progress.messages(second, clock) or []] == [Step]


def test_a_moment_keeps_its_time_and_order_when_the_next_tie_is_made(gpu: Gpu, clock: CudaClock) -> None:
    """Else a step might begin before the end of the one before it, and be left out."""

    def marks() -> list[Mark]:
        taken = []
        for _ in range(40):
            taken.append(clock.now())
            gpu.pass_(5 * MS)
        return taken

    early = marks()
    clock._due_ns = 2**62  # none is made meanwhile
    told = clock.resolve(early)
    late = marks()
    clock._due_ns = 0
    rest = clock.resolve(late)
    assert clock._tie is not late[0].tie
    assert told == clock.resolve(early)
    assert told + rest == sorted(told + rest)
