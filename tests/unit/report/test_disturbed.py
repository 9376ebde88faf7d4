"""Repeats that other programs disturbed: marked where their figures stand, left out where others are at hand."""

import pytest
from msgspec.structs import replace

from ddptui.analysis.finding import Kind
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.notes import note_lines
from ddptui.report.table import markdown
from ddptui.wire.messages import Step
from ddptui.wire.records import Message
from tests.support.builders import MS, NEIGHBOR, beside, journal, preset_of, results_for


def compared(*journals: list[Message], repeats: int = 2) -> tuple[Results, Preset]:
    preset = preset_of({"title": "?", "repeats": repeats, "trial": [{"name": "a"}, {"name": "b"}]})
    return results_for(preset, *journals), preset


def cells(results: Results, preset: Preset, trial: str) -> dict[str, str]:
    header, _, *rows = [line for line in markdown(results, preset).splitlines() if line.startswith("|")]
    [row] = [row for row in rows if row.split("|")[1].strip() == trial]
    names, values = ([cell.strip() for cell in line.split("|")[1:-1]] for line in (header, row))
    return dict(zip(names, values, strict=True))


def test_a_disturbed_repeat_is_in_no_figure_where_another_is_quiet() -> None:
    results, preset = compared(journal("a"), journal("b"), beside(journal("a", 2, step_ms=40)), journal("b", 2))
    a = cells(results, preset, "a")
    assert (a["train s"], a["step ms"]) == ("0.03", "10.00")
    why = f"other programs kept 1.0 cores busy, most of all {NEIGHBOR}"
    lines = note_lines(results, preset)
    assert f"a: repeat 2 is left out of medians: {why}" in lines
    assert not any("caution" in line and "busy" in line for line in lines)


def test_a_trial_that_stayed_disturbed_is_marked_where_its_figures_stand() -> None:
    results, preset = compared(journal("a"), beside(journal("b")), journal("a", 2), beside(journal("b", 2, step_ms=20)))
    b = cells(results, preset, "b")
    marked = {name for name, cell in b.items() if cell.endswith(" ⚠")}
    assert marked >= {"train s", "ratio", "speed-up", "samples/s", "step ms"}
    assert b["train s"] == "0.04 ±0.01 ⚠"
    assert not any("⚠" in cell for cell in cells(results, preset, "a").values())
    caution = (
        f"caution, b: other programs kept 1.0 cores busy, most of all {NEIGHBOR}: close those programs and run again"
    )
    assert caution in note_lines(results, preset)


def test_against_a_baseline_that_stayed_disturbed_a_ratio_is_a_range_and_marked_as_the_difference_is() -> None:
    results, preset = compared(beside(journal("a")), journal("b"), repeats=1)
    b = cells(results, preset, "b")
    assert (b["ratio"], b["speed-up"], b["train s"]) == ("1.00 ⚠", "1.00 ⚠", "0.03")
    results, preset = compared(
        beside(journal("a")), journal("b"), beside(journal("a", 2)), journal("b", 2, step_ms=15), repeats=2
    )
    assert cells(results, preset, "b")["ratio"] == "1.00…1.50 ⚠"


@pytest.mark.parametrize("load", [{"busy": 1.2, "own": 1.0}, {"idle": 1.0}, {"busy": 2.0, "own": 2.0}])
def test_a_launch_that_loses_no_core_is_not_disturbed(load: dict[str, float]) -> None:
    results, preset = compared(beside(journal("a"), **load), journal("b"), repeats=1)
    assert cells(results, preset, "b")["ratio"] == "1.00"


def test_time_that_a_hypervisor_took_is_called_that() -> None:
    results, preset = compared(beside(journal("a"), stolen=0.9), journal("b"), repeats=1)
    assert any("other virtual machines of this host took 0.9 cores" in line for line in note_lines(results, preset))


@pytest.mark.parametrize(("step_ms", "alike"), [((9.8, 10.3), True), ((11, 11.5), False), ((8.5, 9), False)])
def test_a_difference_within_the_spread_is_none(step_ms: tuple[float, float], alike: bool) -> None:
    repeats = [journal("b", number, step_ms=ms) for number, ms in enumerate(step_ms, start=1)]
    results, preset = compared(journal("a"), repeats[0], journal("a", 2), repeats[1])
    assert (results.findings[0].kind is Kind.ALIKE) == alike
    assert not any("too noisy for small differences" in line for line in note_lines(results, preset))


def test_repeats_that_lie_far_apart_show_neither_a_difference_nor_that_there_is_none() -> None:
    lines = note_lines(*compared(journal("a"), journal("b", step_ms=8), journal("a", 2), journal("b", 2, step_ms=12)))
    assert any("too noisy for small differences" in line for line in lines)


@pytest.mark.parametrize(("queued_ms", "said"), [(5, True), (0.1, False)])
def test_ranks_that_had_no_core_are_said_to_have_had_none(queued_ms: float, said: bool) -> None:
    def queued(message: Message) -> Message:
        is_step = isinstance(message, Step) and message.rank == 1
        return replace(message, queued_ns=round(queued_ms * MS)) if is_step else message

    results, preset = compared(beside([*map(queued, journal("a"))]), journal("b"), repeats=1)
    lines = note_lines(results, preset)
    assert (
        any(", and a rank waited for a core for 0.01 of the 0.03 s it trained: close those" in line for line in lines)
        == said
    ), lines
