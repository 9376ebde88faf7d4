"""The strategies by which ranks average gradients or parameters, one file `NAME.py` each. Interface: strategy.py."""

from collections.abc import Callable
from importlib import import_module

from torch import Tensor, nn

from ddptui.config.trial import Trial, in_short, is_own
from workers.aggregate.mistakes import MISTAKES
from workers.aggregate.strategy import Strategy
from workers.own_code import check_call, load_own


class OwnFunction(Strategy):
    """The user's own function in place of `average`."""

    def __init__(self, trial: Trial, function: Callable[[list[Tensor]], object]) -> None:
        super().__init__(trial)
        self._function = function

    def average(self, tensors: list[Tensor]) -> None:
        self._function(tensors)


class OwnClass(Strategy):
    """Precedes a class of the user's own, and checks what its `prepare` returns."""

    def prepare(self, model: nn.Module) -> nn.Module:
        network: object = super().prepare(model)
        if not isinstance(network, nn.Module):
            what = f"strategy {in_short(self.trial.strategy or '')!r}"
            raise TypeError(f"{what}: prepare(model) must return the model, but returned {type(network).__name__}")
        return network


def strategy_of(trial: Trial) -> Strategy:
    """The trial's strategy, or the deliberate mistake that replaces it; `none` if the trial has no process group."""
    name = trial.strategy or "none"
    if is_own(name):
        return own_strategy(trial, name)
    return (MISTAKES.get((trial.mistake or "", name)) or strategy_class(name))(trial)


def own_strategy(trial: Trial, name: str) -> Strategy:
    """The user's own strategy: a function, or a class, whose missing methods are those of Strategy. Raises ValueError
    if there is none, TypeError if a class cannot average."""
    own = load_own("strategy", name)
    if not isinstance(own, type):
        return OwnFunction(trial, own)
    if not callable(getattr(own, "average", None)):
        raise TypeError(f"strategy {in_short(name)!r}: the class has no method average(self, tensors)")
    whole: type[Strategy] = type(own.__name__, (OwnClass, own, Strategy), {"trial": trial})
    what = f"strategy {in_short(name)!r}"
    check_call(what, whole, "trial")
    strategy = whole(trial)
    check_call(what, strategy.average, "tensors")
    return strategy


def strategy_class(name: str) -> type[Strategy]:
    """The one subclass of Strategy that `NAME.py` defines."""
    module = import_module(f"workers.aggregate.{name}")
    [strategy] = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Strategy) and value.__module__ == module.__name__
    ]
    return strategy
