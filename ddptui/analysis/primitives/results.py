"""The types of the primitives' results in results.json. Their keys are a promise."""

import msgspec

from ddptui.config.primitives import Cadence, ReduceOpName
from ddptui.wire.limits import Name, Word


class BufferView(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's tensor, or list of tensors, in one call. None in a list: not a number."""

    name: str  # of the argument: tensor, output, …
    parts: int  # how many tensors it is a list of; values are those of all, one after the other
    before: list[float | None] | None  # None: this rank passes no such thing
    after: list[float | None] | None  # what was in it when the call was over
    undefined: bool  # the operation does not define what is in it afterwards


class RankView(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's call, as Python code, and its buffers."""

    rank: int
    call: str
    buffers: list[BufferView]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One primitive, called once on all ranks."""

    operation: str
    reduce_op: ReduceOpName | None
    root: int | None
    ranks: list[RankView]
    error: str | None = None  # of the backend, if it cannot do this


class TimeUs(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one call in µs. A call takes the mean over the ranks that take part; the figures are over calls."""

    min: float
    median: float
    mean: float  # as nccl-tests reports it: the time of all calls over their number, averaged over ranks
    p90: float
    p99: float


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """A time over another one: in a run, repeat by repeat; of two runs, low and high are what any two repeats allow."""

    median: float
    low: float
    high: float


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One operation with one size."""

    operation: str  # torch.distributed's name
    composite: bool  # it is the name of a strategy instead
    reduce_op: ReduceOpName | None
    bytes: int  # as nccl-tests counts them: of the tensor; if each rank gives or gets a part, of all parts together
    calls: int  # timed, without the warm-up
    time_us: TimeUs | None
    cv: float | None  # standard deviation over mean
    algbw_gb_s: float | None  # GB are 1e9 bytes: bytes over the mean time; None if there are no bytes
    busbw_gb_s: float | None  # algbw times the factor that makes it comparable to the bandwidth of a wire
    wrong: int  # elements with a wrong value, on all ranks; every element was checked
    slowest: int | None = None  # the rank with the largest mean
    slowest_us: float | None = None  # this mean
    in_flight: int = 1  # calls at once; more: the figures are over groups of so many, whose time is divided by that
    error: str | None = None
    ratio: Ratio | msgspec.UnsetType = msgspec.UNSET  # of the medians of two runs' launches; absent in a run of its own


class NcclUse(msgspec.Struct, frozen=True, kw_only=True):
    """The NCCL of a launch."""

    version: Name
    implementation: Word  # torch's class around it


class PrimitivesResult(msgspec.Struct, frozen=True, kw_only=True):
    """One launch."""

    ranks: int  # how many
    cadence: Cadence  # calls follow each other at once, or each an untimed barrier, or several are in flight
    backend: str
    nccl: NcclUse | None = None  # None: another backend
    took_s: float | None = None  # from the launch to its end
    views: list[View] = []
    cells: list[Cell] = []
