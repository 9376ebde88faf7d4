"""A small world of ranks: own work and transfers in, the steps that its ranks would tell of out.

It shares no code with what it is there to test: who waits for whom is told here once more, in words of its own.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ddptui.wire.messages import Collective, Step
from ddptui.wire.phases import PHASES

MS = 1_000_000  # ns
BETWEEN = "between steps"
SITES = ("data", "forward", "backward", "aggregate")


class Work(NamedTuple):
    """Own work."""

    ns: int


class Call(NamedTuple):
    """A rank comes to an operation, is held up, enters it; and waits at once, unless it runs in the background. Ranks
    that mean the same operation give it the same name."""

    name: str
    kind: str
    transfer: int = 0  # ns, on this rank, once all that it needs have come
    root: int | None = None
    group: tuple[int, ...] = ()
    held: int = 0
    background: bool = False
    bytes: int = 8


class Await(NamedTuple):
    name: str


Move = Work | Call | Await
Program = Sequence[tuple[str, Sequence[Move]]]  # of a rank in a step, phase by phase
Told = dict[int, list[Step]]


def who_must_have_come(call: Call, rank: int, everybody: Sequence[int]) -> set[int]:
    match call.kind:
        case "send" | "recv":
            return {rank, call.root or 0}
        case "gather":
            return set(everybody) if call.root == rank else {rank}
        case "broadcast" | "scatter":
            return {rank, call.root or 0}
        case _:
            return set(everybody)


def simulate(programs: Sequence[Mapping[int, Program]], start_ns: int = 0) -> Told:
    """Let all ranks live through their programs, step after step."""
    world = sorted(programs[0])
    entered: dict[tuple[int, str], dict[int, int]] = {}
    told: Told = {rank: [] for rank in world}
    lives = [_live(rank, world, programs, entered, told[rank], start_ns) for rank in world]
    while lives:
        before = sum(map(len, entered.values())) + sum(map(len, told.values()))
        lives = [life for life in lives if next(life, None) is not None]
        after = sum(map(len, entered.values())) + sum(map(len, told.values()))
        assert not lives or after > before, "ranks wait for each other in a circle"
    return told


def _live(
    rank: int,
    world: Sequence[int],
    programs: Sequence[Mapping[int, Program]],
    entered: dict[tuple[int, str], dict[int, int]],
    told: list[Step],
    now: int,
) -> Iterator[bool]:
    """Yields while somebody has not come."""
    for number, program in enumerate(programs):
        begin = now
        lengths = dict.fromkeys(PHASES, 0)
        order: list[int] = []
        open_calls: dict[str, tuple[Call, int, int]] = {}
        collectives: list[tuple[int, Collective]] = []
        numbers: dict[tuple[int, ...], int] = {}
        seqs: dict[str, int] = {}
        for phase, moves in program[rank]:
            phase_began = now
            for move in moves:
                if isinstance(move, Work):
                    now += move.ns
                    continue
                if isinstance(move, Call):
                    called, now = now, now + move.held
                    entered.setdefault((number, move.name), {})[rank] = now
                    open_calls[move.name] = (move, called, now)
                    if move.kind not in ("send", "recv"):
                        seqs[move.name] = numbers.get(move.group, 0)
                        numbers[move.group] = seqs[move.name] + 1
                    if move.background:
                        continue
                call, called, enter = open_calls.pop(move.name)
                here = entered[number, move.name]
                needed = who_must_have_come(call, rank, call.group or world)
                while not needed <= set(here):
                    yield True
                over = max(here[other] for other in needed) + call.transfer
                collectives.append(
                    (
                        called,
                        Collective(
                            call.kind, seqs.get(call.name, 0), call.bytes, called, enter, now, over,
                            call.root, call.group,
                        ),
                    )
                )  # fmt: skip
                now = max(now, over)
            if phase == BETWEEN:
                begin = now
            else:
                lengths[phase] += now - phase_began
                order.append(PHASES.index(phase))
        data, forward, backward, aggregate, optimizer = (lengths[phase] for phase in PHASES)
        told.append(
            Step(
                rank=rank,
                step=number,
                epoch=0,
                warmup=False,
                begin_ns=begin,
                end_ns=now,
                phases_ns=(data, forward, backward, aggregate, optimizer),
                samples=8,
                loss=1.0,
                order=tuple(order),
                collectives=tuple(each for _, each in sorted(collectives, key=lambda item: item[0])),
            )
        )


# The steps of a few strategies. Work in ns by part: the phases, then what is between two steps; that of the aggregation
# is done before its first operation, as a delay there would be.

ByPart = Sequence[int]
Shape = Callable[[int, ByPart, int], Program]  # rank, work, transfer
TENSORS, BUCKETS = range(2), range(4)


def gather_scatter(rank: int, work: ByPart, transfer: int) -> Program:
    """Leaves give at once, and wait for the root; the root waits for all, and gives at once."""
    calls: list[Call] = []
    for number in TENSORS:
        calls.append(Call(f"g{number}", "gather", 0 if rank else transfer, root=0))
        calls.append(Call(f"s{number}", "scatter", transfer if rank else 0, root=0))
    return _blocking(work, calls)


def all_reduce(rank: int, work: ByPart, transfer: int) -> Program:
    return _blocking(work, [Call(f"{number}", "all_reduce", transfer) for number in TENSORS])


def reduce_broadcast(rank: int, work: ByPart, transfer: int) -> Program:
    """As gloo does it: to reduce, all wait for all; what the root broadcasts leaves it at once."""
    calls: list[Call] = []
    for number in TENSORS:
        calls.append(Call(f"r{number}", "reduce", transfer, root=0))
        calls.append(Call(f"b{number}", "broadcast", transfer if rank else 0, root=0))
    return _blocking(work, calls)


def _blocking(work: ByPart, calls: Sequence[Call]) -> Program:
    data, forward, backward, aggregate, optimizer, between = work
    return [
        (BETWEEN, [Work(between)]),
        ("data", [Work(data)]),
        ("forward", [Work(forward)]),
        ("backward", [Work(backward)]),
        ("aggregate", [calls[0]._replace(held=aggregate), *calls[1:]]),
        ("optimizer", [Work(optimizer)]),
    ]


def bucketed(rank: int, work: ByPart, transfer: int) -> Program:
    """A bucket leaves after each part of backward; at the end all are waited for. A delay comes before the first."""
    data, forward, backward, aggregate, optimizer, between = work
    moves: list[Move] = []
    for number in BUCKETS:
        moves += [
            Work(backward // len(BUCKETS)),
            Call(f"{number}", "all_reduce", transfer, held=0 if number else aggregate, background=True),
        ]
    return [
        (BETWEEN, [Work(between)]),
        ("data", [Work(data)]),
        ("forward", [Work(forward)]),
        ("backward", moves),
        ("aggregate", [Work(1), *(Await(f"{number}") for number in BUCKETS)]),
        ("optimizer", [Work(optimizer)]),
    ]


def trace(works: Sequence[Mapping[int, ByPart]], shape: Shape = all_reduce, transfer: int = MS // 2) -> Told:
    """Works: step by step, each rank's by part."""
    programs = [{rank: shape(rank, work, transfer) for rank, work in step.items()} for step in works]
    return simulate(programs, start_ns=1000 * MS)


