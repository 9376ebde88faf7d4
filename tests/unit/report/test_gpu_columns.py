"""What GPUs did, in tables, CSV and notes, and the columns of a rank; and nothing of GPUs without them."""

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ddptui.analysis.policy import Caution
from ddptui.analysis.primitive_results import NcclUse
from ddptui.analysis.results import RankResult, RepeatResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.columns import columns_of
from ddptui.report.notes import in_words, note_lines, notes
from ddptui.report.ranks import GPU_HEADING, HOOKS_WAIT, LONGEST, MOST_RANKS, NCCL2, RANK_COLUMNS, gpus_of_machine
from ddptui.report.rows import rows_of
from ddptui.report.table import as_json, markdown, text
from ddptui.text.tables import telling
from tests.support.builders import journal, preset_of, results_for, two_trials, with_hello
from tests.support.gpu_figures import GB, NCCL, on_gpus
from tests.support.printed import csv_rows, header_of
from tests.support.two_runs import compared
from tests.unit.report.edited import edited, warned

OF_GPUS = {"memory": "gpu mem.", "reserved": "reserved", "tflops": "TFLOP/s", "mfu": "MFU %", "energy": "J/step"}


def ran() -> tuple[Results, Preset]:
    preset = two_trials(repeats=1)
    return results_for(preset, journal("a"), journal("b")), preset


def unslowed(results: Results) -> Results:
    """The same, as if neither heat nor power had slowed a GPU."""
    return warned(results, lambda _: [])


def cells(results: Results, preset: Preset) -> dict[str, str]:
    """The first trial's cells, by key."""
    return {column.key: column.cells[0] for column in telling(columns_of(rows_of(results, preset)))}


def test_each_figure_has_a_column_and_without_gpus_none() -> None:
    results, preset = ran()
    shown = cells(unslowed(on_gpus(results)), preset)
    assert {key: shown[key] for key in OF_GPUS} == {
        "memory": "4.00+2.50 GB",
        "reserved": "5.25+3.00 GB",
        "tflops": "313",
        "mfu": "31.6",
        "energy": "12.5",
    }
    assert not cells(*ran()).keys() & OF_GPUS.keys()
    assert not any(header in markdown(*ran()) for header in OF_GPUS.values())


def test_of_what_was_disturbed_or_slowed_the_figures_are_marked() -> None:
    results, preset = ran()
    for disturbed in (unslowed(on_gpus(results, warnings=[Caution.OTHER_LOAD])), on_gpus(results)):
        shown = cells(disturbed, preset)
        assert (shown["tflops"], shown["mfu"], shown["energy"]) == ("313 ⚠", "31.6 ⚠", "12.5 ⚠")
        assert shown["train"].endswith(" ⚠")
    slowed = on_gpus(results)
    both, preset = compared(slowed, unslowed(slowed))
    shown = {column.header: column.cells for column in columns_of(rows_of(both, preset))}
    assert [cell.endswith(" ⚠") for cell in shown["train s"][:2]] == [True, False]


@pytest.mark.parametrize(
    ("width", "least"), [(80, {"MFU %"}), (120, {"MFU %", "gpu mem."}), (200, {*OF_GPUS.values()})]
)
def test_the_share_of_the_peak_comes_first(width: int, least: set[str]) -> None:
    results, preset = ran()
    header = header_of(text(on_gpus(results), preset, width))
    assert all(name in header for name in least)
    assert "train s" in header


