"""What the screens look like, as pictures: the recorded run through the same fold, with a clock that stands still.

A picture that has changed on purpose: `pytest tests/tui/test_snapshots.py --snapshot-update`, and look at what changed.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from ddptui.host import machine
from ddptui.run.playback import Playback
from ddptui.store import presets
from ddptui.store.outcomes import results_of
from ddptui.store.runs import Run
from ddptui.tui.screens.curves import CurvesScreen
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.screens.runs import RunsScreen
from tests.support.gpu_figures import on_gpus
from tests.support.two_runs import run_with
from tests.tui import primitive_recordings
from tests.tui.gpu_recordings import made_up
from tests.tui.opened import Opened, until
from tests.tui.recordings import RECORDED, Clock, ToldAsItGoes, moment_s, playback
from tests.tui.two_runs import compare_screen

Snap = Callable[..., bool]
SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (200, 60)
DARK, LIGHT = "textual-dark", "textual-light"
LOOKS = [(SMALL, DARK), (MIDDLE, DARK), (LARGE, DARK), (MIDDLE, LIGHT)]
STANDS_STILL_S = 1e6  # between two looks at a run
CONSTANT = "2 cores · no GPU · torch 2.15.0"


@pytest.fixture(autouse=True)
def always_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine and this checkout are not in the picture."""
    monkeypatch.setattr(machine, "in_short", lambda: CONSTANT)
    monkeypatch.setattr(Input, "_toggle_cursor", lambda _: None)  # on a busy machine it blinks before the picture
    monkeypatch.setattr(presets, "folders", lambda: [RECORDED.parent, tmp_path])
    monkeypatch.setattr("ddptui.engines.command.environment", lambda trial, cores: {"PYTHONPATH": "/lab"})
    monkeypatch.setattr("ddptui.engines.command.command", lambda trial: ["python", "-m", f"workers.{trial.launch}"])


def pictured(
    snap: Snap, runs: Path, screen: Screen[None] | None, size: tuple[int, int], theme: str, *keys: str
) -> bool:
    app = Opened(runs, screen, refresh_s=STANDS_STILL_S)
    app.theme = theme

    async def before(pilot: Pilot[int]) -> None:
        await app.mounted
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        if isinstance(screen, RunScreen):
            screen.draw()
        if isinstance(screen, PrimitivesScreen) and screen.is_over and size[1] > SMALL[1]:
            await until(pilot, lambda: screen._answer)
        await pilot.press(*keys)  # a dialog is a worker that waits for an answer: nobody waits for that
        await pilot.pause()

    return snap(app, terminal_size=size, run_before=before)


