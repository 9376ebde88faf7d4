"""The line that names a run's GPUs; it trusts nothing that the environment holds."""

from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.gpus import LONGEST, machine
from ddptui.report.notes import notes
from tests.support.builders import journal, preset_of, results_for

HOPPERS = ["NVIDIA H100 80GB HBM3, 80 GB"] * 2
WHOLE = {"gpus": HOPPERS, "gpu_links": ["NV18: 0-1"], "gpu_driver": "580.65.06 (CUDA 13.0)"}


def run_on(device: str, environment: dict[str, Any]) -> tuple[Results, Preset]:
    preset = preset_of({"repeats": 1, "trial": [{"name": "a"}]})
    results = results_for(preset, journal("a"))
    trials = [
        replace(trial, repeats=[replace(each, ranks=[replace(each.ranks[0], device=device)]) for each in trial.repeats])
        for trial in results.trials
    ]
    return replace(results, trials=trials, environment=environment), preset


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (WHOLE, "2 × NVIDIA H100 80GB HBM3, 80 GB; NV18: 0-1; driver 580.65.06 (CUDA 13.0)"),
        ({"gpus": [*HOPPERS, "T4"]}, "2 × NVIDIA H100 80GB HBM3, 80 GB and 1 × T4"),
        ({"gpus": ["T4", 7, None], "gpu_links": "NV4", "gpu_driver": ["580"]}, "1 × T4"),
        ({"gpus": ["x" * 999]}, f"1 × {'x' * LONGEST}"),
        ({"gpus": [f"T{number}" for number in range(9)]}, "1 × T0, 1 × T1, 1 × T2 and 6 more"),
    ],
)
def test_a_reading_note_names_them(environment: dict[str, Any], said: str) -> None:
    results, preset = run_on("cuda:0", environment)
    told = [note.kind for note in notes(results, preset) if note.text == f"GPUs of the console's host: {said}"]
    assert told == ["reading"]


@pytest.mark.parametrize("strange", [None, 7, "T4", {"T4": 1}, [], [None], [""]])
def test_anything_else_names_none(strange: object) -> None:
    results, preset = run_on("cuda:0", {"gpus": strange})
    assert machine(results) == ""
    assert not any("GPU" in note.text for note in notes(results, preset))


def test_ranks_on_the_cpu_used_none() -> None:
    assert machine(run_on("cpu", WHOLE)[0]) == ""
