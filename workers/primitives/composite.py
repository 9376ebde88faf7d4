"""What a strategy makes of the primitives: the mean of one tensor, as it takes that of a gradient."""

from collections.abc import Iterator

from torch import Tensor

from workers.aggregate.strategy import Strategy
from workers.primitives.numbers import Numbers
from workers.primitives.primitive import Argument, Setting
from workers.primitives.rooted import OneTensor


class Composite(OneTensor):
    def __init__(self, setting: Setting, strategy: Strategy) -> None:
        super().__init__(setting)
        self.strategy = strategy

    def call(self) -> None:
        self.strategy.average([self.buffer])

    def spelled(self) -> str:
        return "strategy.average([tensor])"

    def arguments(self) -> list[Argument]:
        return [Argument("tensor", [self.buffer])]

    def wanted(self, numbers: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
        yield self.buffer, numbers.reduced("avg", self.ranks, self.elements)
