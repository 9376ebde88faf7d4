"""Every strategy and every mistake: one entry each, with all that the console needs to know.

How a strategy works is in workers/aggregate/, in the file that has its name. The entry and that file are all there is
to a strategy: presets, table, trace and projection read the entry.
"""

from typing import Literal, NamedTuple


class Sends(NamedTuple):
    """What a strategy sends in a step; the projection works out its cost from that."""

    # Tensor by tensor; two tensors at a time; everything as one tensor; several at a time, while backward runs.
    how: Literal["each", "pairs", "all", "buckets"]
    cost: str = "all_reduce"  # whose messages the mean of a tensor takes, a key of AVERAGES in projection/model.py
    number_bytes: int | None = None  # bytes a number; None: as many as in the model's dtype


class StrategyFacts(NamedTuple):
    """What the console knows of a strategy."""

    description: str  # how the ranks average, in one line
    composite: str = ""  # the primitives that its mean of one tensor is made of; empty: it has no such
    sends: Sends | None = None  # None: it cannot be projected, and `unprojected` says why
    unprojected: str = "its entry in ddptui/config/strategies.py does not state what it sends"
    reduces: bool = False  # adds up inside a collective, so that a reduction operator can be chosen
    buckets: bool = False  # sends gradients in buckets, whose size can be chosen
    overlaps: bool = False  # averages while backward runs: gradients only, and hardly any time of its own
    is_ddp: bool = False  # is torch's DistributedDataParallel
    comm_hook: bool = False  # with a comm hook of torch's, which asks each bucket's all_reduce for its future
    low_rank: bool = False  # approximates gradients by matrices of a low rank
    root_averages: bool = False  # rank 0 averages for all ranks, so it truly works longer in aggregate
    point_to_point: bool = False  # sends from rank to rank itself; gloo cannot do that with tensors on a GPU
    rounding: float = 0.0  # lossy: half the distance from 1 to the next number of the type that gradients are sent in


_DDP = StrategyFacts("torch DDP, as it comes", sends=Sends("buckets"), buckets=True, overlaps=True, is_ddp=True)
STRATEGIES = {
    "none": StrategyFacts(
        "no averaging: the replicas drift apart", unprojected="it averages nothing, so no rank waits for another"),
    "all_reduce": StrategyFacts(
        "an all_reduce a tensor, after backward", "all_reduce + divide", Sends("each"), reduces=True),
    "all_reduce_async": StrategyFacts(
        "an all_reduce a tensor, all begun at once", sends=Sends("pairs"), reduces=True),
    "reduce_broadcast": StrategyFacts(
        "rank 0 sums each tensor and sends the mean back",
        "reduce + broadcast", Sends("each", "reduce_broadcast"), reduces=True),
    "gather_scatter": StrategyFacts(
        "rank 0 gathers each tensor, averages, and scatters the mean",
        "gather + scatter", Sends("each", "gather_scatter"), root_averages=True),
    "all_gather": StrategyFacts(
        "each rank gathers every rank's tensors and averages them itself",
        "all_gather + sum", Sends("each", "all_gather")),
    "reduce_scatter_all_gather": StrategyFacts(
        "each rank averages its part of every tensor; an all_gather brings the parts together",
        "reduce_scatter + all_gather",  # torch's gloo makes an all_reduce of each rank's part
        Sends("each", "reduce_scatter_all_gather"), reduces=True),
    "ring": StrategyFacts(
        "the ring all_reduce by hand, from neighbor to neighbor",
        "ring by hand", Sends("each", "ring"), point_to_point=True),
    "flat": StrategyFacts("all tensors in one buffer, one all_reduce", sends=Sends("all"), reduces=True),
    "bucketed": StrategyFacts(
        "DDP by hand: buckets of gradients, each sent as soon as it is full",
        sends=Sends("buckets"), reduces=True, buckets=True, overlaps=True),
    "ddp": _DDP,
    "ddp_fp16": _DDP._replace(
        description="torch DDP, its buckets sent as float16",
        sends=Sends("buckets", number_bytes=2), rounding=2.0**-11, comm_hook=True),
    "ddp_bf16": _DDP._replace(
        description="torch DDP, its buckets sent as bfloat16",
        sends=Sends("buckets", number_bytes=2), rounding=2.0**-8, comm_hook=True),
    "ddp_powersgd": _DDP._replace(
        description="torch DDP with PowerSGD: matrices of a low rank in place of gradients",
        sends=None, buckets=False, low_rank=True, comm_hook=True,
        unprojected="what it sends depends on the shapes of the tensors, which are not recorded"),
}  # fmt: skip

# Of which primitives a strategy's mean of one tensor is made, where it is.
COMPOSITES = {name: facts.composite for name, facts in STRATEGIES.items() if facts.composite}

# With which strategies a mistake can be made; none named: with any.
MISTAKES: dict[str, tuple[str, ...]] = {
    "group_of_one": ("all_reduce", "ddp"),
    "divide_twice": ("all_reduce",),
    "no_division": ("all_reduce",),
    "no_first_broadcast": ("all_reduce",),
    "average_again": ("ddp",),
    "no_set_epoch": (),
}

# What a field may need of a strategy, and what is said of one that lacks it.
LACKS = {
    "reduces": "no reduction operator can be chosen for it",
    "buckets": "it has no buckets whose size can be chosen",
    "is_ddp": "it is an option of torch DDP",
    "low_rank": "it approximates no matrix",
}


def averages_after_backward(strategy: str, mistake: str | None) -> bool:
    """Whether aggregation is a phase of its own: not where torch DDP does all of it within backward."""
    return not STRATEGIES[strategy].is_ddp or bool(MISTAKES.get(mistake or ""))
