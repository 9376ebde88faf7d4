"""The Lab screen: what can be asked, changed, saved and run, with the keyboard alone."""

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from textual.screen import Screen
from textual.widgets import Input, Select

from ddptui.config.preset import Preset
from ddptui.engines.local import links
from ddptui.run import prepare
from ddptui.store.presets import LESSONS, all_presets, load
from ddptui.store.runs import Run
from ddptui.text.drawing import cell_len
from ddptui.tui.app import Console
from ddptui.tui.screens import dialogs
from ddptui.tui.screens import lab as lab_screen
from ddptui.tui.screens.dialogs import NameDialog
from ddptui.tui.screens.lab import Lab
from ddptui.tui.widgets.lists import PresetChooser, PresetList, RecentRuns
from ddptui.tui.widgets.tables import TrialTable
from ddptui.tui.widgets.trial_form import Field, TrialForm
from tests.support.builders import journal, two_trials, write_preset, write_run
from tests.support.load import busy_processes
from tests.tui.opened import (
    PATIENCE_S,
    answer,
    choose,
    command,
    each_theme,
    field,
    in_lab,
    on,
    opened,
    reason,
    seen,
    shows,
    survives,
    toasts,
    until,
)


def first_line(lab: Lab) -> str:
    """What is copied."""
    return command(lab).partition("\n")[0]


BROKEN = "[[trial]]\nwrong = [1]\n"
NASTY = 'title = "[/b] \\u001b[31m"\ngroup = "[link"\nabout = "[/] \\u001b]0;x\\u0007"\n[[trial]]\nname = "a"\n'


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Preset]:
    """What would have been run."""
    presets: list[Preset] = []
    monkeypatch.setattr(Console, "_start", lambda _, new: presets.append(new.preset))
    return presets


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where one's own presets are; nothing but the shipped ones is there besides."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "config" / "ddptui" / "presets"


async def test_a_preset_is_shown_with_its_trials_and_commands_and_the_filter_finds_it() -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "quickstart")
        await shows(pilot, "The same net learns")
        for words in (
            "Start here",
            "One process, or two that average their gradients?",
            "baseline one-process · differ in launch, ranks, strategy",
            "not run here yet",
        ):
            assert words in seen(app)
        assert first_line(lab) == "ddptui run quickstart --no-ui"
        assert "workers.single" not in seen(app)
        await pilot.press("E")
        await until(pilot, lambda: "workers.single" in seen(app) and "OMP_NUM_THREADS=" in seen(app))
        await pilot.press("E", *"jj")
        assert first_line(lab) == "ddptui run allreduce-vs-reduce-broadcast --no-ui"
        await pilot.press("g")
        assert "playground" in command(lab)
        await choose(pilot, lab, "quickstart")
        lab.query_one(TrialTable).focus()
        await pilot.press("G", "E")
        await shows(pilot, "Command of trial ddp", "strategy=ddp")
        await pilot.press("E", "escape", "g")
        everything = lab.query_one(PresetChooser).option_count
        await pilot.press("slash", *"delay", "enter")
        assert "1 of " in str(lab.query_one(PresetList).border_subtitle)
        assert lab.query_one(PresetChooser).has_focus
        assert "bottleneck-where" in command(lab)
        await pilot.press("slash", *" nowhere")
        assert lab.query_one(PresetChooser).option_count == 0
        await pilot.press("escape")
        assert lab.query_one(PresetChooser).option_count == everything
        assert lab.query_one(PresetChooser).has_focus
        await pilot.press("slash", *"COLLECT mean")
        assert lab.query_one(PresetChooser).option_count == 0  # all words, wherever
        await pilot.press("escape", "slash", *"Launch")
        assert lab.query_one(PresetChooser).option_count > 2


async def test_titles_and_texts_in_chinese_are_found_and_shown_within_their_frames(own: Path, in_chinese: None) -> None:
    title, about = "梯度平均：哪一个更快？", "比较两种方法：" * 20
    text = f'title = "Which?"\n[zh]\ntitle = "{title}"\nabout = "{about}"\n[[trial]]\nname = "a"\n'
    write_preset(own, text)
    async with in_lab() as (app, pilot, _):
        await pilot.press("slash", *"哪一个更快", "enter")
        await until(pilot, lambda: about[:20] in seen(app))
        lines = seen(app).splitlines()
        assert any(f"─ {title} ─" in line for line in lines)
        assert {cell_len(line) for line in lines if line.endswith(("│", "╮", "╯"))} == {120}


