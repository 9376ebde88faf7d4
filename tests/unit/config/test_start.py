"""Which ranks can be forked from a warm parent, and why the others start cold."""

from typing import Any

import pytest

from ddptui.config.preset import start_of
from ddptui.config.values import make_trial

SLOW = {"at": "link", "ranks": [1], "mbit": 10}


@pytest.mark.parametrize("launch", ["single", "dp", "process", "spawn", "launch"])
def test_every_launch_mode_starts_warm_unless_the_trial_says_otherwise(launch: str) -> None:
    assert start_of(make_trial({"launch": launch})) == ("warm", "")
    assert start_of(make_trial({"launch": launch, "start": "cold"})) == ("cold", "")


@pytest.mark.parametrize(
    ("fields", "nodes", "why"),
    [
        ({"start_method": "fork"}, 1, "start_method = 'fork' applies only to new processes"),
        ({"start_method": "forkserver"}, 1, "start_method = 'forkserver' applies only to new processes"),
        ({"compile": True}, 1, "torch.compile starts compilers that need a new process"),
        ({"bottleneck": [SLOW]}, 1, "on slow links each rank has its own network namespace"),
        ({"launch": "launch"}, 2, "torch.distributed.launch first waits for the other nodes"),
        ({"launch": "spawn"}, 2, None),
    ],
)
def test_what_needs_new_processes_starts_cold_and_says_why(fields: dict[str, Any], nodes: int, why: str | None) -> None:
    assert start_of(make_trial(fields), nodes) == (("cold", why) if why else ("warm", ""))
