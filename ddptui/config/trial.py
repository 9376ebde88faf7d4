"""What a trial is: frozen structs whose fields document themselves. What may go together is in checks.py."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ddptui.config.launch_modes import COMMAND, LAUNCH_MODES
from ddptui.config.primitives import OPERATIONS, Cadence, ReduceOpName
from ddptui.config.strategies import COMPOSITES, MISTAKES, STRATEGIES

if TYPE_CHECKING:  # a checker of types cannot read the tables
    LaunchMode = str
    StrategyName = str
    MistakeName = str
    OperationName = str
    CompositeName = str
else:
    LaunchMode = Literal[tuple(LAUNCH_MODES)]
    StrategyName = Literal[tuple(STRATEGIES)]
    MistakeName = Literal[tuple(MISTAKES)]
    OperationName = Literal[tuple(OPERATIONS)]
    CompositeName = Literal[tuple(COMPOSITES)]
Site = Literal["start", "data", "forward", "backward", "aggregate"]
StartKind = Literal["warm", "cold"]
TrialKind = Literal["training", "primitives", "command"]  # command: a training of the user's own, watched
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
MessageBytes = Annotated[int, Meta(ge=4, le=2**33)]
A_DAY_MS = 86_400_000
FaultKind = Literal["kill", "exit", "raise", "abort", "stop", "hang", "skip", "mismatch"]
SHAPES = {"net": (1, 28, 28), "linears": (3,)}  # of a sample, for the models that take only one shape
PATIENCE = 10  # × stall_s: a rank that computes may only be slow, and is given so much longer


class TrialError(ValueError):
    """A trial cannot be as it is given. key: the path of the field within the trial; why: one sentence."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}" if key else why)
        self.key = key
        self.why = why


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An injected delay; or, with at = "link", a slow link between ranks and the others."""

    # At the rank's start, while it fetches data, after its forward or backward, or before a collective.
    at: Site | Literal["link"]
    ranks: tuple[Count, ...]
    sleep_ms: Annotated[float, Meta(ge=0, le=A_DAY_MS)] = 0.0  # with jitter, the mean
    mbit: Annotated[float, Meta(gt=0, le=1e6)] | None = None  # link: 1e6 bits a second, each way, a link for each rank
    # None of what follows goes with a link: it delays no rank, and is slow from start to end.
    per: Literal["step", "call"] = "step"  # aggregate: before the first collective of a step, or before every one
    every: Positive = 1  # so many steps
    from_step: Count = 0
    to_step: Count | None = None  # the last one; None: no end
    jitter: Literal["none", "uniform", "exponential"] = "none"  # uniform: on 0 to 2 × sleep_ms


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An injected fault, once: in this step of this rank, between its forward and its backward."""

    kind: FaultKind  # workers/rank/faults.py says what each does
    rank: Count
    step: Count


Work = Literal["train", "see", "measure", "watch"]
TRAIN: tuple[Work, ...] = ("train",)
PRIMITIVES: tuple[Work, ...] = ("see", "measure")
MEASURE: tuple[Work, ...] = ("measure",)
LAB: tuple[Work, ...] = (*TRAIN, *PRIMITIVES)  # the lab's own ranks
WATCH: tuple[Work, ...] = ("watch",)
EVERY: tuple[Work, ...] = (*LAB, *WATCH)


