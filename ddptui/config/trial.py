"""What a trial is: frozen structs, and what their fields may say. What may go together is in trial_rules.py."""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from ddptui.config.primitives import ReduceOpName

Site = Literal["start", "data", "forward", "backward", "aggregate"]
LaunchMode = Literal["single", "dp", "process", "launch", "spawn", "task"]
StartMethod = Literal["spawn", "forkserver", "fork"]
StrategyName = Literal[
    "none", "all_reduce", "all_reduce_async", "reduce_broadcast", "gather_scatter", "all_gather",
    "reduce_scatter_all_gather", "ring", "flat", "bucketed", "ddp", "ddp_fp16", "ddp_bf16", "ddp_powersgd",
]  # fmt: skip
MistakeName = Literal[
    "group_of_one", "divide_twice", "no_division", "no_first_broadcast", "average_again", "no_set_epoch"
]
DatasetName = Literal["digits", "mnist", "fashion_mnist", "cifar10", "random"]
OperationName = Literal[
    "send_recv", "isend_irecv", "broadcast", "reduce", "all_reduce", "gather", "all_gather", "scatter",
    "reduce_scatter", "all_to_all", "barrier", "local_sum",
]  # fmt: skip
CompositeName = Literal[
    "all_reduce", "reduce_broadcast", "gather_scatter", "all_gather", "reduce_scatter_all_gather", "ring"
]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Threads = Annotated[int, Meta(ge=1, le=1024)]
MessageBytes = Annotated[int, Meta(ge=4, le=2**33)]
Megabytes = Annotated[float, Meta(gt=0, le=65536)]
Seed = Annotated[int, Meta(ge=0, le=2**62)]  # torch takes 64 bits, and ranks add a little
A_DAY_MS = 86_400_000
FaultKind = Literal["kill", "exit", "raise", "abort", "stop", "hang", "skip", "mismatch"]
SHAPES = {"net": (1, 28, 28), "linears": (3,)}  # of a sample, for the models that take one alone
PATIENCE = 10  # × stall_s: for a rank that computes, and may just be slow


