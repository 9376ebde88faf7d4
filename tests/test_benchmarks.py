"""Benchmarks are run by hand, and rarely: what they use of the lab must still be there."""

import subprocess
import sys

from ddptui.host.folders import lab_root
from tests.support.runner import ENOUGH_S

EACH = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"benchmarks.{name}")
    except Exception as error:
        print(name, repr(error))
"""


def test_every_benchmark_can_be_started() -> None:
    """In a process of its own, since some import torch, and some the screens."""
    names = sorted(path.stem for path in (lab_root() / "benchmarks").glob("*.py"))
    assert {"ranks", "attribution", "soak"} <= {*names}
    done = subprocess.run(
        [sys.executable, "-c", EACH, *names],
        capture_output=True,
        text=True,
        check=True,
        timeout=ENOUGH_S,
        cwd=lab_root(),
    )
    assert (done.stdout, done.stderr) == ("", "")
