"""The launch modes, strategies, mistakes and primitives, one entry each.

A mode says what starts the ranks; its entry point is `workers/MODE.py`.

A strategy consists of its entry here, which presets, tables, traces and projections read, and of the file with its name
in workers/aggregate/, which carries it out.

The classes that call the primitives are in workers/primitives/.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple


class LaunchModeFacts(NamedTuple):
    """The properties of a launch mode."""

    label: str  # its name on screens and in tables
    one_process: bool = False  # no process group, so fields that need one have no effect
    by_torch: bool = False  # torch's launcher starts the ranks; otherwise the entry point starts them
    by_console: bool = True  # the console can start it; otherwise the user starts the ranks by hand
    passes_ranks: bool = False  # the launcher sets the world size, so the entry point takes no argument for it


COMMAND = "command"  # the launch mode of a watched training
LAUNCH_MODES = {
    "single": LaunchModeFacts("one process, no group", one_process=True),
    "dp": LaunchModeFacts("nn.DataParallel; without GPUs: threads, CPU stand-in", one_process=True),
    "process": LaunchModeFacts("mp.Process"),
    "launch": LaunchModeFacts("torch.distributed.launch", by_torch=True, passes_ranks=True),
    "spawn": LaunchModeFacts("mp.spawn"),
    "task": LaunchModeFacts("one task per rank, started by hand", by_console=False, passes_ranks=True),
    COMMAND: LaunchModeFacts("your own command, watched"),
}
ONE_PROCESS = tuple(name for name, facts in LAUNCH_MODES.items() if facts.one_process)


class Sends(NamedTuple):
    """What a strategy sends in a step; the projection computes its cost from this."""

    # each: tensor by tensor; pairs: two tensors at a time; all: in one tensor; buckets: several at a time, in backward.
    how: Literal["each", "pairs", "all", "buckets"]
    cost: str = "all_reduce"  # how the mean of a tensor is computed, a key of AVERAGES in projection/model.py
    number_bytes: int | None = None  # bytes per number; None: those of the model's dtype


class StrategyFacts(NamedTuple):
    """The properties of a strategy."""

    description: str  # how the ranks average, in one line
    composite: str = ""  # the primitives that compute its mean of one tensor; empty: not measured as a composite
    sends: Sends | None = None  # None: it cannot be projected, and `unprojected` says why
    unprojected: str = "its entry in ddptui/config/catalog.py does not state what it sends"
    reduces: bool = False  # sums inside a collective, so its reduction operator can be chosen
    buckets: bool = False  # sends gradients in buckets, whose size can be chosen
    overlaps: bool = False  # averages gradients while backward runs, so aggregation takes hardly any extra time
    is_ddp: bool = False  # is torch's DistributedDataParallel
    comm_hook: bool = False  # uses a comm hook of torch, which asks each bucket's all_reduce for its future
    low_rank: bool = False  # approximates gradients by matrices of low rank
    root_averages: bool = False  # rank 0 averages for all ranks, so it works longer in aggregate than the others
    point_to_point: bool = False  # sends from rank to rank itself; gloo cannot do that with tensors on a GPU
    rounding: float = 0.0  # lossy: half the distance from 1 to the next number of the type that gradients are sent in


_DDP = StrategyFacts("torch DDP, unchanged", sends=Sends("buckets"), buckets=True, overlaps=True, is_ddp=True)
STRATEGIES = {
    "none": StrategyFacts(
        "no averaging: the replicas drift apart", unprojected="it averages nothing, so no rank waits for another"),
    "all_reduce": StrategyFacts(
        "one all_reduce per tensor, after backward", "all_reduce + divide", Sends("each"), reduces=True),
    "all_reduce_async": StrategyFacts(
        "one all_reduce per tensor, all started at once", sends=Sends("pairs"), reduces=True),
    "reduce_broadcast": StrategyFacts(
        "each tensor is summed on rank 0, which sends the mean back",
        "reduce + broadcast", Sends("each", "reduce_broadcast"), reduces=True),
    "gather_scatter": StrategyFacts(
        "rank 0 gathers each tensor, averages, and scatters the mean",
        "gather + scatter", Sends("each", "gather_scatter"), root_averages=True),
    "all_gather": StrategyFacts(
        "each rank gathers every rank's tensors and averages them itself",
        "all_gather + sum", Sends("each", "all_gather")),
    "reduce_scatter_all_gather": StrategyFacts(
        "each rank averages its part of every tensor; an all_gather collects the parts",
        "reduce_scatter + all_gather",  # with gloo, torch turns the reduce_scatter into an all_reduce for each part
        Sends("each", "reduce_scatter_all_gather"), reduces=True),
    "ring": StrategyFacts(
        "the ring all_reduce by hand, from neighbor to neighbor",
        "ring by hand", Sends("each", "ring"), point_to_point=True),
    "flat": StrategyFacts("all tensors in one buffer, one all_reduce", sends=Sends("all"), reduces=True),
    "bucketed": StrategyFacts(
        "DDP by hand: gradients in buckets, each sent as soon as it is full",
        sends=Sends("buckets"), reduces=True, buckets=True, overlaps=True),
    "ddp": _DDP,
    "ddp_fp16": _DDP._replace(
        description="torch DDP, its buckets sent as float16",
        sends=Sends("buckets", number_bytes=2), rounding=2.0**-11, comm_hook=True),
    "ddp_bf16": _DDP._replace(
        description="torch DDP, its buckets sent as bfloat16",
        sends=Sends("buckets", number_bytes=2), rounding=2.0**-8, comm_hook=True),
    "ddp_powersgd": _DDP._replace(
        description="torch DDP with PowerSGD: low-rank matrices instead of gradients",
        sends=None, buckets=False, low_rank=True, comm_hook=True,
        unprojected="what it sends depends on the shapes of the tensors, which are not recorded"),
}  # fmt: skip

_OWN = StrategyFacts("your own code", unprojected="what your own code sends is not known")


def facts_of(strategy: str | None) -> StrategyFacts:
    """The properties of a strategy; those of `none` without one. Of the user's own code, nothing is known."""
    return STRATEGIES.get(strategy or "none", _OWN)


