"""The selftest, as it is typed: what is put in at every site is attributed, and where nothing is, it stays silent."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from ddptui.text.words import NOTHING
from tests.support.runner import ddptui

SITES = ["start", "data", "forward", "backward", "aggregate"]
IN_A_GROUP = {"wait for rank 0", "wait for rank 1", "transfer", "all_reduce, bucket 0"}


class Row(NamedTuple):
    """What the selftest must say of a launch."""

    strategy: str
    sites: list[str]
    process: str  # in its timeline
    drawn: set[str]  # there


ROWS = {
    "spawn": Row("ddp", SITES, "spawn-ddp, repeat 1", IN_A_GROUP),
    # Replicas share one backward. Their delays put in by hand are measured in test_delays_by_hand, every time.
    "dp": Row(NOTHING, [site for site in SITES if site != "backward"], "dp, repeat 1", {"gather_outputs"}),
}


@pytest.mark.parametrize("launches", [("spawn",), pytest.param(("spawn", "dp"), marks=pytest.mark.rare)])
def test_what_is_put_in_is_attributed_at_every_site_and_drawn(tmp_path: Path, launches: tuple[str, ...]) -> None:
    wanted = [word for launch in launches for word in ("--launch", launch)]
    done = ddptui(tmp_path, "selftest", *wanted, "--strategy", "ddp")
    head, _, *rows = done.stdout.splitlines()
    assert head.split() == ["launch", "strategy", "nothing", *SITES], done.stderr
    rows, rest = rows[: len(launches)], rows[len(launches) :]
    for launch, row in zip(launches, rows, strict=True):
        assert_attributed(launch, dict(zip(head.split(), re.split(r"\s{2,}", row.rstrip()), strict=True)))
    all_right = "!" not in "".join(rows)
    assert done.returncode == (0 if all_right else 1)
    assert ("all right" in rest) == all_right

    assert ddptui(tmp_path, "runs").stdout.split()[1:] == ["ok"]  # its name, and how it is listed
    shown = ddptui(tmp_path, "show", "last", "--format", "trace")
    assert shown.returncode == 0, shown.stderr
    events = json.loads(shown.stdout)["traceEvents"]
    processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert processes == [ROWS[launch].process for launch in launches]
    names = {event["name"] for event in events}
    assert set.union(*(ROWS[launch].drawn for launch in launches)) <= names
    assert {f"delay put in at {site}" for site in SITES} <= names


def assert_attributed(launch: str, cells: dict[str, str]) -> None:
    strategy, sites, *_ = ROWS[launch]
    assert (cells["launch"], cells["strategy"]) == (launch, strategy)
    assert [site for site in SITES if cells[site] != NOTHING] == sites
    right = [tuple(map(float, cells[site].split("/"))) for site in sites if not cells[site].startswith("!")]
    assert all(injected >= 500 for _, injected in right)
    # A cell is also right if a wide interval holds what was injected: three must be close, the rest may be noise.
    close = [cell for cell in right if cell[0] == pytest.approx(cell[1], rel=0.2)]
    assert len(close) >= 3, cells
