"""Models the costs of a network, and the duration of a step on other numbers of ranks. Pure. Times are in s.

A call on n ranks takes messages(n) · α + copies(n) · bytes · β, for the rank that has most to do. α is the latency of a
message, β the time per byte (Hockney, "The communication challenge for MPP", 1994). The counts follow from gloo's
algorithms (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005).

A step is the sum of a rank's mean own work, the wait for the slowest rank, and the exposed transfers. The own work of
the slowest of N ranks is the longest of N steps drawn from the measured ones. The model assumes that ranks are slow
independently of each other, and that each resembles one of the measured ranks: if one of four measured ranks is slow, a
quarter of all ranks is slow.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from random import Random
from statistics import fmean
from typing import NamedTuple

from ddptui.config.catalog import STRATEGIES
from ddptui.projection import Point, ProjectionError
from ddptui.text.words import MS_PER_S

AT_A_TIME = 2  # threads of a process group in torch's gloo: asynchronous calls overlap in pairs
DRAWS, SEED = 4000, 0  # number of drawn steps; fixed seed, so that the same run always gives the same result

Counts = Callable[[int], tuple[float, float]]  # ranks -> (number of sequential messages, copies of the bytes sent)


def _ring(ranks: int) -> tuple[float, float]:
    return 2 * (ranks - 1), 2 * (ranks - 1) / ranks


def _tree(ranks: int) -> tuple[float, float]:
    return (ranks - 1).bit_length(), (ranks - 1).bit_length()


def _parts(ranks: int) -> tuple[float, float]:
    return ranks - 1, (ranks - 1) / ranks


OPERATIONS: dict[str, Counts] = {  # counts of an operation; bytes: all parts together
    **dict.fromkeys(("all_reduce", "reduce"), _ring),
    **dict.fromkeys(("gather", "all_gather", "scatter", "all_to_all"), _parts),
    **dict.fromkeys(("send_recv", "isend_irecv"), lambda ranks: (1, 1)),
    "broadcast": _tree,
    "reduce_scatter": lambda ranks: (2 * ranks * (ranks - 1), 2 * (ranks - 1) / ranks),  # an all_reduce of each part
}
AVERAGES: dict[str, Counts] = {  # counts for averaging one tensor, keyed by Sends.cost; bytes: of the tensor
    **dict.fromkeys(("all_reduce", "ring"), _ring),
    "reduce_broadcast": lambda ranks: (_ring(ranks)[0] + _tree(ranks)[0], _ring(ranks)[1] + _tree(ranks)[1]),
    "gather_scatter": lambda ranks: (2 * (ranks - 1), 2 * (ranks - 1)),
    "all_gather": lambda ranks: (ranks - 1, ranks - 1),
    "reduce_scatter_all_gather": lambda ranks: ((2 * ranks + 1) * (ranks - 1), 3 * (ranks - 1) / ranks),
}


class Costs(NamedTuple):
    """The costs of a network."""

    alpha: float  # s per message
    beta: float  # s per byte
    source: str  # where the costs come from, in words
    ranks: int = 0  # number of ranks on which they were measured; 0: the user stated them
    worst: float | None = None  # largest error of the fit, relative to the measured time; None: no fit
    unknown: str = ""  # "latency" or "bandwidth", if the transfers do not determine it: then that cost is 0
    remedy: str = ""  # what to do if the fit is poor or a cost is unknown
    cores: int | None = None  # cores of the host, if all ranks share one host


class MeasuredCall(NamedTuple):
    """The measured duration of an operation of one size."""

    operation: str
    bytes: float  # counted as in OPERATIONS
    s: float
    weight: float = 1.0  # weight of its relative error in the fit


class Work(NamedTuple):
    """A rank's own work in a step, which is the sum of the four fields."""

    batch: float  # computation that grows with the rank's batch
    rest: float  # other computation: the optimizer, local sums, the time between steps
    batch_slept: float  # injected delays within the former, which need no core
    rest_slept: float  # injected delays within the latter


class MeasuredTrial(NamedTuple):
    """The measurements of all completed launches of a trial."""

    strategy: str
    ranks: int
    work: Sequence[Sequence[Sequence[Work]]]  # by launch, rank and step
    calls: Sequence[MeasuredCall]
    tensors: int  # number of gradient tensors
    bytes: float  # size of all gradients
    itemsize: int  # bytes per number
    threads: int = 1  # threads per rank
    buckets: int = 1  # number of gradient buckets
    hidden: float | None = None  # hidden transfer time per step; None: nothing is sent while backward runs
    backward: float = 0.0  # computation time of backward, at least `hidden`
    batch_size: int = 1  # global batch size