# The primitives that compute a strategy's mean of one tensor, for the strategies that can be measured this way.
COMPOSITES = {name: facts.composite for name, facts in STRATEGIES.items() if facts.composite}

# The strategies with which each mistake can be made; empty: all.
MISTAKES: dict[str, tuple[str, ...]] = {
    "group_of_one": ("all_reduce", "ddp"),
    "divide_twice": ("all_reduce",),
    "no_division": ("all_reduce",),
    "no_first_broadcast": ("all_reduce",),
    "average_again": ("ddp",),
    "no_set_epoch": (),
}

AGGREGATING = tuple(name for name in STRATEGIES if name != "none")

# The largest error that rounding explains in an exact strategy, in the units of wire.Audit.
EXACT = {"float32": 1e-5, "float64": 1e-12}

# The properties that a field may need of a strategy, and the reason given for a strategy without it.
LACKS = {
    "reduces": "its reduction operator cannot be chosen",
    "buckets": "its bucket size cannot be chosen",
    "is_ddp": "it is an option of torch DDP",
    "low_rank": "it does not use low-rank matrices",
}


def averages_after_backward(strategy: str, mistake: str | None) -> bool:
    """Whether aggregation is a separate phase. It is not if torch DDP does all of it within backward."""
    return not facts_of(strategy).is_ddp or bool(MISTAKES.get(mistake or ""))


Cadence = Literal["back_to_back", "barrier", "pipelined"]  # how timed calls follow each other
ReduceOpName = Literal["sum", "product", "max", "min", "avg"]
REDUCE_OPS: tuple[ReduceOpName, ...] = ("sum", "product", "max", "min", "avg")
Factor = Callable[[int], float]


def _all_but_own(ranks: int) -> float:
    return (ranks - 1) / ranks


def _there_and_back(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


class PrimitiveFacts(NamedTuple):
    """The properties of a primitive."""

    moves: str  # what it does, in one line
    factor: Factor = lambda ranks: 1.0  # busbw / algbw, by the number of ranks (nccl-tests, doc/PERFORMANCE.md)
    reduces: bool = False  # takes a reduction operator
    rooted: bool = False  # has a root: a rank that sends to all, or receives from all
    in_parts: bool = False  # its size is that of all ranks' parts together, as in nccl-tests
    has_bytes: bool = True  # it moves data, so it can be measured over sizes
    shown: bool = True  # `see` can show it
    pipelines: bool = True  # several calls can be in flight


OPERATIONS: dict[str, PrimitiveFacts] = {
    "send_recv": PrimitiveFacts("one rank sends, another receives; both block until it is done", pipelines=False),
    "isend_irecv": PrimitiveFacts("every rank sends to its right and receives from its left, at once"),
    "broadcast": PrimitiveFacts("every rank gets the root's tensor", rooted=True),
    "reduce": PrimitiveFacts("the root gets the reduced tensor", reduces=True, rooted=True),
    "all_reduce": PrimitiveFacts("every rank gets the reduced tensor", _there_and_back, reduces=True),
    "gather": PrimitiveFacts("the root gets every rank's part", _all_but_own, rooted=True, in_parts=True),
    "all_gather": PrimitiveFacts("every rank gets every rank's part", _all_but_own, in_parts=True),
    "scatter": PrimitiveFacts("every rank gets one of the root's parts", _all_but_own, rooted=True, in_parts=True),
    "reduce_scatter": PrimitiveFacts(
        "every rank gets its part of the reduced tensor", _all_but_own, reduces=True, in_parts=True),
    "all_to_all": PrimitiveFacts("every rank gets one part from every rank", _all_but_own, in_parts=True),
    "barrier": PrimitiveFacts("every rank waits until all ranks have arrived; no data moves", has_bytes=False),
    "local_sum": PrimitiveFacts(
        "each rank adds one tensor to another by itself; nothing is sent", shown=False, pipelines=False),
}  # fmt: skip


def primitive_facts(operation: str, *, composite: bool = False) -> PrimitiveFacts:
    """The properties of an operation. A composite computes what an all_reduce does, so it has those of all_reduce."""
    return OPERATIONS["all_reduce" if composite else operation]


def primitive_title(operation: str, *, composite: bool = False) -> str:
    """The name on screens: that of torch.distributed or, for a composite, the primitives that it consists of."""
    return COMPOSITES[operation] if composite else operation.replace("_", "/", 1) if "recv" in operation else operation


def operations_tried(named: tuple[str, ...], *, shown: bool, pipelined: bool = False) -> list[str]:
    """The operations that a trial lists. If it lists none: those in OPERATIONS that can be shown, or pipelined, if the
    trial does so."""
    possible = [name for name, facts in OPERATIONS.items() if facts.shown or not shown]
    return list(named) or [name for name in possible if OPERATIONS[name].pipelines or not pipelined]


def message_sizes(min_bytes: int, max_bytes: int, step_factor: int) -> list[int]:
    """The sizes in bytes, each step_factor times the one before, as with -b, -e and -f of nccl-tests."""
    sizes = [min_bytes]
    while sizes[-1] * step_factor <= max_bytes:
        sizes.append(sizes[-1] * step_factor)
    return sizes