async def test_enter_runs_what_the_cursor_is_on_beside_the_screen(
    started: list[Preset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that is asleep. Where the screen waited for it, nobody would wake it here."""
    woken = threading.Event()

    def prepared(preset: Preset) -> Preset:
        assert woken.wait(PATIENCE_S), "the screen waits"
        return preset

    monkeypatch.setattr(lab_screen, "prepare", prepared)
    async with in_lab() as (_, pilot, lab):
        await pilot.press(*"jjjjjj", "enter", "slash")
        assert not started
        assert not lab.query_one(PresetChooser).has_focus
        woken.set()
        await until(pilot, lambda: started)
    assert [preset.name for preset in started] == ["who-waits"]


SLOW = 'title = "t"\n[[trial]]\nname = "a"\nbottleneck = [{ at = "link", ranks = [1], mbit = 10 }]\n'


async def test_whether_links_can_be_slow_is_tried_beside_the_screen(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = threading.Event()

    def make(*_: object, **__: object) -> CompletedProcess[str]:
        assert made.wait(PATIENCE_S), "the screen waits"
        return CompletedProcess([], 1, stderr="no rights for a slow link")

    write_preset(own, SLOW, "slow.toml")
    links._tried.cache_clear()
    monkeypatch.setattr(links, "_tool", lambda name: name)
    monkeypatch.setattr("ddptui.engines.local.links.subprocess.run", make)
    async with in_lab() as (_, pilot, lab):
        await choose(pilot, lab, "slow")
        assert reason(lab) == ""
        made.set()
        await until(pilot, lambda: reason(lab))
        assert "no rights for a slow link" in reason(lab)
    links._tried.cache_clear()


async def test_a_refusal_is_said_at_once_and_a_change_is_shown_run_and_copied(started: list[Preset]) -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "quickstart")
        await answer(pilot, lab, "epochs", "many")
        assert 'epochs: expected an integer, got "many"' in reason(lab)
        assert field(lab, "epochs").has_class("-wrong")
        assert "Trials without the changes" in seen(app)
        await pilot.press("enter")
        assert not started
        assert not toasts(app)  # it is beside the form
        assert field(lab, "epochs").answer.has_focus
        await pilot.press("ctrl+r")
        assert reason(lab) == ""
        assert field(lab, "epochs").text is None
        assert first_line(lab) == "ddptui run quickstart --no-ui"
        await pilot.press("escape")
        await choose(pilot, lab, "quickstart")
        await pilot.press("e")
        assert field(lab, "launch").answer.has_focus
        await pilot.press("enter", "down", "down", "down", "enter")
        launch = field(lab, "launch").text
        await answer(pilot, lab, "repeats", "4")
        await answer(pilot, lab, "bottleneck", "aggregate 25 ms on 1")
        assert any("One process, or" in line and " changed" in line for line in seen(app).splitlines())
        assert f"--set launch={launch}" in command(lab)
        assert "--repeats 4" in command(lab)
        assert "4 repeats" in seen(app)
        assert reason(lab) == ""
        await pilot.press("f5")
        await until(pilot, lambda: started)  # else escape may come while the run is prepared, and cancel that
        await pilot.press("escape", "y")
        assert app.clipboard == first_line(lab)
    (preset,) = started
    assert preset.repeats == 4
    assert {delay.sleep_ms for trial in preset.trials for delay in trial.bottleneck} == {25}


async def test_the_form_goes_with_the_preset_and_each_keeps_its_own_changes() -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "quickstart")
        await answer(pilot, lab, "repeats", "7")
        await choose(pilot, lab, "who-waits")
        assert first_line(lab) == "ddptui run who-waits --no-ui"
        assert field(lab, "repeats").text is None
        await choose(pilot, lab, "quickstart")
        assert first_line(lab) == "ddptui run quickstart --repeats 7 --no-ui"
        assert field(lab, "repeats").text == "7"
        await choose(pilot, lab, "playground")
        await answer(pilot, lab, "model", "resnet18")
        assert reason(lab) == ""
        assert "--set model=resnet18" in command(lab)
        await choose(pilot, lab, "ddp-by-hand")
        assert "  steps " in seen(app)
        assert not field(lab, "epochs").display
        await answer(pilot, lab, "steps", "30")
        assert "--set steps=30" in command(lab)
        await choose(pilot, lab, "quickstart")
        select = field(lab, "strategy").answer
        assert isinstance(select, Select)
        assert select.prompt == "varies"
        await choose(pilot, lab, "who-waits")
        assert field(lab, "model").answer.prompt == load("who-waits").trials[0].model  # type: ignore[union-attr]


async def test_a_changed_preset_is_saved_as_ones_own(own: Path) -> None:
    async with in_lab() as (app, pilot, lab):
        await choose(pilot, lab, "quickstart")
        await answer(pilot, lab, "world_size", "0")
        assert reason(lab) != ""
        await pilot.press("ctrl+s")
        assert app.screen is lab  # what cannot be is not kept
        await pilot.press("ctrl+r")
        await answer(pilot, lab, "epochs", "2")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        assert app.screen.query_one(Input).value == "quickstart-mine"
        app.screen.query_one(Input).value = "No Name"
        await pilot.press("enter")
        assert "a name may contain" in seen(app)
        app.screen.query_one(Input).value = "who-waits"
        await pilot.press("enter")
        assert "who-waits.toml" in seen(app).replace("\n", "")
        app.screen.query_one(Input).value = "quickstart-mine"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is lab and "quickstart-mine" in command(lab))
        assert {trial.epochs for trial in load(str(own / "quickstart-mine.toml")).trials} == {2}
        assert " changed" not in seen(app)
        assert toasts(app) == [str(own / "quickstart-mine.toml")]


async def test_where_nothing_can_be_written_that_is_said(own: Path) -> None:
    own.parent.mkdir(parents=True)
    own.write_text("a file, where a folder should be")
    async with in_lab() as (app, pilot, _):
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press("enter")
        await until(pilot, lambda: toasts(app))
        assert "cannot be written" in toasts(app)[0]


async def test_a_preset_that_cannot_be_read_says_why(own: Path, started: list[Preset]) -> None:
    write_preset(own, BROKEN, "broken.toml")
    write_preset(own, NASTY, "nasty.toml")
    async with in_lab() as (app, pilot, lab):
        await pilot.press("G")
        await shows(pilot, "unknown key")
        assert lab.query_one(TrialForm).disabled
        assert {each.answer.prompt for each in lab.query(Field) if isinstance(each.answer, Select)} >= {"–"}
        assert [field(lab, key).answer.placeholder for key in ("world_size", "repeats")] == ["–", "–"]  # type: ignore[union-attr]
        await pilot.press("enter", "enter")
        assert "trial[0].wrong: unknown key" in reason(lab)
        assert len(toasts(app)) == 1
        await choose(pilot, lab, "nasty")
        await shows(pilot, "[/] ]0;x")
        await pilot.resize_terminal(200, 60)  # where the list has room for titles
        await until(pilot, lambda: seen(app).count("[/b] \\x1b[31m") == 2)
        assert "\x1b" not in seen(app)
    assert not started


async def test_where_the_reason_is_not_seen_it_is_said_once(own: Path, started: list[Preset]) -> None:
    write_preset(own, BROKEN, "broken.toml")
    async with in_lab(size=(80, 24)) as (app, pilot, lab):
        await choose(pilot, lab, "broken")
        await pilot.press("enter", "enter", "enter")
        assert ["wrong: unknown key" in words for words in toasts(app)] == [True]
    assert not started


async def test_runs_made_meanwhile_are_listed_timed_and_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Run] = []
    monkeypatch.setattr(Console, "open_run", lambda _, run: asked.append(run))
    async with in_lab(runs=tmp_path) as (app, pilot, lab):
        assert "none yet" in seen(app)
        await pilot.press("r")
        assert app.screen is not lab
        run = write_run(tmp_path, two_trials(), journal("a"), journal("b"), journal("a", 2), journal("b", 2))
        write_run(tmp_path, load("quickstart"), *(journal(trial.name) for trial in load("quickstart").trials))
        unreadable = write_run(tmp_path, two_trials(), journal("a"))
        (unreadable.folder / "results.json").write_text("{")
        (unreadable.folder / "environment.json").write_text("{")
        app.pop_screen()
        await until(pilot, lambda: lab.query_one(RecentRuns).option_count == 3)
        await shows(pilot, "? cannot be read")  # as the screen of runs says it
        await choose(pilot, lab, "quickstart")
        await shows(pilot, "3 repeats, ~")  # it was run here
        lab.query_one(RecentRuns).focus()
        names = [line.name for line in lab.query_one(RecentRuns).runs]
        lab.query_one(RecentRuns).highlighted = names.index(run.name)
        await pilot.press("enter")
        assert [run.name for run in asked] == [run.name]


async def test_at_80_by_24_there_is_one_pane_at_a_time_and_six_keys_at_most() -> None:
    async with in_lab(size=(80, 24)) as (app, pilot, lab):
        for keys in ((), ("i",), ("escape", "e")):
            await pilot.press(*keys)
            shown = {binding.binding.action for binding in lab.active_bindings.values() if binding.binding.show}
            assert len(shown - {"command_palette"}) <= 6, shown
        await pilot.press("escape")
        listed = ("escape", "Who waits for whom?")
        for key, words in (("e", "world_size"), listed, ("i", "make something"), ("e", "world_size"), listed):
            await pilot.press(key)  # what has the focus can be seen
            await until(pilot, lambda words=words: words in seen(app) and app.focused and app.focused.region.height)
        await choose(pilot, lab, "quickstart")
        assert "3 trials, 3 repeats" in seen(app)
        assert "Trials" not in seen(app)
        await pilot.press("right")
        await shows(pilot, "baseline one-process")
        assert "Last runs" not in seen(app)
        await pilot.press("escape")
        await shows(pilot, "Last runs")


@each_theme
async def test_no_theme_and_no_size_breaks_it(themes: Iterable[str]) -> None:
    async with in_lab() as (_, pilot, lab):
        await answer(pilot, lab, "bottleneck", "aggregate 10 ms on 1")
        await survives(pilot, themes, "Who waits for whom?")


async def test_the_list_has_its_order_and_ends_with_what_cannot_run_here(own: Path) -> None:
    write_preset(own, 'title = "?"\ngroup = "Start here"\n[[trial]]\nname = "a"\n', "a-first.toml")
    async with in_lab() as (app, pilot, lab):
        options = lab.query_one(PresetChooser).options
        listed = [option.id or str(option.prompt) for option in options]
        assert lab.query_one(PresetChooser).chosen == "playground"
        first = ["Start here", "playground", "quickstart", "Lessons", *LESSONS, "Your own", "a-first", "More"]
        assert listed[: len(first)] == first
        gpus = [preset.name for preset in all_presets()[0]["More"] if preset.group == "GPUs"]
        assert listed[-len(gpus) - 1 :] == ["Not on this machine", *gpus]
        assert "  5 Who waits for whom?" in seen(app)
        assert "  a-first" in seen(app)  # one's own are known by their names
        await pilot.resize_terminal(200, 60)
        await shows(pilot, "  5 who-waits")


async def test_on_a_busy_machine_a_run_starts_once_it_is_quiet(
    started: list[Preset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_screen, "LOOK_EVERY_S", 0.6)
    # the busy processes are of this one, and shall be strangers to it
    monkeypatch.setattr(lab_screen, "descendants", list)
    # beside other tests, this machine would never be quiet
    busy = "other programs kept 1.0 cores busy"
    monkeypatch.setattr(prepare, "busy_now", lambda _: busy)
    async with opened(Path("no-such-folder"), watch_load=True) as (_, pilot):
        with busy_processes(os.cpu_count() or 1):
            await shows(pilot, "⚠ other programs kept ")
            await pilot.press("enter")
            await shows(pilot, "This machine is busy")
            await pilot.press("escape", "enter")
            await shows(pilot, "The run starts once it is quiet", "Start anyway (y)")
            assert not started
        monkeypatch.setattr(prepare, "busy_now", lambda _: "")
        await until(pilot, lambda: bool(started))


async def test_the_load_is_not_read_on_for_an_answered_question() -> None:
    async with on(Screen()) as (app, pilot, _):
        for number, answer in enumerate(("y", None)):
            dialog = dialogs.BusyMachine(f"program {number} kept 1.0 cores busy")
            app.push_screen(dialog)
            await until(pilot, lambda dialog=dialog: any(worker.node is dialog for worker in app.workers))
            reading = next(worker for worker in app.workers if worker.node is dialog)
            dialog.dismiss(answer)
            assert reading.is_cancelled  # so that it never looks for widgets that are gone
