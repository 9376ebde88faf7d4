"""What a trial is: frozen structs, the rules that they keep, and their spelling as command-line arguments.

Both sides read this file: the console to check a preset before anything starts, a rank to know what to do.
"""

import math
import os
import tomllib
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from ddptui import strategies
from ddptui.engine import LOCAL, Engine
from ddptui.primitives import fields as of_primitives
from ddptui.primitives.operations import ReduceOpName

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

NO_GROUP = {
    "backend": "one process has no group",
    "init_method": "one process has nobody to meet",
    "gpus_per_rank": "one process with several GPUs is launch = 'dp'",
    "average": "one process has nobody to average with",
    "reduction": "one process has nobody to average with",
    "bucket_mb": "one process sends no gradients",
    "gradient_as_bucket_view": "one process has no buckets",
    "static_graph": "it is an option of torch DDP",
    "powersgd_rank": "one process sends no gradients",
    "sync_batchnorm": "one process has nobody to share statistics with",
    "hash_every": "there is one copy of the model",
}
MEANINGLESS_IN_MODE: dict[str, dict[str, str]] = {
    "single": {
        "strategy": "one process has nobody to agree with",
        "world_size": "one process is one rank",
        "start_method": "the process is started directly",
        **NO_GROUP,
    },
    "dp": {
        "strategy": "the gather on the output device is the aggregation",
        "instruments": "its replicas are seen from within their forward, and cannot be left unseen",
        "start_method": "the replicas are threads of one process",
        **NO_GROUP,
    },
    "launch": {
        "start_method": "torch.distributed.launch starts the ranks itself",
        "init_method": "torch.distributed.launch tells the ranks where they meet",
    },
    "process": {},
    "spawn": {},
    "task": {"start_method": "somebody else starts the ranks"},
}


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
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    init_method: Literal["tcp", "file"] = "tcp"  # the ranks meet at an address and port, or over a file that all see
    gpus_per_rank: Annotated[int, Meta(ge=1, le=64)] = 1  # DataParallel inside a rank, the strategy across them
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Threads | None = None  # a rank's, for compute; none: the cores of this host shared out
    sched_batch: bool = False  # Linux: ranks in SCHED_BATCH, where a woken rank does not wait for the scheduler's tick
    model: str = "net"  # net, mlp, linears, a torchvision model, or the user's own as "module:attribute"
    width: Positive = 128  # mlp: units a hidden layer
    depth: Positive = 2  # mlp: hidden layers
    batch_norm: bool = False  # mlp: BatchNorm in every hidden layer
    dtype: Literal["float32", "float64"] = "float32"
    dataset: DatasetName = "digits"
    data_dir: str | None = None
    download: bool = False
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


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published figure for one of the trials, with its source."""

    trial: str
    train_time_s: Annotated[float, Meta(gt=0, lt=1e9)]
    source: str = ""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One question, answered by a few trials."""

    name: str
    title: str
    group: str
    about: str
    baseline: str
    repeats: int
    trials: tuple[Trial, ...]
    kind: Literal["training", "primitives"] = "training"
    references: tuple[Reference, ...] = ()
    engine: Engine = LOCAL


TRIAL_FIELDS = {field.name: field for field in msgspec.structs.fields(Trial)}
BOTTLENECK_FIELDS = {field.name: field for field in msgspec.structs.fields(Bottleneck)}
MOST_RANKS_ON_LINKS = 250


def make_trial(values: dict[str, Any]) -> Trial:
    """Build a trial from plain values. Raises TrialError when it cannot be."""
    launch = values.get("launch", "spawn")
    fixed: dict[str, Any] = {}
    if launch in ("single", "dp") or values.get("primitives") is not None:
        fixed["strategy"] = None
    if launch == "single":
        fixed["world_size"] = 1
    for key, value in values.items():
        if not _is_text(value):
            raise TrialError(key, "is no text: it cannot be written as UTF-8")
    try:
        trial = msgspec.convert(fixed | values, Trial)
    except msgspec.ValidationError as error:
        raise _readable(error) from None
    _check(trial)
    return trial


