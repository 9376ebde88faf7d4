"""A run waits until this machine is quiet, and no longer than it may."""

from collections.abc import Iterator

import pytest

from ddptui.host.load import LoadMeter
from ddptui.run import quiet
from ddptui.run.quiet import CALM_READINGS, can_wait, wait_until_quiet
from ddptui.wire.records import Load
from tests.support.builders import preset_of

BUSY = Load(at_ns=0, busy=2.0, own=0.0, by="python (process 4711)")
CALM = Load(at_ns=0, busy=0.1, own=0.0, idle=1.9)


def waited(monkeypatch: pytest.MonkeyPatch, readings: Iterator[Load], within_s: float = 600.0) -> list[str]:
    monkeypatch.setattr(LoadMeter, "read", lambda *_, **__: [next(readings)])
    monkeypatch.setattr(quiet, "LOOK_EVERY_S", 0.0)
    said: list[str] = []
    wait_until_quiet(within_s, said.append)
    return said


def test_on_a_busy_machine_it_waits_until_that_was_quiet_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([BUSY, CALM, BUSY, *[CALM] * CALM_READINGS])
    first, last = waited(monkeypatch, readings)
    assert first.startswith("waiting until this machine is quiet, 600 s at most: other programs kept 2.0 cores busy")
    assert "python (process 4711)" in first
    assert last == "this machine is quiet"
    assert next(readings, None) is None
    assert waited(monkeypatch, iter([CALM] * CALM_READINGS)) == []
    *_, last = waited(monkeypatch, iter(lambda: BUSY, None), within_s=0.05)
    assert last.startswith("not quiet after 0.05 s, starting")


def test_a_training_of_the_users_own_is_never_held_up() -> None:
    assert can_wait(preset_of({"trial": [{"name": "a"}]}))
    assert not can_wait(preset_of({"kind": "command", "trial": [{"name": "a", "command": ["true"]}]}))
