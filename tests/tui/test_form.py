"""The form: the common fields, a line for all others, for all trials or for one; copies and removals."""

from pathlib import Path

import pytest
from textual.content import Content
from textual.widgets import Button, Input, Select, Static

from ddptui.config.preset import Preset
from ddptui.config.trial import TRIAL_FIELDS, Bottleneck
from ddptui.store.presets import load
from ddptui.tui.app import Console
from ddptui.tui.draft import COMMON, LINE, REPEATS, common, others
from ddptui.tui.screens.dialogs import NameDialog
from ddptui.tui.screens.lab import Lab
from ddptui.tui.widgets.tables import LEFT, TrialTable
from ddptui.tui.widgets.trial_form import ALL, OWN, Choice, Field, TrialForm
from tests.tui.opened import answer, choose, command, field, in_lab, reason, seen, shows, toasts, until


def meaning(lab: Lab) -> str:
    return str(lab.query_one("#meaning", Static).content)


def made(lab: Lab) -> Preset:
    preset = lab._validation.preset
    assert preset is not None, lab._validation.reason
    return preset


def subtitle(lab: Lab) -> str:
    return Content.from_markup(str(lab.query_one(TrialTable).border_subtitle)).plain


def refusals(lab: Lab) -> dict[str, str]:
    """Why trials are left without the bottleneck, as the table of trials says."""
    table = lab.query_one(TrialTable)
    if LEFT not in table.columns:
        return {}
    return {str(row.key.value): str(table.get_cell(row.key, LEFT)) for row in table.ordered_rows}


def test_every_field_of_a_trial_has_a_place_in_the_form() -> None:
    places = {*COMMON, "name", "primitives"}  # a name is given to a copy; primitives make a preset of another kind
    for name in ("compression", "strategies", "primitives-measure", "primitives-see"):
        places |= {*others(load(name).trials)}
    of_commands = {"command", "env"}
    assert sorted(places | of_commands) == sorted({*TRIAL_FIELDS, REPEATS})


async def test_fields_are_filled_in_by_keyboard_and_any_other_is_a_word_that_is_completed() -> None:
    async with in_lab((80, 24)) as (app, pilot, lab):
        await pilot.press("e")
        while not field(lab, "repeats").answer.has_focus:
            await pilot.press("tab")
        await pilot.press(*"12")
        await until(pilot, lambda: "* repeats" in seen(app) and "12" in seen(app))
        assert "--repeats 12" in command(lab)
        assert "launches of each trial" in meaning(lab)
        await pilot.press("ctrl+r", "escape")
        await choose(pilot, lab, "quickstart")
        await pilot.press("e")
        while not field(lab, LINE).answer.has_focus:
            await pilot.press("tab")
        assert "batch_size" in meaning(lab)
        await pilot.press(*"batch_s")
        await shows(pilot, "batch_size=")
        await pilot.press("right", *"32 amp=bf")
        await shows(pilot, "amp=bf16")
        await pilot.press("right")
        assert "--set batch_size=32 --set amp=bf16" in " ".join(command(lab).split())
        assert meaning(lab).startswith("amp: ")
        assert {(trial.batch_size, trial.amp) for trial in made(lab).trials} == {(32, "bf16")}
        await pilot.press("space", *"lr")
        await until(pilot, lambda: "lr: write KEY=VALUE" in reason(lab))
        assert made(lab).trials[0].batch_size == 32  # what was right stays
        await pilot.press("f5")
        assert app.screen is lab


