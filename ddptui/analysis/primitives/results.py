"""Types of the primitives' results in results.json. The keys are a public format."""

import msgspec

from ddptui.config.catalog import Cadence, ReduceOpName
from ddptui.wire.limits import Name, Word


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
