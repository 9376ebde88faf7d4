"""The strategies and the mistakes, one entry each.

A strategy consists of its entry here, which presets, tables, traces and projections read, and of the file with its name
in workers/aggregate/, which carries it out.
"""

from typing import Literal, NamedTuple


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
    unprojected: str = "its entry in ddptui/config/strategies.py does not state what it sends"
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