async def test_your_own_in_a_list_goes_on_in_the_line_of_other_fields(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def average(tensors): ...")
    async with in_lab((120, 40)) as (_, pilot, lab):
        await choose(pilot, lab, "quickstart")
        await answer(pilot, lab, "strategy", OWN)
        await until(pilot, lambda: field(lab, LINE).text == "strategy=" and field(lab, LINE).answer.has_focus)
        await until(pilot, lambda: "strategy= has no value; your own code: strategy=mine.py:name" in reason(lab))
        assert field(lab, "strategy").text is None
        await answer(pilot, lab, LINE, f"strategy={mine}:average")
        await until(pilot, lambda: not reason(lab))
        assert f"--set strategy={mine}:average" in " ".join(command(lab).split())


async def test_arrows_lead_from_field_to_field_and_never_leave_the_form_where_enter_would_start_a_run() -> None:
    async with in_lab() as (app, pilot, lab):
        await pilot.press("e", "up")
        at, form = app.focused, lab.query_one(TrialForm)
        assert at in form.query("*")
        await pilot.press("up", "up", "down", "down")
        assert app.focused is at
        stops = {at}
        for _ in form.query("*"):
            await pilot.press("down")
            stops.add(app.focused)
        assert stops <= {*form.query("*")}
        await pilot.press("escape")
        await pilot.press("e", "down", "down")
        strategy = field(lab, "strategy").answer
        assert isinstance(strategy, Select)
        assert strategy.has_focus
        assert not strategy.expanded
        await pilot.press("down", "down", "up", "up", "enter")
        await until(pilot, lambda: strategy.expanded)
        await pilot.press("down", "enter")
        await until(pilot, lambda: not strategy.expanded and field(lab, "strategy").text)
        assert not [each for each in lab.query_one(TrialForm).query("#fields, .fields, #whose") if each.can_focus]
        assert {type(each.answer) for each in lab.query(Field)} == {Input, Choice}


async def test_a_change_stays_with_its_preset_and_f5_goes_to_the_field_that_a_refusal_is_about() -> None:
    async with in_lab() as (_, pilot, lab):
        await choose(pilot, lab, "quickstart")
        await answer(pilot, lab, LINE, "batch_size=32 'shape=1, 28,28' dataset=random")
        assert made(lab).trials[0].shape == (1, 28, 28)
        await choose(pilot, lab, "who-waits")
        assert field(lab, LINE).text is None
        assert not field(lab, LINE).has_class("-changed")
        await choose(pilot, lab, "quickstart")
        assert field(lab, LINE).text == "batch_size=32 'shape=1, 28,28'"
        assert field(lab, "dataset").text == "random"  # it has a field of its own
        assert field(lab, LINE).has_class("-changed")
        for key, text, place in (("epochs", "many", "epochs"), (LINE, "threads=many", LINE)):
            await choose(pilot, lab, "quickstart")
            await pilot.press("ctrl+r")
            await answer(pilot, lab, key, text)
            await pilot.press("f5")
            await until(pilot, lambda place=place: field(lab, place).answer.has_focus)
            await until(pilot, lambda: 'expected an integer, got "many"' in reason(lab))
            assert field(lab, place).has_class("-wrong")


async def test_a_bottleneck_goes_to_the_trials_that_can_have_it_and_trials_made_equal_are_said_in_amber() -> None:
    async with in_lab() as (_, pilot, lab):
        await choose(pilot, lab, "quickstart")
        assert refusals(lab) == {}
        assert "backward 20 ms on 1" in field(lab, "bottleneck").answer.placeholder  # type: ignore[union-attr]
        await answer(pilot, lab, "bottleneck", "aggregate 10 ms on 1")
        delay = Bottleneck(at="aggregate", ranks=(1,), sleep_ms=10)
        assert [trial.bottleneck for trial in made(lab).trials] == [(), (delay,), (delay,)]
        assert refusals(lab) == {
            "one-process": "no rank 1: trial one-process has only rank 0",
            "all_reduce": "",
            "ddp": "",
        }
        assert not reason(lab)
        assert "--set 'bottleneck=aggregate 10 ms on 1'" in " ".join(command(lab).split())
        await answer(pilot, lab, "bottleneck", "aggregate 10 ms on 7")
        assert "no rank 7" in reason(lab)  # of any
        await answer(pilot, lab, "bottleneck", "soon")
        assert 'write it like "backward 20 ms on 1", or none' in reason(lab)
        await answer(pilot, lab, "bottleneck", "none")
        assert refusals(lab) == {}
        await choose(pilot, lab, "bottleneck-where")
        table = lab.query_one(TrialTable)
        assert "differ in bottleneck" in subtitle(lab)
        await answer(pilot, lab, "bottleneck", "none")
        assert "are the same" in subtitle(lab)
        assert "$text-warning" in str(table.border_subtitle)
        await choose(pilot, lab, "scheduler-tick")  # some of its trials may be equal on purpose
        assert "are the same" not in subtitle(lab)


async def test_every_kind_of_preset_takes_a_bottleneck_and_completes_its_own_fields() -> None:
    async with in_lab() as (_, pilot, lab):
        suggester = field(lab, LINE).answer.suggester  # type: ignore[union-attr]
        assert suggester is not None
        for name in ("launch-modes", "primitives-see", "bottleneck-where", "slow-link", "who-waits"):
            await choose(pilot, lab, name)
            # where no rank trains, only a link can be slow
            of_link = name == "primitives-see"
            await answer(pilot, lab, "bottleneck", "link 10 Mbit/s on 1" if of_link else "aggregate 10 ms on 1")
            assert any(trial.bottleneck for trial in made(lab).trials)
            assert await suggester.get_suggestion("lr=1 mom") == (None if of_link else "lr=1 momentum=")
            assert await suggester.get_suggestion("cade") is None
        await choose(pilot, lab, "primitives-measure")
        assert await suggester.get_suggestion("cade") == "cadence="


async def test_one_trial_is_duplicated_changed_and_removed_by_keyboard() -> None:
    async with in_lab((80, 24)) as (app, pilot, lab):
        await choose(pilot, lab, "who-waits")
        table, names = lab.query_one(TrialTable), [trial.name for trial in load("who-waits").trials]
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        typed = app.screen.query_one(Input)
        assert typed.value == "all_reduce-2"
        typed.value = "ring"
        await pilot.press("enter")
        await shows(pilot, "choose another name")
        typed.value = "slow"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is lab and field(lab, "bottleneck").answer.has_focus)
        assert [trial.name for trial in made(lab).trials] == [names[0], "slow", *names[1:]]
        assert subtitle(lab).startswith("⚠ all_reduce and slow are the same")
        await pilot.press(*"forward 30 ms on 0")
        await until(pilot, lambda: made(lab).trials[1].bottleneck[0].sleep_ms == 30)
        assert made(lab).trials[0] == load("who-waits").trials[0]  # of this trial only
        assert lab.query_one(TrialForm).trial == table.chosen == "slow"
        assert "the same" not in subtitle(lab)
        words = "run who-waits --duplicate all_reduce=slow --set 'slow:bottleneck=forward 30 ms on 0'"
        assert words in " ".join(command(lab).split())
        await pilot.press("escape", "i")
        table.focus()
        await pilot.press("d")
        assert made(lab) == load("who-waits")
        assert "--duplicate" not in command(lab)
        table.choose("ring")
        await pilot.press("d")
        assert "--remove ring" in command(lab)
        assert [trial.name for trial in made(lab).trials] == names[:-1]
        for _ in names:
            await pilot.press("d")
        assert len(made(lab).trials) == 1
        assert "last trial" in toasts(app)[-1]
        await pilot.press("ctrl+r")
        assert made(lab) == load("who-waits")


