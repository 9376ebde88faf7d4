"""The messages of a rank to the console, whose own are in records.py.

A frame on the wire is a MessagePack list of tagged structs, which are decoded by type, strictly, and never unpickled.
Times are nanoseconds of the sender's `time.monotonic_ns()`, one clock for all processes of a host. Ranks on other hosts
have other clocks; analysis/clock_sync.py converts their times to the console's.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ddptui.config.trial import Site
from ddptui.wire.limits import (
    MOST_A_STEP,
    Amount,
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
from ddptui.wire.phases import PARTS, PHASES

VERSION = 1  # a rank of another one is refused; only a change that an old console would misread takes a new one
Pieces = Annotated[tuple[tuple[Annotated[int, Meta(ge=0, lt=len(PARTS))], Count], ...], Meta(max_length=MOST_A_STEP)]
GATHER_OUTPUTS = "gather_outputs"  # in `dp`, the collective that it is: all replicas' outputs, to the first device
Order = Annotated[tuple[Annotated[int, Meta(ge=0, lt=len(PHASES))], ...], Meta(min_length=1, max_length=16)]


class Hello(Tagged, frozen=True, kw_only=True):
    """The first message of every rank, or replica in `dp`."""

    # version, rank and world_size have no bounds: a rank that has the token but does not fit gets an answer with why.
    version: int
    token: Annotated[str, Meta(max_length=256)]
    rank: int
    world_size: int
    at_ns: Count
    host: Name
    pid: Count
    device: Name
    threads: Count
    torch: Name  # its version
    device_why: Name = ""  # the trial left the device open, and another might be expected
    backend: Word | None = None
    backend_why: Name = ""
    clock: Name = ""  # identifies the clock of the rank's times; empty: the console's


class HelloOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Hello"):
    """The fields of a Hello that every version of this protocol keeps. Unknown fields are ignored."""

    version: int
    token: Annotated[str, Meta(max_length=256)]
    rank: int


class Nccl(msgspec.Struct, frozen=True, array_like=True):
    """The NCCL through which a rank's group communicates."""

    version: Name  # 2.28.9
    implementation: Word  # torch's class around it: ProcessGroupNCCL, or since torch 2.14 ProcessGroupNCCL2


class OwnGpu(msgspec.Struct, frozen=True, array_like=True):
    """A GPU that a rank computes on. Empty: CUDA does not tell."""

    name: Name  # NVIDIA H100 80GB HBM3
    uuid: Word  # the same for ranks that share it


class Ready(Tagged, frozen=True, kw_only=True):
    """A rank has its model and data."""

    rank: RankNumber
    at_ns: Count
    steps: Count | None  # that it will make; None: not known, of a training that is watched
    parameters: Count  # numbers in the model
    start_ns: Count = 0  # length of its injected delay at the start
    flops: Amount | None = None  # floating-point operations of forward and backward for one sample; None: not counted
    precision: Word = ""  # the type in which a GPU makes most of them: float64, float32, tf32, fp16, bf16
    nccl: Nccl | None = None  # None: another backend, or no group
    gpus: Annotated[tuple[OwnGpu, ...], Meta(max_length=64)] = ()  # one for gpus_per_rank = 1; none: it is on the CPU


class Collective(msgspec.Struct, frozen=True, array_like=True):
    """One collective, send or receive, as one rank saw it."""

    kind: Word  # its name in torch.distributed
    seq: Count  # its number within its group and step, which makes it the same call on all ranks
    bytes: Count  # of the tensor that this rank gives; in a scatter or a receive, of the one it receives
    called_ns: Count  # the rank reached the call
    enter_ns: Count  # the rank entered it, after any injected delay
    awaited_ns: Count  # from here on the rank did nothing else: enter_ns; in the background, the start of its wait
    exit_ns: Count  # it was over, at the latest when the wait was; before awaited_ns if the rank did not have to wait
    root: RankNumber | None = None  # the rank that gives or receives all; for a send or a receive, the partner
    group: Group = ()  # empty: all ranks
    bucket: Count | None = None  # the number of the bucket of gradients that it carried, if any


class Slept(msgspec.Struct, frozen=True, array_like=True):
    """An injected delay: its site, and when it began and ended."""

    at: Site
    begin_ns: Count
    end_ns: Count


class Step(Tagged, frozen=True, kw_only=True):
    """One finished step."""

    rank: RankNumber
    step: Count
    epoch: Count
    warmup: bool
    begin_ns: Count
    end_ns: Count
    phases_ns: tuple[Count, Count, Count, Count, Count]  # by PHASES; 0 for a phase that the step did not have
    samples: Count
    loss: Number | None  # mean over its own samples (dp: over the batch, on the output device); None: not finite
    order: Order = (0, 1, 2, 3, 4)  # places in PHASES, as executed: in `dp`, aggregation precedes backward
    collectives: Annotated[tuple[Collective, ...], Meta(max_length=MOST_A_STEP)] = ()
    slept: Annotated[tuple[Slept, ...], Meta(max_length=MOST_A_STEP)] = ()
    # Since the step before ended, of its thread; 0 where the system does not count it:
    queued_ns: Count = 0  # it was ready to run but had no core
    cpu_ns: Count = 0  # it was on a core
    # Where a phase comes more than once, or time is in none: the pieces of the step one after another, each as a place
    # in PARTS and its length in ns. Else empty: the step begins with the phases in `order`.
    pieces: Pieces = ()


