"""Both ways of seeing collectives, the group's hooks and wrapping torch's functions, give the same record of every
strategy, in a group of one and between real ranks; they leave no trace, and nobody waits for them."""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddptui.config.catalog import STRATEGIES
from ddptui.config.trial import Bottleneck, Trial
from ddptui.wire.messages import Collective, Position, Step
from tests.support.leaving import leave
from tests.support.torches import ALL_TO_ALL, HOOKS
from tests.support.worlds import one_rank, run_ranks, tiny_trial
from workers.aggregate import strategy_of
from workers.instruments import hooks as module
from workers.instruments import tap as tap_module
from workers.instruments.clock import Clock
from workers.instruments.hooks import METHODS
from workers.instruments.progress import Progress, collective_messages
from workers.instruments.records import Call, PhaseTimer, StepRecord
from workers.instruments.reporter import Reporter
from workers.instruments.tap import FEW_WORKS, Tap
from workers.train import train
from workers.training.instruments import make_tap

WAYS = (True, False) if module.group_takes_hooks() else (False,)
STEPS = 4
# torch 2.14 calls the older names deprecated; torches without the newer names know only these.
ALL_GATHER_TENSOR = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
REDUCE_SCATTER_TENSOR = "reduce_scatter_single" if hasattr(dist, "reduce_scatter_single") else "reduce_scatter_tensor"
PARAMETERS = 6  # of a perceptron with one hidden layer and BatchNorm
BUFFERS = 2  # dtypes of its buffers: each is broadcast at once
LATE = Bottleneck(at="aggregate", ranks=(0, 1), sleep_ms=2, per="call", from_step=STEPS - 1)


class Listener(Progress):
    """Keeps what the console would have got."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank, 0, Reporter(rank))
        self.steps: list[Step] = []

    def step(self, mark: StepRecord, clock: Clock) -> None:
        self.steps += [message for message in self.messages(mark, clock) or [] if isinstance(message, Step)]


def learn(strategy: Any, rank: int, ranks: int, *bottlenecks: Bottleneck) -> list[Step]:
    """Train a tiny model with the real loop; what a rank tells of its steps."""
    trial = tiny_trial(strategy, world_size=ranks, batch_norm=True, steps=STEPS, bottleneck=bottlenecks)
    listener = Listener(rank)
    train(one_rank(trial, rank), strategy_of(trial), listener)
    return listener.steps


def seen_by(calls: list[Call]) -> list[Collective]:
    return list(collective_messages(calls, [moment for call in calls for moment in call.moments()], buckets=False))


def tapped(network: nn.Module | None = None, strategy: str = "all_reduce") -> Tap:
    facts = STRATEGIES[strategy]
    return Tap(Clock(), network or nn.Linear(1, 1), buckets=facts.buckets, overlaps=facts.overlaps)


def after_forward(step: Step) -> list[Collective]:
    """What DDP's forward broadcasts in C++, hooks see one by one, and a function that is wrapped as a whole."""
    data, forward, *_ = step.phases_ns
    return [each for each in step.collectives if each.called_ns >= step.begin_ns + data + forward]


def what(operations: list[Collective], first: int = 0) -> list[tuple[Any, ...]]:
    """All of a record but its times; counted from `first` on."""
    return [(each.kind, each.seq - first, each.bytes, each.root, each.group, each.bucket) for each in operations]


# Between two real ranks


class Told(msgspec.Struct):
    steps: dict[str, list[list[Step]]]  # by strategy: with each way of looking
    delayed: list[list[Step]]
    by_hand: list[list[Collective]]


def look(hooks: bool) -> None:
    module.group_takes_hooks = lambda: hooks


