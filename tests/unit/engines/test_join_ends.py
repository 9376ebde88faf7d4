"""`ddptui join` ends with its run, however that ends, and says why."""

import signal
import subprocess
import sys
from subprocess import PIPE

import pytest

from tests.support.runner import arguments

SOON_S = 60  # far less than a node waits for a console that is silent between launches
CONSOLE = """
import os, sys
from ddptui.engines.join.node_hub import NodeHub
hub = NodeHub("a-run", 1, "127.0.0.1", 23_500)
print(hub.ticket.spell(), flush=True)
while hub.missing:
    hub.receive()
sys.stdin.readline()  # until the node has been welcomed
"""
KILLED = CONSOLE + f"os.kill(os.getpid(), {signal.SIGKILL:d})"
FINISHED = CONSOLE + "hub.close()"
FAILED = CONSOLE + "hub.close(well=False)"
GONE = "Error: lost the console: it closed the connection; the ranks of this node were ended"


@pytest.mark.parametrize(
    ("console", "code", "why"),
    [(KILLED, 2, GONE), (FINISHED, 0, "the run is over"), (FAILED, 1, "the run is over")],
    ids=["killed", "finished", "failed"],
)
def test_a_node_ends_with_its_run_and_says_why(console: str, code: int, why: str) -> None:
    with subprocess.Popen([sys.executable, "-c", console], stdin=PIPE, stdout=PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        ticket = run.stdout.readline().strip()
        with subprocess.Popen(arguments("join", ticket), stderr=PIPE, text=True) as node:
            assert node.stderr is not None
            next(line for line in node.stderr if "this is node 0" in line)
            run.stdin.close()
            _, said = node.communicate(timeout=SOON_S)
    assert (node.returncode, said.splitlines()[-1]) == (code, why)
