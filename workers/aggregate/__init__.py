"""How ranks agree: one strategy a file. What each must do is in strategy.py."""

from ddptui.config.trial import Trial
from workers.aggregate.all_gather import AllGather
from workers.aggregate.all_reduce import AllReduce
from workers.aggregate.all_reduce_async import AllReduceAsync
from workers.aggregate.bucketed import Bucketed
from workers.aggregate.ddp import DDP
from workers.aggregate.ddp_bf16 import DDPBfloat16
from workers.aggregate.ddp_fp16 import DDPFloat16
from workers.aggregate.ddp_powersgd import DDPPowerSGD
from workers.aggregate.flat import Flat
from workers.aggregate.gather_scatter import GatherScatter
from workers.aggregate.mistakes import MISTAKES
from workers.aggregate.none import NoAggregation
from workers.aggregate.reduce_broadcast import ReduceBroadcast
from workers.aggregate.reduce_scatter_all_gather import ReduceScatterAllGather
from workers.aggregate.ring import Ring
from workers.aggregate.strategy import Strategy

STRATEGIES: dict[str, type[Strategy]] = {
    "none": NoAggregation,
    "all_reduce": AllReduce,
    "all_reduce_async": AllReduceAsync,
    "reduce_broadcast": ReduceBroadcast,
    "gather_scatter": GatherScatter,
    "all_gather": AllGather,
    "reduce_scatter_all_gather": ReduceScatterAllGather,
    "ring": Ring,
    "flat": Flat,
    "bucketed": Bucketed,
    "ddp": DDP,
    "ddp_fp16": DDPFloat16,
    "ddp_bf16": DDPBfloat16,
    "ddp_powersgd": DDPPowerSGD,
}


def strategy_of(trial: Trial) -> Strategy:
    """The trial's strategy, or the mistake that it makes in its place. One process alone has nobody to agree with."""
    name = trial.strategy or "none"
    return MISTAKES.get((trial.mistake or "", name), STRATEGIES[name])(trial)
