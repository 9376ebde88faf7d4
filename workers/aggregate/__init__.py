"""The strategies by which ranks average gradients or parameters, one file `NAME.py` each. Interface: strategy.py."""

from importlib import import_module

from ddptui.config.trial import Trial
from workers.aggregate.mistakes import MISTAKES
from workers.aggregate.strategy import Strategy


def strategy_of(trial: Trial) -> Strategy:
    """The trial's strategy, or the deliberate mistake that replaces it; `none` if the trial has no process group."""
    name = trial.strategy or "none"
    return (MISTAKES.get((trial.mistake or "", name)) or strategy_class(name))(trial)


def strategy_class(name: str) -> type[Strategy]:
    """The one subclass of Strategy that `NAME.py` defines."""
    module = import_module(f"workers.aggregate.{name}")
    [strategy] = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Strategy) and value.__module__ == module.__name__
    ]
    return strategy
