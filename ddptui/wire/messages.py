"""The messages between a rank and the console.

A frame on the wire is a MessagePack list of tagged structs, which are decoded by type, strictly, and never unpickled.
Times are nanoseconds of the sender's `time.monotonic_ns()`, one clock for all processes of a host. Ranks on other hosts
have other clocks; analysis/clock_sync.py converts their times to the console's.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ddptui.config.trial import Bottleneck, Site
from ddptui.wire.limits import (
    MOST_A_STEP,
    Count,
    Error,
    Group,
    Hash,
    Hashes,
    Name,
    Number,
    RankNumber,
    Tagged,
    Values,
    Word,
)

VERSION = 1
PHASES = ("data", "forward", "backward", "aggregate", "optimizer")
GATHER_OUTPUTS = "gather_outputs"  # in `dp`, the collective that it is: all replicas' outputs, to the first device
Order = Annotated[tuple[Annotated[int, Meta(ge=0, lt=len(PHASES))], ...], Meta(min_length=1, max_length=16)]


class Hello(Tagged, frozen=True, kw_only=True):
    """The first message of every rank, or replica in `dp`.

    version, rank and world_size have no bounds: a rank that has the token but does not fit gets an answer that says
    why. device_why names the reason for a device that the trial left open, if another might be expected. clock
    identifies the clock of the rank's times; empty: the console's.
    """

    version: int
    token: Annotated[str, Meta(max_length=256)]
    rank: int
    world_size: int
    at_ns: Count
    host: Name
    pid: Count
    device: Name
    threads: Count
    torch: Name
    device_why: Name = ""
    backend: Word | None = None
    backend_why: Name = ""
    clock: Name = ""


class HelloOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Hello"):
    """The fields of a Hello that every version of this protocol keeps. Unknown fields are ignored."""

    version: int
    token: Annotated[str, Meta(max_length=256)]
    rank: int


class Ready(Tagged, frozen=True, kw_only=True):
    """A rank has its model and data. steps: how many it will make; start_ns: from its Hello to the meeting of the
    ranks."""

    rank: RankNumber
    at_ns: Count
    steps: Count
    parameters: Count
    start_ns: Count = 0


class Collective(msgspec.Struct, frozen=True, array_like=True):
    """One collective, send or receive, as one rank saw it.

    kind        its name in torch.distributed
    seq         its number within its group and step, which makes it the same call on all ranks
    bytes       of the tensor that this rank gives; in a scatter or a receive, of the one it receives
    called_ns   the rank reached the call
    enter_ns    the rank entered it, after any injected delay
    awaited_ns  from here on the rank did nothing else: enter_ns, or for a background operation the start of its wait
    exit_ns     it was over, at the latest when the wait for it was; before awaited_ns if the rank did not have to wait
    root        the rank that gives or receives all; for a send or a receive, the partner
    group       the ranks of its group; empty: all
    bucket      the bucket of gradients that it carried, if any
    """

    kind: Word
    seq: Count
    bytes: Count
    called_ns: Count
    enter_ns: Count
    awaited_ns: Count
    exit_ns: Count
    root: RankNumber | None = None
    group: Group = ()
    bucket: Count | None = None


class Slept(msgspec.Struct, frozen=True, array_like=True):
    """An injected delay: its site, and when it began and ended."""

    at: Site
    begin_ns: Count
    end_ns: Count


class Step(Tagged, frozen=True, kw_only=True):
    """One finished step.

    phases_ns follows PHASES. order holds the places there of the phases that the step had, in the order of execution
    (in `dp`, aggregation precedes backward).
    """

    rank: RankNumber
    step: Count
    epoch: Count
    warmup: bool
    begin_ns: Count
    end_ns: Count
    phases_ns: tuple[Count, Count, Count, Count, Count]
    samples: Count
    loss: Number | None  # mean over its own samples (dp: over the batch, on the output device); None: not finite
    order: Order = (0, 1, 2, 3, 4)
    collectives: Annotated[tuple[Collective, ...], Meta(max_length=MOST_A_STEP)] = ()
    slept: Annotated[tuple[Slept, ...], Meta(max_length=MOST_A_STEP)] = ()


class Trained(Tagged, frozen=True, kw_only=True):
    """The only message about its steps of a rank without instruments: when the first of all steps began; and for the
    steps after the warm-up their number, their samples, and when they began and ended. loss: of the last step."""

    rank: RankNumber
    first_ns: Count
    begin_ns: Count
    end_ns: Count
    steps: Count
    samples: Count
    loss: Number | None


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where a rank is at the moment.

    step    the current step; None: before the first or after the last one
    passed  the finished phases of that step, in order
    calls   the collectives that the rank has reached in that step
    number  of these, the first one that is not over, counted from 0; None: none. kind, root, group: as in Collective
    ahead   the rank goes on while that one is under way, or waits in native code; the two cannot be told apart
    asleep  the rank sleeps in an injected delay
    """

    step: Count | None = None
    passed: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()
    calls: Count = 0
    number: Count | None = None
    kind: Word = ""
    root: RankNumber | None = None
    group: Group = ()
    ahead: bool = False
    asleep: bool = False


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    """The state of a rank's GPU by NVML, whatever process uses it. None: NVML does not report it.

    busy_percent  share of the last second, at most, in which some kernel ran
    used_bytes    of its memory, by all processes; total_bytes: all of its memory
    watts         the power that it draws
    celsius       its temperature
    """

    busy_percent: Number | None = None
    used_bytes: Count | None = None
    total_bytes: Count | None = None
    watts: Number | None = None
    celsius: Number | None = None


