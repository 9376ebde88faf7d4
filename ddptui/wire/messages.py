"""The messages that a rank sends to the console. records.py has the messages of the console.

A frame on the wire is a MessagePack list of tagged structs. They are decoded strictly by type, never unpickled.
Times are nanoseconds of the sender's `time.monotonic_ns()`, one clock for all processes of a host. Ranks on other hosts
have other clocks; analysis/clocks.py converts their times to the console's.
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
    Moment,
    Name,
    Number,
    RankNumber,
    Tagged,
    Values,
    Word,
)
from ddptui.wire.phases import BETWEEN, PARTS, PHASES

VERSION = 1  # a rank of another version is rejected; raise it for what an old console would misread or refuse
Pieces = Annotated[tuple[tuple[Annotated[int, Meta(ge=0, lt=len(PARTS))], Count], ...], Meta(max_length=MOST_A_STEP)]
POINT_TO_POINT = ("send", "recv")  # kinds of Collective that concern two ranks only
SAME_SIZE = ("all_reduce", "broadcast", "reduce")  # collectives whose size is the same on all ranks
GATHER_OUTPUTS = "gather_outputs"  # in `dp`, the collective that gathers all replicas' outputs on the first device
Settings = Annotated[dict[Word, Name], Meta(max_length=32)]
DeadWorkers = Annotated[tuple[tuple[Count, int], ...], Meta(max_length=64)]  # of a DataLoader: pid and exit code
Order = Annotated[tuple[Annotated[int, Meta(ge=0, lt=len(PHASES))], ...], Meta(min_length=1, max_length=16)]


class Hello(Tagged, frozen=True, kw_only=True):
    """The first message of every rank (in `dp`: of every replica)."""

    # version, rank and world_size have no bounds: a rank with the right token but a wrong number gets an answer that
    # says what is wrong.
    version: int
    token: Annotated[str, Meta(max_length=256)]
    rank: int
    world_size: int
    at_ns: Count
    host: Name
    pid: Count
    device: Name
    threads: Count
    torch: Name  # version of torch
    device_why: Name = ""  # why this device, if the trial leaves it open and the user might expect another
    backend: Word | None = None
    backend_why: Name = ""
    clock: Name = ""  # identifies the clock of the rank's times; empty: the clock of the console


class HelloOfAnyVersion(msgspec.Struct, frozen=True, kw_only=True, tag="Hello"):
    """The fields of a Hello that every version of this protocol keeps. Unknown fields are ignored."""

    version: int
    token: Annotated[str, Meta(max_length=256)]
    rank: int


class Nccl(msgspec.Struct, frozen=True, array_like=True):
    """The NCCL that a rank's process group uses."""

    version: Name  # 2.28.9
    implementation: Word  # torch's class for it: ProcessGroupNCCL, or since torch 2.14 ProcessGroupNCCL2


class OwnGpu(msgspec.Struct, frozen=True, array_like=True):
    """A GPU that a rank computes on. A field is empty if CUDA does not report it."""

    name: Name  # NVIDIA H100 80GB HBM3
    uuid: Word  # the same for ranks that share the GPU


class Ready(Tagged, frozen=True, kw_only=True):
    """A rank has loaded its model and data."""

    rank: RankNumber
    at_ns: Count
    steps: Count | None  # planned steps; None: not known, in a watched training
    parameters: Count  # number of scalar parameters of the model
    batches: Count | None = None  # in an epoch; None: not known, in a watched training
    start_ns: Count = 0  # length of the delay injected at the start
    flops: Amount | None = None  # floating-point operations of forward and backward for one sample; None: not counted
    precision: Word = ""  # the type of most of these operations on a GPU: float64, float32, tf32, fp16, bf16
    nccl: Nccl | None = None  # None: another backend, or no group
    gpus: Annotated[tuple[OwnGpu, ...], Meta(max_length=64)] = ()  # one with gpus_per_rank = 1; none on the CPU


class Collective(msgspec.Struct, frozen=True, array_like=True):
    """One collective, send or receive, as one rank saw it."""

    kind: Word  # name of the function in torch.distributed
    seq: Count  # number of the call within its group and step: the same on all ranks of the group
    bytes: Count  # size of the tensor that this rank sends; in a scatter or a receive, of the tensor it receives
    called_ns: Count  # when the rank reached the call
    enter_ns: Count  # when the rank entered the call, after any injected delay
    awaited_ns: Count  # when the rank began to wait for it: enter_ns, unless the collective runs in the background
    exit_ns: Count  # when it finished, not after the wait ended; before awaited_ns if the rank did not have to wait
    root: RankNumber | None = None  # the rank that sends or receives all; for a send or a receive, the peer
    group: Group = ()  # the ranks that take part; empty: all ranks
    bucket: Count | None = None  # the number of the gradient bucket that it carried, if any
    line: Count | None = None  # number of the Line that called it, if that is known


