"""Common mistakes in averaging gradients. `mistake = …` in a trial replaces the strategy with one of these.

The mistake `no_set_epoch` is in the training loop, in train.py.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workers.aggregate.all_reduce import AllReduceStrategy
from workers.aggregate.ddp import DDP
from workers.aggregate.strategy import Strategy


class GroupOfOne(Strategy):
    """Sums over a group that contains only rank 0: every rank keeps its own gradient, and divides it."""

    def prepare(self, model: nn.Module) -> nn.Module:
        self.group: Any = dist.new_group([0])
        return super().prepare(model)

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, group=self.group)  # does nothing on ranks outside the group, but warns
            tensor /= dist.get_world_size()


class GroupOfOneOverDDP(GroupOfOne, DDP):
    """GroupOfOne on top of torch DDP, as in a published tutorial: DDP has already divided."""


class DivideTwice(AllReduceStrategy):
    """Divides in the function that averages, and again in its caller."""

    def average(self, tensors: list[Tensor]) -> None:
        super().average(tensors)
        for tensor in tensors:
            tensor /= dist.get_world_size()


class NoDivision(AllReduceStrategy):
    """Leaves the sum, not the mean: as if the learning rate were n times as large."""

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor)


class NoFirstBroadcast(AllReduceStrategy):
    """Each rank initializes its own parameters, without a broadcast. Averaged gradients never close that gap."""

    def prepare(self, model: nn.Module) -> nn.Module:
        torch.manual_seed(self.trial.seed + dist.get_rank())
        for module in model.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
        return model


class AverageAgain(DDP):
    """DDP has averaged, and the loop averages again. The result is right, since all ranks agree, but costs time."""

    def average(self, tensors: list[Tensor]) -> None:
        AllReduceStrategy(self.trial).average(tensors)


MISTAKES: dict[tuple[str, str], type[Strategy]] = {  # by mistake and the strategy in which it is made
    ("group_of_one", "all_reduce"): GroupOfOne,
    ("group_of_one", "ddp"): GroupOfOneOverDDP,
    ("divide_twice", "all_reduce"): DivideTwice,
    ("no_division", "all_reduce"): NoDivision,
    ("no_first_broadcast", "all_reduce"): NoFirstBroadcast,
    ("average_again", "ddp"): AverageAgain,
}