def meaningless(launch: str, strategy: str | None, primitives: str | None) -> dict[str, str]:
    """The fields that a launch mode, a strategy or what the ranks do at all has no use for, and why. Such a field is
    refused in a [[trial]] or [matrix], and passed over in [defaults] and --set, which speak to all trials at once."""
    work = of_primitives.meaningless(primitives)
    if primitives is not None:
        return work
    of_strategy = strategies.meaningless(strategy) if strategy in strategies.STRATEGIES else {}
    fields = {field: f"strategy = {strategy!r}: {why}" for field, why in of_strategy.items()}
    of_mode = MEANINGLESS_IN_MODE.get(launch, {})
    return work | fields | {field: f"launch = {launch!r}: {why}" for field, why in of_mode.items()}


def is_own_model(model: str) -> bool:
    """Whether a model is code of the user's own: `module:attribute`. Whatever else a preset says is only data."""
    return ":" in model


def available_cores() -> int:
    """How many cores this process, and so its ranks, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_a_rank(trial: Trial, cores: int, ranks_here: int | None = None) -> int:
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


def to_arguments(trial: Trial) -> list[str]:
    """`key=value` for every field that is not at its default: what a rank's entry point takes."""
    differing = [
        (name, value)
        for name, field in TRIAL_FIELDS.items()
        if (value := getattr(trial, name)) != field.default and value is not None and name != "name"
    ]
    return [f"{name}={_literal(msgspec.to_builtins(value), bare=True)}" for name, value in differing]


def from_arguments(arguments: list[str]) -> Trial:
    """The inverse of to_arguments. Raises TrialError."""
    return make_trial(dict(parse_assignment(argument) for argument in arguments))


def parse_assignment(text: str) -> tuple[str, Any]:
    """Read `key=value`; the value as TOML has it, or else as a bare string. Raises TrialError without a `=`."""
    key, equals, value = text.partition("=")
    if not equals:
        raise TrialError(text, "expected KEY=VALUE")
    try:
        table = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), table["value"] if len(table) == 1 else value.strip()


def _literal(value: Any, *, bare: bool = False) -> str:
    """Spell a plain value as TOML does, inline; a string at the top may stay bare."""
    match value:
        case str():
            spelled = msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")  # which TOML wants escaped
            return value if bare and parse_assignment(f"_={value}")[1] == value else spelled
        case bool():
            return str(value).lower()
        case dict():
            return "{" + ", ".join(f"{key} = {_literal(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(_literal(item) for item in value) + "]"
        case _:
            return str(value)


