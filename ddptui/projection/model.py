"""What a network costs, and what a step takes on other numbers of ranks. Pure; times in s.

A call on n ranks pays messages(n) · α + copies(n) · bytes · β, for the rank that has most to do: a message takes α, a
byte β (Hockney, "The communication challenge for MPP", 1994). How many follows from gloo's algorithms (Thakur,
Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005).

A step is the mean of a rank's own work, the wait until the slowest rank has done its own, and the transfers that
backward does not hide. The slowest of N ranks is the longest of N steps that are drawn from the measured ones. Ranks
are taken to be slow independently of each other, and each to be like one of the measured ranks: with one slow rank of
four, a quarter of the ranks is slow.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from random import Random
from statistics import fmean
from typing import NamedTuple

from ddptui.config.strategies import STRATEGIES
from ddptui.projection import Point, ProjectionError
from ddptui.text.units import MS_PER_S

AT_A_TIME = 2  # threads of a group in torch's gloo: asynchronous calls overlap by pairs
DRAWS, SEED = 4000, 0  # steps that are drawn; the same run always gives the same figures

Counts = Callable[[int], tuple[float, float]]  # by ranks: messages one after another, copies of the bytes sent


def _ring(ranks: int) -> tuple[float, float]:
    return 2 * (ranks - 1), 2 * (ranks - 1) / ranks


def _tree(ranks: int) -> tuple[float, float]:
    return (ranks - 1).bit_length(), (ranks - 1).bit_length()


def _parts(ranks: int) -> tuple[float, float]:
    return ranks - 1, (ranks - 1) / ranks


OPERATIONS: dict[str, Counts] = {  # bytes: of all parts together
    **dict.fromkeys(("all_reduce", "reduce"), _ring),
    **dict.fromkeys(("gather", "all_gather", "scatter", "all_to_all"), _parts),
    **dict.fromkeys(("send_recv", "isend_irecv"), lambda ranks: (1, 1)),
    "broadcast": _tree,
    "reduce_scatter": lambda ranks: (2 * ranks * (ranks - 1), 2 * (ranks - 1) / ranks),  # an all_reduce of each part
}
AVERAGES: dict[str, Counts] = {  # of one tensor, by Sends.cost; bytes: of the tensor
    **dict.fromkeys(("all_reduce", "ring"), _ring),
    "reduce_broadcast": lambda ranks: (_ring(ranks)[0] + _tree(ranks)[0], _ring(ranks)[1] + _tree(ranks)[1]),
    "gather_scatter": lambda ranks: (2 * (ranks - 1), 2 * (ranks - 1)),
    "all_gather": lambda ranks: (ranks - 1, ranks - 1),
    "reduce_scatter_all_gather": lambda ranks: ((2 * ranks + 1) * (ranks - 1), 3 * (ranks - 1) / ranks),
}


class Costs(NamedTuple):
    """What a network costs."""

    alpha: float  # a message
    beta: float  # a byte
    source: str  # where the figures come from, in words
    ranks: int = 0  # on which they were measured; 0: they were stated
    worst: float | None = None  # largest error of the fit, relative to the measured time; None: no fit
    unknown: str = ""  # "latency" or "bandwidth", if the transfers do not tell it: then that cost is 0
    remedy: str = ""  # what to do where the fit is poor, or one of the costs is unknown
    cores: int | None = None  # of the host that all ranks share, if they do


class MeasuredCall(NamedTuple):
    """An operation of one size, as measured."""

    operation: str
    bytes: float  # as OPERATIONS counts them
    s: float
    weight: float = 1.0  # of its relative error


class Work(NamedTuple):
    """A rank's own work in a step: the four add up to it."""

    batch: float  # computed; grows with the rank's batch
    rest: float  # computed; does not: the optimizer, local sums, the time between steps
    batch_slept: float  # in injected delays, which need no core
    rest_slept: float


class MeasuredTrial(NamedTuple):
    """All completed launches of a trial."""

    strategy: str
    ranks: int
    work: Sequence[Sequence[Sequence[Work]]]  # by launch, rank and step
    calls: Sequence[MeasuredCall]
    tensors: int  # that hold the gradients
    bytes: float  # of the gradients
    itemsize: int  # bytes of a number
    threads: int = 1  # of a rank
    buckets: int = 1  # that the gradients fill
    hidden: float | None = None  # of a step's transfers; None: the trial sends nothing while backward runs
    backward: float = 0.0  # how long backward computes; never less than `hidden`
    batch_size: int = 1  # of all ranks together


def fit_costs(calls: Sequence[MeasuredCall], ranks: int, source: str, remedy: str) -> Costs:
    """Least squares of the relative errors; a cost that would be below 0 is unknown. Raises ProjectionError."""
    rows = []  # weight, and how much of the measured time 1 s of α and 1 s of β would make
    for call in calls:
        if call.operation in OPERATIONS and call.s > 0:
            messages, copies = OPERATIONS[call.operation](ranks)
            rows.append((call.weight, messages / call.s, copies * call.bytes / call.s))
    if len({y / x for _, x, y in rows if y}) < 2:
        raise ProjectionError(f"{source}: transfers of one size cannot separate latency from bandwidth: {remedy}")
    xx, xy = sum(w * x * x for w, x, _ in rows), sum(w * x * y for w, x, y in rows)
    yy, x1, y1 = sum(w * y * y for w, _, y in rows), sum(w * x for w, x, _ in rows), sum(w * y for w, _, y in rows)
    determinant = xx * yy - xy * xy
    alpha, beta = (x1 * yy - y1 * xy) / determinant, (y1 * xx - x1 * xy) / determinant
    unknown = "latency" if alpha < 0 else "bandwidth" if beta < 0 else ""
    alpha, beta = {"latency": (0.0, y1 / yy), "bandwidth": (x1 / xx, 0.0)}.get(unknown, (alpha, beta))
    return Costs(alpha, beta, source, ranks, max(abs(x * alpha + y * beta - 1) for _, x, y in rows), unknown, remedy)


