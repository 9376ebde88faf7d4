"""The types of the primitives' results in results.json. Their keys are a promise."""

from typing import Literal

import msgspec

from ddptui.config.primitives import ReduceOpName


class _Part(msgspec.Struct, frozen=True):
    pass


class BufferView(_Part, frozen=True, kw_only=True):
    """A rank's tensor, or list of tensors, in one call.

    name       of the argument: tensor, output, …
    parts      how many tensors it is a list of; values are those of all, one after the other
    before     None: this rank passes no such thing
    after      what was in it when the call was over
    undefined  the operation does not define what is in it afterwards
    """

    name: str
    parts: int
    before: list[float | None] | None  # None in a list: not a number
    after: list[float | None] | None
    undefined: bool


class RankView(_Part, frozen=True, kw_only=True):
    """One rank's call, as Python code, and its buffers."""

    rank: int
    call: str
    buffers: list[BufferView]


class View(_Part, frozen=True, kw_only=True):
    """One primitive, called once on all ranks. error: of the backend, if it cannot do this."""

    operation: str
    reduce_op: ReduceOpName | None
    root: int | None
    ranks: list[RankView]
    error: str | None = None


class TimeUs(_Part, frozen=True, kw_only=True):
    """The time of one call in µs. A call takes the mean over the ranks that take part; the figures are over calls. So
    `mean` is what nccl-tests reports: the time of all calls over their number, averaged over ranks."""

    min: float
    median: float
    mean: float
    p90: float
    p99: float


class Cell(_Part, frozen=True, kw_only=True):
    """One operation with one size.

    operation  torch.distributed's name; composite: a strategy's
    bytes      as nccl-tests counts them: of the tensor; if each rank gives or gets a part, of all parts together
    calls      timed, without the warm-up
    cv         standard deviation over mean
    algbw      GB/s (1e9): bytes over the mean time; None if there are no bytes
    busbw      algbw times the factor that makes it comparable to the bandwidth of a wire
    wrong      elements with a wrong value, on all ranks; every element was checked
    slowest    the rank with the largest mean, which is slowest_us
    """

    operation: str
    composite: bool
    reduce_op: ReduceOpName | None
    bytes: int
    calls: int
    time_us: TimeUs | None
    cv: float | None
    algbw_gb_s: float | None
    busbw_gb_s: float | None
    wrong: int
    slowest: int | None = None
    slowest_us: float | None = None
    error: str | None = None


class PrimitivesResult(_Part, frozen=True, kw_only=True):
    """One launch.

    ranks    how many
    cadence  calls follow each other at once, or each follows a barrier whose time is not counted
    took_s   from the launch to its end
    """

    ranks: int
    cadence: Literal["back_to_back", "barrier"]
    backend: str
    took_s: float | None = None
    views: list[View] = []
    cells: list[Cell] = []