class Trained(Tagged, frozen=True, kw_only=True):
    """All steps of a rank without instruments, in one message. Warm-up counts only for first_ns."""

    rank: RankNumber
    first_ns: Count  # the first of all steps began
    begin_ns: Count  # the first one after the warm-up began
    end_ns: Count
    steps: Count
    samples: Count
    loss: Number | None  # of the last step


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where a rank is at the moment."""

    step: Count | None = None  # None: before the first or after the last one
    passed: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()  # its finished phases of that step, in order
    calls: Count = 0  # the collectives that the rank has reached in that step
    number: Count | None = None  # of these, the first one that is not over, counted from 0; None: all are
    kind: Word = ""  # of that one, as in Collective; so are root and group
    root: RankNumber | None = None
    group: Group = ()
    ahead: bool = False  # the rank goes on meanwhile, or waits in native code: the two cannot be told apart
    asleep: bool = False  # in an injected delay
    # Of a training that is watched: its pass over the data, how many batches of that it has fetched, and of how many.
    epoch: Count = 0
    batch: Count = 0
    batches: Count | None = None  # None: not known
    phase: Word = ""  # in which it is, one of PARTS; empty: the one that follows those that it has passed


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    """The state of a rank's GPU by NVML, whatever process uses it. None: NVML does not report it."""

    busy_percent: Number | None = None  # share of the last second, at most, in which some kernel ran
    used_bytes: Count | None = None  # by all processes
    total_bytes: Count | None = None
    watts: Number | None = None
    celsius: Number | None = None
    sm_mhz: Amount | None = None  # the clock of its processors
    # Whether heat or the power supply lowers that. Journals of older versions list reasons: those are ignored.
    held_back: bool | Annotated[tuple[Word, ...], Meta(max_length=16)] | None = None
    joules: Amount | None = None  # spent since its driver was loaded


class Heartbeat(Tagged, frozen=True, kw_only=True):
    """Sent once a second."""

    rank: RankNumber
    at_ns: Count
    cpu_percent: Number | None  # of one core; None: not a number
    rss_bytes: Count
    gpu_bytes: Count | None = None  # GPU memory that the rank's own tensors take
    gpu_reserved_bytes: Count | None = None  # what torch holds for them, used or not
    gpu: Gpu | None = None
    dropped: Count = 0  # messages that found a full queue
    position: Position = Position()


class Tied(Tagged, frozen=True, kw_only=True):
    """The times of a rank's device, by a clock of its own, are off by error_ns at most; until the next such message."""

    rank: RankNumber
    at_ns: Count
    error_ns: Count


class Pause(Tagged, frozen=True, kw_only=True):
    """The whole process stood still, stopped or without a core: its sending thread woke too late."""

    rank: RankNumber
    begin_ns: Count  # an estimate, halfway between two checks
    end_ns: Count


class Fingerprint(Tagged, frozen=True, kw_only=True):
    """A rank's copy of the model after a step, as hashes like those in Done."""

    rank: RankNumber
    step: Count
    parameters: Hashes
    buffers: Hashes


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a strategy's result on a rank is from the true mean over the ranks, which is computed another way.

    Distances are Euclidean, over all tensors together (worst_error: over one), in units of the root mean square over
    the ranks of the length of their own tensors. None where a tensor was not finite.
    """

    of: Literal["gradients", "parameters"]  # what was averaged
    error: Number | None  # the distance to the mean
    scale: Number | None  # the multiple of the mean that is nearest
    scaled_error: Number | None  # the distance to that
    own_scale: Number | None  # the multiple of the rank's own tensors that is nearest
    own_error: Number | None  # the distance to that
    worst: Name  # the tensor farthest from its mean, in units of its own length
    worst_error: Number | None  # that distance


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """A tensor, or a list of tensors, passed to a primitive, as in analysis.primitives.results.BufferView."""

    name: Word
    parts: Count
    before: Values | None
    after: Values | None
    undefined: bool = False


class Shown(Tagged, frozen=True, kw_only=True):
    """One call of a primitive with a small tensor."""

    rank: RankNumber
    place: Count  # its number among all that the trial shows
    at_ns: Count
    operation: Word
    reduce_op: Word | None
    root: RankNumber | None
    call: Name
    buffers: Annotated[tuple[Buffer, ...], Meta(max_length=8)] = ()
    error: Name | None = None  # the backend's own words, if it cannot do it


class Timed(Tagged, frozen=True, kw_only=True):
    """Repeated calls of a primitive, or of a composite of them, with one size."""

    rank: RankNumber
    place: Count
    at_ns: Count
    operation: Word
    composite: bool
    reduce_op: Word | None
    cadence: Word
    bytes: Count  # as in analysis.primitives.results.Cell
    calls_ns: Annotated[tuple[Count, ...], Meta(max_length=100_000)] = ()  # empty on a rank that takes no part
    in_flight: Count = 1  # calls at once; more: each of calls_ns is the time of so many, divided by their number
    wrong: Count = 0  # this rank's elements that were not as they should be, over all checked calls
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
    peak_gpu_reserved_bytes: Count | None = None
    checkpoint: Annotated[str, Meta(max_length=8192)] | None = None  # a path: shown nowhere
    dropped: Count = 0


class Failed(Tagged, frozen=True, kw_only=True):
    """A rank's last message, with its error. A killed rank sends none."""

    rank: RankNumber
    at_ns: Count
    error: Error


class Echo(Tagged, frozen=True, kw_only=True):
    """The immediate answer to a Probe. Journals hold the resulting Offset instead."""

    rank: RankNumber
    number: Count  # of the probe
    heard_ns: Count  # received
    said_ns: Count  # answered


RankMessage = (
    Hello | Ready | Step | Trained | Heartbeat | Tied | Pause | Fingerprint | Shown | Timed | Done | Failed | Echo
)
