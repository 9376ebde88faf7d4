"""How ranks agree: one strategy a file, each with the same two methods.

prepare(model)  before the first step: returns the network to call, its parameters equal on all ranks
average(model)  after backward: leaves on every rank the mean over ranks of each parameter's gradient
"""

from typing import Protocol

from torch import nn

from ddptui.preset import Trial
from workers.aggregate.all_reduce import AllReduce
from workers.aggregate.ddp import DDP
from workers.aggregate.flat import Flat
from workers.aggregate.none import NoAggregation
from workers.aggregate.reduce_broadcast import ReduceBroadcast


class Strategy(Protocol):
    def prepare(self, model: nn.Module) -> nn.Module: ...

    def average(self, model: nn.Module) -> None: ...


STRATEGIES: dict[str, type[Strategy]] = {
    "none": NoAggregation,
    "all_reduce": AllReduce,
    "reduce_broadcast": ReduceBroadcast,
    "flat": Flat,
    "ddp": DDP,
}


def strategy_of(trial: Trial) -> Strategy:
    """The trial's strategy. One process alone has nobody to agree with."""
    return STRATEGIES[trial.strategy or "none"]()
