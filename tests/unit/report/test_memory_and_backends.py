"""What the table and its foot say of devices: memory, and why a backend or a device was taken."""

from typing import Any

import pytest

from ddptui.analysis.results import RankResult, Results
from ddptui.config.preset import Preset
from ddptui.report.notes import in_words, note_lines
from ddptui.report.ranks import known, memory, output_device
from ddptui.report.table import markdown
from tests.support.builders import done, journal, preset_of, results_for, with_done, with_hello
from tests.support.printed import cells_of, csv_rows

GB = 2**30


def ranks(*peaks: int | None) -> list[RankResult]:
    usual = {"host": "here", "pid": 1, "bottleneck_fired": 0, "bottleneck_s": 0.0}
    return [
        RankResult(rank=rank, device=f"cuda:{rank}", peak_gpu_bytes=peak, **usual) for rank, peak in enumerate(peaks)
    ]


@pytest.mark.parametrize(
    ("peaks", "shown"),
    [
        ((None, None), ""),
        ((3 * GB // 2,), "1.50 GB"),
        ((2 * GB, 819 * 2**20), "2.00+0.800 GB"),
        ((5 * 2**20, 3 * GB, GB, 2 * GB, 4 * GB), "0.00488…4.00 GB"),
    ],
)
def test_memory_of_ranks_is_told_in_one_unit_and_of_many_as_a_range(peaks: tuple[int | None, ...], shown: str) -> None:
    assert memory(known(ranks(*peaks), "peak_gpu_bytes")) == shown


@pytest.mark.parametrize("peaks", [(), (GB, GB), (GB, 2 * GB), (None, GB)])
def test_where_the_output_device_does_not_hold_more_nothing_is_said(peaks: tuple[int | None, ...]) -> None:
    assert output_device(ranks(*peaks)) == ""


@pytest.mark.parametrize(("launch", "said"), [("dp", True), ("spawn", False)])
def test_only_of_dataparallel_it_is_said_why_the_first_device_holds_more(launch: str, said: bool) -> None:
    preset = preset_of({"trial": [{"name": "a", "launch": launch}]})
    told = done(0, peak_gpu_bytes=3 * GB), done(1, peak_gpu_bytes=2 * GB)
    results = results_for(preset, with_done(journal("a", device="cuda:0"), *told))
    words = "a: cuda:0 used up to 3 GB, 1 GB more than any other device"
    assert any(note.startswith(words) for note in note_lines(results, preset)) is said


ON_CPU, SHARED = "the ranks are on the CPU", "ranks share a GPU, which NCCL refuses"


def run_of(*hellos: dict[str, Any], backends: tuple[str, ...] = ()) -> tuple[Results, Preset]:
    """Trials a, b, … whose ranks say this, and which may ask for a backend."""
    asked = backends or ("auto",) * len(hellos)
    names = "abcd"[: len(hellos)]
    preset = preset_of({"trial": [{"name": name, "backend": each} for name, each in zip(names, asked, strict=True)]})
    journals = [with_hello(journal(name), **words) for name, words in zip(names, hellos, strict=True)]
    return results_for(preset, *journals), preset


def told_of_backends(results: Results, preset: Preset) -> list[str]:
    return [note for note in note_lines(results, preset) if "backend" in note]


GLOO, NCCL = {"backend": "gloo", "backend_why": ON_CPU}, {"backend": "nccl", "backend_why": "the ranks are on GPUs"}
ALONE = {"backend": None}


def test_why_a_backend_was_taken_is_said_once_for_all_that_share_it() -> None:
    assert told_of_backends(*run_of(GLOO, GLOO, ALONE)) == [f"backend gloo: {ON_CPU}"]
    shared = GLOO | {"backend_why": SHARED}
    assert told_of_backends(*run_of(NCCL, NCCL, shared, ALONE)) == [
        "a, b: backend nccl: the ranks are on GPUs",
        f"c: backend gloo: {SHARED}",
    ]
    asked = {"backend": "nccl", "backend_why": "the trial says so"}
    assert told_of_backends(*run_of(asked, GLOO, backends=("nccl", "auto"))) == [f"b: backend gloo: {ON_CPU}"]
    assert told_of_backends(*run_of(asked, backends=("nccl",))) == []
    assert told_of_backends(*run_of(ALONE, {"backend": None, "backend_why": ON_CPU})) == []


def test_why_there_is_this_backend_is_told_in_results_and_columns_and_how_to_read() -> None:
    results, preset = run_of(NCCL, GLOO)
    found = in_words(results, preset, "a")
    assert not any("backend" in words for words in [*found.chosen, *found.others])
    assert sum("backend" in words for words in found.reading) == 2
    results, preset = run_of(GLOO | {"backend_why": SHARED}, ALONE)
    assert (results.trials[0].repeats[0].backend, results.trials[0].repeats[0].backend_why) == ("gloo", SHARED)
    assert [cells_of(markdown(results, preset), name)["backend"] for name in "ab"] == ["gloo", "–"]
    a, b = csv_rows(results, preset)
    assert (a["backend"], a["backend_why"], b["backend"]) == ("gloo", SHARED, "")


WHY = "1 GPU for 2 ranks: share_gpu = true lets them share it"


def test_an_unexpected_device_is_explained_once_and_stands_with_what_became_of_the_trial() -> None:
    results, preset = run_of(GLOO | {"device_why": WHY}, GLOO, GLOO | {"device_why": WHY})
    assert [note for note in note_lines(results, preset) if "share_gpu" in note] == [f"a, c: on the CPU: {WHY}"]
    assert [rank.device_why for rank in results.trials[0].repeats[0].ranks] == [WHY, WHY]
    results, preset = run_of(GLOO | {"device_why": WHY}, GLOO)
    assert in_words(results, preset, "a").chosen[0] == f"a: on the CPU: {WHY}"
