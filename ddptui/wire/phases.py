"""The phases of a step; and how a training may mark its own, where its calls of torch do not tell them. `ddptui watch`
listens to that. Without it nothing is done.

    from ddptui import phase, step

    for batch in my_stream:
        with phase("forward"):
            outputs = model(batch)
        with phase("backward"):
            gradients = my_backward(outputs)
        with phase("optimizer"):
            update(model, gradients)
        step(loss=outputs.loss, samples=len(batch))
"""

from contextlib import ContextDecorator
from typing import Any, Protocol

PHASES = ("data", "forward", "backward", "aggregate", "optimizer")
BETWEEN = "between steps"  # what a step does outside its phases, too
PARTS = (*PHASES, BETWEEN)


class Listener(Protocol):
    """The instruments of a process that is watched."""

    def phase_begins(self, name: str) -> None: ...

    def phase_ends(self) -> None: ...

    def step_ends(self, loss: Any, samples: int) -> None: ...


listener: Listener | None = None  # of this process


class phase(ContextDecorator):
    """What runs within is this phase of a step: data, forward, backward, aggregate or optimizer. Also a decorator.
    Raises ValueError for any other name."""

    def __init__(self, name: str) -> None:
        if name not in PHASES:
            raise ValueError(f"{name!r} is no phase of a step: choose from {', '.join(PHASES)}")
        self._name = name

    def __enter__(self) -> None:
        if listener is not None:
            listener.phase_begins(self._name)

    def __exit__(self, *_: object) -> None:
        if listener is not None:
            listener.phase_ends()


def step(loss: Any = None, samples: int = 0) -> None:
    """A step of the training ends here. From the first call on, no other sign counts as the end of one.

    loss: a number or a tensor of one element; by default what backward was called on. samples: of this rank's batches,
    if no DataLoader has fetched them.
    """
    if listener is not None:
        listener.step_ends(loss, samples)