class TrialError(ValueError):
    """A trial that cannot be. `key` is the field's path within the trial, `why` one sentence."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}" if key else why)
        self.key = key
        self.why = why


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A delay put in on purpose; or, with at = "link", a slow link between ranks and the others.

    at        where: when the rank starts, while it fetches data, after forward, after backward, or before a collective
    ranks     which ranks are delayed
    sleep_ms  how long, in ms; with jitter, the mean
    mbit      link: what each of the ranks' links lets through, each way, in 1e6 bits a second. Nothing else means
              anything there: nobody is delayed, and it is there from the start to the end
    per       for `aggregate`: before the first collective of a step, or before every one ("call")
    every     only every so many steps; from_step, to_step bound them (to_step is the last one, none: no end)
    jitter    none; uniform on 0 to 2 × sleep_ms; or exponential with mean sleep_ms
    """

    at: Site | Literal["link"]
    ranks: tuple[Count, ...]
    sleep_ms: Annotated[float, Meta(ge=0, le=A_DAY_MS)] = 0.0
    mbit: Annotated[float, Meta(gt=0, le=1e6)] | None = None
    per: Literal["step", "call"] = "step"
    every: Positive = 1
    from_step: Count = 0
    to_step: Count | None = None
    jitter: Literal["none", "uniform", "exponential"] = "none"


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes wrong on purpose, once: in this step of this rank, between its forward and its backward.

    kill      the process is killed (SIGKILL), as by the kernel when memory is short
    exit      it ends with exit code 7, without a word
    raise     Python raises an error
    abort     native code aborts the process (SIGABRT)
    stop      the process is stopped (SIGSTOP), and stays so
    hang      it sleeps for ever, as in a deadlock
    skip      it leaves out this step's aggregation
    mismatch  it calls an all_reduce of its own, of another size than the others'
    """

    kind: FaultKind
    rank: Count
    step: Count


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration, launched once a repeat."""

    name: str = ""
    launch: LaunchMode = "spawn"
    start_method: StartMethod = "spawn"
    world_size: Annotated[int, Meta(ge=1, le=1024)] = 2
    strategy: StrategyName | None = "all_reduce"
    average: Literal["gradients", "parameters"] = "gradients"
    every: Positive = 1  # steps an average: gradients add up until then, parameters drift apart
    reduction: Literal["sum", "avg"] = "sum"  # sum, then divide; or the collective takes the mean (ReduceOp.AVG)
    bucket_mb: Megabytes | None = None  # bucketed, ddp, fp16, bf16: a full bucket; none: 25 (torch: its first 1)
    gradient_as_bucket_view: bool = False  # ddp…: gradients lie in the buckets, not beside them
    static_graph: bool = False  # ddp…: the same parameters take part in every step
    powersgd_rank: Annotated[int, Meta(ge=1, le=1024)] = 1  # ddp_powersgd: of the matrices that are sent
    sync_batchnorm: bool = False  # GPUs: BatchNorm over the global batch
    mistake: MistakeName | None = None  # made on purpose, in place of what the strategy should do
    hash_every: Positive | None = None  # compare the ranks' tensors every so many steps, too (that costs time)
    backend: Literal["auto", "gloo", "nccl", "mpi"] = "auto"
    init_method: Literal["tcp", "file"] = "tcp"  # the ranks meet at an address and port, or over a file that all see
    gpus_per_rank: Annotated[int, Meta(ge=1, le=64)] = 1  # DataParallel inside a rank, the strategy across them
    device: Literal["auto", "cpu", "cuda"] = "auto"
    share_gpu: bool = False  # more ranks than GPUs: they share them, over gloo, since NCCL refuses two ranks on one
    threads: Threads | None = None  # a rank's, for compute; none: the cores of this host shared out
    sched_batch: bool = False  # Linux: ranks in SCHED_BATCH, where a woken rank does not wait for the scheduler's tick
    model: str = "net"  # net, mlp, linears, a torchvision model, or the user's own as "module:attribute"
    width: Positive = 128  # mlp: units a hidden layer
    depth: Positive = 2  # mlp: hidden layers
    batch_norm: bool = False  # mlp: BatchNorm in every hidden layer
    dtype: Literal["float32", "float64"] = "float32"
    amp: Literal["bf16", "fp16"] | None = None  # forward in it, where torch deems that safe; fp16: with a GradScaler
    channels_last: bool = False  # images and weights of convolutions lie in memory with their channels innermost
    compile: bool = False  # the model goes through torch.compile
    dataset: DatasetName = "digits"
    data_dir: str | None = None
    download: bool = False
    num_workers: Annotated[int, Meta(ge=0, le=64)] = 0  # processes of a rank that fetch its batches ahead; 0: itself
    pin_memory: bool = False  # GPUs: batches in page-locked memory, from which they are copied in the background
    shape: tuple[Positive, ...] | None = None  # random: of one sample; none: what the model wants
    samples: Positive = 1024  # random: how many to train on
    classes: Annotated[int, Meta(ge=2)] = 10  # random
    batch_size: Positive = 64  # of a step, global: shared out among the ranks
    epochs: Positive = 3
    steps: Positive | None = None  # instead of epochs
    warmup_steps: Count = 3  # run and shown, but in no figure
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: NotNegative = 0.01
    momentum: NotNegative = 0.5
    weight_decay: NotNegative = 0.0
    clip_norm: Annotated[float, Meta(gt=0)] | None = None  # the norm of all gradients that longer ones are scaled to
    seed: Seed = 0
    save: bool = False
    instruments: Literal["on", "off"] = "on"  # off: says only when it began and ended, to show what looking costs
    bottleneck: tuple[Bottleneck, ...] = ()
    fault: tuple[Fault, ...] = ()
    primitives: Literal["see", "measure"] | None = None  # in place of training: show each one's buffers, or time it
    operations: tuple[OperationName, ...] = ()  # primitives: these; none named: all
    reduce_ops: tuple[ReduceOpName, ...] = ()  # … that reduce: by these; none named: all are shown, sum is measured
    root: Count = 0  # … that have one
    composites: tuple[CompositeName, ...] = ()  # measure: these strategies' mean of one tensor, too
    min_bytes: MessageBytes = 1024  # measure: the smallest size, as nccl-tests counts it
    max_bytes: MessageBytes = 64 * 2**20  # … and up to which
    step_factor: Annotated[int, Meta(ge=2, le=65536)] = 4  # … each so many times the one before
    iterations: Annotated[int, Meta(ge=2, le=20_000)] = (
        100  # measure: calls of each operation and size, in each of five rounds
    )
    cell_s: Annotated[float, Meta(gt=0, le=3600)] = 1.0  # … fewer, if all rounds took longer; one a round in any case
    cadence: Literal["back_to_back", "barrier"] = "back_to_back"  # barrier: one before each call, not counted
    stall_s: Annotated[float, Meta(ge=5, le=86_400)] = 20.0  # if no rank comes any further for so long, it is stopped


TRIAL_FIELDS = {field.name: field for field in msgspec.structs.fields(Trial)}
BOTTLENECK_FIELDS = {field.name: field for field in msgspec.structs.fields(Bottleneck)}


def is_own_model(model: str) -> bool:
    """Whether a model is code of the user's own: `module:attribute`. Whatever else a preset says is only data."""
    return ":" in model


def threads_per_rank(trial: Trial, cores: int, ranks_here: int | None = None) -> int:
    """What a rank computes with, in every launch mode: as the trial says, or its part of the host's cores. ranks_here:
    of this host; none: all are."""
    return trial.threads or max(1, cores // (ranks_here or trial.world_size))


def choices(key: str) -> tuple[str, ...]:
    """The values that the field `key` of a trial, a delay or a fault may take; empty where they cannot be listed."""
    for struct in (Trial, Bottleneck, Fault):
        for field in msgspec.structs.fields(struct):
            if field.name == key:
                options = [field.type, *get_args(field.type)]
                return tuple(name for option in options if _is_literal(option) for name in get_args(option))
    return ()


def _is_literal(annotation: Any) -> bool:
    return bool(get_args(annotation)) and all(isinstance(option, str) for option in get_args(annotation))
