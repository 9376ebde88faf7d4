"""A delay goes in where, when and on whom it should, and is counted for what it really was."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddptui.config.trial import Bottleneck
from workers.instruments.delays import RankDelays


def delays(rank: int = 1, warmup_steps: int = 0, **fields: Any) -> RankDelays:
    bottleneck = Bottleneck(**{"at": "forward", "ranks": (1,), "sleep_ms": 1.0, **fields})
    return RankDelays((bottleneck,), rank, seed=3, warmup_steps=warmup_steps)


def walk(delays: RankDelays, steps: int, collectives: int = 2) -> list[int]:
    """Go through steps as the loop does; in which of them did it fire?"""
    fired = []
    for step in range(steps):
        before = delays.fired
        delays.begin(step)
        for site in ("data", "forward", "backward"):
            delays.at(site)  # type: ignore[arg-type]
        for _ in range(collectives):
            delays.before_collective()
        fired += [step] * (delays.fired - before)
    delays.end()
    return fired


@pytest.mark.parametrize("at", ["data", "forward", "backward", "aggregate"])
def test_each_site_fires_once_a_step(at: str) -> None:
    assert walk(delays(at=at), 3) == [0, 1, 2]


def test_every_and_bounds() -> None:
    assert walk(delays(every=3, from_step=2, to_step=8), 12) == [2, 5, 8]


def test_outside_the_steps_no_collective_is_delayed() -> None:
    late = delays(at="aggregate", per="call")
    late.before_collective()  # the first broadcast
    assert late.fired == 0
    assert walk(late, 1, collectives=1) == [0]
    late.before_collective()
    assert late.fired == 1


def test_collectives_of_forward_are_no_aggregation() -> None:
    late = delays(at="aggregate", per="call")
    late.begin(0)
    late.before_collective()
    assert late.fired == 0
    late.at("forward")
    late.before_collective()
    assert late.fired == 1


def test_warm_up_steps_are_delayed_but_not_counted() -> None:
    late = delays(warmup_steps=2)
    assert walk(late, 5) == [2, 3, 4]


def test_a_delay_at_the_start_is_counted_though_it_comes_before_the_warm_up() -> None:
    late = delays(at="start", warmup_steps=2)
    late.start()
    assert late.fired == 1
    assert late.slept_ns >= 1e6


def test_the_time_slept_is_what_the_clock_says() -> None:
    late = delays(sleep_ms=5.0)
    walk(late, 4)
    assert late.fired == 4
    assert late.slept_ns >= 4 * 5e6


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
    delays = RankDelays((Bottleneck(at="link", ranks=(1,), mbit=1.0),), 1, seed=3, warmup_steps=0)
    delays.start()
    delays.begin(0)
    delays.at("forward")
    assert not delays.before_collective()
    assert (delays.fired, delays.taken()) == (0, ())


@pytest.mark.parametrize(("device", "expected"), [("cuda:1", ["cuda:1 is done", "slept"]), ("cpu", ["slept"])])
def test_a_device_finishes_before_its_rank_sleeps(
    monkeypatch: pytest.MonkeyPatch, device: str, expected: list[str]
) -> None:
    """Else it would go on with what is queued, and the delay be hidden behind that."""
    came: list[str] = []

    def stream(device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(synchronize=lambda: came.append(f"{device} is done"))

    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    monkeypatch.setattr("workers.instruments.delays.time.sleep", lambda s: came.append("slept"))
    late = (Bottleneck(at="backward", ranks=(0,), sleep_ms=1.0),)
    delays = RankDelays(late, 0, seed=0, warmup_steps=0, device=torch.device(device))
    delays.begin(0)
    delays.at("forward")
    assert came == []
    delays.at("backward")
    assert came == expected


def test_a_rank_whose_device_never_finishes_is_not_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sits in a collective, say: the console must not take that for a delay that was put in."""
    late = (Bottleneck(at="forward", ranks=(0,), sleep_ms=1.0),)
    delays = RankDelays(late, 0, seed=0, warmup_steps=0, device=torch.device("cuda", 0))
    seen: list[tuple[str, bool]] = []

    def note(what: str) -> None:
        seen.append((what, delays.asleep))

    stream = SimpleNamespace(synchronize=lambda: note("waits for its device"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr("workers.instruments.delays.time.sleep", lambda s: note("sleeps"))
    delays.begin(0)
    delays.at("forward")
    note("goes on")
    assert seen == [("waits for its device", False), ("sleeps", True), ("goes on", False)]


@pytest.mark.parametrize("length", ["20", -5, float("nan"), float("inf")])
def test_a_delay_of_ones_own_that_returns_no_length_is_named(length: Any) -> None:
    own = Bottleneck(at="/lab/mine.py:late", ranks=(0,))
    delays = RankDelays((own,), 0, seed=0, warmup_steps=0, own=lambda _: lambda site, rank, step: length)
    delays.begin(0)
    with pytest.raises(TypeError, match=r"'mine.py:late': it must return a length in ms, or None, but returned"):
        delays.at("data")