def fit_costs(calls: Sequence[MeasuredCall], ranks: int, source: str, remedy: str) -> Costs:
    """Fit α and β by least squares of the relative errors. A cost that would be negative is unknown. source, remedy: as
    in Costs. Raises ProjectionError."""
    rows = []  # weight, and the coefficients of α and β, relative to the measured time
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
    """Yields the prediction for each strategy on a number of ranks. strong: strong scaling, with the measured global
    batch."""
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
            # The useful work is the measured work, without the slowdown by shared cores. Under strong scaling, each
            # rank does only its share of it.
            efficiency=share * measured_work / step,
        )


def own_work(trial: MeasuredTrial, batch: float = 1.0, slowdown: float = 1.0) -> list[list[list[float]]]:
    """Own work in s by launch, rank and step. batch: a rank's batch relative to the measured batch. slowdown: factor
    for the duration of computations."""

    def seconds(work: Work) -> float:
        return (work.batch * batch + work.rest) * slowdown + work.batch_slept * batch + work.rest_slept

    return [[[seconds(work) for work in steps] for steps in launch] for launch in trial.work]


def mean_work(own: Sequence[Sequence[Sequence[float]]]) -> float:
    """The mean own work in s over launches, ranks and steps."""
    return fmean(s for launch in own for steps in launch for s in steps)


def waits(own: Sequence[Sequence[Sequence[float]]], ranks: int) -> list[float]:
    """How much longer the slowest rank works than the mean, in s, in each of DRAWS simulated steps on this many ranks.
    Each simulated step is drawn from one launch, so that differences between launches do not count as waits. own: work
    by launch, rank and step."""
    draw, drawn = Random(SEED), []
    launches = [(mean_work([launch]), [sorted(steps) for steps in launch]) for launch in own]
    for number in range(DRAWS):
        turn, longest = number // len(launches), 0.0
        mean, measured = launches[number % len(launches)]
        for at, steps in enumerate(measured):
            # Equally many ranks resemble each measured rank; the remainder goes to different ones in turn.
            if alike := (ranks + (at + turn) % len(measured)) // len(measured):
                # The quantile of the longest of n independent draws is the n-th root of a uniform random number.
                place = int(len(steps) * draw.random() ** (1 / alike))
                longest = max(longest, steps[min(place, len(steps) - 1)])
        drawn.append(longest - mean)
    return drawn


def transfers(strategy: str, trial: MeasuredTrial, ranks: int, costs: Costs, room: float = 1.0) -> tuple[float, float]:
    """A step's transfer time in s on this many ranks, and its exposed part. room: the computation time of backward,
    relative to the measured time."""
    sent, hidden = _sent(strategy, trial, ranks, costs), 0.0
    if STRATEGIES[strategy].overlaps:  # hides the same fraction as measured, or else all but the last bucket
        part = 1 - 1 / trial.buckets
        if trial.hidden is not None:
            part = trial.hidden / _sent(trial.strategy, trial, trial.ranks, costs)
        hidden = min(trial.backward * room, part * sent)
    return sent, max(0.0, sent - hidden)


def _sent(strategy: str, trial: MeasuredTrial, ranks: int, costs: Costs) -> float:
    """The duration of a step's transfers, in s."""
    sends, beta = STRATEGIES[strategy].sends, costs.beta
    assert sends is not None
    if costs.cores:  # all ranks copy at the same time on shared cores, as the measured ranks did
        beta *= max(1.0, ranks / costs.cores) / max(1.0, costs.ranks / costs.cores)
    messages, copies = AVERAGES[sends.cost](ranks)
    calls = {"each": trial.tensors, "pairs": ceil(trial.tensors / AT_A_TIME), "all": 1, "buckets": trial.buckets}
    size = trial.bytes * (sends.number_bytes or trial.itemsize) / trial.itemsize
    return calls[sends.how] * messages * costs.alpha + size * copies * beta


def _slowdown(trial: MeasuredTrial, ranks: int, cores: int | None) -> float:
    """How many times as long computations take on shared cores, relative to the measured ones. On average, a rank needs
    as many cores as it has threads, times the computing fraction of its work."""
    computed = sum(work.batch + work.rest for launch in trial.work for steps in launch for work in steps)
    all_work = sum(sum(work) for launch in trial.work for steps in launch for work in steps)
    needs = trial.threads * computed / all_work / cores if cores and all_work else 0.0
    return max(1.0, ranks * needs) / max(1.0, trial.ranks * needs)
