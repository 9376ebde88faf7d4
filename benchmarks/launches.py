"""Runs a preset in the lab, for benchmarks that look at what is heard of its launches. Nothing is kept."""

import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from ddptui.analysis.launch_data import LaunchData, launch_logs
from ddptui.config.preset import Preset
from ddptui.engines.local.warm import WarmParent
from ddptui.host.machine import describe
from ddptui.run import runner
from ddptui.store.runs import Run
from ddptui.wire.records import Message


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """So many processes each keep a core busy."""
    with ExitStack() as stack:
        for _ in range(number):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def messages(preset: Preset, warm: WarmParent | None = None) -> Generator[Message]:
    """Every message, as it arrives. Closing the iterator stops the ranks. `warm`: as of `lab.run_preset`."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Run.create(Path(folder), preset, describe())
        with closing(runner.run_preset(preset, kept, warm=warm)) as stream:
            yield from stream


def run(preset: Preset) -> Iterator[LaunchData]:
    """Launch by launch, in the order of the trials."""
    yield from launch_logs(messages(preset))