def rank_of_two(rank: int, folder: str, ranks: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    pair = dist.new_group([0, 1])
    told = Told({}, [], [])
    for strategy in STRATEGIES:
        told.steps[strategy] = []
        for hooks in WAYS:
            look(hooks)
            told.steps[strategy].append(learn(strategy, rank, ranks))
    for hooks in WAYS:
        look(hooks)
        told.delayed.append(learn("reduce_broadcast", rank, ranks, LATE))
        told.by_hand.append(by_hand(rank, pair))
    Path(folder, f"rank-{rank}.json").write_bytes(msgspec.json.encode(told))
    leave()


def by_hand(rank: int, pair: Any) -> list[Collective]:
    other = 1 - rank
    tensor, room = torch.ones(3), torch.empty(3)
    tap = tapped()
    tap.begin(PhaseTimer(Clock()))
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, group=pair)
    dist.all_reduce(tensor, group=pair)
    dist.broadcast(tensor, src=1, group=pair)
    dist.barrier()
    for sender in (0, 1):
        if rank == sender:
            dist.send(tensor, other)
        else:
            dist.recv(room, other)
    works = [dist.isend(tensor, other), dist.irecv(room, other)]
    for work in works:
        work.wait()
    calls = tap.end()
    tap.close()
    return seen_by(calls)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    folder = tmp_path_factory.mktemp("pair")
    run_ranks(rank_of_two, (str(folder), 2), 2)
    return [msgspec.json.decode((folder / f"rank-{rank}.json").read_bytes(), type=Told) for rank in (0, 1)]


@HOOKS
def test_between_ranks_both_ways_give_the_same_record(pair: list[Told]) -> None:
    for strategy, told in ((strategy, told) for strategy in STRATEGIES for told in pair):
        hooks, wrapped = told.steps[strategy]
        assert len(hooks) == len(wrapped) == STEPS
        for one, other in zip(hooks, wrapped, strict=True):
            if STRATEGIES[strategy].is_ddp:
                one_after, other_after = after_forward(one), after_forward(other)
                assert one_after
                assert what(one_after, one_after[0].seq) == what(other_after, other_after[0].seq), strategy
            else:
                assert what(list(one.collectives)) == what(list(other.collectives)), strategy


CALLS = {
    "none": 0, "all_reduce": PARAMETERS, "all_reduce_async": PARAMETERS, "reduce_broadcast": 2 * PARAMETERS,
    "gather_scatter": 2 * PARAMETERS, "all_gather": PARAMETERS, "reduce_scatter_all_gather": 2 * PARAMETERS,
    "ring": 4 * PARAMETERS, "flat": 1,
}  # fmt: skip


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_between_ranks_every_collective_is_seen_with_times_in_order_within_its_step(way: int, pair: list[Told]) -> None:
    for strategy in STRATEGIES:
        for step in (step for told in pair for step in told.steps[strategy][way]):
            for each in step.collectives:
                assert step.begin_ns <= each.called_ns <= each.enter_ns <= min(each.awaited_ns, each.exit_ns)
                assert max(each.awaited_ns, each.exit_ns) <= step.end_ns
            if strategy in CALLS:
                assert len(after_forward(step)) == CALLS[strategy], strategy
                in_forward = len(step.collectives) - CALLS[strategy]
                assert in_forward == (BUFFERS if strategy != "none" else 0), strategy


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_buckets_are_numbered_as_they_leave(way: int, pair: list[Told]) -> None:
    whole = sum(each.bytes for each in after_forward(pair[0].steps["all_reduce"][way][-1]))
    for strategy, facts in ((name, facts) for name, facts in STRATEGIES.items() if facts.buckets):
        last = after_forward(pair[0].steps[strategy][way][-1])
        assert [each.bucket for each in last] == list(range(len(last)))
        assert len(last) > 1, strategy
        assert sum(each.bytes for each in last) == whole // (2 if facts.rounding else 1), strategy


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_what_runs_in_the_background_is_waited_for_later_than_it_was_entered(way: int, pair: list[Told]) -> None:
    for strategy in ("all_reduce_async", "bucketed", "ddp"):
        for step in (step for told in pair for step in told.steps[strategy][way][1:]):
            assert all(each.awaited_ns > each.enter_ns for each in after_forward(step)), strategy
    for step in pair[0].steps["all_reduce"][way]:
        assert all(each.awaited_ns == each.enter_ns for each in step.collectives)


