"""What GPUs did, in the comparison, in CSV, and for two runs side by side; and nothing of it without GPUs."""

import csv
import io
import re

import msgspec
import pytest

from ddptui.analysis.cautions import Caution
from ddptui.analysis.counted import why_not
from ddptui.analysis.results import Results
from ddptui.config.columns import MEANINGS
from ddptui.config.preset import Preset
from ddptui.report.columns import columns_of
from ddptui.report.ranks import GPU_HEADING, MOST_RANKS
from ddptui.report.rows import rows_of
from ddptui.report.table import as_csv, as_json, markdown, text
from ddptui.text.tables import telling
from tests.support.builders import journal, results_for, two_trials
from tests.support.gpu_figures import GB, on_gpus
from tests.support.printed import header_of
from tests.support.two_runs import compared

OF_GPUS = {"memory": "gpu mem.", "reserved": "reserved", "tflops": "TFLOP/s", "mfu": "MFU %", "energy": "J/step"}


def ran() -> tuple[Results, Preset]:
    preset = two_trials(repeats=1)
    return results_for(preset, journal("a"), journal("b")), preset


def unslowed(results: Results) -> Results:
    """The same, as if neither heat nor power had slowed a GPU."""
    calm = [trial.summary and msgspec.structs.replace(trial.summary, warnings=[]) for trial in results.trials]
    trials = [
        msgspec.structs.replace(trial, summary=summary) for trial, summary in zip(results.trials, calm, strict=True)
    ]
    return msgspec.structs.replace(results, trials=trials)


def cells(results: Results, preset: Preset) -> dict[str, str]:
    """The first trial's cells, by key."""
    return {column.key: column.cells[0] for column in telling(columns_of(rows_of(results, preset)))}


def test_without_gpus_there_is_no_column_of_them() -> None:
    assert not cells(*ran()).keys() & OF_GPUS.keys()
    assert not any(header in markdown(*ran()) for header in OF_GPUS.values())


def test_each_figure_has_a_column_with_a_meaning() -> None:
    results, preset = ran()
    shown = cells(unslowed(on_gpus(results)), preset)
    assert {key: shown[key] for key in OF_GPUS} == {
        "memory": "4.00+2.50 GB",
        "reserved": "5.25+3.00 GB",
        "tflops": "313",
        "mfu": "31.6",
        "energy": "12.5",
    }
    assert OF_GPUS.keys() <= MEANINGS.keys()


@pytest.mark.parametrize("missing", ["tflops", "mfu", "joules_a_step"])
def test_a_figure_that_no_trial_has_takes_no_room(missing: str) -> None:
    results, preset = ran()
    before, after = cells(on_gpus(results), preset), cells(on_gpus(results, **{missing: None}), preset)
    assert len(after) == len(before) - 1


def test_of_what_was_disturbed_the_figures_are_marked() -> None:
    results, preset = ran()
    for disturbed in (unslowed(on_gpus(results, warnings=[Caution.OTHER_LOAD])), on_gpus(results)):
        shown = cells(disturbed, preset)
        assert (shown["tflops"], shown["mfu"], shown["energy"]) == ("313 ⚠", "31.6 ⚠", "12.5 ⚠")
        assert shown["train"].endswith(" ⚠")


def test_a_gpu_that_was_slowed_leaves_no_repeat_out() -> None:
    results, _ = ran()
    assert not any(why_not(repeat) for trial in on_gpus(results).trials for repeat in trial.repeats)


@pytest.mark.parametrize(
    ("width", "least"), [(80, {"MFU %"}), (120, {"MFU %", "gpu mem."}), (200, {*OF_GPUS.values()})]
)
def test_the_share_of_the_peak_comes_first(width: int, least: set[str]) -> None:
    results, preset = ran()
    header = header_of(text(on_gpus(results), preset, width))
    assert all(name in header for name in least)
    assert "train s" in header


def test_a_column_that_is_asked_for_is_dropped_last() -> None:
    results, preset = ran()
    asked = msgspec.structs.replace(preset, columns=("energy",))
    assert "J/step" not in header_of(text(on_gpus(results), preset, 50))
    assert "J/step" in header_of(text(on_gpus(results), asked, 50))


