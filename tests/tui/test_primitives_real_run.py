"""Primitives as somebody tries them, with real ranks: from the Lab to numbers that are where they belong."""

import asyncio
from pathlib import Path

import pytest

from ddptui.engines.local.warm import WarmParent
from ddptui.tui.screens.primitives import PrimitivesScreen
from tests.tui.opened import seen
from tests.tui.test_real_run import console, until

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


@pytest.fixture
def runs(tmp_path: Path, home: Path) -> Path:
    presets = home / "config" / "ddptui" / "presets"
    presets.mkdir(parents=True)
    (presets / "a-primitive-one.toml").write_text(BOTH, encoding="utf-8")
    return tmp_path / "runs"


def test_from_the_lab_to_every_ranks_numbers_and_their_times(runs: Path, warm: WarmParent) -> None:
    async def check() -> None:
        async with console(runs, warm) as (app, pilot):
            await pilot.press("slash", *"a-prim", "enter", "enter")
            await until(pilot, lambda: isinstance(app.screen, PrimitivesScreen))
            screen = app.screen
            assert isinstance(screen, PrimitivesScreen)
            await until(pilot, lambda: (told := screen.so_far.result("see")) and len(told.views) == 2)
            await pilot.press("1", "n", "space")
            assert "11 12 13 14 → 12 14 16 18" in seen(app)
            await until(pilot, lambda: app.session is None)
            assert app.screen is screen
            [(_, _, results)] = app.finished.values()
            assert results.status == "ok"
            assert "11 12 13 14 → 12 14 16 18" in seen(app)
            await pilot.press("2")
            await pilot.pause()
            assert "4 KB" in seen(app)
            [cells] = [
                launch.cells for trial in results.trials if trial.name == "measure" for launch in trial.primitives
            ]
            assert [(cell.operation, cell.bytes) for cell in cells] == [
                (name, size) for name in ("broadcast", "all_reduce") for size in (1024, 4096)
            ]
            assert not any(cell.wrong for cell in cells)

    asyncio.run(check())
