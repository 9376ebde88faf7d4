"""Every message between a rank and the console, and every line of a run's journal.

A frame on the wire is a MessagePack list of tagged structs. It is decoded by type, strictly, and never unpickled.
Times are nanoseconds of the sender's `time.monotonic_ns()`, one clock for all processes of a host.
"""

from typing import Annotated, Literal

import msgspec

from ddptui.preset import Bottleneck, Site

VERSION = 1
PHASES = ("data", "forward", "backward", "aggregate", "optimizer")
GATHER_OUTPUTS = "gather_outputs"  # in `dp`, the collective that it is: all replicas' outputs, to the first device
MOST_BYTES_A_FRAME = 16 * 2**20

# What the console tells a rank about itself, in its environment.
HUB = "DDPTUI_HUB"  # the endpoint to connect to
TOKEN = "DDPTUI_TOKEN"  # proves that a rank belongs to this launch
LOGS = "DDPTUI_LOGS"  # the folder for rank-R.log
CONSOLE_PID = "DDPTUI_CONSOLE_PID"  # the process whose death ends the rank


class _Message(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    pass


class Hello(_Message, frozen=True, kw_only=True):
    """A rank exists. The first message of every rank, or replica."""

    version: int
    token: str
    rank: int
    world_size: int
    at_ns: int
    host: str
    pid: int
    device: str
    threads: int
    torch: str
    backend: str | None = None
    backend_why: str = ""


class Ready(_Message, frozen=True, kw_only=True):
    """A rank has its model and its data, and knows how many steps it will make. `start_ns`: from its Hello until it was
    about to meet the others."""

    rank: int
    at_ns: int
    steps: int
    parameters: int
    start_ns: int = 0


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

    kind: str
    seq: int
    bytes: int
    called_ns: int
    enter_ns: int
    awaited_ns: int
    exit_ns: int
    root: int | None = None
    group: tuple[int, ...] = ()
    bucket: int | None = None


class Slept(msgspec.Struct, frozen=True, array_like=True):
    """A delay that was put in: where, and what it really took."""

    at: Site
    begin_ns: int
    end_ns: int


class Step(_Message, frozen=True, kw_only=True):
    """One finished step. `phases_ns` follows PHASES; `order` has the places there of the phases that the step had, as
    they came (in `dp` the aggregation comes before backward)."""

    rank: int
    step: int
    epoch: int
    warmup: bool
    begin_ns: int
    end_ns: int
    phases_ns: tuple[int, int, int, int, int]
    samples: int
    loss: float | None  # mean over its own samples (dp: over the batch, on the output device); None: not finite
    order: tuple[Annotated[int, msgspec.Meta(ge=0, lt=len(PHASES))], ...] = (0, 1, 2, 3, 4)
    collectives: tuple[Collective, ...] = ()
    slept: tuple[Slept, ...] = ()


class Trained(_Message, frozen=True, kw_only=True):
    """All that a rank without instruments says of its steps: when the first of all began; and of those after the
    warm-up, how many, with how many samples, and when they began and ended. The loss is the last step's."""

    rank: int
    first_ns: int
    begin_ns: int
    end_ns: int
    steps: int
    samples: int
    loss: float | None


class Heartbeat(_Message, frozen=True, kw_only=True):
    """Once a second. `cpu_percent` is of one core, `dropped` counts messages that found a full queue."""

    rank: int
    at_ns: int
    cpu_percent: float | None  # None: not a number
    rss_bytes: int
    gpu_bytes: int | None = None
    dropped: int = 0


class Pause(_Message, frozen=True, kw_only=True):
    """The whole process stood still (stopped, or without a core): the thread that sends should have woken, and did
    not. That it began between two looks of the thread, begin_ns takes for granted: halfway."""

    rank: int
    begin_ns: int
    end_ns: int


class Fingerprint(_Message, frozen=True, kw_only=True):
    """What a rank's copy of the model is after a step: hashes as in Done."""

    rank: int
    step: int
    parameters: dict[str, str]
    buffers: dict[str, str]


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
    error: float | None
    scale: float | None
    scaled_error: float | None
    own_scale: float | None
    own_error: float | None
    worst: str
    worst_error: float | None


class Done(_Message, frozen=True, kw_only=True):
    """A rank has trained and evaluated. Hashes are of each tensor's bytes, by its name in the bare model."""

    rank: int
    at_ns: int
    correct: int
    evaluated: int
    parameters: dict[str, str]
    buffers: dict[str, str]
    audit: Audit | None = None  # none: there is no group
    orders: tuple[str, ...] = ()  # a short hash of the order of the samples, epoch by epoch
    bottleneck_fired: int
    bottleneck_ns: int
    sub_batch: int | None = None  # dp: the most samples that this replica saw in a step
    peak_gpu_bytes: int | None = None
    checkpoint: str | None = None
    dropped: int = 0


class Failed(_Message, frozen=True, kw_only=True):
    """A rank's own last words. A killed rank has none."""

    rank: int
    at_ns: int
    error: str


RankMessage = Hello | Ready | Step | Trained | Heartbeat | Pause | Fingerprint | Done | Failed


class Stop(_Message, frozen=True, kw_only=True):
    """To a rank: end now."""

    why: str


class SetBottleneck(_Message, frozen=True, kw_only=True):
    """To a rank: from the next step on, these delays and no others."""

    bottleneck: tuple[Bottleneck, ...]


ConsoleMessage = Stop | SetBottleneck


class Load(_Message, frozen=True, kw_only=True):
    """How busy this host is, in cores, and how much of that is the launch and the console. Once a second."""

    at_ns: int
    busy: float
    own: float


class Launched(_Message, frozen=True, kw_only=True):
    """The lab has started a repeat of a trial. The first line of its journal."""

    trial: str
    repeat: int
    at_ns: int
    command: tuple[str, ...]


class Injection(_Message, frozen=True, kw_only=True):
    """The lab has sent the ranks these delays, in place of those that they had: each takes them up at its next step."""

    at_ns: int
    bottleneck: tuple[Bottleneck, ...]


class Ended(_Message, frozen=True, kw_only=True):
    """The lab has seen the end of a repeat. The last line of its journal. Skipped: somebody wanted to go on to the next
    trial."""

    at_ns: int
    status: Literal["ok", "failed", "interrupted", "skipped"]
    error: str | None = None


Message = RankMessage | Launched | Load | Injection | Ended
