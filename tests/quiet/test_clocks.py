"""Ranks with clocks of their own, over the real wire: a time namespace is as good as a host that started earlier."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from ddptui.analysis.clocks import AT_FIRST, Probes
from ddptui.analysis.results import RepeatResult
from ddptui.engines.rank_server import RankServer
from ddptui.findings.repeat import outcome_of_messages
from ddptui.host.machine import own_clock
from ddptui.wire.connection import HUB, TOKEN
from ddptui.wire.messages import Done, Echo
from ddptui.wire.records import Ended, Launched, Message, Offset
from tests.support.rank_elsewhere import WORK_S, WORLD

AHEAD_S = 1000
ELSEWHERE = ("unshare", "-T", f"--monotonic={AHEAD_S}", "--fork", "--kill-child")
DEADLINE_S = 60
S = 1e9  # ns


def without_time_namespaces() -> str:
    """Why there can be none."""
    if shutil.which("unshare") is None:
        return "unshare (util-linux) is missing"
    tried = subprocess.run([*ELSEWHERE, "true"], capture_output=True, text=True, check=False)
    return (
        f"a time namespace needs root, and a kernel that has them: {tried.stderr.strip()}" if tried.returncode else ""
    )


@contextmanager
def ranks(hub: RankServer, folder: Path) -> Iterator[None]:
    """Rank 0 here, rank 1 by another clock."""
    environment = os.environ | {HUB: hub.endpoint, TOKEN: hub.token, "GLOO_SOCKET_IFNAME": "lo"}
    commands = [[sys.executable, "-m", "tests.support.rank_elsewhere", str(rank), str(folder)] for rank in range(WORLD)]
    started = [
        subprocess.Popen([*(ELSEWHERE if rank == 1 else ()), *command], env=environment)
        for rank, command in enumerate(commands)
    ]
    try:
        yield
        assert [process.wait(DEADLINE_S) for process in started] == [0] * WORLD
    finally:
        for process in started:
            process.kill()
            process.wait()


def launch(folder: Path) -> list[Message]:
    """As the lab does it, rank 1 by another clock."""
    begun = Launched(trial="a", repeat=1, at_ns=time.monotonic_ns(), command=(), clock=own_clock())
    journal: list[Message] = [begun]
    probes = Probes(own_clock())
    deadline = time.monotonic() + DEADLINE_S
    with RankServer(WORLD) as hub, ranks(hub, folder):
        while sum(isinstance(message, Done) for message in journal) < WORLD:
            assert time.monotonic() < deadline, journal[-3:]
            messages = hub.receive(50)
            came_ns = time.monotonic_ns()
            for message in messages:
                journal += probes.add(message, came_ns)
                journal += [] if isinstance(message, Echo) else [message]
            for rank, probe in probes.due(time.monotonic_ns()):
                hub.send(probe, [rank])
        assert hub.refused == 0
    return [*journal, Ended(at_ns=time.monotonic_ns(), status="ok")]


def result_of(messages: list[Message]) -> RepeatResult:
    found = outcome_of_messages(messages)
    assert found is not None
    assert found.result is not None, found.error
    return found.result


def test_waits_across_hosts_are_those_of_one(tmp_path: Path) -> None:
    if why := without_time_namespaces():
        pytest.skip(why)
    told = launch(tmp_path)
    offsets = [message for message in told if isinstance(message, Offset)]
    assert len(offsets) > AT_FIRST
    assert {offset.rank for offset in offsets} == {1}
    for offset in offsets:
        assert abs(offset.offset_ns - AHEAD_S * S) <= offset.error_ns

    found = result_of(told)
    assert found.clock_error_ms is not None
    assert found.wait_error_ms is not None
    assert found.mismatches == []
    assert 0 <= found.startup_s < DEADLINE_S
    expected_ms = (WORK_S[1] - WORK_S[0]) * 1000 / WORLD  # of the one that waits; mean over the ranks
    assert found.wait_ms == pytest.approx(expected_ms, abs=found.wait_error_ms + 5)
    assert found.verdict == "skew"
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.phase) == (1, "data")
    assert without_clocks(told).startup_s > AHEAD_S / 2  # or all this shows nothing


def without_clocks(messages: list[Message]) -> RepeatResult:
    """As if there were only one."""
    return result_of([msgspec.structs.replace(each, clock="") if hasattr(each, "clock") else each for each in messages])
