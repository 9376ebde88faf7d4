"""Runs a module of the rank side to its end, for questions that only torch can answer. The console asks
and never imports it, so that a crash in native code cannot take the terminal with it."""

import os
import subprocess
import sys
import tempfile

from ddptui.lab_root import lab_root


def run_module(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` with the lab's modules in reach; its output passes through."""
    with tempfile.TemporaryDirectory(prefix="ddptui-") as clean:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": str(lab_root())},
            cwd=clean,  # holds no module that could stand in the way of torch's
            text=True,
            check=False,
        )