@HOOKS
def test_torch_ddp_waits_for_all_its_buckets_once_the_last_is_issued(pair: list[Told]) -> None:
    for step in (step for told in pair for step in told.steps["ddp"][0][1:]):
        operations = after_forward(step)
        [awaited] = {each.awaited_ns for each in operations}
        assert max(each.enter_ns for each in operations) < awaited < max(each.exit_ns for each in operations)


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_a_delay_lies_between_the_call_and_the_entry_and_never_in_forward(way: int, pair: list[Told]) -> None:
    for told in pair:
        *before, last = told.delayed[way]
        assert not any(step.slept for step in before)
        operations = after_forward(last)
        assert len(last.slept) == len(operations) == 2 * PARAMETERS
        for each, slept in zip(operations, last.slept, strict=True):
            assert each.called_ns <= slept.begin_ns < slept.end_ns <= each.enter_ns
            assert each.enter_ns - each.called_ns >= 2e6
        for each in last.collectives[:BUFFERS]:
            assert each.enter_ns - each.called_ns < 2e6


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_groups_count_apart_and_partners_name_each_other(way: int, pair: list[Told]) -> None:
    for rank, told in enumerate(pair):
        other = 1 - rank
        seen = [(each.kind, each.seq, each.root, each.group) for each in told.by_hand[way]]
        first, second = ("send", "recv") if rank == 0 else ("recv", "send")
        assert seen == [
            ("all_reduce", 0, None, ()),
            ("all_reduce", 0, None, (0, 1)),
            ("all_reduce", 1, None, (0, 1)),
            ("broadcast", 2, 1, (0, 1)),
            ("barrier", 1, None, ()),
            (first, 0, other, ()),
            (second, 0, other, ()),
            ("send", 0, other, ()),
            ("recv", 0, other, ()),
        ]
        assert {each.bytes for each in told.by_hand[way] if each.kind != "barrier"} == {12}


# In a group of one


@pytest.fixture
def tap(alone: None, way: None) -> Iterator[Tap]:
    """One with a step under way."""
    made = tapped()
    made.begin(PhaseTimer(Clock()))
    yield made
    made.close()


@pytest.mark.usefixtures("alone", "way")
def test_numbers_begin_afresh_in_each_step_count_on_each_group_and_nothing_counts_outside_a_step() -> None:
    group: Any = dist.new_group([0])
    tap = tapped()
    for _ in range(2):
        dist.all_reduce(torch.ones(9))
        tap.begin(PhaseTimer(Clock()))
        dist.all_reduce(torch.ones(1))
        dist.broadcast(torch.ones(1), src=0, group=group)
        dist.all_reduce(torch.ones(1))
        assert what(seen_by(tap.end())) == [
            ("all_reduce", 0, 4, None, (), None),
            ("broadcast", 0, 4, 0, (0,), None),
            ("all_reduce", 1, 4, None, (), None),
        ]
    tap.close()


@pytest.mark.parametrize(
    ("kind", "call", "root", "size"),
    [
        ("all_reduce", lambda ones, room: dist.all_reduce(ones), None, 12),
        ("reduce", lambda ones, room: dist.reduce(ones, dst=0), 0, 12),
        ("broadcast", lambda ones, room: dist.broadcast(ones, src=0), 0, 12),
        ("gather", lambda ones, room: dist.gather(ones, [room]), 0, 12),
        ("scatter", lambda ones, room: dist.scatter(room, [ones]), 0, 12),
        ("all_gather", lambda ones, room: dist.all_gather([room], ones), None, 12),
        ("all_gather", lambda ones, room: getattr(dist, ALL_GATHER_TENSOR)(room, ones), None, 12),
        ("reduce_scatter", lambda ones, room: dist.reduce_scatter(room, [ones]), None, 12),
        ("reduce_scatter", lambda ones, room: getattr(dist, REDUCE_SCATTER_TENSOR)(room, ones), None, 12),
        pytest.param("all_to_all", lambda ones, room: dist.all_to_all([room], [ones]), None, 12, marks=ALL_TO_ALL),
        ("all_to_all", lambda ones, room: dist.all_to_all_single(room, ones), None, 12),
        ("barrier", lambda ones, room: dist.barrier(), None, None),
    ],
)
def test_each_function_is_recorded_by_its_name_with_its_root_and_its_bytes(
    tap: Tap, kind: str, call: Callable[[torch.Tensor, torch.Tensor], None], root: int | None, size: int | None
) -> None:
    call(torch.ones(3), torch.empty(3))
    [each] = seen_by(tap.end())
    assert (each.kind, each.seq, each.root, each.group) == (kind, 0, root, ())
    assert size is None or each.bytes == size
    assert each.called_ns <= each.enter_ns == each.awaited_ns <= each.exit_ns


