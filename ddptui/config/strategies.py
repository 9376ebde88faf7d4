"""What the console must know of the strategies: which fields mean something with them, and what may be expected.

How each one works is in workers/aggregate/, a file a strategy.
"""

from typing import NamedTuple


class StrategyFacts(NamedTuple):
    """reduces   adds up inside a collective, so that a reduction operator can be chosen
    buckets   sends gradients in buckets, whose size can be chosen
    overlaps  averages while backward runs: gradients only, and hardly any time of its own
    is_ddp    is torch's DistributedDataParallel
    rounding  lossy: half the distance of 1 to the next number of the type that gradients are sent in
    """

    reduces: bool = False
    buckets: bool = False
    overlaps: bool = False
    is_ddp: bool = False
    rounding: float = 0.0


TORCH_DDP = StrategyFacts(buckets=True, overlaps=True, is_ddp=True)
STRATEGIES = {
    "none": StrategyFacts(),
    "all_reduce": StrategyFacts(reduces=True),
    "all_reduce_async": StrategyFacts(reduces=True),
    "reduce_broadcast": StrategyFacts(reduces=True),
    "gather_scatter": StrategyFacts(),
    "all_gather": StrategyFacts(),
    "reduce_scatter_all_gather": StrategyFacts(reduces=True),
    "ring": StrategyFacts(),
    "flat": StrategyFacts(reduces=True),
    "bucketed": StrategyFacts(reduces=True, buckets=True, overlaps=True),
    "ddp": TORCH_DDP,
    "ddp_fp16": TORCH_DDP._replace(rounding=2.0**-11),
    "ddp_bf16": TORCH_DDP._replace(rounding=2.0**-8),
    "ddp_powersgd": TORCH_DDP._replace(buckets=False),
}

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


def meaningless_with_strategy(strategy: str) -> dict[str, str]:
    """The fields that this strategy has no use for, and why."""
    facts = STRATEGIES[strategy]
    fields = {}
    if not facts.reduces:
        does = "torch DDP takes the mean itself" if facts.is_ddp else "no collective of it adds anything up"
        fields["reduction"] = does if strategy != "none" else "it averages nothing"
    if not facts.buckets:
        fields["bucket_mb"] = "it sends everything in one bucket" if facts.is_ddp else "it has no buckets"
    if not facts.is_ddp:
        fields["gradient_as_bucket_view"] = fields["static_graph"] = "it is an option of torch DDP"
    if strategy != "ddp_powersgd":
        fields["powersgd_rank"] = "it approximates no matrix"
    return fields