class Slept(msgspec.Struct, frozen=True, array_like=True):
    """An injected delay that a rank has slept through."""

    at: Site
    begin_ns: Count
    end_ns: Count


class Sampled(msgspec.Struct, frozen=True, array_like=True):
    """Where the training's thread was at a moment."""

    at_ns: Count
    ns: Count  # the time for which this sample stands
    line: Count  # number of a Line
    held_ns: Count = 0  # how long the thread kept Python's lock after at_ns: at the end of that, it was on this line


class Step(Tagged, frozen=True, kw_only=True):
    """One finished step."""

    rank: RankNumber
    step: Count
    epoch: Count
    warmup: bool
    begin_ns: Count
    end_ns: Count
    phases_ns: tuple[Count, Count, Count, Count, Count]  # in the order of PHASES; 0 for a phase that did not occur
    samples: Count
    loss: Number | None  # mean over the rank's own samples (dp: over the batch, on the output device); None: not finite
    order: Order = (0, 1, 2, 3, 4)  # indices into PHASES, as executed: in `dp`, aggregation precedes backward
    collectives: Annotated[tuple[Collective, ...], Meta(max_length=MOST_A_STEP)] = ()
    slept: Annotated[tuple[Slept, ...], Meta(max_length=MOST_A_STEP)] = ()
    # How the training thread spent the time since the previous step ended; 0 if the system does not count it.
    queued_ns: Count = 0  # ready to run, but without a core
    cpu_ns: Count = 0  # running on a core
    # Only for a step in which a phase occurs more than once, or in which some time belongs to no phase: the pieces of
    # the step in order, each as an index into PARTS and a length in ns. Otherwise empty, and `order` applies.
    pieces: Pieces = ()
    has_loss: bool = True  # whether the loss could be read: if so, and it is None, it is NaN or infinite
    lines: Annotated[tuple[Sampled, ...], Meta(max_length=MOST_A_STEP)] = ()  # since the step before


class Trained(Tagged, frozen=True, kw_only=True):
    """All steps of an uninstrumented rank, in one message. The warm-up is included in first_ns only."""

    rank: RankNumber
    first_ns: Count  # start of the first step
    begin_ns: Count  # start of the first step after the warm-up
    end_ns: Count
    steps: Count
    samples: Count
    loss: Number | None  # of the last step


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A line of code on a rank's stack."""

    file: Name  # relative to the training's folder, if it lies below
    line: Count
    function: Name
    own: bool  # part of the user's code, not of a library

    @property
    def text(self) -> str:
        """As in train.py:57."""
        file = self.file if not self.file.startswith("/") else self.file.rpartition("/")[2]
        return f"{file}:{self.line}"

    @property
    def full_text(self) -> str:
        """As in "augment, train.py:28"; in the body of a module, "train.py:28". A lambda has its function's name."""
        names = [name for name in self.function.split(".<locals>.") if not name.startswith("<")]
        return f"{names[-1]}, {self.text}" if names else self.text


Stack = Annotated[tuple[Place, ...], Meta(max_length=64)]  # innermost first


class Line(Tagged, frozen=True, kw_only=True):
    """A line of the user's code and its callers, for which a number stands in a Step."""

    rank: RankNumber
    number: Count  # a hash of the rest: the same on all ranks
    stack: Annotated[tuple[Place, ...], Meta(min_length=1, max_length=64)]  # innermost first
    outside: Count = 0  # if the line is within calls of modules: the first frame of `stack` outside of them

    def within(self, part: str) -> Stack:
        """The line in a part of a step. Between steps, an evaluation calls the modules: its own line counts."""
        whole = self.outside or len(self.stack)
        return (self.stack[self.outside :] if part == BETWEEN else self.stack[:whole]) or self.stack


