"""What the notes say of NCCL and of GPUs that were held back; and nothing of it without GPUs."""

from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.cautions import Caution
from ddptui.analysis.primitives.results import NcclUse
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.report.notes import in_words, note_lines, notes
from ddptui.report.ranks import HOOKS_WAIT, NCCL2
from ddptui.wire.messages import Hello
from tests.support.builders import journal, preset_of, results_for
from tests.support.gpu_figures import NCCL, on_gpus

OLD = "NCCL 2.28.9 (ProcessGroupNCCL)"
NEW = NcclUse(version="2.30.7", implementation=NCCL2)
WHY = "the ranks are on GPUs"


def run_of(*uses: NcclUse | None, **fields: Any) -> tuple[Results, Preset]:
    """Trials a, b, … over NCCL, each with such a use of it."""
    names = "abcd"[: len(uses)]
    preset = preset_of({"repeats": 1, "trial": [{"name": name, **fields} for name in names]})
    told = [
        replace(message, backend="nccl", backend_why=WHY) if isinstance(message, Hello) else message
        for name in names
        for message in journal(name)
    ]
    size = len(told) // len(names)
    results = results_for(preset, *(told[at : at + size] for at in range(0, len(told), size)))
    trials = [
        replace(trial, repeats=[replace(repeat, nccl=use) for repeat in trial.repeats])
        for trial, use in zip(results.trials, uses, strict=True)
    ]
    return replace(results, trials=trials), preset


def told_of_nccl(results: Results, preset: Preset) -> list[str]:
    return [note.text for note in notes(results, preset) if "nccl" in note.text.lower() and note.kind == "reading"]


def test_it_stands_beside_the_backend_once_for_all_trials() -> None:
    assert told_of_nccl(*run_of(NCCL, NCCL)) == [f"backend nccl: {WHY}; {OLD}"]
    assert told_of_nccl(*run_of(None, None)) == [f"backend nccl: {WHY}"]


def test_trials_that_differ_are_told_apart() -> None:
    assert told_of_nccl(*run_of(NCCL, NEW, NCCL)) == [
        f"a, c: backend nccl: {WHY}; {OLD}",
        f"b: backend nccl: {WHY}; NCCL 2.30.7 ({NCCL2})",
    ]


def test_it_is_told_also_where_the_trial_asks_for_nccl() -> None:
    assert told_of_nccl(*run_of(NCCL, backend="nccl")) == [f"backend nccl: {OLD}"]


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name.startswith("ddp")])
@pytest.mark.parametrize("implementation", [NCCL2, "ProcessGroupNCCL"])
def test_under_the_newer_implementation_comm_hooks_wait(strategy: str, implementation: str) -> None:
    results, preset = run_of(replace(NCCL, implementation=implementation), strategy=strategy)
    waits = strategy in ("ddp_fp16", "ddp_bf16", "ddp_powersgd") and implementation == NCCL2
    assert (f"a: {HOOKS_WAIT}" in note_lines(results, preset)) is waits


def test_without_gpus_nothing_is_said() -> None:
    preset = preset_of({"repeats": 1, "trial": [{"name": "a", "strategy": "ddp_bf16"}]})
    lines = note_lines(results_for(preset, journal("a")), preset)
    assert not any("nccl" in line.lower() or "GPU" in line for line in lines)


def test_a_gpu_that_is_held_back_is_a_caution_of_its_trial() -> None:
    results, preset = run_of(NCCL)
    caution = f"caution, a: {Caution.HELD_BACK.advice}"
    assert [line for line in note_lines(on_gpus(results), preset) if "GPU" in line and "caution" in line] == [caution]
    assert caution in in_words(on_gpus(results), preset, "a").chosen


def test_the_mark_of_what_was_slowed_is_explained() -> None:
    results, preset = run_of(NCCL)
    note = "⚠ disturbed, so inexact: a caution names the cause"
    assert note in note_lines(on_gpus(results), preset)
    assert note not in note_lines(results, preset)
