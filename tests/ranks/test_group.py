"""Ranks leave their group with none of its threads behind: one that drops a tensor as Python shuts down aborts it."""

import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch.distributed as dist

from ddptui.config.trial import Trial
from tests.support.torches import NAMED_THREADS
from tests.support.worlds import one_rank, tiny_trial
from workers import process, spawn
from workers.aggregate import strategy_of
from workers.rank.group import Rendezvous, host_store, join_group, leave_group, open_rendezvous, this_node
from workers.train import train

TASKS = Path("/proc/self/task")


def group_threads() -> list[str]:
    return [name for path in TASKS.glob("*/comm") if "gloo" in (name := path.read_text().strip())]


def test_launchers_with_one_process_id_do_not_meet_at_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in two containers with the same /tmp."""
    monkeypatch.delenv("INIT_METHOD", raising=False)
    trial = Trial(name="t", launch="spawn", init_method="file")
    node = this_node(trial)
    (one, _), (other, _) = open_rendezvous(trial, node), open_rendezvous(trial, node)
    assert one.init_method != other.init_method


@NAMED_THREADS
@pytest.mark.skipif(not TASKS.exists(), reason="only Linux names the threads of native code")
@pytest.mark.parametrize("strategy", ["all_reduce", "ddp_powersgd"])
def test_no_thread_of_the_group_is_left(strategy: str) -> None:
    trial = tiny_trial(strategy, world_size=1)
    me = one_rank(trial)
    store = host_store()
    join_group(me, Rendezvous(store.host, store.port))
    try:
        train(me, strategy_of(trial))
        assert dist.is_initialized()
        assert group_threads()
    finally:
        leave_group()
    assert group_threads() == []


@pytest.mark.parametrize("launcher", [spawn, process])
def test_the_store_with_its_thread_comes_after_the_last_fork(
    monkeypatch: pytest.MonkeyPatch, launcher: ModuleType
) -> None:
    """A fork copies the locks that another thread holds, and not the thread that would let go of them."""
    came: list[str] = []

    class Started:
        exitcode, sentinel = 0, 0

        def start(self) -> None:
            came.append("rank")

        def join(self) -> bool:
            return True

    def start_processes(*_: Any, nprocs: int, **__: Any) -> Started:
        came.extend(["rank"] * nprocs)
        return Started()

    def store(port: socket.socket) -> None:
        came.append("store")
        port.close()

    monkeypatch.setattr(sys, "argv", ["rank", "world_size=3", "start_method=fork"])
    monkeypatch.setattr(launcher, "host_store", store)
    monkeypatch.setattr(spawn.mp, "start_processes", start_processes)
    monkeypatch.setattr(process.mp.get_context("fork"), "Process", lambda **_: Started(), raising=False)
    monkeypatch.setattr(process, "wait_for_all", lambda ranks: None)
    launcher.main()
    assert came == ["rank"] * 3 + ["store"]
