"""Every primitive and composite, on real ranks: every element that it leaves is what it should be, and is looked at."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import torch
import torch.distributed as dist

from ddptui.config.catalog import COMPOSITES, OPERATIONS, REDUCE_OPS, ReduceOpName
from ddptui.config.trial import Trial
from ddptui.config.values import make_trial
from tests.support.torches import GLOO_ONLY_SUMS, GLOO_REFUSES
from tests.support.worlds import run_ranks
from workers.aggregate import strategy_class
from workers.primitives import PRIMITIVES
from workers.primitives.operations import Composite
from workers.primitives.primitive import (
    PERIOD,
    Primitive,
    Readable,
    Scrambled,
    Setting,
    Works,
    reduce,
    wrong_elements,
)
from workers.primitives.rounds import (
    ROUNDS,
    Pipelined,
    Timer,
    calls_in_flight,
    count_wrong,
    plans_to_measure,
    plans_to_show,
    refusal_of,
)

ELEMENTS = (1, 7, 70_000)
MB = 2**20
FLOAT32, CPU = torch.float32, torch.device("cpu")
TAKEN = [name for name in OPERATIONS if name not in GLOO_REFUSES]


class Try(NamedTuple):
    """One primitive with one size and operator. composite: a strategy's name."""

    name: str
    op: ReduceOpName
    elements: int
    root: int
    composite: bool = False


def tries(ranks: int) -> Iterator[Try]:
    for name in TAKEN:
        facts = OPERATIONS[name]
        for op in REDUCE_OPS if facts.reduces and name not in GLOO_ONLY_SUMS else ("sum",):
            for elements in ELEMENTS if op == "sum" else ELEMENTS[-1:]:
                yield Try(name, op, elements, root=ranks - 1)
        yield Try(name, "sum", 5, root=0)
    for name in COMPOSITES:
        yield from (Try(name, "sum", elements, 0, composite=True) for elements in ELEMENTS)


def pipelined_tries() -> list[Try]:
    able = [name for name in TAKEN if OPERATIONS[name].pipelines]
    return [Try(name, "sum", elements, root=0) for name in able for elements in ELEMENTS[1:]]


def pipelined_of(what: Try, rank: int, ranks: int, *, share: bool) -> Primitive:
    """share: all calls that are in flight have the buffers of the first."""
    several = Pipelined(Setting(rank, ranks, what.root, what.elements, FLOAT32, CPU, what.op), PRIMITIVES[what.name], 3)
    if share:
        several.calls = several.calls[:1] * 3
    return several


def primitive_of(what: Try, rank: int, ranks: int) -> Primitive:
    setting = Setting(rank, ranks, what.root, what.elements, FLOAT32, CPU, what.op)
    if what.composite:
        return Composite(setting, strategy_class(what.name)(Trial(world_size=ranks)))
    return PRIMITIVES[what.name](setting)