class About(NamedTuple):
    """What a field of a trial is, and where it has an effect. fields.py reads it back."""

    description: str
    work: tuple[Work, ...] = TRAIN  # the kinds of work in which the field has an effect
    column: str = ""  # of a preset's table, that shows it; empty: the one that has the field's name
    timed: bool = True  # the time of a step may depend on it
    alone: str = ""  # why it has no effect in one process
    modes: Mapping[str, str] = MappingProxyType({})  # the launch modes in which it has no effect, and why
    needs: str = ""  # what the strategy must do for the field to have an effect: a fact of StrategyFacts


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration, launched once a repeat. `ddptui presets --fields` prints its fields."""

    # fmt: off
    name: Annotated[str, About("the trial's name, and its folder's", EVERY, "trial", timed=False)] = ""
    launch: Annotated[LaunchMode, About("what starts the ranks", EVERY)] = "spawn"
    command: Annotated[tuple[str, ...], About("a training of your own and its arguments, watched as it is", WATCH)] = ()
    env: Annotated[tuple[str, ...], About(
        "NAME=VALUE: variables of the command's environment, beside the console's own", WATCH)] = ()
    start_method: Annotated[Literal["spawn", "forkserver", "fork"], About(
        "how Python's multiprocessing starts a rank; any but spawn makes the start cold", LAB, timed=False, modes={
            "single": "the process is started directly",
            "dp": "the replicas are threads of one process",
            "launch": "torch.distributed.launch starts the ranks itself",
            "task": "a user starts the ranks, as by srun"})] = "spawn"
    start: Annotated[StartKind, About(
        "cold: each launch imports torch anew; warm: ranks fork from a process that has", LAB, timed=False)] = "warm"
    world_size: Annotated[int, Meta(ge=1, le=1024), About(
        'number of ranks; "cores": one for each core of the host, two at least', LAB, "ranks",
        modes={"single": "one process is one rank"})] = 2
    strategy: Annotated[StrategyName | None, About(
        "how the ranks average; each has its own file in workers/aggregate/", modes={
            "single": "one process has nobody to agree with",
            "dp": "the gather on the output device is the aggregation"})] = "all_reduce"
    average: Annotated[Literal["gradients", "parameters"], About(
        "what is averaged", column="averages", alone="one process has nobody to average with")] = "gradients"
    every: Annotated[Positive, About(
        "steps per average: gradients add up until then, parameters drift apart", column="averages")] = 1
    reduction: Annotated[Literal["sum", "avg"], About(
        "sum, then divide; or let the collective take the mean (ReduceOp.AVG)",
        alone="one process has nobody to average with", needs="reduces")] = "sum"
    bucket_mb: Annotated[Annotated[float, Meta(gt=0, le=65536)] | None, About(
        "MB in a full bucket; unset: 25, and torch DDP's first bucket has 1",
        alone="one process sends no gradients", needs="buckets")] = None
    gradient_as_bucket_view: Annotated[bool, About(
        "gradients are views of the buckets, not copies", alone="one process has no buckets", needs="is_ddp")] = False
    static_graph: Annotated[bool, About(
        "the same parameters take part in every step", alone="it is an option of torch DDP", needs="is_ddp")] = False
    powersgd_rank: Annotated[int, Meta(ge=1, le=1024), About(
        "rank of the matrices that PowerSGD sends", alone="one process sends no gradients", needs="low_rank")] = 1
    sync_batchnorm: Annotated[bool, About(
        "GPUs: BatchNorm over the global batch", alone="one process has nobody to share statistics with")] = False
    mistake: Annotated[MistakeName | None, About("a mistake that the ranks make on purpose")] = None
    hash_every: Annotated[Positive | None, About(
        "compare the ranks' tensors every so many steps, too: slower", alone="there is one copy of the model")] = None
    backend: Annotated[Literal["auto", "gloo", "nccl", "mpi"], About(
        "the library that carries out collectives", LAB, alone="one process has no group")] = "auto"
    init_method: Annotated[Literal["tcp", "file"], About(
        "where the ranks meet: at an address, or in a file that all see", LAB, alone="one process has nobody to meet",
        modes={"launch": "torch.distributed.launch tells the ranks where they meet"})] = "tcp"
    gpus_per_rank: Annotated[int, Meta(ge=1, le=64), About(
        "GPUs of a rank: DataParallel within it, the strategy across ranks", alone="for several GPUs it is 'dp'")] = 1
    device: Annotated[Literal["auto", "cpu", "cuda"], About("where a rank computes", LAB)] = "auto"
    share_gpu: Annotated[bool, About(
        "more ranks than GPUs: they share them over gloo, since NCCL refuses two ranks on one", LAB,
        alone="one process has nobody to share a GPU with")] = False
    threads: Annotated[Annotated[int, Meta(ge=1, le=1024)] | None, About(
        "threads a rank computes with; unset: its share of the host's cores", LAB)] = None
    sched_batch: Annotated[bool, About(
        "Linux: run ranks in SCHED_BATCH, where a woken rank does not wait for the scheduler's tick", LAB)] = False
    model: Annotated[str, About("net, mlp, linears, a torchvision model, or your own as module:attribute")] = "net"
    width: Annotated[Positive, About("mlp: units in a hidden layer", column="model")] = 128
    depth: Annotated[Positive, About("mlp: hidden layers", column="model")] = 2
    batch_norm: Annotated[bool, About("mlp: BatchNorm in every hidden layer", column="model")] = False
    dtype: Annotated[Literal["float32", "float64"], About("type of parameters and data", LAB)] = "float32"
    amp: Annotated[Literal["bf16", "fp16"] | None, About(
        "run forward in this type where torch deems it safe; fp16 comes with a GradScaler")] = None
    channels_last: Annotated[bool, About("keep channels innermost in memory, of images and of weights")] = False
    compile: Annotated[bool, About("pass the model through torch.compile", modes={
        "dp": "nn.DataParallel copies the model anew in every step, and torch.compile compiles one"})] = False
    dataset: Annotated[Literal["digits", "mnist", "fashion_mnist", "cifar10", "random"], About(
        "what is learned", column="data")] = "digits"
    data_dir: Annotated[str | None, About("folder of data sets; unset: the user's data folder", timed=False)] = None
    download: Annotated[bool, About("download the data set if it is missing", timed=False)] = False
    num_workers: Annotated[int, Meta(ge=0, le=64), About(
        "processes of a rank that fetch its batches ahead; 0: the rank fetches them itself")] = 0
    pin_memory: Annotated[bool, About("GPUs: batches in page-locked memory, which is copied in the background")] = False
    shape: Annotated[tuple[Positive, ...] | None, About("random data: of a sample; unset: what the model takes")] = None
    samples: Annotated[Positive, About("random data: number of training samples")] = 1024
    classes: Annotated[int, Meta(ge=2), About("random data: number of classes")] = 10
    batch_size: Annotated[Positive, About(
        "global batch of a step, divided among the ranks", column="batch", timed=False)] = 64
    epochs: Annotated[Count, About("passes over the data; 0: until you stop it", column="length", timed=False)] = 3
    steps: Annotated[Positive | None, About(
        "number of steps, not epochs; of a command, those watched", (*TRAIN, *WATCH), "length", timed=False)] = None
    warmup_steps: Annotated[Count, About(
        "first steps, or calls: run and shown, but in no figure", (*TRAIN, *MEASURE, *WATCH), timed=False)] = 3
    optimizer: Annotated[Literal["sgd", "adam"], About("what turns gradients into steps")] = "sgd"
    lr: Annotated[NotNegative, About("learning rate", timed=False)] = 0.01
    momentum: Annotated[NotNegative, About("of sgd", timed=False)] = 0.5
    weight_decay: Annotated[NotNegative, About("of the optimizer", timed=False)] = 0.0
    clip_norm: Annotated[Annotated[float, Meta(gt=0)] | None, About("norm to which longer gradients are cut")] = None
    seed: Annotated[int, Meta(ge=0, le=2**62),  # torch takes 64 bits, and ranks add a little
        About("of parameters, data and jitter", LAB, timed=False)] = 0
    save: Annotated[bool, About("keep a checkpoint of each rank in the run's folder")] = False
    instruments: Annotated[Literal["on", "off"], About(
        "off: ranks report their start and end only, which shows what measuring costs",
        modes={"dp": "its replicas are seen from within their forward, and cannot be left unseen"})] = "on"
    bottleneck: Annotated[tuple[Bottleneck, ...], About("delays and slow links, injected on purpose", EVERY)] = ()
    fault: Annotated[tuple[Fault, ...], About("faults, injected on purpose")] = ()
    primitives: Annotated[Literal["see", "measure"] | None, About(
        "instead of training: show each primitive's buffers, or time it", LAB)] = None
    operations: Annotated[tuple[OperationName, ...], About(
        "the primitives; none named: all of them", PRIMITIVES, "primitives")] = ()
    reduce_ops: Annotated[tuple[ReduceOpName, ...], About(
        "operators of primitives that reduce; none named: all to see, sum to measure", PRIMITIVES, "by")] = ()
    root: Annotated[Count, About("root of the primitives that have one", PRIMITIVES)] = 0
    composites: Annotated[tuple[CompositeName, ...], About(
        "strategies whose mean of one tensor is measured, too", MEASURE)] = ()
    min_bytes: Annotated[MessageBytes, About(
        "smallest message, in bytes as nccl-tests counts them", MEASURE, "sizes")] = 1024
    max_bytes: Annotated[MessageBytes, About("largest message, in bytes", MEASURE, "sizes")] = 64 * 2**20
    step_factor: Annotated[int, Meta(ge=2, le=65536), About("each size is so many times the one before", MEASURE)] = 4
    iterations: Annotated[int, Meta(ge=2, le=20_000), About(
        "calls of each operation and size, in each of five rounds", MEASURE, "calls")] = 100
    cell_s: Annotated[float, Meta(gt=0, le=3600), About(
        "seconds for all rounds of a size: fewer calls if they take longer, but one a round", MEASURE, "calls")] = 1.0
    cadence: Annotated[Cadence, About(
        "barrier: one before each call, not counted; pipelined: up to 8 calls are in flight, but two of 64 MB; all"
        " operations but send_recv and local_sum can", MEASURE)] = "back_to_back"
    stall_s: Annotated[float, Meta(ge=5, le=86_400), About(
        "seconds without progress of any rank, after which the launch is stopped", LAB)] = 20.0
    # fmt: on

    @property
    def kind(self) -> TrialKind:
        """What it does: train, call primitives, or run a command of the user's."""
        return "command" if self.launch == COMMAND else "primitives" if self.primitives else "training"

    @property
    def ranks(self) -> int:
        """The number of ranks; 0: a command starts as many as it will."""
        return 0 if self.launch == COMMAND else self.world_size

    @property
    def trains_until_stopped(self) -> bool:
        """Whether only the user ends it."""
        return self.steps is None and self.epochs == 0


TRIAL_FIELDS = {field.name: field for field in msgspec.structs.fields(Trial)}
BOTTLENECK_FIELDS = {field.name: field for field in msgspec.structs.fields(Bottleneck)}


def is_own_model(model: str) -> bool:
    """Whether a model is the user's code, as `module:attribute`. Everything else in a preset is only data."""
    return ":" in model


def threads_per_rank(trial: Trial, cores: int, ranks_here: int | None = None) -> int:
    """The threads that a rank computes with: as the trial says, or its share of the host's cores."""
    return trial.threads or max(1, cores // (ranks_here or trial.world_size))  # None: all ranks are on this host
