"""The selftest, as it is typed: what is put in at every site is attributed, and where nothing is, it stays silent."""

import json
import re
from pathlib import Path

import pytest

from ddptui.text.units import NOTHING
from tests.support.runner import ddptui

SITES = ["start", "data", "forward", "backward", "aggregate"]
IN_A_GROUP = {"wait for rank 0", "wait for rank 1", "transfer", "all_reduce, bucket 0"}


@pytest.mark.parametrize(
    ("launch", "strategy", "sites", "drawn"),
    [
        ("spawn", "ddp", SITES, IN_A_GROUP),
        # Replicas share one backward. Their delays put in by hand are measured in test_delays_by_hand, every time.
        pytest.param(
            "dp", NOTHING, [site for site in SITES if site != "backward"], {"gather_outputs"}, marks=pytest.mark.rare
        ),
    ],
)
def test_what_is_put_in_is_attributed_at_every_site_and_drawn(
    tmp_path: Path, launch: str, strategy: str, sites: list[str], drawn: set[str]
) -> None:
    done = ddptui(tmp_path, "selftest", "--launch", launch, "--strategy", "ddp")
    head, _, row, *rows = done.stdout.splitlines()
    assert head.split() == ["launch", "strategy", "nothing", *SITES]
    cells = dict(zip(head.split(), re.split(r"\s{2,}", row.rstrip()), strict=True))
    assert (cells["launch"], cells["strategy"]) == (launch, strategy), done.stderr
    assert [site for site in SITES if cells[site] != NOTHING] == sites
    right = [tuple(map(float, cells[site].split("/"))) for site in sites if not cells[site].startswith("!")]
    assert all(injected >= 500 for _, injected in right)
    # A cell is also right if a wide interval holds what was injected: three must be close, the rest may be noise.
    close = [cell for cell in right if cell[0] == pytest.approx(cell[1], rel=0.2)]
    assert len(close) >= 3, done.stdout
    assert done.returncode == (1 if "!" in row else 0)
    assert ("all right" in rows) == ("!" not in row)

    shown = ddptui(tmp_path, "show", "last", "--format", "trace")
    assert shown.returncode == 0, shown.stderr
    events = json.loads(shown.stdout)["traceEvents"]
    names = {event["name"] for event in events}
    assert drawn | {f"delay put in at {site}" for site in sites} <= names
    [process] = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert process == ("dp, repeat 1" if launch == "dp" else f"{launch}-{strategy}, repeat 1")
