"""The phases of a step, and the marks by which a training script can name them.

`ddptui watch` recognizes phases by calls of torch. A script whose calls do not show them can mark them itself. Outside
of `ddptui watch` the marks do nothing.

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
BETWEEN = "between steps"  # time outside the phases, also within a step
PARTS = (*PHASES, BETWEEN)


class Listener(Protocol):
    """The instruments of a watched process, which receive the marks."""

    def phase_begins(self, name: str) -> None: ...

    def phase_ends(self) -> None: ...

    def step_ends(self, loss: Any, samples: int) -> None: ...


listener: Listener | None = None  # this process's instruments; None: not watched


class phase(ContextDecorator):
    """Marks the enclosed code as a phase of a step: data, forward, backward, aggregate or optimizer. Works as a context
    manager and as a decorator. Raises ValueError for any other name."""

    def __init__(self, name: str) -> None:
        if name not in PHASES:
            raise ValueError(f"{name!r} is not a phase of a step: choose from {', '.join(PHASES)}")
        self._name = name

    def __enter__(self) -> None:
        if listener is not None:
            listener.phase_begins(self._name)

    def __exit__(self, *_: object) -> None:
        if listener is not None:
            listener.phase_ends()


def step(loss: Any = None, samples: int = 0) -> None:
    """Marks the end of a training step. From the first call on, only these marks end a step.

    loss: a number or a tensor of one element; by default the tensor on which backward was called. samples: number of
    samples that this rank processed in the step, needed only if no DataLoader fetched them.
    """
    if listener is not None:
        listener.step_ends(loss, samples)