def at(trial: str, step: int, run: Run | None = None) -> Playback:
    told = Playback(run, run.preset(), Clock()) if run else playback()
    told.seek(moment_s(told, trial, step))
    return told


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_lab(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    assert pictured(snap_compare, tmp_path, None, size, theme)


@pytest.mark.parametrize(("size", "theme"), [(MIDDLE, DARK)])
def test_lab_refuses(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    """Of 5 ranks, with a delay on rank 9."""
    assert pictured(snap_compare, tmp_path, None, size, theme, "e", "tab", *"99999")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_run_with_a_late_rank(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    screen = RunScreen(ToldAsItGoes(at("late", 70)))
    assert pictured(snap_compare, tmp_path, screen, size, theme)


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_run_on_gpus_that_are_made_up(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    screen = RunScreen(ToldAsItGoes(at("late", 70, made_up(tmp_path))))
    assert pictured(snap_compare, tmp_path, screen, size, theme)


@pytest.mark.parametrize("pane", ["2", "3", "4"])
def test_run_one_pane_at_a_time(snap_compare: Snap, tmp_path: Path, pane: str) -> None:
    assert pictured(snap_compare, tmp_path, RunScreen(ToldAsItGoes(at("late", 70))), SMALL, DARK, pane)


def test_run_with_nobody_late(snap_compare: Snap, tmp_path: Path) -> None:
    assert pictured(snap_compare, tmp_path, RunScreen(ToldAsItGoes(at("none", 60))), MIDDLE, DARK)


def test_run_failed(snap_compare: Snap, tmp_path: Path) -> None:
    told = playback()
    told.seek(1e6)
    assert pictured(snap_compare, tmp_path, RunScreen(told), MIDDLE, DARK)


@pytest.mark.parametrize("size", [SMALL, MIDDLE])
def test_delay(snap_compare: Snap, tmp_path: Path, size: tuple[int, int]) -> None:
    assert pictured(snap_compare, tmp_path, RunScreen(ToldAsItGoes(at("late", 70))), size, DARK, "b", "down", "w")


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_the_last_picture_stays_while_the_next_trial_starts(snap_compare: Snap, tmp_path: Path, theme: str) -> None:
    assert pictured(snap_compare, tmp_path, RunScreen(ToldAsItGoes(at("late", 0))), MIDDLE, theme)


def test_help(snap_compare: Snap, tmp_path: Path) -> None:
    screen = RunScreen(ToldAsItGoes(at("late", 70)))
    assert pictured(snap_compare, tmp_path, screen, MIDDLE, DARK, "question_mark")


@pytest.mark.parametrize(("size", "theme"), [(SMALL, DARK), (MIDDLE, DARK), (LARGE, LIGHT)])
def test_form(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    """A group is unfolded; a field of it has the focus."""
    keys = ["e", *["tab"] * 12, "enter", "tab"]
    assert pictured(snap_compare, tmp_path, None, size, theme, *keys)


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_result(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    assert pictured(snap_compare, tmp_path, result(), size, theme, "down")


@pytest.mark.parametrize(("size", "theme"), [(SMALL, DARK), (MIDDLE, LIGHT)])
def test_result_with_differences(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    """The cursor of the matrix is where rank 1 meets itself."""
    assert pictured(snap_compare, tmp_path, result(), size, theme, "f", "5", "down")


@pytest.mark.parametrize("key", ["question_mark", "c"])
def test_result_explains_its_columns(snap_compare: Snap, tmp_path: Path, key: str) -> None:
    assert pictured(snap_compare, tmp_path, result(), MIDDLE, DARK, key, "end")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_result_on_gpus_that_are_made_up(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    run = made_up(tmp_path)
    preset = run.preset()
    screen = ResultScreen(run, preset, on_gpus(results_of(run, preset)))
    assert pictured(snap_compare, tmp_path, screen, size, theme)


def result() -> ResultScreen:
    run = Run(RECORDED)
    preset = run.preset()
    return ResultScreen(run, preset, results_of(run, preset))


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_primitives_seen(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    """A reduce, after its call."""
    screen = PrimitivesScreen(primitive_recordings.over())
    assert pictured(snap_compare, tmp_path, screen, size, theme, "n", "n", "n", "space")


@pytest.mark.parametrize("size", [SMALL, MIDDLE])
def test_primitives_to_be_guessed(snap_compare: Snap, tmp_path: Path, size: tuple[int, int]) -> None:
    """An all_to_all, before its call."""
    screen = PrimitivesScreen(primitive_recordings.over())
    assert pictured(snap_compare, tmp_path, screen, size, DARK, "end", "p")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_primitives_measured(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    screen = PrimitivesScreen(primitive_recordings.over())
    assert pictured(snap_compare, tmp_path, screen, size, theme, "3", "n", "space", "n", "n", "n")


def test_primitives_under_way(snap_compare: Snap, tmp_path: Path) -> None:
    screen = PrimitivesScreen(ToldAsItGoes(primitive_recordings.at("ranks-4", 6)))
    assert pictured(snap_compare, tmp_path, screen, MIDDLE, DARK)


@pytest.mark.parametrize(("size", "theme"), [(SMALL, DARK), (MIDDLE, LIGHT)])
def test_runs(snap_compare: Snap, size: tuple[int, int], theme: str) -> None:
    assert pictured(snap_compare, RECORDED.parent, RunsScreen(), size, theme)


@pytest.mark.parametrize(("size", "theme"), [(SMALL, DARK), (MIDDLE, DARK), (MIDDLE, LIGHT)])
def test_compare(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    trials = {"one-process": (100, 104), "all_reduce": (200, 206), "ddp": (120, 122)}
    a = run_with(trials, run="20260101-120000-quickstart")
    b = run_with(trials | {"all_reduce": (260, 266), "ring": (1, 2)}, run="20260102-120000-quickstart")
    assert pictured(snap_compare, tmp_path, compare_screen(a, b), size, theme)


@pytest.mark.parametrize(("size", "theme"), [(SMALL, DARK), (MIDDLE, LIGHT)])
def test_trials_matched_by_hand(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    a, b = run_with({"spawn": (100, 104), "ddp": (120, 122)}), run_with({"process": (100, 104), "ddp": (90, 92)})
    assert pictured(snap_compare, tmp_path, compare_screen(a, b), size, theme, "m")


@pytest.mark.parametrize(("size", "theme"), [(SMALL, DARK), (MIDDLE, LIGHT)])
@pytest.mark.parametrize("figure", ["loss", "step time"])
def test_curves(snap_compare: Snap, tmp_path: Path, size: tuple[int, int], theme: str, figure: str) -> None:
    keys = ["f"] if figure == "step time" else []
    assert pictured(snap_compare, tmp_path, CurvesScreen({"": result().ended}), size, theme, *keys)


@pytest.mark.parametrize("size", [SMALL, MIDDLE])
def test_replay(snap_compare: Snap, tmp_path: Path, size: tuple[int, int]) -> None:
    assert pictured(snap_compare, tmp_path, RunScreen(at("late", 70)), size, DARK, "full_stop")


def test_compare_primitives(snap_compare: Snap, tmp_path: Path) -> None:
    results = primitive_recordings.results()
    screen = compare_screen(results, msgspec.structs.replace(results, run="the-same"))
    assert pictured(snap_compare, tmp_path, screen, MIDDLE, DARK)


def test_too_small(snap_compare: Snap, tmp_path: Path) -> None:
    assert pictured(snap_compare, tmp_path, result(), (50, 12), DARK)
