"""Runs a preset in the lab, for benchmarks that look at what was heard of each launch."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ddptui import lab
from ddptui.environment import describe
from ddptui.outcome import Heard, launches
from ddptui.preset import Preset
from ddptui.record import Run


def run(preset: Preset) -> Iterator[Heard]:
    """Launch by launch, in the order of the trials; nothing is kept."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Run.create(Path(folder), preset, describe())
        with closing(lab.run_preset(preset, kept)) as stream:
            yield from launches(stream)