def test_csv_and_json_have_them_in_full() -> None:
    results, preset = ran()
    line, *_ = csv.DictReader(io.StringIO(as_csv(on_gpus(results), preset)))
    assert {name: line[name] for name in ("tflops", "mfu", "joules_a_step", "nccl_version")} == {
        "tflops": "313.0", "mfu": "0.3165", "joules_a_step": "12.5", "nccl_version": "2.28.9",
    }  # fmt: skip
    held = line["peak_gpu_reserved_bytes_least"], line["peak_gpu_reserved_bytes_most"]
    assert held == (str(3 * GB), str(21 * GB // 4))
    slowed = {name: line[name] for name in ("sm_mhz_least", "held_back_part")}
    assert slowed == {"sm_mhz_least": "1410.0", "held_back_part": "0.4"}
    without, *_ = csv.DictReader(io.StringIO(as_csv(results, preset)))
    assert {without[name] for name in ("tflops", "mfu", "nccl_version", "sm_mhz_least", "held_back_part")} == {""}
    repeat = msgspec.json.decode(as_json(on_gpus(results), preset))["trials"][0]["repeats"][0]
    assert (repeat["mfu"], repeat["nccl"]["version"]) == (0.3165, "2.28.9")


def on_cuda(results: Results, ranks: int = 2) -> Results:
    """The results with so many ranks in each repeat, on GPUs that did what `on_gpus` says."""
    trials = [
        msgspec.structs.replace(
            trial,
            repeats=[
                msgspec.structs.replace(
                    repeat,
                    ranks=[
                        msgspec.structs.replace(repeat.ranks[rank % 2], rank=rank, device=f"cuda:{rank}")
                        for rank in range(ranks)
                    ],
                )
                for repeat in trial.repeats
            ],
        )
        for trial in on_gpus(results).trials
    ]
    return msgspec.structs.replace(results, trials=trials)


def block(printed: str) -> list[str]:
    """The lines of the ranks' GPUs."""
    parts = printed.split("\n\n")
    return parts[parts.index(GPU_HEADING) + 1].splitlines()


def test_without_a_screen_each_rank_has_a_line_of_what_one_looks_at_first() -> None:
    results, preset = ran()
    header, _, first, second, *others = block(text(on_cuda(results), preset, 80))
    assert header.split("  ")[0] == "trial"
    assert re.split("  +", header)[1:] == ["rank", "gpu %", "gpu used", "W", "MHz", "samples/s", "TFLOP/s"]
    assert re.split("  +", first) == ["a", "0", "97", "9.0/80 GB", "612", "▼1410", "1985", "287"]
    assert re.split("  +", second) == ["a", "1", "64", "7.0/80 GB", "398", "1980", "2346", "339"]
    assert [line[0] for line in others] == ["b", "b"]
    assert "| trial | rank | gpu % |" in markdown(on_cuda(results), preset)


def test_of_many_ranks_the_first_have_a_line_and_on_the_cpu_none() -> None:
    results, preset = ran()
    assert len(block(text(on_cuda(results, ranks=64), preset, 80))) == 2 + 2 * MOST_RANKS
    assert GPU_HEADING not in text(results, preset, 80) + markdown(results, preset)


def test_two_runs_are_compared_by_them() -> None:
    results, _ = ran()
    both, preset = compared(on_gpus(results), on_gpus(results, tflops=350.0, mfu=0.354, joules_a_step=9.0))
    shown = {column.header: [*map(figure, column.cells[:2])] for column in columns_of(rows_of(both, preset))}
    assert (shown["TFLOP/s"], shown["MFU %"]) == (["313", "350"], ["31.6", "35.4"])
    assert shown["J/step"] == ["12.5", "9.00"]


def figure(cell: str) -> str:
    """A figure without its mark."""
    return cell.split()[0]


def test_the_run_whose_gpu_was_slowed_is_marked_beside_the_other() -> None:
    results, _ = ran()
    slowed = on_gpus(results)
    both, preset = compared(slowed, unslowed(slowed))
    shown = {column.header: column.cells for column in columns_of(rows_of(both, preset))}
    assert [cell.endswith(" ⚠") for cell in shown["train s"][:2]] == [True, False]
