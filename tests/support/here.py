"""Runs a preset in this process, for tests in which a console of its own is not the point."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from ddptui.engines.local.warm import WarmParent
from ddptui.host.machine import describe
from ddptui.report.table import as_json
from ddptui.run.runner import run_preset
from ddptui.store.overview import results_of
from ddptui.store.presets import load
from ddptui.store.runs import Run
from ddptui.wire.records import Message


def run_here(
    warm: WarmParent, runs: Path, preset: Path, act: Callable[[Message], object] = lambda _: None, **overrides: Any
) -> dict[str, Any]:
    """The results of a run to its end, as its results.json has them. act: what is done at each message."""
    wanted = load(str(preset), overrides)
    run = Run.create(runs, wanted, describe())
    with closing(run_preset(wanted, run, warm=warm)) as stream:
        for message in stream:
            act(message)
    results = results_of(run, wanted)
    run.write_results(results)
    told: dict[str, Any] = json.loads(as_json(results, wanted))
    return told
