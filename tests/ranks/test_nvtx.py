"""The ranges of NVTX that a rank opens: each step, in it each phase, in that each call; every one is closed again."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from workers.aggregate import strategy_of
from workers.instruments import hooks
from workers.instruments import nvtx as module
from workers.instruments.clock import Clock
from workers.instruments.delays import RankDelays
from workers.instruments.nvtx import RangedTap, RangedTimer, check_nvtx, range_name
from workers.instruments.progress import Progress
from workers.instruments.records import PhaseTimer, StepRecord
from workers.instruments.reporter import Reporter
from workers.instruments.tap import Tap
from workers.rank.group import leave_group
from workers.rank.process import Rank
from workers.train import train
from workers.training.instruments import make_tap, make_timer

STEPS = 4
CPU = torch.device("cpu")
HOOKS = pytest.mark.skipif(not hooks.group_takes_hooks(), reason="this torch's groups take no hooks")


class Range(NamedTuple):
    """One that was pushed, with the names of those around it, from the outermost on; and whether by the loop's thread:
    torch calls some collectives in threads of its own."""

    name: str
    around: tuple[str, ...]
    in_loop: bool = True


class FakeNvtx:
    """What torch.cuda.nvtx has of it. Each thread has a stack of its own; what is started is closed by its number."""

    def __init__(self) -> None:
        self.stacks: dict[int, list[str]] = defaultdict(list)
        self.pushed: list[Range] = []
        self.started: dict[int, str] = {}
        self.flown: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []  # name, and what was open at start and end
        self.marks: list[str] = []
        self._open_at_start: dict[int, tuple[str, ...]] = {}
        self._numbers = count(1)

    @property
    def stack(self) -> list[str]:
        return self.stacks[threading.get_ident()]

    def mark(self, name: str) -> None:
        self.marks.append(name)

    def range_push(self, name: str) -> int:
        in_loop = threading.get_ident() == threading.main_thread().ident
        self.pushed.append(Range(name, tuple(self.stack), in_loop))
        self.stack.append(name)
        return len(self.stack) - 1

    def range_pop(self) -> int:
        self.stack.pop()  # raises IndexError if there is none
        return len(self.stack)

    def range_start(self, name: str) -> int:
        number = next(self._numbers)
        self.started[number] = name
        self._open_at_start[number] = tuple(self.stack)
        return number

    def range_end(self, number: int) -> None:
        self.flown.append((self.started.pop(number), self._open_at_start.pop(number), tuple(self.stack)))

    def check_all_closed(self) -> None:
        assert not any(self.stacks.values()), f"still open: {dict(self.stacks)}"
        assert not self.started, f"never ended: {self.started}"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeNvtx:
    monkeypatch.setattr(module, "nvtx", fake := FakeNvtx())
    return fake


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    leave_group()


@pytest.fixture(params=[pytest.param(True, marks=HOOKS, id="hooks"), pytest.param(False, id="wrapped")])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, alone: None) -> None:
    monkeypatch.setattr(hooks, "group_takes_hooks", lambda: request.param)


class Listener(Progress):
    """Keeps the steps that the loop has made."""

    def __init__(self) -> None:
        super().__init__(0, 0, Reporter(0))
        self.records: list[StepRecord] = []

    def step(self, record: StepRecord, clock: Clock) -> None:
        self.records.append(record)


def learn(strategy: Any, **options: Any) -> list[StepRecord]:
    """Train a tiny model with the real loop."""
    trial = Trial(
        strategy=strategy, world_size=1, model="mlp", width=5, depth=1, batch_norm=True, dataset="random",
        shape=(6,), classes=3, samples=32, batch_size=8, steps=STEPS, warmup_steps=0,
        bucket_mb=0.0001 if STRATEGIES[strategy].buckets else None, **{"nvtx": True} | options,
    )  # fmt: skip
    listener = Listener()
    me = Rank(trial, 0, 1, CPU, Reporter(0), RankDelays((), 0, seed=0, warmup_steps=0))
    train(me, strategy_of(trial), listener)
    return listener.records


def check(fake: FakeNvtx, records: list[StepRecord]) -> None:
    """The ranges of steps and phases are those of the record, and each call's lies in a phase."""
    fake.check_all_closed()
    outer = [each for each in fake.pushed if each.in_loop and len(each.around) < 2]
    assert outer == [
        each
        for record in records
        for step in [f"step {record.step}"]
        for each in (Range(step, ()), *(Range(phase, (step,)) for phase in record.timer.phases))
    ]
    inner = [each for each in fake.pushed if each not in outer]
    calls = [call for record in records for call in record.calls]
    assert sorted(each.name for each in inner) == sorted(range_name(call.kind, call.size) for call in calls)
    assert all(len(each.around) == 2 * each.in_loop for each in inner), "a call's range lies in another call's"
    background = [f"{range_name(call.kind, call.size)} in the background" for call in calls if call.background]
    assert sorted(name for name, _, _ in fake.flown) == sorted(background)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_range_is_closed_again_and_lies_in_the_right_one(strategy: str, fake: FakeNvtx) -> None:
    check(fake, learn(strategy))


