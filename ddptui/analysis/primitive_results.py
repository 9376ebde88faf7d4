"""Results of the primitives of torch.distributed: types in results.json, collected from messages, combined over
launches. Pure.

The keys are a public format.

On a busy machine, or because of the scheduler's tick, calls may be either fast or slow; then no single figure
represents a cell.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, pstdev, quantiles
from typing import NamedTuple, TypeVar, cast, get_args

import msgspec

from ddptui.config.catalog import COMPOSITES, OPERATIONS, Cadence, ReduceOpName, primitive_facts, primitive_title
from ddptui.text.tables import grouped
from ddptui.text.words import US, US_IN_S
from ddptui.wire.limits import Name, Word
from ddptui.wire.messages import Hello, Shown, Timed


class BufferView(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's tensor, or list of tensors, in one call. None in a list of values: NaN."""

    name: str  # the argument's name: tensor, output, …
    parts: int  # number of tensors in the list; their values are concatenated
    before: list[float | None] | None  # values before the call; None: this rank does not pass the argument
    after: list[float | None] | None  # values after the call
    undefined: bool  # the operation leaves the values after the call undefined


class RankView(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's call as Python code, with its buffers."""

    rank: int
    call: str
    buffers: list[BufferView]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One primitive, called once on all ranks."""

    operation: str
    reduce_op: ReduceOpName | None
    root: int | None
    ranks: list[RankView]
    error: str | None = None  # the backend's error, if it does not support the operation


class TimeUs(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the time of one call, in µs. The time of a call is its mean over the participating ranks."""

    min: float
    median: float
    mean: float  # as in nccl-tests: total time over the number of calls, averaged over ranks
    p90: float
    p99: float


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """A time over another one: in a run, repeat by repeat; of two runs, low and high are what any two repeats allow."""

    median: float
    low: float
    high: float


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The timings of one operation at one size."""

    operation: str  # name in torch.distributed; for a composite, name of the strategy
    composite: bool
    reduce_op: ReduceOpName | None
    bytes: int  # size of the tensor, as in nccl-tests; if each rank sends or receives a part, of all parts together
    calls: int  # number of timed calls, without the warm-up
    time_us: TimeUs | None
    cv: float | None  # coefficient of variation: standard deviation over mean
    algbw_gb_s: float | None  # bytes over the mean time, in 1e9 bytes/s; None if there are no bytes
    busbw_gb_s: float | None  # algbw times the factor that makes it comparable with the bandwidth of a link
    wrong: int  # number of wrong elements on all ranks; every element was checked
    slowest: int | None = None  # the rank with the largest mean time
    slowest_us: float | None = None  # that mean time
    in_flight: int = 1  # concurrent calls; if more than 1, the time of each group of calls is divided by this number
    error: str | None = None
    ratio: Ratio | msgspec.UnsetType = msgspec.UNSET  # of the medians of two runs' launches; absent in a run of its own


class NcclUse(msgspec.Struct, frozen=True, kw_only=True):
    """The NCCL that a launch used."""

    version: Name
    implementation: Word  # torch's process group class


class PrimitivesResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one launch."""

    ranks: int  # number of ranks
    cadence: Cadence  # calls back to back, or each after an untimed barrier, or several in flight
    backend: str
    nccl: NcclUse | None = None  # None: another backend
    took_s: float | None = None  # duration of the launch
    views: list[View] = []
    cells: list[Cell] = []


MOST_PLACES = 100_000  # kept per launch, so that no rank can fill the console's memory
GB_S = 1.0  # 1 byte per ns is 1 GB/s

Kind = TypeVar("Kind", Shown, Timed)


class PrimitivesLog(msgspec.Struct):
    """The messages of one launch, by place in the trial's list of calls, and by rank. Messages with unknown operations
    or beyond MOST_PLACES are dropped."""

    places: dict[int, dict[int, Shown | Timed]] = {}

    def add(self, message: Shown | Timed) -> None:
        """Keep a message, unless its operation or cadence is unknown, or its place too large."""
        known = COMPOSITES if isinstance(message, Timed) and message.composite else OPERATIONS
        is_known = message.operation in known and message.reduce_op in (None, *get_args(ReduceOpName))
        is_known &= isinstance(message, Shown) or message.cadence in get_args(Cadence)
        if is_known and message.place < MOST_PLACES:
            self.places.setdefault(message.place, {})[message.rank] = message

    def result(self, hello: Hello, took_s: float | None = None, nccl: NcclUse | None = None) -> PrimitivesResult:
        """The results of all places for which every rank sent its message. hello: any rank's; took_s: the duration of
        the launch, if it succeeded."""
        complete = [by_rank for _, by_rank in sorted(self.places.items()) if len(by_rank) == hello.world_size]
        shown = [ranks for by_rank in complete if (ranks := _all_of(Shown, by_rank))]
        timed = [calls for by_rank in complete if (calls := _all_of(Timed, by_rank))]
        return PrimitivesResult(
            ranks=hello.world_size,
            cadence=cast(Cadence, timed[0][0].cadence) if timed else "back_to_back",
            backend=hello.backend or "",
            nccl=nccl,
            took_s=took_s,
            views=[view_of(ranks) for ranks in shown],
            cells=[cell_of(ranks) for ranks in timed],
        )


def _all_of(kind: type[Kind], by_rank: Mapping[int, Shown | Timed]) -> list[Kind]:
    """The messages in rank order; empty unless all are of this kind."""
    messages = [message for _, message in sorted(by_rank.items()) if isinstance(message, kind)]
    return messages if len(messages) == len(by_rank) else []


def view_of(ranks: Sequence[Shown]) -> View:
    """Combines the ranks' messages about one shown primitive."""
    first = ranks[0]
    return View(
        operation=first.operation,
        reduce_op=cast(ReduceOpName | None, first.reduce_op),
        root=first.root,
        ranks=[msgspec.convert(shown, RankView, from_attributes=True) for shown in ranks],  # copies the common fields
        error=_error(ranks),
    )


def cell_of(ranks: Sequence[Timed]) -> Cell:
    """Combines the ranks' measurements of one operation at one size."""
    first = ranks[0]
    calls = calls_ns([timed.calls_ns for timed in ranks if timed.calls_ns])
    slowest = max((timed for timed in ranks if timed.calls_ns), key=lambda timed: fmean(timed.calls_ns), default=None)
    mean_ns = fmean(calls) if calls else 0.0
    algbw = first.bytes / mean_ns * GB_S if mean_ns and first.bytes else None
    factor = primitive_facts(first.operation, composite=first.composite).factor(len(ranks))
    return Cell(
        operation=first.operation,
        composite=first.composite,
        reduce_op=cast(ReduceOpName | None, first.reduce_op),
        bytes=first.bytes,
        calls=len(calls) * first.in_flight,
        time_us=time_us(calls) if calls else None,
        cv=pstdev(calls) / mean_ns if mean_ns else None,
        algbw_gb_s=algbw,
        busbw_gb_s=algbw * factor if algbw is not None else None,
        wrong=sum(timed.wrong for timed in ranks),
        slowest=slowest.rank if slowest else None,
        slowest_us=fmean(slowest.calls_ns) / US if slowest else None,
        in_flight=first.in_flight,
        error=_error(ranks),
    )


def calls_ns(ranks: Sequence[Sequence[int]]) -> list[float]:
    """The time of each call, as a mean over ranks, in ns."""
    return [fmean(call) for call in zip(*ranks, strict=False)]  # a failed rank has made fewer calls


def time_us(calls: Sequence[float]) -> TimeUs:
    """The statistics of calls, at least one, given in ns."""
    percent = quantiles(calls, n=100, method="inclusive") if len(calls) > 1 else [calls[0]] * 99
    return TimeUs(
        min=min(calls) / US, median=median(calls) / US, mean=fmean(calls) / US, p90=percent[89] / US,
        p99=percent[98] / US,
    )  # fmt: skip


def _error(ranks: Iterable[Shown | Timed]) -> str | None:
    return next((message.error for message in ranks if message.error), None)


class PrimitiveKey(NamedTuple):
    """Identifies an operation of torch.distributed, or a strategy (composite), with its reduce operator if any."""

    operation: str
    composite: bool = False
    reduce_op: ReduceOpName | None = None

    def __str__(self) -> str:
        name = primitive_title(self.operation, composite=self.composite)
        return name if self.reduce_op in (None, "sum") else f"{name} ({self.reduce_op})"


def key_of(cell: Cell) -> PrimitiveKey:
    """Identifies the operation that a cell (one operation at one size) measured."""
    return PrimitiveKey(cell.operation, cell.composite, cell.reduce_op)


def combined(repeats: Sequence[PrimitivesResult]) -> PrimitivesResult:
    """Combines several launches of the same measurement: for each cell, medians of times and the sum of calls."""
    cells = grouped(((key_of(cell), cell.bytes), cell) for repeat in repeats for cell in repeat.cells)
    # Views are the same in every launch: keep those of the first.
    return msgspec.structs.replace(repeats[0], cells=[_combined_cell(several) for several in cells.values()])


def by_operation(cells: Iterable[Cell]) -> dict[PrimitiveKey, list[Cell]]:
    """The cells of each operation, from the smallest size to the largest."""
    by_key = grouped((key_of(cell), cell) for cell in cells)
    return {key: sorted(several, key=lambda cell: cell.bytes) for key, several in by_key.items()}


def _combined_cell(cells: Sequence[Cell]) -> Cell:
    slowest = max(cells, key=lambda cell: cell.slowest_us or 0.0)
    times, cvs = [cell.time_us for cell in cells if cell.time_us], [cell.cv for cell in cells if cell.cv is not None]
    names = TimeUs.__struct_fields__
    time = TimeUs(**{name: median(getattr(time, name) for time in times) for name in names}) if times else None
    # Bandwidths refer to the mean time: scale them from the slowest launch's mean to the combined mean.
    longer = time.mean / slowest.time_us.mean if time and slowest.time_us else 1.0
    return msgspec.structs.replace(
        slowest,
        calls=sum(cell.calls for cell in cells),
        time_us=time,
        cv=median(cvs) if cvs else None,
        algbw_gb_s=slowest.algbw_gb_s and slowest.algbw_gb_s / longer,
        busbw_gb_s=slowest.busbw_gb_s and slowest.busbw_gb_s / longer,
        wrong=sum(cell.wrong for cell in cells),
        error=next((cell.error for cell in cells if cell.error), None),
    )


MOST_CV = 0.5
MOST_P90 = 2.0  # times the median
MOST_MEDIAN = 3.0  # times the shortest call: above, most calls waited for something that the shortest did not


def has_a_median(cell: Cell) -> bool:
    """Whether the median represents the cell's calls, i.e. they do not split into fast and slow ones."""
    time = cell.time_us
    return time is not None and time.p90 <= MOST_P90 * time.median and time.median <= MOST_MEDIAN * time.min


def is_uneven(cell: Cell) -> bool:
    """Whether the cell's calls vary so much that its row needs a note."""
    # A few very long calls change the CV, but not the median.
    return cell.time_us is not None and (not has_a_median(cell) or (cell.cv is not None and cell.cv > MOST_CV))


CLEAR = 0.10  # part of the faster time: a smaller difference is noise
Times = Mapping[int, Sequence[float]]  # size in bytes -> times of the launches, in s


class Span(NamedTuple):
    """A range of sizes from `first` to `last`, in bytes. ways: the fastest, or all that are too close to tell."""

    ways: tuple[PrimitiveKey, ...]
    first: int
    last: int


def times_of(launches: Iterable[PrimitivesResult], *, steady: bool) -> dict[PrimitiveKey, dict[int, list[float]]]:
    """The times of each operation at each size over all launches, in s. A launch contributes its median if that is
    meaningful, otherwise the shortest call, the median and the 90th percentile. steady: leave out the latter kind."""
    times: dict[PrimitiveKey, dict[int, list[float]]] = {}
    for cell in (cell for launch in launches for cell in launch.cells):
        if cell.time_us and (has_a_median(cell) or not steady):
            time = cell.time_us
            figures = [time.median] if has_a_median(cell) else [time.min, time.median, time.p90]
            times.setdefault(key_of(cell), {}).setdefault(cell.bytes, []).extend(us * US_IN_S for us in figures)
    return times


def rivals(measured: Iterable[PrimitiveKey]) -> list[PrimitiveKey]:
    """The ways to average among the measured operations: all composites, and a plain all_reduce if no composite
    all_reduce, which also divides, was measured."""
    keys = list(measured)
    composites = [key for key in keys if key.composite]
    divided = any(key.operation == "all_reduce" for key in composites)
    bare = [] if divided else [key for key in keys if key.operation == "all_reduce" and not key.composite]
    return [*[key for key in bare if key.reduce_op in (None, "sum", "avg")], *composites]


def fastest_spans(times: Mapping[PrimitiveKey, Times]) -> list[Span]:
    """The fastest way to average at each size that all ways were measured at, as ranges of sizes. A way counts among
    the fastest if its shortest time is at most CLEAR above the longest time of each other way."""
    spans: list[Span] = []
    for size in sorted(set.intersection(*map(set, times.values()))) if times else []:
        limit = (1 + CLEAR) * min(max(of_way[size]) for of_way in times.values())
        ways = [way for way, of_way in times.items() if min(of_way[size]) <= limit]
        if spans and [*spans[-1].ways] == ways:
            spans[-1] = spans[-1]._replace(last=size)
        else:
            spans.append(Span(tuple(ways), size, size))
    return spans