def test_csv_and_json_have_them_in_full() -> None:
    results, preset = ran()
    line, *_ = csv_rows(on_gpus(results), preset)
    told = {
        "tflops": "313.0", "mfu": "0.3165", "joules_a_step": "12.5", "nccl_version": "2.28.9",
        "peak_gpu_bytes_least": str(5 * GB // 2), "peak_gpu_bytes_most": str(4 * GB),
        "peak_gpu_reserved_bytes_least": str(3 * GB), "peak_gpu_reserved_bytes_most": str(21 * GB // 4),
        "sm_mhz_least": "1410.0", "held_back_part": "0.4",
    }  # fmt: skip
    assert {name: line[name] for name in told} == told
    without, *_ = csv_rows(results, preset)
    assert {without[name] for name in told} == {""}
    repeat = msgspec.json.decode(as_json(on_gpus(results), preset))["trials"][0]["repeats"][0]
    assert (repeat["mfu"], repeat["nccl"]["version"]) == (0.3165, "2.28.9")


def on_cuda(results: Results, ranks: int = 2) -> Results:
    """The results with so many ranks in each repeat, on GPUs that did what `on_gpus` says."""

    def several(_: TrialResult, repeat: RepeatResult) -> dict[str, object]:
        return {"ranks": [replace(repeat.ranks[at % 2], rank=at, device=f"cuda:{at}") for at in range(ranks)]}

    return edited(on_gpus(results), repeat=several)


def block(printed: str) -> list[str]:
    """The lines of the ranks' GPUs."""
    parts = printed.split("\n\n")
    return parts[parts.index(GPU_HEADING) + 1].splitlines()


def test_without_a_screen_the_first_ranks_have_a_line_of_their_gpu() -> None:
    results, preset = ran()
    header, _, first, second, *others = block(text(on_cuda(results), preset, 80))
    assert header.split("  ")[0] == "trial"
    assert re.split("  +", header)[1:] == ["rank", "gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s"]
    assert re.split("  +", first) == ["a", "0", "97", "9.0/80 GB", "612", "▼1410", "1985", "287"]
    assert re.split("  +", second) == ["a", "1", "64", "7.0/80 GB", "398", "1980", "2346", "339"]
    assert [line[0] for line in others] == ["b", "b"]
    assert "| trial | rank | gpu % |" in markdown(on_cuda(results), preset)
    assert len(block(text(on_cuda(results, ranks=64), preset, 80))) == 2 + 2 * MOST_RANKS
    assert GPU_HEADING not in text(results, preset, 80) + markdown(results, preset)


RANK = RankResult(rank=3, host="a", pid=7, device="cpu", bottleneck_fired=0, bottleneck_s=0.0)


def of_rank(**changes: object) -> dict[str, str]:
    rank = replace(RANK, **changes)
    return {column.header: column.cell(rank) for column in RANK_COLUMNS}


OF_A_GPU = [
    ("peak_gpu_bytes", 3 * 2**29, "gpu mem.", "1.50 GB"),
    ("peak_gpu_reserved_bytes", 2**31, "reserved", "2.00 GB"),
    ("peak_gpu_used_bytes", 3 * 2**29, "gpu used", "1.50 GB"),
    ("mfu", 0.3159, "MFU %", "31.6"),
    ("joules_a_step", 8.256, "J/step", "8.26"),
    ("waited_for_s", {0: 0.2, 1: 1.5, 2: 0.3}, "waits for", "rank 1: 1.5 s"),
]


def test_each_rank_says_what_is_known_of_it() -> None:
    unknown = of_rank()
    who = {"rank": "3", "host": "a", "pid": "7", "device": "cpu"}
    assert unknown == dict.fromkeys(unknown, "–") | who
    for field, value, header, shown in OF_A_GPU:
        assert of_rank(**{field: value})[header] == shown
    assert of_rank(bottleneck_fired=20, bottleneck_s=0.2)["delays"] == "200 ms, 20×"


HOPPERS = ["NVIDIA H100 80GB HBM3, 80 GB"] * 2
WHOLE = {"gpus": HOPPERS, "gpu_links": ["NV18: 0-1"], "gpu_driver": "580.65.06 (CUDA 13.0)"}


def run_with(device: str, environment: dict[str, Any]) -> tuple[Results, Preset]:
    preset = preset_of({"repeats": 1, "trial": [{"name": "a"}]})
    results = edited(results_for(preset, journal("a")), rank=lambda *_: {"device": device})
    return replace(results, environment=environment), preset


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
    results, preset = run_with("cuda:0", environment)
    told = [note.kind for note in notes(results, preset) if note.text == f"GPUs of the console's host: {said}"]
    assert told == ["reading"]


@pytest.mark.parametrize("strange", [None, {"T4": 1}, [None]])
def test_anything_else_names_none_nor_do_ranks_on_the_cpu(strange: object) -> None:
    assert gpus_of_machine(run_with("cpu", WHOLE)[0]) == ""
    results, preset = run_with("cuda:0", {"gpus": strange})
    assert gpus_of_machine(results) == ""
    assert not any("GPU" in note.text for note in notes(results, preset))


OLDER = "NCCL 2.28.9 (ProcessGroupNCCL)"
NEWER = NcclUse(version="2.30.7", implementation=NCCL2)
ON_GPUS = "the ranks are on GPUs"


def over_nccl(*uses: NcclUse | None, **fields: Any) -> tuple[Results, Preset]:
    """Trials a, b, … over NCCL, each with such a use of it."""
    names = "abcd"[: len(uses)]
    preset = preset_of({"repeats": 1, "trial": [{"name": name, **fields} for name in names]})
    journals = [with_hello(journal(name), backend="nccl", backend_why=ON_GPUS) for name in names]
    results = results_for(preset, *journals)
    used = dict(zip(names, uses, strict=True))
    return edited(results, repeat=lambda trial, _: {"nccl": used[trial.name]}), preset


def told_of_nccl(results: Results, preset: Preset) -> list[str]:
    return [note.text for note in notes(results, preset) if "nccl" in note.text.lower() and note.kind == "reading"]


def test_it_stands_beside_the_backend_once_and_trials_that_differ_are_told_apart() -> None:
    assert told_of_nccl(*over_nccl(NCCL, NCCL)) == [f"backend nccl: {ON_GPUS}; {OLDER}"]
    assert told_of_nccl(*over_nccl(None, None)) == [f"backend nccl: {ON_GPUS}"]
    assert told_of_nccl(*over_nccl(NCCL, NEWER, NCCL)) == [
        f"a, c: backend nccl: {ON_GPUS}; {OLDER}",
        f"b: backend nccl: {ON_GPUS}; NCCL 2.30.7 ({NCCL2})",
    ]
    assert told_of_nccl(*over_nccl(NCCL, backend="nccl")) == [f"backend nccl: {OLDER}"]


@pytest.mark.parametrize("strategy", ["ddp", "ddp_bf16"])
@pytest.mark.parametrize("implementation", [NCCL2, "ProcessGroupNCCL"])
def test_under_the_newer_implementation_comm_hooks_wait(strategy: str, implementation: str) -> None:
    results, preset = over_nccl(replace(NCCL, implementation=implementation), strategy=strategy)
    waits = strategy == "ddp_bf16" and implementation == NCCL2
    assert (f"a: {HOOKS_WAIT}" in note_lines(results, preset)) is waits


def test_a_gpu_that_is_held_back_is_a_caution_and_its_mark_is_explained() -> None:
    results, preset = over_nccl(NCCL)
    caution = f"caution, a: {Caution.HELD_BACK.advice}"
    assert [line for line in note_lines(on_gpus(results), preset) if "GPU" in line and "caution" in line] == [caution]
    assert caution in in_words(on_gpus(results), preset, "a").chosen
    note = "⚠ disturbed, so inexact: a caution names the cause"
    assert note in note_lines(on_gpus(results), preset)
    assert note not in note_lines(results, preset)