class Stood(Tagged, frozen=True, kw_only=True):
    """Where a rank stood when the console asked for all stacks."""

    rank: RankNumber
    at_ns: Count
    asked: Count  # number of the console's request
    stack: Stack


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where in its training a rank is right now."""

    step: Count | None = None  # None: before the first or after the last step
    passed: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()  # the finished phases of that step, in order
    calls: Count = 0  # number of collectives that the rank has reached in that step
    number: Count | None = None  # index of the first unfinished one among them, from 0; None: all have finished
    kind: Word = ""  # kind of that collective, as in Collective; so are root and group
    root: RankNumber | None = None
    group: Group = ()
    ahead: bool = False  # the rank either works on meanwhile or waits in native code: the two look the same
    asleep: bool = False  # in an injected delay
    # Only in a watched training:
    epoch: Count = 0  # the pass over the data
    batch: Count = 0  # batches fetched in this pass
    batches: Count | None = None  # batches per pass; None: not known
    phase: Word = ""  # one of PARTS; empty: the phase after those in `passed`. Of the lab: BETWEEN after the last step
    seq: Count = 0  # number of the unfinished collective within its group since the start, from 1; 0: not known
    bytes: Count = 0  # its size, as in Collective
    between: Count = 0  # collectives between the end of the last step and the begin of this one's data or forward


class Gpu(msgspec.Struct, frozen=True, array_like=True):
    """The state of a rank's GPU as NVML reports it, over all processes that use it. None: NVML does not report it."""

    busy_percent: Number | None = None  # share of the last second (or less) in which some kernel ran
    used_bytes: Count | None = None  # by all processes
    total_bytes: Count | None = None
    watts: Number | None = None
    celsius: Number | None = None
    sm_mhz: Amount | None = None  # clock rate of the streaming multiprocessors
    # Whether heat or the power limit lowers the clock. Journals of older versions list reasons, which are ignored.
    held_back: bool | Annotated[tuple[Word, ...], Meta(max_length=16)] | None = None
    joules: Amount | None = None  # energy used since the driver was loaded


class LoaderWorker(msgspec.Struct, frozen=True, array_like=True):
    """A worker process of a rank's DataLoader."""

    cpu_percent: Number | None  # of one core, since the last heartbeat
    state: Literal["running", "disk", "asleep"]  # right now: running or ready to run, waiting for a disk, or neither


class Heartbeat(Tagged, frozen=True, kw_only=True):
    """A rank's regular report, sent once a second."""

    rank: RankNumber
    at_ns: Count
    cpu_percent: Number | None  # of one core; None: not a number
    rss_bytes: Count
    gpu_bytes: Count | None = None  # GPU memory of the rank's tensors
    gpu_reserved_bytes: Count | None = None  # GPU memory that torch has reserved, used or not
    gpu: Gpu | None = None
    dropped: Count = 0  # messages lost because the queue was full
    position: Position = Position()
    stack: Stack = ()  # of a watched training whose thread has made no call for some seconds; else empty
    loaders: Annotated[tuple[LoaderWorker, ...], Meta(max_length=256)] = ()


class Tied(Tagged, frozen=True, kw_only=True):
    """A bound for the error of times that a rank's device measured by its own clock: at most error_ns, until the next
    such message."""

    rank: RankNumber
    at_ns: Count
    error_ns: Count


class Pause(Tagged, frozen=True, kw_only=True):
    """The whole process stood still, because it was stopped or had no core: its sending thread woke too late."""

    rank: RankNumber
    begin_ns: Count  # an estimate: halfway between two checks
    end_ns: Count


class Fingerprint(Tagged, frozen=True, kw_only=True):
    """A rank's copy of the model after a step (in a watched training: as an optimizer's step begins). Hashes are like
    those in Done, or sums over the bytes of each tensor, modulo 2^64; of a large model, only some tensors have one."""

    rank: RankNumber
    step: Count
    parameters: Hashes
    buffers: Hashes
    # Only of a watched training:
    gradients: Hashes = msgspec.field(default_factory=dict)
    optimizer: Count = 0  # its number in the rank
    at_end: bool = False  # the training is over, and may have changed the model since its last step
    sharded: Count = 0  # parameters of which the rank holds only a part
    # Some numbers of the gradients: before a collective could average them, and as the optimizer received them.
    own: Values = ()
    left: Values = ()
    mean_loss: bool = False  # whether backward was called on the mean of losses
    ddp_groups: Annotated[tuple[Group, ...], Meta(max_length=64)] = ()  # of each torch DDP; empty: all ranks
    ddp_called: bool = False  # whether the forward of a torch DDP was called
    ddp_hooks: Annotated[tuple[Word, ...], Meta(max_length=8)] = ()  # its communication hooks, by name
    settings: Settings = msgspec.field(default_factory=dict)  # what should be the same on all ranks


