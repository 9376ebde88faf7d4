"""Steps of four and eight ranks as predicted from two, against four and eight ranks: the preset project-validation,
launched and projected, as often as wanted.

Goal: within 15 % of the measured step time on 4 and 8 ranks. What else was busy on this host meanwhile is said, in
cores: with half a core of it, or more, it is the load that is measured.

    python benchmarks/projection.py [TIMES]
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import fmean, median

from ddptui.config.preset import Preset
from ddptui.engines.checks import prepare
from ddptui.host.machine import available_cores, describe
from ddptui.projection import Point
from ddptui.projection.command import ProjectOptions, projection
from ddptui.run import runner
from ddptui.store.presets import load
from ddptui.store.runs import Run
from ddptui.wire.records import Launched, Load, Message

MEASURED, PREDICTED = 2, (4, 8)  # ranks
QUESTION = ProjectOptions(trial="ranks-2", ranks="2,4,8", cores=available_cores(), strategies=("all_reduce",))


def main() -> None:
    preset = prepare(load("project-validation"))
    errors: dict[int, list[float]] = {ranks: [] for ranks in (MEASURED, *PREDICTED)}
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        with tempfile.TemporaryDirectory() as folder:
            busy = dict(launched(preset, Path(folder)))
            found = projection(Path(folder), "last", QUESTION)
        alpha_us = found.network.alpha_us
        alpha = "unknown" if alpha_us is None else f"{alpha_us:.0f} µs"
        print(f"run {number + 1}; α {alpha}; others busy:")
        print("  " + ", ".join(f"{name} {cores:.2f}" for name, cores in busy.items()))
        for point in found.points:
            if point.strategy == "all_reduce" and point.ranks in errors and point.error is not None:
                errors[point.ranks].append(point.error)
                print(f"  {line(point)}")
    for ranks, told in errors.items():
        worst = max(told, key=abs)
        print(f"{ranks} ranks: median {median(told):+.1%}, worst of {len(told)} {worst:+.1%}")


def line(point: Point) -> str:
    parts = f"work {point.work_ms:.1f}, wait {point.wait_ms:.1f}, transfer {point.exposed_ms:.1f}"
    assert point.measured_ms is not None
    assert point.error is not None
    measured = f"measured {point.measured_ms:6.1f} ({point.error:+.1%})"
    return f"{point.ranks} ranks: {point.step_ms:6.1f} ms ({parts}), {measured}"


def launched(preset: Preset, folder: Path) -> Iterator[tuple[str, float]]:
    """Run the preset; by trial, how many cores others kept busy meanwhile."""
    kept = Run.create(folder, preset, describe())
    trial, busy = "", dict[str, list[float]]()
    with closing(runner.run_preset(preset, kept)) as stream:
        for message in stream:
            trial = name_of(message) or trial
            if isinstance(message, Load):
                busy.setdefault(trial, []).append(max(0.0, message.busy - message.own))
    yield from ((name, fmean(cores)) for name, cores in busy.items())


def name_of(message: Message) -> str | None:
    return message.trial if isinstance(message, Launched) else None


if __name__ == "__main__":
    main()
