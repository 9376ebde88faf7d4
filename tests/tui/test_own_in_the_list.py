"""The Lab's list: one's own presets are marked, renamed, deleted, and brought back."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input, Select, Static

from ddptui.store.presets import load
from ddptui.tui.app import Console
from ddptui.tui.screens.dialogs import NameDialog, Question
from ddptui.tui.screens.lab import Lab
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.lists import PresetChooser
from ddptui.tui.widgets.texts import AboutPreset
from tests.tui.opened import answer, choose, field, in_lab, seen, shows, toasts, until
from tests.tui.recordings import ToldAsItGoes, at

TEXT = 'title = "Mine"  # my words\ngroup = "Start here"\n[[trial]]\nname = "a"\n'


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where one's own presets are: one and two."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config" / "ddptui" / "presets"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(TEXT, encoding="utf-8")
    return folder


def is_changed(app: Console, name: str) -> bool:
    """Whether the list says that a preset is changed."""
    return any(f"  {name} " in line and " changed" in line for line in seen(app).splitlines())


def options(lab: Lab) -> set[str | None]:
    return {option.id for option in lab.query_one(PresetChooser).options}


async def in_dialog(app: Console, pilot: Pilot[int], lab: Lab, kind: type, *keys: str) -> None:
    """Press keys in a dialog that opens, and wait until all that follows is done."""
    await until(pilot, lambda: isinstance(app.screen, kind))
    await pilot.press(*keys)
    await until(pilot, lambda: not isinstance(app.screen, kind))
    if app.screen is lab:
        await app.workers.wait_for_complete()
        await pilot.pause()


async def name_it(app: Console, pilot: Pilot[int], lab: Lab, key: str, name: str) -> None:
    """Press a key that asks for a name, and type this one."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, NameDialog))
    app.screen.query_one(Input).value = name
    await in_dialog(app, pilot, lab, NameDialog, "enter")


@pytest.mark.parametrize("size", [(60, 16), (120, 40)])
async def test_ones_own_are_marked_and_so_are_those_with_changes(own: Path, size: tuple[int, int]) -> None:
    (own / "broken.toml").write_text("[", encoding="utf-8")
    async with in_lab(size) as (app, pilot, lab):
        await choose(pilot, lab, "one")
        assert "  one " in seen(app)
        await answer(pilot, lab, "repeats", "5")
        await until(pilot, lambda: is_changed(app, "one"))
        await choose(pilot, lab, "broken")
        assert "! broken " in seen(app)


async def test_one_is_deleted_after_a_question_and_comes_back_and_a_shipped_one_stays(own: Path) -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "quickstart")
        await pilot.press("d", "f2")
        await until(pilot, lambda: len(toasts(app)) == 2)
        assert app.screen is lab
        assert toasts(app) == [
            "quickstart is shipped with ddptui: it cannot be deleted.",
            "quickstart is shipped with ddptui: it cannot be renamed.",
        ]
        await choose(pilot, lab, "one")
        await pilot.press("d")
        await in_dialog(app, pilot, lab, Question, "n")
        assert (own / "one.toml").is_file()
        await pilot.press("d")
        await in_dialog(app, pilot, lab, Question, "y")
        assert not (own / "one.toml").exists()
        assert lab.query_one(PresetChooser).chosen == "two"
        assert "u restores it" in toasts(app)[-1]
        await pilot.press("u")
        await until(pilot, lambda: lab.query_one(PresetChooser).chosen == "one")
        assert (own / "one.toml").read_text(encoding="utf-8") == TEXT
        await pilot.press("u")
        await until(pilot, lambda: "the trash is empty" in toasts(app)[-1])


async def test_one_is_renamed_with_its_unsaved_changes_and_a_name_that_another_has_is_asked_about(own: Path) -> None:
    (own / "two.toml").write_text(TEXT.replace("Mine", "Other"), encoding="utf-8")
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "one")
        for key, is_left in (("n", True), ("y", False)):
            await name_it(app, pilot, lab, "f2", "two")
            await in_dialog(app, pilot, lab, Question, key)
            assert (own / "one.toml").exists() == is_left
        await pilot.press("u")
        await until(pilot, lambda: lab.query_one(PresetChooser).chosen == "two-2")
        assert "Other" in (own / "two-2.toml").read_text(encoding="utf-8")
        await choose(pilot, lab, "two")
        await name_it(app, pilot, lab, "f2", "one")
        await choose(pilot, lab, "one")
        await answer(pilot, lab, "repeats", "5")
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        typed = app.screen.query_one(Input)
        assert typed.value == "one"
        typed.value = "quickstart"
        await pilot.press("enter")
        assert "the name is taken by" in seen(app).replace("\n", "")
        typed.value = "three"
        await in_dialog(app, pilot, lab, NameDialog, "enter")
        assert (own / "three.toml").read_text(encoding="utf-8") == TEXT
        assert not (own / "one.toml").exists()
        assert lab.query_one(PresetChooser).chosen == "three"
        assert is_changed(app, "three")
        await pilot.press("f2")
        await in_dialog(app, pilot, lab, NameDialog, "enter")  # the name that it has
        assert (own / "three.toml").is_file()