async def test_e_on_a_trial_changes_only_this_one_and_buttons_do_what_keys_do() -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "bottleneck-where")
        table = lab.query_one(TrialTable)
        table.focus()
        await pilot.press("j", "e")
        assert lab.query_one(TrialForm).trial == table.chosen == load("bottleneck-where").trials[1].name
        assert not field(lab, "repeats").display  # of all trials
        await answer(pilot, lab, "epochs", "9")
        assert [trial.name for trial in made(lab).trials if trial.epochs == 9] == [table.chosen]
        lab.query_one("#duplicate", Button).press()
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is lab and len(made(lab).trials) > len(load("bottleneck-where").trials))
        assert [trial.epochs for trial in made(lab).trials][1:3] == [9, 9]  # with its own changes
        lab.query_one("#remove", Button).press()
        await until(pilot, lambda: len(made(lab).trials) == len(load("bottleneck-where").trials))
        await answer(pilot, lab, "trial", ALL)
        await answer(pilot, lab, "epochs", "2")
        assert [trial.epochs for trial in made(lab).trials][:3] == [2, 9, 2]  # its own change counts


async def test_a_field_of_a_removed_file_is_refused_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "config" / "ddptui" / "presets" / "gone.toml"
    path.parent.mkdir(parents=True)
    path.write_text('title = "Gone"\n[[trial]]\nname = "a"\n', encoding="utf-8")
    async with in_lab() as (_, pilot, lab):
        await choose(pilot, lab, "gone")
        path.unlink()
        await answer(pilot, lab, "epochs", "9")
        assert reason(lab) == "! no preset 'gone'; `ddptui presets` lists them"


async def test_the_form_goes_with_a_preset_of_primitives_changes_stay_with_it_and_what_is_typed_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Preset] = []
    monkeypatch.setattr(Console, "_start", lambda _, new: started.append(new.preset))
    async with in_lab() as (app, pilot, lab):
        for name in ("primitives-see", "primitives-measure", "quickstart", "ddp-by-hand"):
            await choose(pilot, lab, name)
            asked = {each.id for each in lab.query(Field) if each.display} - {"trial", LINE}
            assert asked == common(load(name)), name
        await choose(pilot, lab, "quickstart")
        await answer(pilot, lab, "model", "mlp")
        await choose(pilot, lab, "primitives-measure")
        assert "--set" not in seen(app).split("Command")[-1].split("trial ")[0]
        assert not reason(lab)
        await choose(pilot, lab, "primitives-measure")
        await answer(pilot, lab, LINE, "cadence=pipelined")
        assert "--set cadence=pipelined" in seen(app)
        assert not reason(lab)
        await answer(pilot, lab, "operations", "all_reduce, send_recv")
        assert "send_recv cannot be pipelined" in reason(lab)
        await choose(pilot, lab, "primitives-see")
        await answer(pilot, lab, "operations", "reduce, gather")
        await shows(pilot, "shown", "reduce, gather")
        await pilot.press("f5")
        await until(pilot, lambda: started)
        assert [trial.operations for trial in started[0].trials] == [("reduce", "gather")]
        await choose(pilot, lab, "quickstart")
        await choose(pilot, lab, "primitives-see")
        assert field(lab, "operations").text == "reduce, gather"
