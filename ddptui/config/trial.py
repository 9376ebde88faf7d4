"""A trial and its parts, as frozen structs whose fields carry their descriptions. checks.py has the rules for them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta

from ddptui.config.catalog import (
    COMMAND,
    COMPOSITES,
    LAUNCH_MODES,
    MISTAKES,
    OPERATIONS,
    STRATEGIES,
    Cadence,
    ReduceOpName,
)

if TYPE_CHECKING:  # a type checker cannot compute these Literals
    LaunchMode = str
    MistakeName = str
    OperationName = str
    CompositeName = str
else:
    LaunchMode = Literal[tuple(LAUNCH_MODES)]
    MistakeName = Literal[tuple(MISTAKES)]
    OperationName = Literal[tuple(OPERATIONS)]
    CompositeName = Literal[tuple(COMPOSITES)]
Site = Literal["start", "data", "forward", "backward", "aggregate"]
LINK = "link"
# The names that a field takes beside the user's own code (own_code.py).
KNOWN: Mapping[str, tuple[str, ...]] = {
    "strategy": tuple(STRATEGIES),
    "dataset": ("digits", "mnist", "fashion_mnist", "cifar10", "random"),
    "at": (*get_args(Site), LINK),
}
StartKind = Literal["warm", "cold"]
TrialKind = Literal["training", "primitives", "command"]  # command: the user's own training, watched
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
MessageBytes = Annotated[int, Meta(ge=4, le=2**33)]
A_DAY_MS = 86_400_000
FaultKind = Literal[
    "kill", "exit", "raise", "abort", "stop", "hang", "skip", "mismatch",
    "uneven_inputs", "early_stop", "lone_collective", "other_shape", "wrong_order",
]  # fmt: skip
SHAPES = {"net": (1, 28, 28), "linears": (3,)}  # the sample shape of models that accept only one
PATIENCE = 10  # times stall_s: the timeout of a rank that still computes, since it may only be slow


class TrialError(ValueError):
    """An invalid trial. key: the path of the field within the trial; why: the error message, one sentence."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}" if key else why)
        self.key = key
        self.why = why


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An injected delay; or, with at = "link", a slow link between these ranks and the others."""

    # A delay comes at the rank's start, while it fetches data, after its forward or backward, or before a collective;
    # or where the user's own function wants one: `mine.py:delay`, see workers/own_code.py.
    at: str
    ranks: tuple[Count, ...]
    sleep_ms: Annotated[float, Meta(ge=0, le=A_DAY_MS)] = 0.0  # with jitter, the mean
    mbit: Annotated[float, Meta(gt=0, le=1e6)] | None = None  # link: Mbit/s (1e6 bits per second) each way, per rank
    # The fields below are for delays only: a link is slow from start to end.
    per: Literal["step", "call"] = "step"  # aggregate: before the first collective of a step, or before every one
    every: Positive = 1  # the delay happens in every n-th step
    from_step: Count = 0
    to_step: Count | None = None  # the last step with the delay; None: no end
    jitter: Literal["none", "uniform", "exponential"] = "none"  # uniform: on 0 to 2 × sleep_ms


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault, injected once into one rank in one step."""

    kind: FaultKind  # workers/rank/faults.py says what each does
    rank: Count
    step: Count


Work = Literal["train", "see", "measure", "watch"]
TRAIN: tuple[Work, ...] = ("train",)
PRIMITIVES: tuple[Work, ...] = ("see", "measure")
MEASURE: tuple[Work, ...] = ("measure",)
LAB: tuple[Work, ...] = (*TRAIN, *PRIMITIVES)  # work of ddptui's own ranks
WATCH: tuple[Work, ...] = ("watch",)
EVERY: tuple[Work, ...] = (*LAB, *WATCH)