def test_an_operation_in_the_background_is_over_when_its_wait_is_and_with_its_call_if_nobody_waits(tap: Tap) -> None:
    work = dist.all_reduce(torch.ones(1), async_op=True)
    unawaited = dist.all_reduce(torch.ones(1), async_op=True)
    between = Clock().now()
    work.wait()
    after = Clock().now()
    each, other = seen_by(tap.end())
    unawaited.wait()
    assert each.enter_ns < between < each.awaited_ns <= each.exit_ns < after
    assert other.enter_ns <= other.awaited_ns == other.exit_ns <= between


def test_of_a_step_that_never_ends_few_works_are_held_that_are_over(tap: Tap) -> None:
    still = dist.all_reduce(torch.ones(1), async_op=True)
    for _ in range(3 * FEW_WORKS):
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()
    assert len(tap._works) <= FEW_WORKS + 1
    before = Clock().now()
    still.wait()
    first, *_ = seen_by(tap.end())
    assert first.exit_ns >= first.awaited_ns > before


@pytest.mark.usefixtures("alone", "way")
def test_what_python_has_waited_for_beside_a_torch_ddp_is_over_then() -> None:
    tap = tapped(nn.parallel.DistributedDataParallel(nn.Linear(1, 1)))
    tap.begin(PhaseTimer(Clock()))
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    after = Clock().now()
    tap.settle()  # DDP has waited for what it has issued itself
    [each] = seen_by(tap.end())
    tap.close()
    assert each.awaited_ns <= each.exit_ns < after


@pytest.mark.usefixtures("alone", "way")
def test_of_buckets_all_but_the_last_are_asked_for_when_they_are_over() -> None:
    tap = tapped(None, "bucketed")
    for number in range(2):
        timer = PhaseTimer(Clock())
        tap.begin(timer)
        timer.end("data")
        timer.end("forward")
        works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(3)]
        for work in works:
            work.wait()
        calls = tap.end()
        if number == 0:  # how many there will be is not known yet
            assert [call.notified for call in calls] == [None, None, None]
    deadline = time.monotonic() + 10
    while None in [call.notified for call in calls[:2]] and time.monotonic() < deadline:
        time.sleep(0.001)  # the answers come in a thread of torch's
    tap.close()
    assert [call.notified is not None for call in calls] == [True, True, False]


class Behind(Clock):
    """Of a device that has come as far as `at`, while the host goes on."""

    def __init__(self) -> None:
        self.ticks = count()
        self.at = 0

    def now(self) -> int:
        return next(self.ticks)

    def reached(self, mark: int) -> bool:
        return mark <= self.at


def make_a_step(tap: Tap, clock: Clock, number: int) -> tuple[PhaseTimer, list[Call]]:
    timer = PhaseTimer(clock, number)
    tap.begin(timer)
    timer.end("data")
    dist.all_reduce(torch.ones(1))
    work = dist.broadcast(torch.ones(1), src=0, async_op=True)
    timer.end("forward")
    work.wait()
    timer.end("backward")
    return timer, tap.end()


@pytest.mark.usefixtures("alone", "way")
def test_where_a_rank_is_the_device_says_and_not_the_loop_that_runs_ahead() -> None:
    clock = Behind()
    tap = Tap(clock, nn.Linear(1, 1))
    (timer, [reduced, sent]), _ = [make_a_step(tap, clock, number) for number in (5, 6)]
    data, forward = ("data",), ("data", "forward")
    sent_at = {"number": 1, "kind": "broadcast", "root": 0, "bytes": 4}
    for at, place in (
        (timer.moments[0], Position(5)),
        (reduced.enter, Position(5, data, 1, 0, "all_reduce", bytes=4)),
        (reduced.ended, Position(5, data, 1)),
        (sent.enter, Position(5, data, 2, **sent_at, ahead=True)),
        (sent.awaited, Position(5, forward, 2, **sent_at)),
        (sent.ended, Position(5, forward, 2)),
    ):
        clock.at = at
        assert tap.position() == place
    clock.at = timer.moments[-1]
    assert tap.position().step == 6
    clock.at = next(clock.ticks)
    assert tap.position() == Position()
    tap.close()


