"""Every strategy and every mistake: one entry each, with all that the console needs to know.

How a strategy works is in workers/aggregate/, in the file that has its name. The entry and that file are all there is
to a strategy: presets, table, trace and projection read the entry.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple


class Sends(NamedTuple):
    """What a strategy sends in a step; the projection works out its cost from that.

    how           each: tensor by tensor; pairs: two tensors at a time; all: everything as one tensor;
                  buckets: several tensors at a time, while backward runs
    cost          each: whose cost the mean of a tensor has, a key of COMPOSITES in analysis/primitives/theory.py
    collective    the collective that runs once a tensor, in whose calls the tensors' sizes can be seen
    calls         each: collectives a tensor, by the number of ranks
    number_bytes  bytes a number; None: as many as in the model's dtype
    """

    how: Literal["each", "pairs", "all", "buckets"]
    cost: str = "all_reduce"
    collective: str | None = None
    calls: Callable[[int], float] = lambda ranks: 1
    number_bytes: int | None = None


UNSTATED = "its entry in ddptui/config/strategies.py does not state what it sends"


class StrategyFacts(NamedTuple):
    """description   how the ranks average, in one line
    composite        the primitives that its mean of one tensor consists of, as `composites` shows it; theory.py has the
                     cost of every composite. Empty: it cannot be measured as one
    sends            for the projection; None: it cannot be projected, and `unprojected` says why
    reduces          adds up inside a collective, so that a reduction operator can be chosen
    buckets          sends gradients in buckets, whose size can be chosen
    overlaps         averages while backward runs: gradients only, and hardly any time of its own
    is_ddp           is torch's DistributedDataParallel
    low_rank         approximates gradients by matrices of a low rank
    point_to_point   sends from rank to rank itself; gloo cannot do that with tensors on a GPU
    rounding         lossy: half the distance from 1 to the next number of the type that gradients are sent in
    """

    description: str
    composite: str = ""
    sends: Sends | None = None
    unprojected: str = UNSTATED
    reduces: bool = False
    buckets: bool = False
    overlaps: bool = False
    is_ddp: bool = False
    low_rank: bool = False
    point_to_point: bool = False
    rounding: float = 0.0


_DDP = StrategyFacts("torch DDP, as it comes", sends=Sends("buckets"), buckets=True, overlaps=True, is_ddp=True)
STRATEGIES = {
    "none": StrategyFacts(
        "no averaging: the replicas drift apart",
        unprojected="it averages nothing, so no rank waits for another",
    ),
    "all_reduce": StrategyFacts(
        "an all_reduce a tensor, after backward",
        composite="all_reduce, then divide",
        sends=Sends("each", collective="all_reduce"),
        reduces=True,
    ),
    "all_reduce_async": StrategyFacts(
        "an all_reduce a tensor, all begun at once",
        sends=Sends("pairs", collective="all_reduce"),
        reduces=True,
    ),
    "reduce_broadcast": StrategyFacts(
        "rank 0 sums each tensor and sends the mean back",
        composite="reduce + broadcast",
        sends=Sends("each", "reduce_broadcast", "reduce", calls=lambda ranks: 2),
        reduces=True,
    ),
    "gather_scatter": StrategyFacts(
        "rank 0 gathers each tensor, averages, and scatters the mean",
        composite="gather + scatter",
        sends=Sends("each", "gather_scatter", "gather", calls=lambda ranks: 2),
    ),
    "all_gather": StrategyFacts(
        "each rank gathers every rank's tensors and averages them itself",
        composite="all_gather, then add up",
        sends=Sends("each", "all_gather", "all_gather"),
    ),
    "reduce_scatter_all_gather": StrategyFacts(
        "each rank averages its part of every tensor; an all_gather brings the parts together",
        composite="reduce_scatter + all_gather",
        # torch's gloo makes an all_reduce of each rank's part.
        sends=Sends("each", "reduce_scatter_all_gather", "reduce_scatter", calls=lambda ranks: ranks + 1),
        reduces=True,
    ),
    "ring": StrategyFacts(
        "the ring all_reduce by hand, from neighbor to neighbor",
        composite="ring by hand",
        sends=Sends("each", "ring", calls=lambda ranks: 2 * (ranks - 1)),  # a send and its receive count as one
        point_to_point=True,
    ),
    "flat": StrategyFacts("all tensors in one buffer, one all_reduce", sends=Sends("all"), reduces=True),
    "bucketed": StrategyFacts(
        "DDP by hand: buckets of gradients, each sent as soon as it is full",
        sends=Sends("buckets"),
        reduces=True,
        buckets=True,
        overlaps=True,
    ),
    "ddp": _DDP,
    "ddp_fp16": _DDP._replace(
        description="torch DDP, its buckets sent as float16",
        sends=Sends("buckets", number_bytes=2),
        rounding=2.0**-11,
    ),
    "ddp_bf16": _DDP._replace(
        description="torch DDP, its buckets sent as bfloat16",
        sends=Sends("buckets", number_bytes=2),
        rounding=2.0**-8,
    ),
    "ddp_powersgd": _DDP._replace(
        description="torch DDP with PowerSGD: matrices of a low rank in place of gradients",
        sends=None,
        unprojected="what it sends depends on the shapes of the tensors, which are not recorded",
        buckets=False,
        low_rank=True,
    ),
}

# Strategies whose mean of one tensor is made of primitives, and of which ones.
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


def averages_after_backward(strategy: str, mistake: str | None) -> bool:
    """Whether aggregation is a phase of its own: not where torch DDP does all of it within backward."""
    return not STRATEGIES[strategy].is_ddp or bool(MISTAKES.get(mistake or ""))


def missing_needs(strategy: str) -> dict[str, str]:
    """What fields may need of a strategy and this one lacks (`reduces`, `buckets`, …), and why it does."""
    facts = STRATEGIES[strategy]
    if strategy == "none":
        no_sum = "it averages nothing"
    else:
        no_sum = "torch DDP takes the mean itself" if facts.is_ddp else "no collective of it adds anything up"
    reasons = {
        "reduces": no_sum,
        "buckets": "it sends everything in one bucket" if facts.is_ddp else "it has no buckets",
        "is_ddp": "it is an option of torch DDP",
        "low_rank": "it approximates no matrix",
    }
    return {need: why for need, why in reasons.items() if not getattr(facts, need)}