def _is_text(value: Any) -> bool:
    """Whether what a command line or a file gave can be written down again: bytes that are no UTF-8 cannot."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() == value
        case dict():
            return all(_is_text(key) and _is_text(item) for key, item in value.items())
        case list() | tuple():
            return all(map(_is_text, value))
    return True


def _names_an_attribute(model: str) -> bool:
    module, _, attribute = model.partition(":")
    return attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _is_literal(annotation: Any) -> bool:
    return bool(get_args(annotation)) and all(isinstance(option, str) for option in get_args(annotation))


def _readable(error: msgspec.ValidationError) -> TrialError:
    """msgspec says «Expected `int`, got `str` - at `$.world_size`»: turn it round, key first."""
    what, _, place = str(error).partition(" - at `$")
    return TrialError(
        place.rstrip("`").lstrip("."), what[:1].lower() + what[1:].replace("`", "").replace(" | null", "")
    )


def _check(trial: Trial) -> None:
    """The rules that no single field can keep."""
    for key in TRIAL_FIELDS:
        value = getattr(trial, key)
        if isinstance(value, float) and not math.isfinite(value):
            raise TrialError(key, "must be a finite number")
    if trial.primitives is not None:
        _check_primitives(trial)
    elif trial.launch not in ("single", "dp") and trial.strategy is None:
        raise TrialError("strategy", f"launch = {trial.launch!r} needs one; `none` aggregates nothing")
    for key, why in meaningless(trial.launch, trial.strategy, trial.primitives).items():
        unset = None if key == "strategy" else TRIAL_FIELDS[key].default
        if key != "world_size" and getattr(trial, key) != unset:
            raise TrialError(key, f"means nothing with {why}")
    _check_agreement(trial)
    if trial.launch == "single" and trial.world_size != 1:
        raise TrialError("world_size", "launch = 'single' is one rank; choose another launch mode for more")
    if trial.steps is not None and trial.steps <= trial.warmup_steps:
        raise TrialError("steps", f"{trial.steps} steps leave none after {trial.warmup_steps} warm-up steps")
    if trial.steps is not None and trial.hash_every is not None and trial.hash_every > trial.steps:
        raise TrialError("hash_every", f"every {trial.hash_every} of {trial.steps} steps: it would never happen")
    if trial.batch_size < trial.world_size and trial.primitives is None:
        raise TrialError("batch_size", f"a global batch of {trial.batch_size} cannot feed {trial.world_size} ranks")
    if trial.shape is not None and trial.dataset != "random":
        raise TrialError("shape", "only dataset = 'random' can take any shape")
    if is_own_model(trial.model) and not _names_an_attribute(trial.model):
        raise TrialError("model", f"{trial.model!r} is not of the form 'module:attribute', as 'mymodels:Net' is")
    if trial.model == "linears" and (trial.dataset, trial.classes) != ("random", 3):
        raise TrialError("model", "linears has 3 inputs and 3 outputs: it goes with dataset = 'random', classes = 3")
    if trial.shape is not None and not _takes(trial.model, trial.shape):
        raise TrialError("shape", f"the model {trial.model} cannot take samples of shape {list(trial.shape)}")
    if trial.backend == "nccl" and trial.device == "cpu":
        raise TrialError("backend", "nccl needs GPUs: with device = 'cpu' it is gloo")
    for index, bottleneck in enumerate(trial.bottleneck):
        check_bottleneck(trial, bottleneck, f"bottleneck[{index}]")
    for index, fault in enumerate(trial.fault):
        check_fault(trial, fault, f"fault[{index}]")


def _check_primitives(trial: Trial) -> None:
    """Primitives want a group of ranks, and something to call."""
    if trial.launch in ("single", "dp"):
        raise TrialError("launch", f"{trial.launch!r} has no process group: primitives need one, as 'spawn' makes it")
    if found := of_primitives.problem(
        trial.operations,
        trial.composites,
        root=trial.root,
        world_size=trial.world_size,
        sizes=(trial.min_bytes, trial.max_bytes),
        shows=trial.primitives == "see",
    ):
        raise TrialError(*found)


def _check_agreement(trial: Trial) -> None:
    """What is averaged, when, and with which mistake."""
    facts = strategies.STRATEGIES[trial.strategy or "none"]
    if trial.average == "parameters" and trial.strategy == "none":
        raise TrialError("average", "strategy = 'none' averages nothing")
    if trial.average == "parameters" and facts.overlaps:
        why = "averages gradients as backward brings them; parameters change only after it"
        raise TrialError("average", f"strategy = {trial.strategy!r} {why}")
    if trial.static_graph and trial.every > 1:
        raise TrialError("static_graph", "with every > 1: torch DDP fails with it in no_sync, where gradients add up")
    if trial.sync_batchnorm and trial.gpus_per_rank > 1:
        raise TrialError("sync_batchnorm", "with gpus_per_rank > 1: each of a rank's replicas would call a collective")
    if trial.sync_batchnorm and trial.device == "cpu":
        raise TrialError("sync_batchnorm", "torch's SyncBatchNorm runs on GPUs only")
    if trial.mistake is None:
        return
    possible = strategies.MISTAKES[trial.mistake]
    if possible and trial.strategy not in possible:
        with_which = " or ".join(repr(name) for name in possible)
        raise TrialError("mistake", f"{trial.mistake!r} is made with strategy = {with_which}")
    if possible and trial.world_size == 1:
        raise TrialError("mistake", f"{trial.mistake!r} shows with two ranks or more")
    if trial.mistake == "no_first_broadcast" and trial.average == "parameters":
        raise TrialError("mistake", "'no_first_broadcast' is healed by the first average of the parameters")
    if trial.mistake in ("group_of_one", "no_division") and trial.reduction == "avg":
        raise TrialError("mistake", f"{trial.mistake!r} sums: it does not ask for a reduction")
    if trial.mistake == "no_set_epoch" and trial.steps is None and trial.epochs == 1:
        raise TrialError("mistake", "'no_set_epoch' shows in the second epoch, and there is only one")


def _takes(model: str, shape: tuple[int, ...]) -> bool:
    """Whether a model takes samples of this shape: the mlp any, torchvision's images of three channels. Of a model of
    the user's own only the rank can tell."""
    if model == "mlp" or is_own_model(model):
        return True
    return shape == SHAPES[model] if model in SHAPES else len(shape) == 3 and shape[0] == 3