class About(NamedTuple):
    """A field's description, and where the field has an effect. Annotates the fields of Trial; fields.py reads it."""

    description: str
    work: tuple[Work, ...] = TRAIN  # the kinds of work in which the field has an effect
    column: str = ""  # the column of a preset's table that shows the field; empty: the column has the field's name
    timed: bool = True  # the time of a step may depend on the field
    alone: str = ""  # why the field has no effect in one process; empty: it has one
    modes: Mapping[str, str] = MappingProxyType({})  # launch modes in which the field has no effect, with the reason
    needs: str = ""  # the property of StrategyFacts that a strategy must have for the field to have an effect


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration, launched once per repeat. `ddptui presets --fields` prints its fields."""

    # fmt: off
    name: Annotated[str, About("name of the trial and of its folder", EVERY, "trial", timed=False)] = ""
    launch: Annotated[LaunchMode, About("launch mode: what starts the ranks", EVERY)] = "spawn"
    command: Annotated[tuple[str, ...], About("your own training: a program and its arguments", WATCH)] = ()
    env: Annotated[tuple[str, ...], About(
        "NAME=VALUE: environment variables of the command, in addition to the console's own", WATCH)] = ()
    start_method: Annotated[Literal["spawn", "forkserver", "fork"], About(
        "how Python's multiprocessing starts a rank; any but spawn makes the start cold", LAB, timed=False, modes={
            "single": "the process is started directly",
            "dp": "the replicas are threads of one process",
            "launch": "torch.distributed.launch starts the ranks itself",
            "task": "the user starts the ranks, e.g. with srun"})] = "spawn"
    start: Annotated[StartKind, About(
        "cold: each launch imports torch; warm: ranks fork from a process that has it", LAB, timed=False)] = "warm"
    world_size: Annotated[int, Meta(ge=1, le=1024), About(
        'number of ranks; "cores": one for each core of the host, at least two', LAB, "ranks",
        modes={"single": "one process is one rank"})] = 2
    strategy: Annotated[str | None, About(
        "how the ranks average; each has its own file in workers/aggregate/; or your own as file.py:function", modes={
            "single": "one process has no other rank to average with",
            "dp": "the gather on the output device is the aggregation"})] = "all_reduce"
    average: Annotated[Literal["gradients", "parameters"], About(
        "what is averaged", column="averages", alone="one process has no other rank to average with")] = "gradients"
    every: Annotated[Positive, About(
        "steps per average: until then gradients add up, or parameters drift apart", column="averages")] = 1
    reduction: Annotated[Literal["sum", "avg"], About(
        "sum: add up, then divide; avg: the collective computes the mean (ReduceOp.AVG)",
        alone="one process has no other rank to average with", needs="reduces")] = "sum"
    bucket_mb: Annotated[Annotated[float, Meta(gt=0, le=65536)] | None, About(
        "size of a bucket in MB; unset: 25, but 1 for the first bucket of torch DDP",
        alone="one process sends no gradients", needs="buckets")] = None
    gradient_as_bucket_view: Annotated[bool, About(
        "gradients are views of the buckets, not copies", alone="one process has no buckets", needs="is_ddp")] = False
    static_graph: Annotated[bool, About(
        "the same parameters take part in every step", alone="it is an option of torch DDP", needs="is_ddp")] = False
    powersgd_rank: Annotated[int, Meta(ge=1, le=1024), About(
        "rank of the matrices that PowerSGD sends", alone="one process sends no gradients", needs="low_rank")] = 1
    sync_batchnorm: Annotated[bool, About(
        "GPUs: BatchNorm over the global batch", alone="one process has no other rank's statistics to use")] = False
    mistake: Annotated[MistakeName | None, About("a mistake that the ranks make on purpose")] = None
    hash_every: Annotated[Positive | None, About(
        "also compare the ranks' tensors every n steps (slower)", alone="there is one copy of the model")] = None
    backend: Annotated[Literal["auto", "gloo", "nccl", "mpi"], About(
        "the library that carries out collectives", LAB, alone="one process has no process group")] = "auto"
    init_method: Annotated[Literal["tcp", "file"], About(
        "how ranks find each other: by an address, or by a shared file", LAB, alone="one process has no group to form",
        modes={"launch": "torch.distributed.launch gives the ranks an address"})] = "tcp"
    gpus_per_rank: Annotated[int, Meta(ge=1, le=64), About(
        "GPUs of a rank: DataParallel within it, the strategy across ranks", alone="use 'dp' for several GPUs")] = 1
    device: Annotated[Literal["auto", "cpu", "cuda"], About("where a rank computes", LAB)] = "auto"
    share_gpu: Annotated[bool, About(
        "let ranks share GPUs if there are fewer GPUs than ranks; over gloo, as NCCL refuses two ranks on one", LAB,
        alone="one process has no other rank to share a GPU with")] = False
    threads: Annotated[Annotated[int, Meta(ge=1, le=1024)] | None, About(
        "threads a rank computes with; unset: its share of the host's cores", LAB)] = None
    sched_batch: Annotated[bool, About(
        "Linux: run ranks in SCHED_BATCH, where a woken rank does not wait for the scheduler's tick", LAB)] = False
    model: Annotated[str, About("net, mlp, linears, a torchvision model, or your own as file.py:name")] = "net"
    width: Annotated[Positive, About("mlp: units in a hidden layer", column="model")] = 128
    depth: Annotated[Positive, About("mlp: number of hidden layers", column="model")] = 2
    batch_norm: Annotated[bool, About("mlp: BatchNorm in every hidden layer", column="model")] = False
    dtype: Annotated[Literal["float32", "float64"], About("type of parameters and data", LAB)] = "float32"
    amp: Annotated[Literal["bf16", "fp16"] | None, About(
        "mixed precision: run forward in this type where torch considers it safe; fp16 uses a GradScaler")] = None
    channels_last: Annotated[bool, About("keep the channels of images and weights innermost in memory")] = False
    compile: Annotated[bool, About("pass the model through torch.compile", modes={
        "dp": "nn.DataParallel copies the model again in every step, and torch.compile compiles one copy"})] = False
    dataset: Annotated[str, About(
        "the data set to train on, or your own as file.py:function", column="data")] = "digits"
    data_dir: Annotated[str | None, About("folder of data sets; unset: the user's data folder", timed=False)] = None
    download: Annotated[bool, About("download the data set if it is missing", timed=False)] = False
    num_workers: Annotated[int, Meta(ge=0, le=64), About(
        "processes per rank that load batches in advance; 0: the rank loads them itself")] = 0
    pin_memory: Annotated[bool, About("GPUs: keep batches in page-locked memory and copy in the background")] = False
    shape: Annotated[tuple[Positive, ...] | None, About("random data: shape of a sample; unset: the model's")] = None
    samples: Annotated[Positive, About("random data: number of training samples")] = 1024
    classes: Annotated[int, Meta(ge=2), About("random data: number of classes")] = 10
    batch_size: Annotated[Positive, About(
        "global batch size, divided among the ranks", column="batch", timed=False)] = 64
    epochs: Annotated[Count, About("passes over the data; 0: until you stop it", column="length", timed=False)] = 3
    steps: Annotated[Positive | None, About(
        "steps to train, instead of epochs; of a command: to watch", (*TRAIN, *WATCH), "length", timed=False)] = None
    warmup_steps: Annotated[Count, About(
        "first steps or calls, which are left out of all figures", (*TRAIN, *MEASURE, *WATCH), timed=False)] = 3
    optimizer: Annotated[Literal["sgd", "adam"], About("the optimizer")] = "sgd"
    lr: Annotated[NotNegative, About("learning rate", timed=False)] = 0.01
    momentum: Annotated[NotNegative, About("momentum of sgd", timed=False)] = 0.5
    weight_decay: Annotated[NotNegative, About("weight decay of the optimizer", timed=False)] = 0.0
    clip_norm: Annotated[Annotated[float, Meta(gt=0)] | None, About("clip gradients to this norm")] = None
    seed: Annotated[int, Meta(ge=0, le=2**62),  # torch takes 64 bits, and ranks add small numbers
        About("random seed of parameters, data and jitter", LAB, timed=False)] = 0
    save: Annotated[bool, About("keep a checkpoint of each rank in the run's folder")] = False
    instruments: Annotated[Literal["on", "off"], About(
        "off: ranks report only their start and end, which shows what measuring costs",
        modes={"dp": "its replicas are always measured, from within their forward"})] = "on"
    bottleneck: Annotated[tuple[Bottleneck, ...], About("delays and slow links to inject", EVERY)] = ()
    fault: Annotated[tuple[Fault, ...], About("faults to inject")] = ()
    primitives: Annotated[Literal["see", "measure"] | None, About(
        "instead of training: show each primitive's buffers, or time it", LAB)] = None
    operations: Annotated[tuple[OperationName, ...], About(
        "the primitives to call; empty: all of them", PRIMITIVES, "primitives")] = ()
    reduce_ops: Annotated[tuple[ReduceOpName, ...], About(
        "operators of primitives that reduce; empty: all with see, sum with measure", PRIMITIVES, "by")] = ()
    root: Annotated[Count, About("root of the primitives that have one", PRIMITIVES)] = 0
    composites: Annotated[tuple[CompositeName, ...], About(
        "strategies to measure as well, averaging one tensor", MEASURE)] = ()
    min_bytes: Annotated[MessageBytes, About(
        "smallest message in bytes, counted as in nccl-tests", MEASURE, "sizes")] = 1024
    max_bytes: Annotated[MessageBytes, About("largest message in bytes", MEASURE, "sizes")] = 64 * 2**20
    step_factor: Annotated[int, Meta(ge=2, le=65536), About("factor from one message size to the next", MEASURE)] = 4
    iterations: Annotated[int, Meta(ge=2, le=20_000), About(
        "calls of each operation and size in each of five rounds", MEASURE, "calls")] = 100
    cell_s: Annotated[float, Meta(gt=0, le=3600), About(
        "seconds for all rounds of a size: slow calls are fewer, at least one per round", MEASURE, "calls")] = 1.0
    cadence: Annotated[Cadence, About(
        "barrier: each call follows a barrier, whose time is not counted; pipelined: up to 8 calls are in flight (2 of"
        " 64 MB), except for send_recv and local_sum", MEASURE)] = "back_to_back"
    stall_s: Annotated[float, Meta(ge=2, le=86_400), About(
        "timeout: after this many seconds without progress of any rank, the launch is stopped; a command is never"
        " stopped, but the ranks' positions are reported", EVERY)] = 20.0
    # fmt: on

    @property
    def kind(self) -> TrialKind:
        """What the trial does: train, call primitives, or run the user's command."""
        return "command" if self.launch == COMMAND else "primitives" if self.primitives else "training"

    @property
    def ranks(self) -> int:
        """The number of ranks; 0 if it is not known, since a command starts its own ranks."""
        return 0 if self.launch == COMMAND else self.world_size

    @property
    def trains_until_stopped(self) -> bool:
        """Whether the trial trains until the user stops it."""
        return self.steps is None and self.epochs == 0