@pytest.mark.usefixtures("alone", "way")
def test_by_the_hosts_clock_a_rank_is_where_its_loop_is_and_steps_are_not_kept() -> None:
    tap = Tap(Clock(), nn.Linear(1, 1))
    make_a_step(tap, Clock(), 5)
    assert tap.position() == Position()
    assert not tap._behind
    tap.begin(PhaseTimer(Clock(), 6))
    assert tap.position() == Position(6)
    dist.all_reduce(torch.ones(1))
    assert tap.position() == Position(6, (), 1)
    tap.close()


@pytest.mark.usefixtures("alone", "way")
def test_closing_leaves_no_trace() -> None:
    def functions() -> dict[str, Any]:
        groups = {name: getattr(dist.ProcessGroup, name, None) for names in METHODS.values() for name in names}
        ddp = DistributedDataParallel
        return groups | {
            "wait": dist.Work.wait, "forward": ddp._run_ddp_forward, "buffers": ddp._distributed_broadcast_coalesced,
        }  # fmt: skip

    before = functions()
    tap = tapped()
    tap.begin(PhaseTimer(Clock()))
    tap.close()
    assert functions() == before
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    assert tap.end() == []
    again = tapped()  # the groups take hooks once more
    again.begin(PhaseTimer(Clock()))
    dist.all_reduce(torch.ones(1))
    assert len(again.end()) == 1
    again.close()


@pytest.mark.usefixtures("alone", "way")
def test_functions_that_a_module_has_imported_by_name_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    users = ModuleType("users")
    monkeypatch.setitem(sys.modules, "users", users)
    users.mean = function = dist.all_reduce
    tap = tapped()
    tap.begin(PhaseTimer(Clock()))
    users.mean(torch.ones(1))
    kept = users.mean
    assert [call.kind for call in tap.end()] == ["all_reduce"]
    tap.begin(PhaseTimer(Clock()))
    tap.close()
    assert users.mean is function
    kept(torch.ones(1))
    assert tap.position() == Position()


def test_without_a_group_there_is_nothing_to_see() -> None:
    tap = Tap(Clock(), nn.Linear(1, 1))
    tap.begin(PhaseTimer(Clock()))
    assert tap.end() == []
    tap.close()


@pytest.mark.usefixtures("alone", "way")
@pytest.mark.parametrize(
    ("strategy", "bottlenecks", "instruments", "attached"),
    [
        ("all_reduce", (), "on", True),
        ("all_reduce", (), "off", False),
        ("all_reduce", (LATE,), "off", True),
        ("ddp", (Bottleneck(at="forward", ranks=(0,), sleep_ms=1),), "off", False),
    ],
)
def test_without_instruments_it_is_attached_only_where_a_delay_must_go_in_before_a_collective(
    strategy: Any, bottlenecks: tuple[Bottleneck, ...], instruments: Any, attached: bool
) -> None:
    wait = dist.Work.wait
    trial = Trial(strategy=strategy, world_size=1, bottleneck=bottlenecks, instruments=instruments)
    tap = make_tap(one_rank(trial), nn.Linear(1, 1), Clock())
    assert (dist.Work.wait is not wait) == attached
    tap.close()


@pytest.mark.usefixtures("alone", "way")
@pytest.mark.parametrize("strategy", ["all_reduce_async", "ddp"])
def test_it_waits_for_nothing_that_was_not_waited_for_without_it(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    wait = dist.Work.wait

    def watched(work: dist.Work, *arguments: Any) -> Any:
        waited.append(1)
        return wait(work, *arguments)

    def never(*_: Any) -> None:
        pytest.fail("synchronised")

    monkeypatch.setattr(dist.Work, "wait", watched)
    monkeypatch.setattr(torch.cuda, "synchronize", never)
    with monkeypatch.context() as untapped:
        untapped.setattr(tap_module, "attach", lambda *_, **_options: [])
        learn(strategy, 0, 1)
    without, waited[:] = len(waited), []
    learn(strategy, 0, 1)
    assert len(waited) == without
