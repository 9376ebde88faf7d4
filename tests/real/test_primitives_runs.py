"""Presets of primitives, as a user runs them: what is shown, measured, kept; and what happens when a rank is lost."""

import re
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from ddptui.config.catalog import OPERATIONS
from ddptui.engines.local.warm import WarmParent
from ddptui.wire.messages import Heartbeat, Hello
from ddptui.wire.records import Launched, Message
from tests.support.here import run_here
from tests.support.runner import ddptui, survivors, write_preset

THREE = """
kind = "primitives"
[defaults]
world_size = 3
threads = 1
[[trial]]
name = "see"
primitives = "see"
root = 2
operations = ["reduce", "scatter", "send_recv"]
reduce_ops = ["max", "avg"]
[[trial]]
name = "measure"
primitives = "measure"
launch = "launch"
composites = ["ring", "gather_scatter"]
max_bytes = 4096
iterations = 3
cadence = "barrier"
[[trial]]
name = "pipelined"
primitives = "measure"
cadence = "pipelined"
max_bytes = 4096
iterations = 20
cell_s = 60
"""
ENDLESS = """
kind = "primitives"
[defaults]
primitives = "measure"
operations = ["all_reduce"]
iterations = 20000
cell_s = 3000
threads = 1
stall_s = 5
[[trial]]
name = "killed"
[[trial]]
name = "stopped"
"""


@pytest.fixture(scope="module")
def ran(warm: WarmParent, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("primitives")
    results = run_here(warm, folder / "runs", write_preset(folder, THREE))
    assert results["status"] == "ok"
    return folder / "runs", results


def launch_of(results: dict[str, Any], trial: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in results["trials"] if each["name"] == trial)["primitives"][0]
    return found


def test_what_every_rank_held_is_shown(ran: tuple[Path, dict[str, Any]]) -> None:
    views = launch_of(ran[1], "see")["views"]
    assert [(view["operation"], view["reduce_op"], view["root"]) for view in views] == [
        ("reduce", "max", 2), ("reduce", "avg", 2), ("scatter", None, 2), ("send_recv", None, None),
    ]  # fmt: skip
    highest = views[0]["ranks"]
    assert [rank["call"] for rank in highest] == ["dist.reduce(tensor, dst=2, op=ReduceOp.MAX)"] * 3
    assert [rank["buffers"][0]["before"] for rank in highest] == [[1, 2, 3, 4], [11, 12, 13, 14], [21, 22, 23, 24]]
    assert highest[2]["buffers"][0]["after"] == [21, 22, 23, 24]
    assert [rank["buffers"][0]["undefined"] for rank in highest] == [True, True, False]
    parts = [rank["buffers"][0] for rank in views[2]["ranks"]]
    assert [part["before"] for part in parts] == [None, None, [21, 22, 23, 24, 25, 26]]
    assert views[3]["ranks"][2]["call"] == "nothing: it has no partner"


def test_every_primitive_and_composite_is_measured_with_every_size(ran: tuple[Path, dict[str, Any]]) -> None:
    launch = launch_of(ran[1], "measure")
    assert (launch["ranks"], launch["cadence"], launch["backend"]) == (3, "barrier", "gloo")
    cells = {(cell["operation"], cell["composite"], cell["bytes"]): cell for cell in launch["cells"]}
    assert len(cells) == 11 * 2 + 1 + 2 * 2
    assert {cell["wrong"] for cell in cells.values()} == {0}
    assert {cell["calls"] for cell in cells.values()} == {5 * 3}
    assert cells["all_gather", False, 1020]["time_us"]["min"] > 0  # 1024 bytes are not three equal parts
    ring = cells["ring", True, 4096]
    assert ring["busbw_gb_s"] == pytest.approx(ring["algbw_gb_s"] * 4 / 3)
    assert ring["algbw_gb_s"] == pytest.approx(4096 / ring["time_us"]["mean"] / 1000)
    assert cells["barrier", False, 0]["algbw_gb_s"] is None


def test_with_several_calls_in_flight_all_that_can_be_is_measured_and_right(ran: tuple[Path, dict[str, Any]]) -> None:
    launch = launch_of(ran[1], "pipelined")
    assert (launch["cadence"], len(launch["cells"])) == ("pipelined", 9 * 2 + 1)
    assert {cell["operation"] for cell in launch["cells"]} == {*OPERATIONS} - {"send_recv", "local_sum"}
    found = {(cell["in_flight"], cell["calls"], cell["wrong"], cell["error"]) for cell in launch["cells"]}
    assert found == {(8, 5 * 16, 0, None)}  # in each of five rounds twice eight, which are at most twenty


def test_a_run_that_is_kept_says_the_same_again(ran: tuple[Path, dict[str, Any]]) -> None:
    again = ddptui(ran[0], "show", "last", "--format", "json")
    assert again.returncode == 0, again.stderr
    kept = next(ran[0].iterdir())
    assert again.stdout == (kept / "results.json").read_text()
    shown = ddptui(ran[0], "show", "last").stdout
    assert "scatter" in shown
    assert "ring by hand" in shown
    assert "all_reduce: every rank gets the reduced tensor (pipelined)" in shown


class Striker:
    """Sends a rank a signal as soon as both ranks of a trial call all_reduce."""

    def __init__(self, signals: dict[str, tuple[int, signal.Signals]]) -> None:
        """signals: by the trial's name, which rank gets which one."""
        self.ranks: list[psutil.Process] = []  # of all trials
        self._signals = signals

    def act(self, message: Message) -> None:
        match message:
            case Launched():
                self._trial, self._launch, self._calling = message.trial, {}, set[int]()
            case Hello():
                self._launch[message.rank] = psutil.Process(message.pid)
                self.ranks.append(self._launch[message.rank])
            case Heartbeat() if message.position.kind == "all_reduce" and len(self._calling) < 2:
                self._calling.add(message.rank)
                if len(self._calling) == 2:
                    rank, number = self._signals[self._trial]
                    self._launch[rank].send_signal(number)


@pytest.fixture(scope="module")
def errors(warm: WarmParent, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of two trials whose ranks call all_reduce for as long as they are let: of one a rank is killed, of the other one
    is stopped."""
    folder = tmp_path_factory.mktemp("endless")
    striker = Striker({"killed": (1, signal.SIGKILL), "stopped": (0, signal.SIGSTOP)})
    results = run_here(warm, folder / "runs", write_preset(folder, ENDLESS), striker.act)
    assert len(striker.ranks) == 4
    assert survivors(striker.ranks, 5) == []
    assert [trial["status"] for trial in results["trials"]] == ["failed", "failed"]
    return {trial["name"]: trial["error"] for trial in results["trials"]}


def test_a_rank_that_is_killed_or_stopped_among_its_calls_is_named_and_what_the_other_waits_in(
    errors: dict[str, str],
) -> None:
    assert "rank 1 was killed by SIGKILL" in errors["killed"]
    said = errors["stopped"]
    assert re.search("(rank 0|: it) is stopped, as by SIGSTOP; rank 1 waits", said)
    assert "all_reduce" in said