def run_rank(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    counts = [count_wrong(primitive_of(what, rank, ranks), seed) for seed, what in enumerate(tries(ranks))]
    looked_at = [elements_of(primitive_of(what, rank, ranks)) for what in tries(ranks)]
    seen = {name: see(name, rank, ranks) for name in TAKEN}
    pipelined = [
        [count_wrong(pipelined_of(what, rank, ranks, share=share), seed) for seed, what in enumerate(pipelined_tries())]
        for share in (False, True)
    ]
    (Path(folder) / f"{rank}.json").write_bytes(msgspec.json.encode((counts, looked_at, seen, pipelined)))
    dist.destroy_process_group()


def elements_of(primitive: Primitive) -> int:
    """How many elements are looked at."""
    numbers = Scrambled(1, primitive.reduce_op)
    primitive.fill(numbers)
    primitive.call()
    return sum(len(tensor) for tensor, _ in primitive.expected(numbers))


def see(name: str, rank: int, ranks: int) -> list[list[float]]:
    primitive = PRIMITIVES[name](Setting(rank, ranks, 0, 2, FLOAT32, CPU))
    primitive.fill(Readable(9))
    primitive.call()
    return [torch.cat(list(argument.tensors or [torch.empty(0)])).tolist() for argument in primitive.arguments()]


class World(NamedTuple):
    ranks: int
    counts: list[list[int]]
    looked_at: list[list[int]]
    seen: list[dict[str, list[list[float]]]]
    pipelined: list[list[list[int]]]  # of each rank, what is wrong, and what would be if calls shared their buffers


@pytest.fixture(scope="module", params=[3, pytest.param(4, marks=pytest.mark.rare)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp(f"primitives-{request.param}")
    run_ranks(run_rank, (request.param, str(folder)), request.param)
    kind = tuple[list[int], list[int], dict[str, list[list[float]]], list[list[int]]]
    told = [msgspec.json.decode((folder / f"{rank}.json").read_bytes(), type=kind) for rank in range(request.param)]
    return World(request.param, *map(list, zip(*told, strict=True)))


def test_every_element_is_what_it_should_be(world: World) -> None:
    for counts in world.counts:
        assert {what: count for what, count in zip(tries(world.ranks), counts, strict=True) if count} == {}


def test_every_element_is_what_it_should_be_with_several_calls_in_flight(world: World) -> None:
    for alone, _ in world.pipelined:
        assert {what: count for what, count in zip(pipelined_tries(), alone, strict=True) if count} == {}


def test_calls_in_flight_that_share_a_buffer_are_found(world: World) -> None:
    wrong = [sum(counts) for counts in zip(*(shared for _, shared in world.pipelined), strict=True)]
    unseen = {what.name for what, count in zip(pipelined_tries(), wrong, strict=True) if not count}
    assert unseen == {"barrier"}  # which has no buffers


def test_every_element_that_a_call_defines_is_looked_at(world: World) -> None:
    """On all ranks together, by the size of a tensor or part: n is the number of ranks."""
    n = world.ranks
    parts = {
        "send_recv": n - n % 2, "isend_irecv": 2 * n, "broadcast": n, "reduce": 1, "all_reduce": n, "gather": n + n,
        "all_gather": n + n * n, "scatter": n + n, "reduce_scatter": n + n * n, "all_to_all": 2 * n * n, "barrier": 0,
        "local_sum": 2 * n,
    }  # fmt: skip
    for number, what in enumerate(tries(n)):
        together = sum(looked_at[number] for looked_at in world.looked_at)
        assert together == what.elements * (n if what.composite else parts[what.name]), what


def test_what_moves_where_is_what_the_textbook_says(world: World) -> None:
    n, seen = world.ranks, world.seen
    own = [[10.0 * rank + 1, 10.0 * rank + 2] for rank in range(n)]
    whole = [[10.0 * rank + place for place in range(1, 2 * n + 1)] for rank in range(n)]
    total = [sum(column) for column in zip(*own, strict=True)]
    totals = [sum(column) for column in zip(*whole, strict=True)]
    everybodys = [number for part in own for number in part]
    for rank in range(n):
        mine, here = slice(2 * rank, 2 * rank + 2), seen[rank]
        assert here["broadcast"] == [own[0]]
        assert here["all_reduce"] == [total]
        assert here["gather"] == [own[rank], everybodys if rank == 0 else []]
        assert here["all_gather"] == [own[rank], everybodys]
        assert here["scatter"] == [whole[0] if rank == 0 else [], whole[0][mine]]
        assert here["reduce_scatter"] == [whole[rank], totals[mine]]
        if "all_to_all" in TAKEN:
            assert here["all_to_all"] == [whole[rank], [number for other in whole for number in other[mine]]]
        assert here["isend_irecv"] == [own[rank], own[(rank - 1) % n]]
        has_partner = rank < n - n % 2
        assert here["send_recv"] == [own[rank - rank % 2] if has_partner else []]
    assert seen[0]["reduce"] == [total]


class Counting(Primitive):
    """Counts its calls; each takes the seconds that `lasts` says, on a clock of its own."""

    def __init__(self, lasts: float) -> None:
        self.lasts = lasts
        self.calls = 0
        self.now_ns = 0
        super().__init__(Setting(0, 1, 0, 1, FLOAT32, CPU))

    def call(self) -> None:
        self.calls += 1
        self.now_ns += round(self.lasts * 1e9)

    def now(self) -> int:
        return self.now_ns

    def lengths(self, marks: list[int]) -> list[int]:
        return [later - earlier for earlier, later in pairwise(marks)]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("after_barrier", [False, True])
@pytest.mark.parametrize(
    ("lasts", "calls"),
    [(1e-4, 100), (0.05, 4), (7.0, 1)],  # as many as are wanted; as there is time for; one in any case
)
def test_the_warm_up_is_not_timed_and_long_calls_are_fewer(lasts: float, calls: int, after_barrier: bool) -> None:
    counting = Counting(lasts)
    timer = Timer(counting, counting)
    timer.warm_up(calls=3, most=100, most_s=1.0)
    for _ in range(ROUNDS):
        timer.round(after_barrier=after_barrier)
    assert timer.lengths_ns == [round(lasts * 1e9)] * ROUNDS * calls
    assert timer.calls == counting.calls == 3 + ROUNDS * (1 + calls)


LOG: list[str] = []


class LoggedWork(dist.Work):
    def wait(self, timeout: timedelta = timedelta()) -> bool:
        LOG.append("wait")
        return True


class Logged(Primitive):
    """Logs when its calls begin, and when one waits for them."""

    def begin(self, *, async_op: bool = True) -> Works:
        LOG.append("begin" if async_op else "call")
        return [LoggedWork(), None]


def test_all_are_begun_before_one_waits_for_any() -> None:
    LOG.clear()
    several = Pipelined(Setting(0, 1, 0, 1, FLOAT32, CPU), Logged, 3)
    several.call()
    assert LOG == ["begin"] * 3 + ["wait"] * 3
    assert several.transfers == len(several.in_flight()) == 3


@pytest.mark.parametrize(
    ("size", "iterations", "number"),
    [(4096, 100, 8), (0, 100, 8), (16 * MB, 100, 4), (64 * MB, 100, 2), (8192 * MB, 100, 2), (4096, 3, 3), (MB, 2, 2)],
)
def test_so_many_are_in_flight_and_of_large_ones_fewer(size: int, iterations: int, number: int) -> None:
    assert calls_in_flight(size, iterations) == number


class Refused(Primitive):
    def call(self) -> None:
        raise RuntimeError("ProcessGroupX does not\n  support alltoall")


def test_what_the_backend_cannot_is_said_in_its_words() -> None:
    assert refusal_of(Refused(Setting(0, 1, 0, 1, FLOAT32, CPU))) == "ProcessGroupX does not support alltoall"
    assert refusal_of(Counting(0.0)) is None


def test_sizes_are_counted_as_nccl_tests_counts_them() -> None:
    trial = make_trial({"primitives": "measure", "world_size": 4, "min_bytes": 1024, "max_bytes": 70_000})
    plans = {(plan.operation, plan.elements * plan.tensors * 4): plan for plan in plans_to_measure(trial)}
    assert {size for name, size in plans if name == "all_reduce"} == {1024, 4096, 16384, 65536}
    assert plans["all_reduce", 4096].elements == 1024  # of every rank's tensor
    assert plans["all_gather", 4096].elements == 256  # of every rank's part
    assert [size for name, size in plans if name == "barrier"] == [0]


def test_a_size_that_cannot_be_cut_into_equal_parts_is_what_it_comes_to() -> None:
    wanted = {"world_size": 3, "operations": ["all_gather"], "min_bytes": 4, "max_bytes": 64, "step_factor": 16}
    plans = plans_to_measure(make_trial({"primitives": "measure", **wanted}))
    assert [plan.elements * plan.tensors * 4 for plan in plans] == [12, 60]


def test_all_operators_are_shown_and_of_many_ranks_single_elements() -> None:
    plans = plans_to_show(make_trial({"primitives": "see", "world_size": 8}))
    assert [plan.reduce_op for plan in plans if plan.operation == "reduce"] == list(REDUCE_OPS)
    assert {plan.elements for plan in plans if OPERATIONS[plan.operation].in_parts} == {1}
    assert "local_sum" not in {plan.operation for plan in plans}


# The numbers that primitives are checked with: what is lost, misplaced or added up wrongly must show.


def test_the_tens_say_whose_number_it_is() -> None:
    assert Readable(8).of(3, 4).tolist() == [31, 32, 33, 34]
    assert Readable(12).of(3, 12).tolist() == list(range(301, 313))


def test_elements_that_are_wrong_or_in_the_wrong_place_are_counted() -> None:
    """A sum over the tensor, or equal numbers in every block, would hide the latter."""
    wanted = Scrambled(seed=0).of(0, 4 * 65_536)
    for spoil in (torch.nan, torch.inf, 0.0, 0.5):
        found = wanted.float()
        found[17] = spoil
        assert wrong_elements(found, wanted, ranks=4) == 1
    for block in (1, 1024, 65_536):
        found = wanted.clone()
        found[:block], found[block : 2 * block] = wanted[block : 2 * block], wanted[:block]
        assert wrong_elements(found, wanted, ranks=2) > block
    for others in (Scrambled(seed=0).of(1, 1000), Scrambled(seed=1).of(0, 1000)):  # another rank's, another seed's
        assert wrong_elements(others, wanted[:1000], ranks=2) > 900


@pytest.mark.parametrize("op", REDUCE_OPS)
def test_what_recurs_is_what_adding_up_everything_comes_to(op: ReduceOpName) -> None:
    count, ranks = 2 * PERIOD + 5, 4
    numbers = Scrambled(7, op)
    everything = reduce(op, torch.stack([numbers.of(rank, count) for rank in range(ranks)]))
    assert torch.equal(numbers.reduced(op, ranks, count), everything)


def test_sums_and_products_are_exact_in_float32() -> None:
    """Of 4096 ranks, too."""
    wanted = Scrambled(seed=3).of(1, 100_000)
    assert wanted.min() >= 1
    assert 4096 * wanted.max() < 2**24
    numbers = Scrambled(0, "product")
    assert set(numbers.of(0, 1000).tolist()) == {2.0, 4.0}


def test_a_mean_may_lose_its_last_bits_and_no_more() -> None:
    wanted = Scrambled(seed=5).reduced("avg", 3, 1000)
    by_division = Scrambled(seed=5).reduced("sum", 3, 1000).float() / 3
    by_reciprocal = Scrambled(seed=5).reduced("sum", 3, 1000).float() * torch.tensor(1 / 3)
    assert wrong_elements(by_division, wanted, ranks=3) == wrong_elements(by_reciprocal, wanted, ranks=3) == 0
    assert wrong_elements(by_division * 1.00001, wanted, ranks=3) == 1000
