"""The Lab with presets of primitives: it asks for what means something to them, and for nothing else."""

import pytest
from textual.pilot import Pilot

from ddptui.config.preset import Preset
from ddptui.store.presets import load
from ddptui.tui.app import Console
from ddptui.tui.draft import LINE, common
from ddptui.tui.screens.lab import Lab
from ddptui.tui.widgets.lists import PresetList
from ddptui.tui.widgets.trial_form import Field
from tests.tui.opened import play_in_lab, seen


def asked(lab: Lab) -> set[str]:
    return {field.id or "" for field in lab.query(Field) if field.display} - {"trial", LINE}


async def choose(pilot: Pilot[int], lab: Lab, name: str) -> None:
    lab.query_one(PresetList).choose(name)
    await pilot.pause()


def test_the_form_goes_with_the_preset() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        for name in ("primitives-see", "primitives-measure", "quickstart", "ddp-by-hand"):
            await choose(pilot, lab, name)
            assert asked(lab) == common(load(name)), name

    play_in_lab(scenario)


def test_what_is_typed_is_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Preset] = []
    monkeypatch.setattr(Console, "_start", lambda _, new: started.append(new.preset))

    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await choose(pilot, lab, "primitives-see")
        lab.query_one("#operations", Field).answer.value = "reduce, gather"
        await pilot.pause()
        assert "shown" in seen(app)
        assert "reduce, gather" in seen(app)
        await pilot.press("f5")
        assert [trial.operations for trial in started[0].trials] == [("reduce", "gather")]
        await choose(pilot, lab, "quickstart")
        await choose(pilot, lab, "primitives-see")
        assert lab.query_one("#operations", Field).text == "reduce, gather"

    play_in_lab(scenario)


def test_calls_can_be_pipelined_but_not_those_that_cannot_be_in_flight() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await choose(pilot, lab, "primitives-measure")
        lab.query_one(f"#{LINE}", Field).answer.value = "cadence=pipelined"
        await pilot.pause()
        assert "--set cadence=pipelined" in seen(app)
        assert lab._validation.prepared is not None
        lab.query_one("#operations", Field).answer.value = "all_reduce, send_recv"
        await pilot.pause()
        assert lab._validation.prepared is None
        assert "send_recv cannot be pipelined" in lab._validation.reason

    play_in_lab(scenario)


def test_what_was_changed_of_one_preset_is_no_change_of_another() -> None:
    async def scenario(app: Console, pilot: Pilot[int], lab: Lab) -> None:
        await choose(pilot, lab, "quickstart")
        lab.query_one("#model", Field).answer.value = "mlp"
        await pilot.pause()
        await choose(pilot, lab, "primitives-measure")
        assert "--set" not in seen(app).split("Command")[-1].split("trial ")[0]
        assert lab._validation.prepared is not None

    play_in_lab(scenario)
