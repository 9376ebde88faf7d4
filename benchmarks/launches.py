"""Runs a preset in the lab, for benchmarks that look at what was heard of each launch."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ddptui.analysis.launch_log import LaunchLog, launch_logs
from ddptui.config.preset import Preset
from ddptui.host.machine import describe
from ddptui.run import lab
from ddptui.store.runs import Run


def run(preset: Preset) -> Iterator[LaunchLog]:
    """Launch by launch, in the order of the trials; nothing is kept."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Run.create(Path(folder), preset, describe())
        with closing(lab.run_preset(preset, kept)) as stream:
            yield from launch_logs(stream)