class Heartbeat(Tagged, frozen=True, kw_only=True):
    """Sent once a second. cpu_percent is of one core, gpu_bytes what the rank's own tensors take of GPU memory, and
    dropped the messages that found a full queue."""

    rank: RankNumber
    at_ns: Count
    cpu_percent: Number | None  # None: not a number
    rss_bytes: Count
    gpu_bytes: Count | None = None
    gpu: Gpu | None = None
    dropped: Count = 0
    position: Position = Position()


class Tied(Tagged, frozen=True, kw_only=True):
    """A rank's device has a clock of its own, whose times are converted to the host's. From at_ns on they are off by
    error_ns at most, until the next such message."""

    rank: RankNumber
    at_ns: Count
    error_ns: Count


class Pause(Tagged, frozen=True, kw_only=True):
    """The whole process stood still, stopped or without a core: its sending thread woke too late. begin_ns is an
    estimate, halfway between two checks."""

    rank: RankNumber
    begin_ns: Count
    end_ns: Count


class Fingerprint(Tagged, frozen=True, kw_only=True):
    """A rank's copy of the model after a step, as hashes like those in Done."""

    rank: RankNumber
    step: Count
    parameters: Hashes
    buffers: Hashes


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a strategy's result on a rank is from the true mean over the ranks, which is computed another way.

    of            what was averaged
    error         the distance to the mean
    worst         the tensor farthest from its mean in units of its own length, and worst_error that distance
    scale         the multiple of the mean that is nearest, and scaled_error the distance to that
    own_scale     the multiple of the rank's own tensors that is nearest, and own_error the distance to that

    Distances are Euclidean, over all tensors together (worst_error: over one), in units of the root mean square over
    the ranks of the length of their own tensors. None where a tensor was not finite.
    """

    of: Literal["gradients", "parameters"]
    error: Number | None
    scale: Number | None
    scaled_error: Number | None
    own_scale: Number | None
    own_error: Number | None
    worst: Name
    worst_error: Number | None


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """A tensor, or a list of tensors, passed to a primitive, as in analysis.primitives.results.BufferView."""

    name: Word
    parts: Count
    before: Values | None
    after: Values | None
    undefined: bool = False


class Shown(Tagged, frozen=True, kw_only=True):
    """One call of a primitive with a small tensor. place: its number among all that the trial shows. error: the
    backend's own words, if it cannot do it."""

    rank: RankNumber
    place: Count
    at_ns: Count
    operation: Word
    reduce_op: Word | None
    root: RankNumber | None
    call: Name
    buffers: Annotated[tuple[Buffer, ...], Meta(max_length=8)] = ()
    error: Name | None = None


class Timed(Tagged, frozen=True, kw_only=True):
    """Repeated calls of a primitive, or of a composite of them, with one size.

    bytes counts as in analysis.primitives.results.Cell. calls_ns holds the time of each call; it is empty on a rank
    that takes no part. wrong counts this rank's elements that were not as they should be, over all checked calls.
    """

    rank: RankNumber
    place: Count
    at_ns: Count
    operation: Word
    composite: bool
    reduce_op: Word | None
    cadence: Word
    bytes: Count
    calls_ns: Annotated[tuple[Count, ...], Meta(max_length=100_000)] = ()
    wrong: Count = 0
    error: Name | None = None


class Done(Tagged, frozen=True, kw_only=True):
    """A rank has trained and evaluated. Hashes are of the bytes of each tensor, by its name in the bare model."""

    rank: RankNumber
    at_ns: Count
    correct: Count
    evaluated: Count
    parameters: Hashes
    buffers: Hashes
    audit: Audit | None = None  # none: there is no group
    orders: tuple[Hash, ...] = ()  # a short hash of the order of the samples, epoch by epoch
    bottleneck_fired: Count
    bottleneck_ns: Count
    sub_batch: Count | None = None  # dp: the most samples that this replica saw in a step
    peak_gpu_bytes: Count | None = None
    checkpoint: Annotated[str, Meta(max_length=8192)] | None = None  # a path: shown nowhere
    dropped: Count = 0


class Failed(Tagged, frozen=True, kw_only=True):
    """A rank's last message, with its error. A killed rank sends none."""

    rank: RankNumber
    at_ns: Count
    error: Error


class Echo(Tagged, frozen=True, kw_only=True):
    """The immediate answer to a Probe: when the rank received it, and when it sent this. Journals hold the resulting
    Offset instead."""

    rank: RankNumber
    number: Count
    heard_ns: Count
    said_ns: Count


RankMessage = (
    Hello | Ready | Step | Trained | Heartbeat | Tied | Pause | Fingerprint | Shown | Timed | Done | Failed | Echo
)


class Stop(Tagged, frozen=True, kw_only=True):
    """To a rank: end now."""

    why: str


class Alive(Tagged, frozen=True, kw_only=True):
    """To a rank, every few seconds: the console is running."""


class SetBottleneck(Tagged, frozen=True, kw_only=True):
    """To a rank: from the next step on, these delays replace all others."""

    bottleneck: tuple[Bottleneck, ...]


class Probe(Tagged, frozen=True, kw_only=True):
    """To a rank with another clock: report the time of that clock."""

    number: int


ConsoleMessage = Stop | Alive | SetBottleneck | Probe