TRIAL_FIELDS = {field.name: field for field in msgspec.structs.fields(Trial)}
BOTTLENECK_FIELDS = {field.name: field for field in msgspec.structs.fields(Bottleneck)}


def threads_per_rank(trial: Trial, cores: int, ranks_here: int | None = None) -> int:
    """The number of threads that a rank computes with: the trial's, or else the rank's share of the host's cores.
    ranks_here: the number of ranks on this host; None: all."""
    return trial.threads or max(1, cores // (ranks_here or trial.world_size))


SUFFIX = ".py"
FIELDS = ("strategy", "model", "dataset")  # that may name it, like `at` of a bottleneck


class OwnCode(NamedTuple):
    """A name in the user's own code."""

    source: str  # a file that ends in .py, or a module
    name: str  # of a function or class in it

    @property
    def is_file(self) -> bool:
        """Whether the source is a file."""
        return self.source.endswith(SUFFIX)


def is_own(value: str | None) -> bool:
    """Whether the value of a field names the user's own code."""
    return ":" in (value or "")


def parsed(value: str) -> OwnCode:
    """The value of a field that names the user's own code, in its parts."""
    source, _, name = value.rpartition(":")
    return OwnCode(source, name)


def values_of(trial: Trial) -> dict[str, str | None]:
    """The values of the fields that may name the user's own code, by the paths of the fields."""
    values = {key: getattr(trial, key) for key in FIELDS}
    return values | {f"bottleneck[{index}].at": each.at for index, each in enumerate(trial.bottleneck)}


def own_codes(trial: Trial) -> dict[str, OwnCode]:
    """The user's own code that a trial names, by the paths of the fields."""
    return {path: parsed(value) for path, value in values_of(trial).items() if value and is_own(value)}


def in_short(value: str) -> str:
    """The value of a field for a table: a file without its folder."""
    return value.rpartition("/")[2] if is_own(value) else value


def check_spelling(key: str, value: str) -> None:
    """Check the value of a field that may name own code. Raises TrialError."""
    own = parsed(value)
    parts = [own.name] if own.is_file else [*own.source.split("."), own.name]
    if not all(map(str.isidentifier, parts)):
        raise TrialError(key, f"{value!r} does not name your code: write it as mine.py:average or module:name")
