"""Every message between a rank and the console, and every line of a run's journal.

A frame on the wire is a MessagePack list of tagged structs. It is decoded by type, strictly, and never unpickled.
Times are nanoseconds of the sender's `time.monotonic_ns()`, one clock for all processes of a host. Ranks elsewhere have
another one: `clocks.py` brings all of them to the console's.
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
    """A rank exists. The first message of every rank, or replica. Who has the token and does not fit is told so:
    hence no limits for version, rank and world_size. `device_why`: where the trial left the device open, and one might
    have expected another. `clock`: which one it tells the time by (empty: the console's)."""

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
    """A rank has its model and its data, and knows how many steps it will make. `start_ns`: from its Hello until it was
    about to meet the others."""

    rank: RankNumber
    at_ns: Count
    steps: Count
    parameters: Count
    start_ns: Count = 0


class Collective(msgspec.Struct, frozen=True, array_like=True):
    """One collective (or a send, or a receive), as one rank saw it.

    kind        torch.distributed's name of it
    seq         its number on its group in this step; with the step and the group, it says which one it is on all ranks
    bytes       of the tensor that this rank gives; receives, in a scatter or a receive
    called_ns   the rank has come to the call; enter_ns: it has entered, after whatever delay was put in between
    awaited_ns  from here on the rank did nothing else: enter_ns, or for an operation that runs in the background the
                moment at which it began to wait for it
    exit_ns     it was over, at the latest when the wait for it was; before awaited_ns, if nobody had to wait
    root        the rank that all give to or get from; of a send or a receive, the partner
    group       the ranks of its group, none named: all
    bucket      which bucket of gradients it carried, where there are any
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
    """A delay that was put in: where, and what it really took."""

    at: Site
    begin_ns: Count
    end_ns: Count


class Step(Tagged, frozen=True, kw_only=True):
    """One finished step. `phases_ns` follows PHASES; `order` has the places there of the phases that the step had, as
    they came (in `dp` the aggregation comes before backward)."""

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
    """All that a rank without instruments says of its steps: when the first of all began; and of those after the
    warm-up, how many, with how many samples, and when they began and ended. The loss is the last step's."""

    rank: RankNumber
    first_ns: Count
    begin_ns: Count
    end_ns: Count
    steps: Count
    samples: Count
    loss: Number | None


class Position(msgspec.Struct, frozen=True, array_like=True):
    """Where a rank is at the moment.

    step    the step that it is in; none: before its first one, or after its last one
    passed  the phases of that step that are over, in their order
    calls   the collectives that it has come to in that step
    number  of these, the first one that is not over, counted from 0; none: all are. kind, root, group: as in Collective
    ahead   it goes on while that one is under way, or waits in native code, which cannot be told apart
    asleep  it sleeps in a delay that was put in
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
    """What a rank's GPU is at, as NVML tells, whoever uses it. None: it does not say.

    busy_percent  of the time lately (a second at most), in which some kernel ran
    used_bytes    of its memory, by all processes; total_bytes: all there is
    watts         what it draws
    celsius       how hot it is
    """

    busy_percent: Number | None = None
    used_bytes: Count | None = None
    total_bytes: Count | None = None
    watts: Number | None = None
    celsius: Number | None = None


class Heartbeat(Tagged, frozen=True, kw_only=True):
    """Once a second. `cpu_percent` is of one core, `gpu_bytes` what the rank's own tensors take of its GPU's memory,
    `dropped` counts messages that found a full queue."""

    rank: RankNumber
    at_ns: Count
    cpu_percent: Number | None  # None: not a number
    rss_bytes: Count
    gpu_bytes: Count | None = None
    gpu: Gpu | None = None
    dropped: Count = 0
    position: Position = Position()


class Tied(Tagged, frozen=True, kw_only=True):
    """A rank's device has a clock of its own. Its times are told by the host's: off by `error_ns` at most, from this
    moment on, until it is said anew."""

    rank: RankNumber
    at_ns: Count
    error_ns: Count


class Pause(Tagged, frozen=True, kw_only=True):
    """The whole process stood still (stopped, or without a core): the thread that sends should have woken, and did
    not. That it began between two looks of the thread, begin_ns takes for granted: halfway."""

    rank: RankNumber
    begin_ns: Count
    end_ns: Count


class Fingerprint(Tagged, frozen=True, kw_only=True):
    """What a rank's copy of the model is after a step: hashes as in Done."""

    rank: RankNumber
    step: Count
    parameters: Hashes
    buffers: Hashes


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the strategy leaves on a rank, against the true mean over the ranks, which was worked out another way.

    of            what was averaged
    error         the distance to the mean
    worst         the tensor that is farthest from its mean, measured by its own length, and worst_error that distance
    scale         the multiple of the mean that comes nearest to it, and scaled_error the distance to that
    own_scale     the multiple of the rank's own tensors that comes nearest, and own_error the distance to that

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
    """A tensor, or list of tensors, that a rank passes to a primitive; see primitives.results.BufferView."""

    name: Word
    parts: Count
    before: Values | None
    after: Values | None
    undefined: bool = False


class Shown(Tagged, frozen=True, kw_only=True):
    """A primitive was called once, with a small tensor. place: its own among all that the trial shows. error: the
    backend cannot do it, in its words."""

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
    """A primitive, or what a strategy makes of them, was called again and again with one size. bytes: as in
    primitives.results.Cell; calls_ns: what each call took (empty: this rank had no part in it); wrong: elements of this
    rank's that were not what they should be, over all the calls that were checked."""

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
    """A rank has trained and evaluated. Hashes are of each tensor's bytes, by its name in the bare model."""

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
    """A rank's own last words. A killed rank has none."""

    rank: RankNumber
    at_ns: Count
    error: Error


class Echo(Tagged, frozen=True, kw_only=True):
    """The answer to a Probe, at once: when the rank had heard it, and when it said this. No line of a journal: what the
    console makes of it is, an Offset."""

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
    """To a rank, every few seconds: the console is there."""


class SetBottleneck(Tagged, frozen=True, kw_only=True):
    """To a rank: from the next step on, these delays and no others."""

    bottleneck: tuple[Bottleneck, ...]


class Probe(Tagged, frozen=True, kw_only=True):
    """To a rank whose clock is another: say what time it is there."""

    number: int


ConsoleMessage = Stop | Alive | SetBottleneck | Probe