def check_bottleneck(trial: Trial, bottleneck: Bottleneck, path: str) -> None:
    """Refuse a delay that could never happen in this trial, or a link that it cannot have. Raises TrialError."""
    if not bottleneck.ranks or len(set(bottleneck.ranks)) < len(bottleneck.ranks):
        raise TrialError(f"{path}.ranks", "names a rank twice" if bottleneck.ranks else "names no rank")
    for rank in bottleneck.ranks:
        if rank >= trial.world_size:
            raise TrialError(f"{path}.ranks", f"rank {rank} of {trial.world_size}: ranks count from 0")
    if bottleneck.at == "link":
        _check_link(trial, bottleneck, path)
    else:
        _check_delay(trial, bottleneck, path)


def _check_link(trial: Trial, link: Bottleneck, path: str) -> None:
    """A slow link is there from the first to the last byte."""
    if link.mbit is None or not math.isfinite(link.mbit):
        raise TrialError(f"{path}.mbit", "a link needs it: what it lets through, in 1e6 bits a second")
    for key in ("sleep_ms", "per", "every", "from_step", "to_step", "jitter"):
        if getattr(link, key) != BOTTLENECK_FIELDS[key].default:
            raise TrialError(f"{path}.{key}", "means nothing with at = 'link', which delays nobody and is always there")
    if trial.launch in ("single", "dp"):
        raise TrialError(f"{path}.at", f"launch = {trial.launch!r} is one process, which has no links")
    if trial.world_size > MOST_RANKS_ON_LINKS:
        raise TrialError(
            f"{path}.at", f"{trial.world_size} ranks: at most {MOST_RANKS_ON_LINKS} get links of their own"
        )
    if trial.download:
        raise TrialError(f"{path}.at", "with download = true: ranks on links of their own have no way to the internet")
    if any(other.at == "link" and other is not link and {*other.ranks} & {*link.ranks} for other in trial.bottleneck):
        raise TrialError(f"{path}.ranks", "names a rank whose link another bottleneck limits already")


def _check_delay(trial: Trial, delay: Bottleneck, path: str) -> None:
    if trial.primitives is not None:
        raise TrialError(f"{path}.at", f"with primitives = {trial.primitives!r} nobody trains; a link can be slow")
    if not math.isfinite(delay.sleep_ms) or delay.sleep_ms == 0:
        raise TrialError(f"{path}.sleep_ms", "a delay needs it: how long, in ms, more than 0")
    if delay.mbit is not None:
        raise TrialError(f"{path}.mbit", f"goes with at = 'link'; a delay at {delay.at!r} has sleep_ms")
    if delay.at == "start" and (delay.every, delay.from_step, delay.to_step) != (1, 0, None):
        raise TrialError(
            f"{path}.at", "a rank starts once, before its steps: every, from_step and to_step mean nothing"
        )
    if trial.steps is not None and delay.from_step >= trial.steps:
        raise TrialError(f"{path}.from_step", f"step {delay.from_step} of {trial.steps}: it would never happen")
    if delay.to_step is not None and delay.to_step < delay.from_step:
        raise TrialError(f"{path}.to_step", f"ends at {delay.to_step}, before from_step = {delay.from_step}")
    if delay.per == "call" and (delay.at != "aggregate" or trial.launch == "dp"):
        raise TrialError(f"{path}.per", "'call' goes with at = 'aggregate' and a process group")
    if delay.at == "aggregate" and trial.launch != "dp" and trial.strategy in (None, "none"):
        raise TrialError(f"{path}.at", "this trial aggregates nothing, so the delay would never happen")
    if delay.at == "backward" and trial.launch == "dp":
        raise TrialError(f"{path}.at", "dp has one backward for all replicas: use 'forward' or 'aggregate'")


def check_fault(trial: Trial, fault: Fault, path: str) -> None:
    """Refuse a fault that could never happen in this trial. Raises TrialError."""
    processes = trial.world_size if trial.launch != "dp" else 1
    if fault.rank >= processes:
        one = ": dp is one process, rank 0" if trial.launch == "dp" else ": ranks count from 0"
        raise TrialError(f"{path}.rank", f"rank {fault.rank} of {processes}{one}")
    if trial.steps is not None and fault.step >= trial.steps:
        raise TrialError(f"{path}.step", f"step {fault.step} of {trial.steps}: it would never happen")
    if fault.kind in ("skip", "mismatch") and trial.strategy in (None, "none"):
        raise TrialError(f"{path}.kind", f"this trial aggregates nothing: there is nothing to {fault.kind}")