USUAL_MS = (0.3, 2.0, 3.0, 0.05, 0.5, 0.05)  # of own work, by part


def heard(told: Told) -> list[Step]:
    """The steps of all ranks, step by step."""
    return [own for together in zip(*told.values(), strict=True) for own in together]


def works_of(
    seed: int,
    *,
    ranks: int = 2,
    steps: int = 100,
    noise: float = 0.05,
    skew: float = 0.05,
    usual_ms: Sequence[float] = USUAL_MS,
) -> list[dict[int, list[int]]]:
    """Noise: from step to step and part by part, most of a step's for all parts alike. Skew: the ranks' cores differ,
    by so much as a standard deviation, and drift. Now and then the scheduler takes a millisecond."""
    draw = random.Random(seed)
    speed = {rank: max(0.8, draw.gauss(1, skew)) for rank in range(ranks)}
    drift = dict.fromkeys(speed, 0.0)
    works = []
    for _ in range(steps):
        step = {}
        for rank in speed:
            drift[rank] = 0.9 * drift[rank] + draw.gauss(0, noise / 4)
            together = speed[rank] * (1 + drift[rank] + abs(draw.gauss(0, noise)))
            parts = [usual * together * (1 + abs(draw.gauss(0, noise / 2))) for usual in usual_ms]
            if draw.random() < 0.01:
                parts[draw.randrange(len(parts))] += 1.0
            step[rank] = [round(part * MS) for part in parts]
        works.append(step)
    return works


def delayed(
    works: Sequence[Mapping[int, ByPart]], rank: int, at: str, ms: Callable[[int], float]
) -> tuple[list[dict[int, list[int]]], float]:
    """The same works with a delay put in, so long in each step; and what it comes to in all, in s."""
    part = PHASES.index(at)
    changed = [{other: list(work) for other, work in step.items()} for step in works]
    total = 0
    for number, step in enumerate(changed):
        longer = round(ms(number) * MS)
        step[rank][part] += longer
        total += longer
    return changed, total / 1e9
