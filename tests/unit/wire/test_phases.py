"""What a training may say of itself."""

from typing import Any

import pytest

from ddptui import phase, step
from ddptui.wire import phases


class Listening:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def phase_begins(self, name: str) -> None:
        self.calls.append(("begins", name))

    def phase_ends(self) -> None:
        self.calls.append(("ends",))

    def step_ends(self, loss: Any, samples: int) -> None:
        self.calls.append(("step", loss, samples))


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Listening:
    listener = Listening()
    monkeypatch.setattr(phases, "listener", listener)
    return listener


def test_marks_reach_the_instruments_also_where_a_phase_fails_or_is_a_function(listening: Listening) -> None:
    with pytest.raises(KeyError), phase("forward"):
        raise KeyError
    step(loss=2.5, samples=8)
    step()
    assert listening.calls == [("begins", "forward"), ("ends",), ("step", 2.5, 8), ("step", None, 0)]
    listening.calls.clear()

    @phase("backward")
    def backward(number: int) -> int:
        """Its own docstring."""
        return 2 * number

    assert (backward(3), backward(4), backward.__doc__) == (6, 8, "Its own docstring.")
    assert listening.calls == [("begins", "backward"), ("ends",)] * 2


def test_a_phase_that_there_is_not_is_refused_with_those_that_there_are_also_without_a_console() -> None:
    assert phases.listener is None
    with pytest.raises(ValueError, match="'eval' is not a phase of a step: choose from data, forward,"):
        phase("eval")
