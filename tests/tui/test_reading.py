"""What is read of a run is read beside the screen: no file holds up a key, and quitting waits for none."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddptui.store import overview
from ddptui.store.runs import JOURNAL
from ddptui.tui.screens import runs as runs_screen
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.screens.runs import RunsScreen
from tests.support.builders import journal, two_trials, write_run
from tests.tui.opened import Opened, opened, seen, shows, toasts, until

BACKSTOP_S = 60

watched: list[Path] = []  # the folder of runs of the test that runs now
on_the_screen: list[str] = []  # what its screens opened there


def note(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and watched:
        path = str(arguments[0])
        if path.startswith(str(watched[0])) and threading.current_thread() is threading.main_thread():
            on_the_screen.append(path)


sys.addaudithook(note)  # none can be removed, so one serves all tests


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    runs = tmp_path / "runs"
    for name in ("20300101-000000-a", "20300102-000000-b"):
        run = write_run(runs, two_trials(repeats=1), journal("a"), journal("b"))
        (run.repeat_folder("b", 1) / "rank-0.log").write_text("what rank 0 printed\n")
        run.folder.rename(runs / name)
    return runs


@pytest.fixture
def reads(runs: Path) -> Iterator[list[str]]:
    """What was opened on the screen's thread."""
    watched.append(runs)
    on_the_screen.clear()
    yield on_the_screen
    watched.clear()


async def test_no_screen_reads_a_run_itself(runs: Path, reads: list[str]) -> None:
    async with opened(runs, RunsScreen()) as (app, pilot):
        await shows(pilot, "2 runs")
        await pilot.press("space", "down", "=")
        await until(pilot, lambda: isinstance(app.screen, ResultScreen))
        await pilot.press("escape", "enter")
        await until(pilot, lambda: isinstance(app.screen, ResultScreen) and not app.screen.results.of_two_runs)
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        screen = app.screen
        await pilot.press("full_stop", *["right"] * 9, "left", "full_stop", *["right"] * 9, *["tab"] * 5)
        await until(pilot, lambda: screen.watched.live.finished == 2 and "what rank 0 printed" in seen(app))
        await pilot.press("ctrl+p", *"run: 2030")
        await shows(pilot, "20300102-000000-b")
        app.exit()
    assert reads == []


async def test_the_lab_reads_no_run_itself(runs: Path, reads: list[str]) -> None:
    async with opened(runs, size=(160, 50)) as (app, pilot):
        await until(pilot, lambda: app.screen._past.lines)  # type: ignore[attr-defined]
    assert reads == []


@pytest.mark.parametrize(
    ("module", "name", "keys"),
    [(overview, "all_runs", ()), (runs_screen, "overview", ("r",))],
    ids=["the lab", "a run"],
)
async def test_quitting_waits_for_no_disk(
    runs: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str, keys: tuple[str, ...]
) -> None:
    begun, answers = threading.Event(), threading.Event()

    def hangs(*_: object) -> object:
        begun.set()
        answers.wait()
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, name, hangs)
    app = Opened(runs)
    backstop = threading.Timer(BACKSTOP_S, answers.set)  # else a console that waits would hang for ever
    backstop.start()
    async with app.run_test() as pilot:
        await until(pilot, lambda: isinstance(app.screen, Lab))
        await pilot.press(*keys)
        await until(pilot, begun.is_set)
        await pilot.press("ctrl+q")
    assert not answers.is_set()
    backstop.cancel()
    answers.set()
    backstop.join()
    for thread in threading.enumerate():
        if thread.name == "background":
            thread.join()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def nested(path: Path) -> None:
    path.write_bytes(b'{"a":' + b"[" * 200_000)


@pytest.mark.parametrize(
    ("file", "spoil", "why"),
    [
        ("environment.json", nested, "nested too deeply"),
        (f"trial-a/repeat-1/{JOURNAL}", pipe, "it is a pipe, a socket or a device"),
    ],
)
async def test_a_run_that_cannot_be_read_is_not_opened(
    runs: Path, file: str, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(runs / "20300102-000000-b" / file)
    async with opened(runs, RunsScreen(), (160, 30)) as (app, pilot):
        await until(pilot, lambda: why in " ".join(seen(app).split()) and "2 runs" in seen(app))
        for key in ("enter", "v"):
            await pilot.press(key)
            assert isinstance(app.screen, RunsScreen)
        assert all(why in toast for toast in toasts(app))
        assert toasts(app)


async def test_a_journal_that_turns_into_a_pipe_after_the_list_was_read_is_complained_of(runs: Path) -> None:
    async with opened(runs, RunsScreen(), (160, 30)) as (app, pilot):
        await until(pilot, lambda: "2 runs" in seen(app) and "…" not in seen(app))
        pipe(runs / "20300102-000000-b" / "trial-a" / "repeat-1" / JOURNAL)
        for number, key in enumerate(("enter", "v"), 1):
            await pilot.press(key)
            await until(pilot, lambda number=number: len(toasts(app)) == number)
        assert all("not a regular file" in toast for toast in toasts(app))
        assert isinstance(app.screen, RunsScreen)