OPTIONS: dict[str, dict[str, Any]] = {
    "rounds": {"every": 2},
    "clipped": {"clip_norm": 1.0},
    "parameters": {"average": "parameters"},
    "parameters in rounds": {"average": "parameters", "every": 2},
    "own replicas": {"gpus_per_rank": 2},
    "without instruments": {"instruments": "off"},
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_also_with_any_option(options: dict[str, Any], fake: FakeNvtx) -> None:
    check(fake, learn("all_reduce", **options))


def test_the_range_of_a_step_is_closed_with_its_last_phase(fake: FakeNvtx) -> None:
    timer = RangedTimer(Clock(), 3, ("data", "forward"))
    timer.end("data")
    assert fake.stack == ["step 3", "forward"]
    timer.end("forward")
    fake.check_all_closed()


@pytest.mark.usefixtures("way")
def test_what_is_sent_in_backward_is_over_where_the_host_waits_for_it(fake: FakeNvtx) -> None:
    learn("bucketed")
    last = [(start[-1], end[-1]) for _, start, end in fake.flown if start[0] == f"step {STEPS - 1}" if len(start) == 2]
    assert ("backward", "aggregate") in last


def forget(method: str) -> Callable[..., None]:
    """A fake whose method does nothing."""
    return lambda patch: patch.setattr(FakeNvtx, method, lambda *_: 0)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("method", ["range_pop", "range_end"])
def test_a_range_that_is_not_closed_would_be_seen(method: str, fake: FakeNvtx, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(method)(monkeypatch)
    records = learn("all_reduce_async")
    with pytest.raises(AssertionError, match="still open" if method == "range_pop" else "never ended"):
        check(fake, records)


@pytest.mark.usefixtures("alone")
def test_a_phase_of_another_name_would_be_seen(fake: FakeNvtx, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = ("data", "forward", "backward", "optimizer", "aggregate")
    monkeypatch.setattr("workers.training.instruments.phases_of_step", lambda **_: swapped)
    records = learn("all_reduce")
    with pytest.raises(AssertionError):
        check(fake, records)


@pytest.mark.usefixtures("alone")
def test_what_the_loop_never_waits_for_is_closed_with_the_step(fake: FakeNvtx) -> None:
    tap = RangedTap(Clock(), nn.Linear(1, 1))
    for close in (tap.end, tap.close):
        tap.begin(PhaseTimer(Clock()))
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert list(fake.started.values()) == ["all_reduce 4 B in the background"]
        close()
        fake.check_all_closed()
        assert work is not None
        work.wait()


@pytest.mark.usefixtures("alone")
def test_between_two_steps_there_are_none(fake: FakeNvtx) -> None:
    tap = RangedTap(Clock(), nn.Linear(1, 1))
    dist.all_reduce(torch.ones(1))
    tap.close()
    assert fake.pushed == []


@pytest.mark.usefixtures("alone")
def test_without_the_option_nothing_is_in_the_way(fake: FakeNvtx) -> None:
    trial = Trial(strategy="all_reduce", world_size=1)
    me = Rank(trial, 0, 1, CPU, Reporter(0), RankDelays((), 0, seed=0, warmup_steps=0))
    tap = make_tap(me, nn.Linear(1, 1), Clock())
    tap.close()
    assert type(tap) is Tap
    assert type(make_timer(trial, Clock(), 0, averages=True, updates=True)) is PhaseTimer
    learn("ddp", nvtx=False)
    assert (fake.pushed, fake.flown, fake.marks) == ([], [], [])


def test_ranges_are_called_by_what_is_sent() -> None:
    assert [range_name(*what) for what in (("all_reduce", 4 * 2**20), ("send", 1536), ("barrier", 0))] == [
        "all_reduce 4 MB",
        "send 1.50 KB",
        "barrier",
    ]


@pytest.mark.usefixtures("alone")
def test_a_torch_without_nvtx_is_named_with_a_remedy_before_the_first_step(
    fake: FakeNvtx, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    monkeypatch.setattr(fake, "mark", fails)
    with pytest.raises(
        RuntimeError, match=r"^nvtx = true: this torch has no NVTX, .*: `pip install .*, or nvtx = false$"
    ):
        learn("all_reduce")
    assert fake.pushed == []


@pytest.mark.skipif(torch.version.cuda is None, reason="this torch is built without CUDA")
def test_torchs_own_takes_ranges_without_a_gpu() -> None:
    check_nvtx()
    timer = RangedTimer(Clock(), 3, ("data", "forward"))
    timer.end("data")
    timer.end("forward")
    module.nvtx.range_end(module.nvtx.range_start("in the background"))
