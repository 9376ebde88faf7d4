"""What the primitives have shown, as results.json has it. The keys are a promise; None where there is nothing."""

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
    undefined  the operation does not say what is in it afterwards: whatever is there means nothing
    """

    name: str
    parts: int
    before: list[float | None] | None  # None in a list: not a number
    after: list[float | None] | None
    undefined: bool


class RankView(_Part, frozen=True, kw_only=True):
    """One rank's call, as it would be typed, and its buffers."""

    rank: int
    call: str
    buffers: list[BufferView]


class View(_Part, frozen=True, kw_only=True):
    """One primitive, once, on all ranks. error: why there is none, in the backend's words."""

    operation: str
    reduce_op: ReduceOpName | None
    root: int | None
    ranks: list[RankView]
    error: str | None = None


class TimeUs(_Part, frozen=True, kw_only=True):
    """Of one call in µs: each call's time is the mean over the ranks that take part, the rest is over the calls. So
    `mean` is what nccl-tests says: the time of all calls by their number, averaged over ranks."""

    min: float
    median: float
    mean: float
    p90: float
    p99: float


class Cell(_Part, frozen=True, kw_only=True):
    """One operation with one size.

    operation  torch.distributed's name; composite: a strategy's
    bytes      as nccl-tests counts them: of the tensor; where each rank gives or gets a part, of all parts together
    calls      timed; the warm-up is not among them
    cv         standard deviation over mean
    algbw, busbw  GB/s (1e9): bytes over the mean time; and that times the factor which makes it comparable to the
               bandwidth of a wire. None where there are no bytes
    wrong      elements that were not what they should be, all ranks together; every one was looked at
    slowest    the rank with the largest mean, and slowest_us that
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
    """One launch. ranks: how many; cadence: whether calls follow each other at once, or each follows a barrier (whose
    time is not counted); took_s: from the launch to its end."""

    ranks: int
    cadence: Literal["back_to_back", "barrier"]
    backend: str
    took_s: float | None = None
    views: list[View] = []
    cells: list[Cell] = []