class Batch(Tagged, frozen=True, kw_only=True):
    """A batch on which a rank of a watched training trains."""

    rank: RankNumber
    step: Count
    loader: Annotated[int, Meta(ge=-1, le=2**31)]  # its number in the rank; -1: none, these are a module's arguments
    passes: Count  # over the loader's data, this one included
    batch: Count  # its number in the pass; without a loader, a number that is the same on all ranks
    samples: Count
    elements: Count  # numbers in the first tensor
    rows: Annotated[tuple[Moment, ...], Meta(max_length=256)]  # a sum for each of the first samples
    sampler: Word = ""  # the sampler's class
    epoch: Count | None = None  # as the sampler of a shuffled loader knows it; its order depends on nothing else


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a strategy's result on a rank is from the true mean over the ranks, which is computed independently.

    Distances are Euclidean norms over all tensors together (worst_error: over one tensor), divided by the root mean
    square over the ranks of the norm of their own tensors. None if a tensor was not finite.
    """

    of: Literal["gradients", "parameters"]  # what was averaged
    error: Number | None  # distance to the mean
    scale: Number | None  # the factor for which factor × mean is nearest to the result
    scaled_error: Number | None  # distance to that multiple of the mean
    own_scale: Number | None  # the factor for which factor × the rank's own tensors is nearest to the result
    own_error: Number | None  # distance to that multiple
    worst: Name  # the tensor farthest from its mean, relative to its own norm
    worst_error: Number | None  # distance of that tensor
    bytes: Count = 0  # size of all tensors
    tensors: Count = 0  # number of tensors; 0: from an older run, in which the following are not known, either
    wrong: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()  # tensors that rounding does not explain, some of many
    wrong_tensors: Count = 0  # their number
    kept_tensors: Count = 0  # how many of them are the rank's own, unchanged
    # The result is nearest to the sum of weight × tensors over the ranks, for these weights; empty: not computed.
    weights: Annotated[tuple[Number, ...], Meta(max_length=64)] = ()
    weighted_error: Number | None = None  # distance to that sum


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """A tensor, or a list of tensors, passed to a primitive; see analysis.primitives.results.BufferView."""

    name: Word
    parts: Count
    before: Values | None
    after: Values | None
    undefined: bool = False


class Shown(Tagged, frozen=True, kw_only=True):
    """One demonstration call of a primitive with a small tensor."""

    rank: RankNumber
    place: Count  # index of the call among all that the trial shows
    at_ns: Count
    operation: Word
    reduce_op: Word | None
    root: RankNumber | None
    call: Name
    buffers: Annotated[tuple[Buffer, ...], Meta(max_length=8)] = ()
    error: Name | None = None  # the backend's message, if it does not support the call


class Timed(Tagged, frozen=True, kw_only=True):
    """Timed calls of a primitive, or of a composite of primitives, with one message size."""

    rank: RankNumber
    place: Count
    at_ns: Count
    operation: Word
    composite: bool
    reduce_op: Word | None
    cadence: Word
    bytes: Count  # message size, as in analysis.primitives.results.Cell
    calls_ns: Annotated[tuple[Count, ...], Meta(max_length=100_000)] = ()  # empty on a rank that takes no part
    in_flight: Count = 1  # simultaneous calls; if several, each of calls_ns is their total time divided by their number
    wrong: Count = 0  # this rank's wrong elements, over all checked calls
    error: Name | None = None


class Done(Tagged, frozen=True, kw_only=True):
    """A rank has finished training and evaluation. Hashes cover the bytes of each tensor, by its name in the bare
    model."""

    rank: RankNumber
    at_ns: Count
    correct: Count
    evaluated: Count
    parameters: Hashes
    buffers: Hashes
    audit: Audit | None = None  # None: there is no process group
    orders: tuple[Hash, ...] = ()  # for each epoch, a short hash of the order of the samples
    bottleneck_fired: Count
    bottleneck_ns: Count
    sub_batch: Count | None = None  # dp: the largest number of samples that this replica saw in a step
    peak_gpu_bytes: Count | None = None
    peak_gpu_reserved_bytes: Count | None = None
    checkpoint: Annotated[str, Meta(max_length=8192)] | None = None  # a path, which is not displayed
    dropped: Count = 0


class Failed(Tagged, frozen=True, kw_only=True):
    """A rank's last message, with its error. A killed rank of the lab sends none; for a watched one, the relay does."""

    rank: RankNumber
    at_ns: Count
    error: Error  # empty: the process has ended without an error message
    # Only of a watched training:
    stack: Stack = ()  # where the exception was raised
    workers: DeadWorkers = ()
    position: Position = Position()  # where the rank was
    grown_bytes: int = 0  # by how much its resident memory has grown since its first message


class Echo(Tagged, frozen=True, kw_only=True):
    """The immediate answer to a Probe. Journals hold the resulting Offset instead."""

    rank: RankNumber
    number: Count  # number of the probe
    heard_ns: Count  # when the rank received the probe
    said_ns: Count  # when the rank sent this answer


RankMessage = (
    Hello
    | Ready
    | Step
    | Trained
    | Heartbeat
    | Tied
    | Pause
    | Line
    | Stood
    | Fingerprint
    | Batch
    | Shown
    | Timed
    | Done
    | Failed
    | Echo
)
