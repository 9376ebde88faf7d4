"""The console as somebody uses it, with real ranks: from the Lab to the Result."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from ddptui.engines.local.warm import WarmParent
from ddptui.store.runs import Run, all_runs
from ddptui.tui.app import Console
from ddptui.tui.screens.export import ExportDialog
from ddptui.tui.screens.primitives import PrimitivesScreen
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.rank_panes import RankTable
from ddptui.wire.messages import Step
from ddptui.wire.records import Injection, Launched, Message
from tests.support.builders import replayed
from tests.support.runner import ENOUGH_S
from tests.tui.opened import seen

TINY = """
title = "Two short trials"
[defaults]
model = "mlp"
width = 16
depth = 1
steps = 60
warmup_steps = 2
threads = 1
strategy = "flat"
[[trial]]
name = "one"
[[trial]]
name = "two"
strategy = "all_reduce"
"""
BOTH = """
title = "Two primitives, seen and measured"
kind = "primitives"
[defaults]
launch = "spawn"
threads = 1
operations = ["broadcast", "all_reduce"]
min_bytes = 1024
max_bytes = 4096
iterations = 5
cell_s = 0.1
warmup_steps = 1
[[trial]]
name = "see"
primitives = "see"
reduce_ops = ["sum"]
[[trial]]
name = "measure"
primitives = "measure"
"""
TINY_ONE, LONG_ONE, ENDLESS = (("slash", *name, "enter") for name in ("a-tiny", "a-long", "a-play"))  # filtered for


@pytest.fixture
def runs(tmp_path: Path, home: Path) -> Path:
    presets = home / "config" / "ddptui" / "presets"
    presets.mkdir(parents=True)
    (presets / "a-tiny-one.toml").write_text(TINY, encoding="utf-8")
    # longer than the keys of any test take, on however busy a machine
    (presets / "a-long-one.toml").write_text(TINY.replace("steps = 60", "steps = 9_000_000"), encoding="utf-8")
    (presets / "a-primitive-one.toml").write_text(BOTH, encoding="utf-8")
    (presets / "a-playground.toml").write_text(TINY.replace("steps = 60", "epochs = 0"), encoding="utf-8")
    return tmp_path / "runs"


@asynccontextmanager
async def console(runs: Path, warm: WarmParent) -> AsyncIterator[tuple[Console, Pilot[int]]]:
    """Whatever happens, no rank is left."""
    with ThreadPoolExecutor(1) as threads:
        app = Console(runs, threads=threads, warm=warm, refresh_s=0.1)
        try:
            async with app.run_test(size=(120, 40)) as pilot:
                await pilot.pause()
                yield app, pilot
        finally:
            if app.session is not None:
                app.session.close()


async def until(pilot: Pilot[int], happened: object) -> None:
    """Ranks take their time."""
    assert callable(happened)
    async with asyncio.timeout(ENOUGH_S):
        while not happened():
            await asyncio.sleep(0.05)
            await pilot.pause()


def messages(run: Run) -> list[Message]:
    return replayed(run, run.preset())


def slept_ms(step: Step) -> float:
    return sum(each.end_ns - each.begin_ns for each in step.slept) / 1e6


async def test_from_a_changed_field_to_the_result_and_into_a_file(runs: Path, warm: WarmParent, tmp_path: Path) -> None:
    async with console(runs, warm) as (app, pilot):
        await pilot.press(*TINY_ONE)
        await pilot.press("e")
        app.screen.query_one("#repeats Input", Input).value = "2"
        await pilot.pause()
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await until(pilot, lambda: isinstance(app.screen, ResultScreen))
        await until(pilot, lambda: "one" in seen(app) and "two" in seen(app))
        [(_, preset, results)] = app.finished.values()
        assert results.status == "ok"
        assert results.environment["watched"] == "in the console"
        assert [trial.status for trial in results.trials] == ["ok", "ok"]
        assert preset.repeats == 2
        assert [len(trial.repeats) for trial in results.trials] == [2, 2]
        await pilot.press("Y")
        assert app.clipboard.startswith("## Two short trials")
        await pilot.press("up", "y")
        assert app.clipboard.startswith("one")
        await pilot.press("x")
        assert isinstance(app.screen, ExportDialog)
        app.screen.query_one(Input).value = str(tmp_path / "page.html")
        await pilot.press("enter", "enter")
        await until(pilot, (tmp_path / "page.html").exists)
        await until(pilot, lambda: "Two short trials" in (tmp_path / "page.html").read_text(encoding="utf-8"))
        await pilot.press("escape")
        await until(pilot, lambda: "ok" in seen(app) and "Last runs" in seen(app))


async def test_a_delay_put_in_while_it_runs_is_in_the_record_until_taken_out(runs: Path, warm: WarmParent) -> None:
    async with console(runs, warm) as (app, pilot):
        await pilot.press(*LONG_ONE)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.watched.live.step > 20)
        screen = app.screen
        ranks = screen.query_one(RankTable)
        await until(pilot, lambda: ranks.row_count == 2)
        await pilot.press("down", "b")
        # All of it: on a busy machine rank 1 can be late, and be named, before the delay has reached it.
        shown = ("You delay rank 1 by 20 ms in backward", "waiting for rank 1")
        await until(pilot, lambda: screen.watched.culprit == 1 and all(words in seen(app) for words in shown))
        await pilot.press("b")
        await until(pilot, lambda: screen.watched.live.injected == ())
        taken_out = screen.watched.live.step
        await until(pilot, lambda: screen.watched.live.step > taken_out + 100)
        await pilot.press("s", "y")
        await until(pilot, lambda: screen.watched.live.trial == "two")
        await pilot.press("S", "y")
        await until(pilot, lambda: app.session is None)
    [run] = all_runs(runs)
    told = messages(run)
    injections = [message for message in told if isinstance(message, Injection)]
    assert [len(message.bottleneck) for message in injections] == [1, 0]
    put_in, taken_out = (message.at_ns for message in injections)
    steps = [message for message in told if isinstance(message, Step) and message.rank == 1]
    late = [step for step in steps if slept_ms(step) > 15]
    assert late
    assert all(put_in < step.end_ns for step in late)
    afterwards = [slept_ms(step) > 15 for step in steps if step.begin_ns > taken_out]
    assert len(afterwards) > 100
    assert not any(afterwards[50:])  # on a busy machine it takes a rank some steps to hear of it
    assert afterwards == sorted(afterwards, reverse=True)
    assert [message.trial for message in told if isinstance(message, Launched)] == ["one", "two"]


async def test_a_training_without_an_end_is_ended_by_enter_and_shows_its_results(runs: Path, warm: WarmParent) -> None:
    def at_work(screen: RunScreen, trial: str) -> bool:
        return screen.watched.live.trial == trial and screen.watched.live.step > 20

    async with console(runs, warm) as (app, pilot):
        await pilot.press(*ENDLESS)
        await pilot.press("enter")
        for trial, key in (("one", ("s", "y")), ("two", ("enter",))):
            await until(pilot, lambda trial=trial: isinstance(app.screen, RunScreen) and at_work(app.screen, trial))
            for _ in range(2):  # a click on a rank chooses it, and no more
                await pilot.click(RankTable, offset=(10, 1))
            assert app.session is not None
            assert app.session.controls.end() is None
            await pilot.press(*key)
        await until(pilot, lambda: isinstance(app.screen, ResultScreen))
        [(_, _, results)] = app.finished.values()
        assert results.status == "ok"
        assert [(trial.name, trial.status) for trial in results.trials] == [("one", "ok"), ("two", "ok")]


async def test_from_the_lab_to_every_ranks_numbers_and_their_times(runs: Path, warm: WarmParent) -> None:
    async with console(runs, warm) as (app, pilot):
        await pilot.press("slash", *"a-prim", "enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, PrimitivesScreen))
        screen = app.screen
        await until(pilot, lambda: (told := screen.so_far.result("see")) and len(told.views) == 2)
        await pilot.press("1", "n", "space")
        assert "11 12 13 14 → 12 14 16 18" in seen(app)
        await until(pilot, lambda: app.session is None)
        assert app.screen is screen
        [(_, _, results)] = app.finished.values()
        assert results.status == "ok"
        assert "11 12 13 14 → 12 14 16 18" in seen(app)
        await pilot.press("2")
        assert "4 KB" in seen(app)
        [cells] = [launch.cells for trial in results.trials if trial.name == "measure" for launch in trial.primitives]
        assert [(cell.operation, cell.bytes) for cell in cells] == [
            (name, size) for name in ("broadcast", "all_reduce") for size in (1024, 4096)
        ]
        assert not any(cell.wrong for cell in cells)
