"""A delay goes in where, when and on whom it should, and is counted for what it really was."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddptui.config.trial import Bottleneck
from workers.instruments.delays import Delays


def delays(rank: int = 1, warmup_steps: int = 0, **fields: Any) -> Delays:
    bottleneck = Bottleneck(**{"at": "forward", "ranks": (1,), "sleep_ms": 1.0, **fields})
    return Delays((bottleneck,), rank, seed=3, warmup_steps=warmup_steps)


def walk(delays: Delays, steps: int) -> list[int]:
    """Go through steps as the loop does, with two collectives each; in which of them did it fire?"""
    fired = []
    for step in range(steps):
        before = delays.fired
        delays.begin(step)
        for site in ("data", "forward", "backward"):
            delays.at(site)  # type: ignore[arg-type]
        for _ in range(2):
            delays.before_collective()
        fired += [step] * (delays.fired - before)
    delays.end()
    return fired


@pytest.mark.parametrize(
    ("fields", "fired"),
    [
        ({"at": "data", "to_step": 2}, [0, 1, 2]),
        ({"at": "forward", "to_step": 2}, [0, 1, 2]),
        ({"at": "backward", "to_step": 2}, [0, 1, 2]),
        ({"at": "aggregate", "to_step": 2}, [0, 1, 2]),
        ({"at": "aggregate", "per": "call", "to_step": 1}, [0, 0, 1, 1]),
        ({"rank": 0}, []),
        ({"every": 3, "from_step": 2, "to_step": 8}, [2, 5, 8]),
        ({"warmup_steps": 9}, [9, 10, 11]),  # those of the warm-up are delayed and not counted
    ],
)
def test_it_fires_where_and_when_it_should(fields: dict[str, Any], fired: list[int]) -> None:
    late = delays(**fields)
    assert walk(late, 12) == fired
    assert late.slept_ns >= len(fired) * 1e6


def test_no_collective_is_delayed_outside_the_steps_nor_in_forward() -> None:
    late = delays(at="aggregate", per="call")
    late.before_collective()  # the first broadcast
    late.begin(0)
    late.before_collective()
    assert late.fired == 0
    late.at("forward")
    late.before_collective()
    late.end()
    late.before_collective()
    assert late.fired == 1


def test_a_delay_at_the_start_is_counted_though_it_comes_before_the_warm_up() -> None:
    late = delays(at="start", warmup_steps=2)
    late.start()
    assert late.fired == 1
    assert late.slept_ns >= 1e6


@pytest.mark.parametrize(("jitter", "most"), [("uniform", 2.0), ("exponential", 40.0)])
def test_jitter_keeps_its_mean_and_follows_from_the_seed(jitter: str, most: float) -> None:
    one, other = delays(jitter=jitter), delays(jitter=jitter)
    [bottleneck] = one._bottlenecks
    lengths = [(one._length_s("data", bottleneck) or 0.0) * 1000 for _ in range(4000)]
    assert lengths == [(other._length_s("data", bottleneck) or 0.0) * 1000 for _ in range(4000)]
    assert sum(lengths) / len(lengths) == pytest.approx(1.0, rel=0.1)
    assert 0 <= min(lengths) < max(lengths) <= most


def test_new_delays_replace_the_old_ones() -> None:
    late = delays()
    late.set((Bottleneck(at="data", ranks=(1,), sleep_ms=0, from_step=1),))
    assert walk(late, 3) == [1, 2]


def test_a_slow_link_delays_nobody() -> None:
    late = Delays((Bottleneck(at="link", ranks=(1,), mbit=1.0),), 1, seed=3, warmup_steps=0)
    late.start()
    assert walk(late, 1) == []
    assert (late.fired, late.taken()) == (0, ())


@pytest.mark.parametrize(("device", "expected"), [("cuda:1", [("cuda:1 is done", False)]), ("cpu", [])])
def test_a_device_finishes_before_its_rank_sleeps_which_is_not_asleep_meanwhile(
    monkeypatch: pytest.MonkeyPatch, device: str, expected: list[tuple[str, bool]]
) -> None:
    """Else the delay would be hidden behind what is queued. A rank whose device never finishes sits in a collective,
    say: the console must not take that for a delay that was put in."""
    came: list[tuple[str, bool]] = []
    late = Delays(
        (Bottleneck(at="backward", ranks=(0,), sleep_ms=1.0),), 0, seed=0, warmup_steps=0, device=torch.device(device)
    )

    def note(what: str) -> None:
        came.append((what, late.asleep))

    def stream(device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(synchronize=lambda: note(f"{device} is done"))

    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    monkeypatch.setattr("workers.instruments.delays.time.sleep", lambda s: note("sleeps"))
    late.begin(0)
    late.at("forward")
    assert came == []
    late.at("backward")
    note("goes on")
    assert came == [*expected, ("sleeps", True), ("goes on", False)]


@pytest.mark.parametrize("length", ["20", -5, float("nan"), float("inf")])
def test_a_delay_of_ones_own_that_returns_no_length_is_named(length: Any) -> None:
    own = Bottleneck(at="/lab/mine.py:late", ranks=(0,))
    late = Delays((own,), 0, seed=0, warmup_steps=0, own=lambda _: lambda site, rank, step: length)
    late.begin(0)
    with pytest.raises(TypeError, match=r"'mine.py:late': it must return a length in ms, or None, but returned"):
        late.at("data")