def points(trial: MeasuredTrial, costs: Costs, strategies: Sequence[str], ranks: int, strong: bool) -> Iterator[Point]:
    """The prediction for each strategy on so many ranks. strong: they share the measured global batch."""
    share = trial.ranks / ranks if strong else 1.0
    slowdown = _slowdown(trial, ranks, costs.cores)
    measured_work, own = mean_work(own_work(trial)), own_work(trial, share, slowdown)
    work, wait = mean_work(own), max(0.0, fmean(waits(own, ranks))) if ranks > 1 else 0.0
    for strategy in strategies:
        transfer, exposed = transfers(strategy, trial, ranks, costs, share * slowdown)
        step = work + wait + exposed
        yield Point(
            strategy=strategy,
            ranks=ranks,
            step_ms=step * MS_PER_S,
            work_ms=work * MS_PER_S,
            wait_ms=wait * MS_PER_S,
            transfer_ms=transfer * MS_PER_S,
            exposed_ms=exposed * MS_PER_S,
            # With strong scaling the measured ranks did all the work. What sharing cores adds to it is no gain.
            efficiency=share * measured_work / step,
        )


def own_work(trial: MeasuredTrial, batch: float = 1.0, slowdown: float = 1.0) -> list[list[list[float]]]:
    """Own work by launch, rank and step. batch, slowdown: a rank's batch and how long it computes, relative to the
    measured ones."""

    def seconds(work: Work) -> float:
        return (work.batch * batch + work.rest) * slowdown + work.batch_slept * batch + work.rest_slept

    return [[[seconds(work) for work in steps] for steps in launch] for launch in trial.work]


def mean_work(own: Sequence[Sequence[Sequence[float]]]) -> float:
    """The mean over launches, ranks and steps."""
    return fmean(s for launch in own for steps in launch for s in steps)


def waits(own: Sequence[Sequence[Sequence[float]]], ranks: int) -> list[float]:
    """How much longer the slowest of so many ranks works than their mean, in each of DRAWS steps. Each draw is from one
    launch, since no rank waits for what launches differ by. own: work by launch, rank and step."""
    draw, drawn = Random(SEED), []
    launches = [(mean_work([launch]), [sorted(steps) for steps in launch]) for launch in own]
    for number in range(DRAWS):
        turn, longest = number // len(launches), 0.0
        mean, measured = launches[number % len(launches)]
        for at, steps in enumerate(measured):
            # As many ranks are like this one as like any other; those left over are like each in turn.
            if alike := (ranks + (at + turn) % len(measured)) // len(measured):
                # The longest of n steps, each drawn from the sorted ones, is where the n-th root of a random number is.
                place = int(len(steps) * draw.random() ** (1 / alike))
                longest = max(longest, steps[min(place, len(steps) - 1)])
        drawn.append(longest - mean)
    return drawn


def transfers(strategy: str, trial: MeasuredTrial, ranks: int, costs: Costs, room: float = 1.0) -> tuple[float, float]:
    """A step's transfers on so many ranks, and the part of them that backward does not hide. room: how long backward
    computes, relative to the measured one."""
    sent, hidden = _sent(strategy, trial, ranks, costs), 0.0
    if STRATEGIES[strategy].overlaps:  # as large a part as was measured, else all but the last bucket
        part = 1 - 1 / trial.buckets
        if trial.hidden is not None:
            part = trial.hidden / _sent(trial.strategy, trial, trial.ranks, costs)
        hidden = min(trial.backward * room, part * sent)
    return sent, max(0.0, sent - hidden)


def _sent(strategy: str, trial: MeasuredTrial, ranks: int, costs: Costs) -> float:
    """How long a step's transfers take."""
    sends, beta = STRATEGIES[strategy].sends, costs.beta
    assert sends is not None
    if costs.cores:  # all ranks copy at once; so did the measured ones
        beta *= max(1.0, ranks / costs.cores) / max(1.0, costs.ranks / costs.cores)
    messages, copies = AVERAGES[sends.cost](ranks)
    calls = {"each": trial.tensors, "pairs": ceil(trial.tensors / AT_A_TIME), "all": 1, "buckets": trial.buckets}
    size = trial.bytes * (sends.number_bytes or trial.itemsize) / trial.itemsize
    return calls[sends.how] * messages * costs.alpha + size * copies * beta


def _slowdown(trial: MeasuredTrial, ranks: int, cores: int | None) -> float:
    """How many times as long computing takes on shared cores: a rank needs as many of them, on average, as the part of
    its work that it computes, times its threads."""
    computed = sum(work.batch + work.rest for launch in trial.work for steps in launch for work in steps)
    all_work = sum(sum(work) for launch in trial.work for steps in launch for work in steps)
    needs = trial.threads * computed / all_work / cores if cores and all_work else 0.0
    return max(1.0, ranks * needs) / max(1.0, trial.ranks * needs)
