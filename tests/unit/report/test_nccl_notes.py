"""What the notes say of NCCL and of GPUs that were held back; and nothing of it without GPUs."""

from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.cautions import Caution
from ddptui.analysis.nccl_use import NcclUse
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.report.nccl import HOOKS_WAIT, NCCL2, describe
from ddptui.report.notes import in_words, note_lines, notes
from ddptui.wire.messages import Hello
from tests.support.builders import journal, preset_of, results_for
from tests.support.gpu_figures import NCCL, on_gpus

BARE = NcclUse(version="2.28.9", implementation="ProcessGroupNCCL")
WHY = "the ranks are on GPUs"


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "NCCL 2.28.9 (ProcessGroupNCCL)"),
        ({"channels": 1}, "NCCL 2.28.9 (ProcessGroupNCCL), 1 channel"),
        (
            {"channels": 24, "transports": ["P2P/CUMEM"], "algorithms": ["RING/SIMPLE"]},
            "NCCL 2.28.9 (ProcessGroupNCCL), transport P2P/CUMEM, 24 channels, ring with protocol Simple",
        ),
        (
            {"transports": ["NET/IB/GDRDMA", "P2P/CUMEM"], "algorithms": ["NVLS/SIMPLE", "TREE/LL128", "SYMMETRIC"]},
            "NCCL 2.28.9 (ProcessGroupNCCL), transports NET/IB/GDRDMA and P2P/CUMEM, "
            "mostly NVLS with protocol Simple, else tree with protocol LL128 and symmetric kernels",
        ),
        (
            {"transports": [f"T{number}" for number in range(9)]},
            "NCCL 2.28.9 (ProcessGroupNCCL), transports T0, T1, T2 and 6 more",
        ),
        ({"version": "\x1b[2J", "transports": ["\x07"]}, "NCCL \\x1b[2J (ProcessGroupNCCL), transport \\x07"),
    ],
)
def test_what_is_known_of_nccl_is_one_clause(fields: dict[str, Any], shown: str) -> None:
    assert describe(replace(BARE, **fields)) == shown


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
    assert told_of_nccl(*run_of(NCCL, NCCL)) == [f"backend nccl: {WHY}; {describe(NCCL)}"]
    assert told_of_nccl(*run_of(None, None)) == [f"backend nccl: {WHY}"]


def test_trials_that_differ_are_told_apart() -> None:
    assert told_of_nccl(*run_of(NCCL, BARE, NCCL)) == [
        f"a, c: backend nccl: {WHY}; {describe(NCCL)}",
        f"b: backend nccl: {WHY}; {describe(BARE)}",
    ]


def test_it_is_told_also_where_the_trial_asks_for_nccl() -> None:
    assert told_of_nccl(*run_of(BARE, backend="nccl")) == [f"backend nccl: {describe(BARE)}"]


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name.startswith("ddp")])
@pytest.mark.parametrize("implementation", [NCCL2, "ProcessGroupNCCL"])
def test_under_the_newer_implementation_comm_hooks_wait(strategy: str, implementation: str) -> None:
    results, preset = run_of(replace(BARE, implementation=implementation), strategy=strategy)
    waits = strategy in ("ddp_fp16", "ddp_bf16", "ddp_powersgd") and implementation == NCCL2
    assert (f"a: {HOOKS_WAIT}" in note_lines(results, preset)) is waits


def test_without_gpus_nothing_is_said() -> None:
    preset = preset_of({"repeats": 1, "trial": [{"name": "a", "strategy": "ddp_bf16"}]})
    lines = note_lines(results_for(preset, journal("a")), preset)
    assert not any("nccl" in line.lower() or "GPU" in line for line in lines)


def cautions_of(results: Results, preset: Preset) -> list[str]:
    return [line for line in note_lines(results, preset) if "GPU" in line and "caution" in line]


def test_a_gpu_that_is_held_back_is_named_with_the_reason_and_what_to_do() -> None:
    results, preset = run_of(NCCL)
    assert cautions_of(on_gpus(results), preset) == [
        "caution, a: heat slowed rank 0's GPU for 40% of the time (median clock 1410 MHz): look at its fans and at "
        "what is near it"
    ]


@pytest.mark.parametrize(
    ("why", "cause", "remedy"),
    [
        ("heat", "heat", "look at its fans and at what is near it"),
        ("heat (hardware)", "heat", "look at its fans and at what is near it"),
        ("power brake", "a power brake", "look at the host's power supply, which asked for that"),
    ],
)
def test_of_several_trials_the_worst_is_named(why: str, cause: str, remedy: str) -> None:
    results, preset = run_of(NCCL, NCCL)
    made = on_gpus(results)
    a, b = made.trials
    hot = [replace(rank, held_back={why: 0.8}, sm_mhz=None) for rank in b.repeats[0].ranks]
    b = replace(b, repeats=[replace(b.repeats[0], ranks=hot)])
    [line] = cautions_of(replace(made, trials=[a, b]), preset)
    assert line == f"caution, all trials: {cause} slowed rank 0's GPU for 80% of the time, worst in b: {remedy}"


def test_the_caution_stands_with_its_trial() -> None:
    results, preset = run_of(NCCL)
    assert any("heat slowed" in line for line in in_words(on_gpus(results), preset, "a").chosen)


def test_the_mark_of_what_was_slowed_is_explained() -> None:
    results, preset = run_of(NCCL)
    note = "⚠ disturbed: a note on the trial names the cause"
    assert note in note_lines(on_gpus(results), preset)
    assert note not in note_lines(results, preset)


def test_a_caution_without_its_figures_still_advises() -> None:
    """As of results that were taken apart."""
    results, preset = run_of(NCCL)
    [trial] = on_gpus(results).trials
    bare = replace(trial, repeats=[replace(repeat, ranks=[]) for repeat in trial.repeats])
    assert cautions_of(replace(results, trials=[bare]), preset) == [f"caution, a: {Caution.HELD_BACK.advice}"]
