"""Presets of primitives, as a user runs them: what is shown, measured, kept; and what happens when a rank is lost."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.runner import ENOUGH_S, ddptui, results_of, start, survivors, write_preset

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
iterations = 7
cadence = "barrier"
"""
ENDLESS = """
kind = "primitives"
[[trial]]
name = "long"
primitives = "measure"
operations = ["all_reduce"]
iterations = 20000
cell_s = 3000
threads = 1
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("primitives")
    results = results_of(folder / "runs", write_preset(folder, THREE))
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
    assert {cell["calls"] for cell in cells.values()} == {5 * 7}
    assert cells["all_gather", False, 1020]["time_us"]["min"] > 0  # 1024 bytes are not three equal parts
    ring = cells["ring", True, 4096]
    assert ring["busbw_gb_s"] == pytest.approx(ring["algbw_gb_s"] * 4 / 3)
    assert ring["algbw_gb_s"] == pytest.approx(4096 / ring["time_us"]["mean"] / 1000)
    assert cells["barrier", False, 0]["algbw_gb_s"] is None


def test_a_run_that_is_kept_says_the_same_again(ran: tuple[Path, dict[str, Any]]) -> None:
    again = ddptui(ran[0], "show", "last", "--format", "json")
    assert again.returncode == 0, again.stderr
    kept = next(ran[0].iterdir())
    assert again.stdout == (kept / "results.json").read_text()
    shown = ddptui(ran[0], "show", "last").stdout
    assert "scatter" in shown
    assert "ring by hand" in shown
    assert "reduce_scatter" in ddptui(ran[0], "show", "last", "--format", "csv").stdout


class Endless:
    """A console whose two ranks call all_reduce for as long as they are let, and these two, by number."""

    def __init__(self, folder: Path) -> None:
        preset = write_preset(folder, ENDLESS)
        self.console = start(folder / "runs", "--preset", str(preset), "--no-ui", "--set", "stall_s=5")
        pids = self._wait_until_both_call(folder / "runs")
        self.ranks = [psutil.Process(pids[rank]) for rank in (0, 1)]

    def _wait_until_both_call(self, runs: Path) -> dict[int, int]:
        """Their pids."""
        deadline = time.monotonic() + ENOUGH_S
        while time.monotonic() < deadline:
            assert self.console.poll() is None, self.console.communicate()
            told = [json.loads(line) for path in runs.glob("*/*/*/messages.jsonl") for line in whole_lines(path)]
            if {message["rank"] for message in told if "all_reduce" in message.get("position", ())} == {0, 1}:
                return {message["rank"]: message["pid"] for message in told if message["type"] == "Hello"}
            time.sleep(0.1)  # the journal is a file: there is nothing to wait on
        raise AssertionError("the ranks never called")

    def said(self) -> str:
        """All that the console says until it ends, with a failed trial."""
        _, errors = self.console.communicate(timeout=60)
        assert self.console.returncode == 1
        assert survivors(self.ranks, 5) == []
        return errors

    def end(self) -> None:
        self.console.kill()
        self.console.communicate()


def whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Endless]:
    endless = Endless(tmp_path)
    yield endless
    endless.end()


def test_a_rank_that_is_killed_among_its_calls_is_named(endless: Endless) -> None:
    endless.ranks[1].send_signal(signal.SIGKILL)
    assert "rank 1 killed by SIGKILL" in endless.said()


def test_of_a_rank_that_is_stopped_among_its_calls_it_is_said_what_the_other_waits_in(endless: Endless) -> None:
    endless.ranks[0].send_signal(signal.SIGSTOP)
    said = endless.said()
    assert "rank 0 is stopped" in said
    assert "rank 1 waits" in said
    assert "all_reduce" in said