async def test_changes_of_a_replaced_one_go_with_it(own: Path) -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "two")
        await answer(pilot, lab, "repeats", "7")
        await until(pilot, lambda: is_changed(app, "two"))
        await choose(pilot, lab, "one")
        await name_it(app, pilot, lab, "ctrl+s", "two")
        await until(pilot, lambda: isinstance(app.screen, Question))
        question = str(app.screen.query_one(Static).content)
        assert question.startswith("There is a preset two. Replace it?")  # as the button says
        assert question.endswith("goes to the trash.")
        assert str(app.screen.query_one("#y", Button).label) == "Replace (y)"
        await in_dialog(app, pilot, lab, Question, "n")
        assert (own / "two.toml").read_text(encoding="utf-8") == TEXT
        await name_it(app, pilot, lab, "ctrl+s", "two")
        await in_dialog(app, pilot, lab, Question, "y")
        assert lab.query_one(PresetChooser).chosen == "two"
        assert field(lab, "repeats").text is None
        assert not is_changed(app, "two")


async def test_published_figures_of_trials_that_were_changed_are_not_saved(own: Path) -> None:
    (own / "one.toml").write_text(f'{TEXT}[[reference]]\ntrial = "a"\ntrain_time_s = 1\n', encoding="utf-8")
    async with in_lab() as (app, pilot, lab):
        for key, value, kept in (("repeats", "5", 1), ("steps", "40", 0)):
            await choose(pilot, lab, "one")
            await answer(pilot, lab, key, value)
            await pilot.press("ctrl+s")
            await in_dialog(app, pilot, lab, NameDialog, "enter")
            await in_dialog(app, pilot, lab, Question, "y")
            saved = load("one")
            assert (saved.repeats, len(saved.references)) == (5, kept)
        assert saved.trials[0].steps == 40


async def save_on_the_run_screen(app: Console, pilot: Pilot[int], lab: Lab, name: str, *answers: str) -> None:
    """Open a run, save its preset as one's own, and go back to the Lab."""
    screen = RunScreen(ToldAsItGoes(at("none", 30)))
    await app.push_screen(screen)
    screen.tick()
    await pilot.press("ctrl+s")
    await until(pilot, lambda: isinstance(app.screen, NameDialog))
    app.screen.query_one(Input).value = name
    await pilot.press("enter")
    if answers:
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press(*answers)
    await until(pilot, lambda: app.screen is screen and any(name in toast for toast in toasts(app)))
    app.pop_screen()
    await until(pilot, lambda: app.screen is lab)


async def test_those_saved_and_replaced_on_the_run_screen_are_listed_as_they_are_now(own: Path) -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "two")
        await answer(pilot, lab, "repeats", "7")
        await until(pilot, lambda: is_changed(app, "two"))
        await save_on_the_run_screen(app, pilot, lab, "two", "y")
        await until(pilot, lambda: not is_changed(app, "two"))
        await until(pilot, lambda: field(lab, "repeats").text is None)
        assert lab.query_one(PresetChooser).chosen == "two"
        assert str(lab.query_one(AboutPreset).border_title) == load("two").title
        presets = lab.query_one(PresetChooser)
        await choose(pilot, lab, "two")
        await save_on_the_run_screen(app, pilot, lab, "watched")
        await until(pilot, lambda: "watched" in options(lab))
        assert presets.chosen == "two"
        await choose(pilot, lab, "watched")
        await pilot.press("d")
        await in_dialog(app, pilot, lab, Question, "y")
        assert "watched" not in options(lab)
        assert not (own / "watched.toml").exists()
        await pilot.press("u")
        await until(pilot, lambda: presets.chosen == "watched")
        assert (own / "watched.toml").is_file()


async def test_in_the_form_and_the_filter_letters_are_the_fields(own: Path) -> None:
    async with in_lab((60, 16)) as (app, pilot, lab):
        await choose(pilot, lab, "one")
        await pilot.press("slash", *"du", "escape", "e", "d", "u")
        assert app.screen is lab
        assert not toasts(app)
        assert (own / "one.toml").is_file()
        await pilot.press("escape")
        await shows(pilot, " r Runs")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.focused, Select) and " r Runs" not in seen(app))
        await pilot.press("r")
        assert app.screen is lab
        await pilot.press("escape", "r")
        await until(pilot, lambda: app.screen is not lab)
