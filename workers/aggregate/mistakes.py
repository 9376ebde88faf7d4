"""Common mistakes, as they are made in practice: `mistake = …` in a trial puts one in the strategy's place.

`no_set_epoch` is a mistake of the loop, in train.py.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workers.aggregate.all_reduce import AllReduce
from workers.aggregate.ddp import DDP
from workers.aggregate.strategy import Strategy


class GroupOfOne(Strategy):
    """The sum is over a group that only rank 0 is in: every rank keeps its own gradient, and divides it."""

    def prepare(self, model: nn.Module) -> nn.Module:
        self.group: Any = dist.new_group([0])
        return super().prepare(model)

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, group=self.group)  # outside the group it does nothing, with a warning
            tensor /= dist.get_world_size()


class GroupOfOneOverDDP(GroupOfOne, DDP):
    """The same on top of torch DDP, as a published tutorial has it: DDP has divided already."""


class DivideTwice(AllReduce):
    """Divided in the function that averages, and once more by its caller."""

    def average(self, tensors: list[Tensor]) -> None:
        super().average(tensors)
        for tensor in tensors:
            tensor /= dist.get_world_size()


class NoDivision(AllReduce):
    """The sum in place of the mean: as if the learning rate were n times larger."""

    def average(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor)


class NoFirstBroadcast(AllReduce):
    """Every rank draws its own initial parameters, without a broadcast. Averaged gradients never close that gap."""

    def prepare(self, model: nn.Module) -> nn.Module:
        torch.manual_seed(self.trial.seed + dist.get_rank())
        for module in model.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
        return model


class AverageAgain(DDP):
    """DDP has averaged, and the loop averages again. The mean of equal numbers is that number: right, but not free."""

    def average(self, tensors: list[Tensor]) -> None:
        AllReduce(self.trial).average(tensors)


MISTAKES: dict[tuple[str, str], type[Strategy]] = {  # by the mistake, and the strategy that it is made with
    ("group_of_one", "all_reduce"): GroupOfOne,
    ("group_of_one", "ddp"): GroupOfOneOverDDP,
    ("divide_twice", "all_reduce"): DivideTwice,
    ("no_division", "all_reduce"): NoDivision,
    ("no_first_broadcast", "all_reduce"): NoFirstBroadcast,
    ("average_again", "ddp"): AverageAgain,
}
