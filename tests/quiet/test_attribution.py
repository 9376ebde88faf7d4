"""The selftest, as it is typed: what is put in at every site is attributed, and where nothing is, it stays silent."""

import json
import re
from pathlib import Path

import pytest

from ddptui.text.units import NOTHING
from tests.support.runner import ddptui

SITES = ["start", "data", "forward", "backward", "aggregate"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("selftest") / "runs"


def test_what_is_put_in_is_attributed_at_every_site(runs: Path) -> None:
    done = ddptui(runs, "selftest", "--launch", "spawn", "--launch", "dp", "--strategy", "ddp")
    head, _, *rows = done.stdout.splitlines()
    assert head.split() == ["launch", "strategy", "nothing", *SITES]
    spawn, dp = (re.split(r"\s{2,}", row) for row in rows[:2])
    assert spawn[:2] == ["spawn", "ddp"], done.stderr
    assert dp[:2] == ["dp", NOTHING], done.stderr
    assert len(spawn) == len(dp) == len(head.split())
    assert dp[head.split().index("backward")] == NOTHING  # replicas share one
    told = [cell for cell in spawn[3:] + dp[3:] if cell != NOTHING]
    assert len(told) == 9
    right = [tuple(map(float, cell.split("/"))) for cell in told if not cell.startswith("!")]
    assert all(injected >= 500 for _, injected in right)
    # A cell is also right if a wide interval holds what was injected: six of nine must be close, the rest may be noise.
    close = [cell for cell in right if cell[0] == pytest.approx(cell[1], rel=0.2)]
    assert len(close) >= 6, done.stdout
    all_right = "!" not in "".join(spawn + dp)
    assert done.returncode == (0 if all_right else 1)
    assert ("all right" in rows) == all_right


def test_its_run_is_kept_and_its_timeline_can_be_drawn(runs: Path) -> None:
    shown = ddptui(runs, "show", "last", "--format", "trace")
    assert shown.returncode == 0, shown.stderr
    events = json.loads(shown.stdout)["traceEvents"]
    processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert processes == ["spawn-ddp, repeat 1", "dp, repeat 1"]
    names = {event["name"] for event in events}
    assert {"wait for rank 0", "wait for rank 1", "transfer", "all_reduce, bucket 0", "gather_outputs"} <= names
    assert {f"delay put in at {site}" for site in SITES} <= names
