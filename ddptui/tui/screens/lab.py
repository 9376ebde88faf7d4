"""The first screen: what can be asked, what would be run for it, and how long that would take."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.widgets import Static

from ddptui.analysis.estimate import estimate
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.engines.preflight import prepare, torchvision_models
from ddptui.host import machine
from ddptui.store import overview as past
from ddptui.store.presets import all_presets, describe_size
from ddptui.text.printable import printable
from ddptui.tui import draft as drafts
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.save import keep_as_own
from ddptui.tui.widgets.about import About
from ddptui.tui.widgets.command_line import CommandLine
from ddptui.tui.widgets.preset_list import PresetChooser, PresetList
from ddptui.tui.widgets.recent_runs import RecentRuns
from ddptui.tui.widgets.title_bar import TitleBar
from ddptui.tui.widgets.trial_form import TrialForm
from ddptui.tui.widgets.trial_table import TrialTable

VIEWS = ("list", "text", "form")
UNKNOWN = "not run here yet"


def again(name: str) -> str:
    """Where to say what the form has no field for."""
    return f"; for what the form lacks, start the console again with `ddptui --preset {name} --set …`"


class Lab(LabScreen):
    PURPOSE = "Choose what to ask, change it, run it."
    CSS_PATH = "lab.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "run", "Run"),
        Binding("f5", "run", "Run", show=False),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("e", "edit", "Change"),
        Binding("i", "read", "Read"),
        Binding("escape", "back", "Back"),
        Binding("r", "runs", "Runs"),
        Binding("c", "copy", "Copy the command line", show=False),
        Binding("ctrl+s", "save", "Save the changed preset as my own", show=False),
        Binding("ctrl+r", "reset", "Take all changes back", show=False),
    ]

    @dataclass
    class Known(Message):
        """What a thread has found out, so that the first screen need not wait for it."""

        past: past.RecentRuns
        machine: str
        models: tuple[str, ...]

    def __init__(self) -> None:
        super().__init__(classes="-list")
        self._presets: dict[str, Preset] = {}
        self._broken: dict[str, str] = {}
        self._changes: dict[str, dict[str, str]] = {}  # by preset: neither saved nor taken back
        self._past = past.RecentRuns([], [])
        self._draft = drafts.Draft("")  # what the cursor is on
        self._judged = drafts.Validation(None, None, "no preset is chosen")

    def compose_content(self) -> ComposeResult:
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield PresetList(id="list")
                yield Static(id="brief", markup=False)
                yield RecentRuns(id="recent")
            with Vertical(id="right"):
                yield About(id="about")
                yield TrialTable(id="trials")
                yield TrialForm(id="form")
                yield CommandLine(id="command")

    def on_mount(self) -> None:
        self._list_presets()
        self.query_one(PresetChooser).focus()

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._look_around)

    @work(thread=True, group="past")
    def _look_around(self) -> None:
        """What takes too long for the first frame, and what a run may have changed."""
        found = past.recent_runs(self.console_app.runs, date.today())
        self.post_message(self.Known(found, machine.in_short(), torchvision_models()))

    def on_lab_known(self, known: Known) -> None:
        self._past = known.past
        self.query_one(TitleBar).show("ddptui", known.machine)
        self.query_one(TrialForm).offer_models(known.models)
        self.query_one(RecentRuns).show(known.past.lines)
        self._note()
        self._show_trials()

    def _list_presets(self) -> None:
        presets, broken = all_presets()
        self._presets = {preset.name: preset for preset in presets}
        self._broken = {one.name: one.why for one in broken}
        self.query_one(PresetList).fill(presets, broken)

    def _note(self) -> None:
        """Beside each preset, how long it would take as it is."""
        notes = {name: str(estimate(preset, self._past.results) or "–") for name, preset in self._presets.items()}
        changed = [name for name, changes in self._changes.items() if changes]
        self.query_one(PresetList).note(notes, changed)

    @on(PresetList.Chosen)
    def _show(self, chosen: PresetList.Chosen) -> None:
        """The preset under the cursor, with what was changed of it."""
        self._draft = drafts.Draft(chosen.name, self._changes.get(chosen.name, {}))
        preset = self._presets.get(chosen.name)
        self.query_one(TrialForm).show(preset, self._draft.changes)
        title, text = (preset.title, preset.about) if preset else (chosen.name, self._broken.get(chosen.name, ""))
        self.query_one(About).show(title, text)
        self._judge()

    @on(TrialForm.Changed)
    def _change(self, changed: TrialForm.Changed) -> None:
        self._draft = drafts.Draft(self._draft.name, changed.changes)
        self._changes[self._draft.name] = changed.changes
        self._judge()
        self._note()

    def _catch_up(self) -> None:
        """Keys can be faster than the messages that follow from them."""
        name, changes = self.query_one(PresetList).chosen, self.query_one(TrialForm).changes
        if name is not None and name != self._draft.name:
            self._show(PresetList.Chosen(name))
        elif self._draft.name in self._presets and changes != self._draft.changes:
            self._change(TrialForm.Changed(changes))

    def _judge(self) -> None:
        """Whether the draft could be run, and what that would be."""
        self._judged = drafts.validate(self._draft)
        reason = self._judged.reason
        self.query_one(TrialForm).judge(reason, drafts.at_fault(self._draft, reason) if reason else None)
        self._show_trials()

    def _show_trials(self) -> None:
        """What would be run; where that cannot be, what the preset has without the changes."""
        table, preset, name = self.query_one(TrialTable), self._judged.preset, self._draft.name
        shown = preset or self._presets.get(name)
        what = (
            f"{describe_size(preset)}, {estimate(preset, self._past.results) or UNKNOWN}"
            if preset
            else self._judged.reason
        )
        if shown is None:
            table.show_none()
        else:
            table.show(shown, f"Trials · {what}" if preset else "Trials without the changes")
        brief = Content.assemble((printable(shown.title if shown else name), "bold"), "\n", printable(what))
        self.query_one("#brief", Static).update(brief)
        self._show_command()

    @on(TrialTable.RowHighlighted)
    def _show_command(self) -> None:
        trial = self.query_one(TrialTable).trial if self._judged.preset else None
        self.query_one(CommandLine).show(self._draft, trial)

    @on(RecentRuns.OptionSelected, "#recent")
    def _open(self, event: RecentRuns.OptionSelected) -> None:
        self.console_app.open_run(self.query_one(RecentRuns).run_at(event.option_index))

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Where there is room for one pane only, it is the one with the focus."""
        in_form, in_list = (self.query_one(pane) in event.widget.ancestors_with_self for pane in ("#form", "#left"))
        self._turn_to("form" if in_form else "list" if in_list else "text")
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the form letters are for its fields; nobody can go where he is."""
        if self.has_class("-form"):
            return action not in ("filter", "edit", "read", "runs", "copy")
        return not (action == "read" and self.has_class("-text")) and not (action == "back" and self.has_class("-list"))

    def action_run(self) -> None:
        """Run the draft, or go to what is wrong with it."""
        self._catch_up()
        if self._judged.settled is None:
            self._refuse()
        else:
            self._start(self._judged.settled)

    @work(exclusive=True, group="start")
    async def _start(self, preset: Preset) -> None:
        """Ask its engine and the GPUs' driver, which is not done at every key: they may take seconds to answer."""
        try:
            ready = await asyncio.to_thread(prepare, preset)
        except PresetError as error:
            words = printable(f"{error}{again(preset.name) if '--set' in str(error) else ''}")
            self.notify(words, title="Cannot be run", severity="error", timeout=8, markup=False)
        else:
            self.console_app.run_preset(ready)

    def _refuse(self) -> None:
        """Where the reason is beside the form, and the form can be seen, it is not said again."""
        reason = printable(self._judged.reason)
        if self._draft.changes:
            self._go("form", partial(self.query_one(TrialForm).point_to, drafts.at_fault(self._draft, reason)))
        elif not self.query_one("#reason").region:
            self.app.clear_notifications()  # this one among them, if somebody tries again
            self.notify(reason, title="Cannot be run", severity="error", timeout=8, markup=False)

    def action_filter(self) -> None:
        self._go("list", self.query_one(PresetList).filter)

    def action_edit(self) -> None:
        self._go("form", partial(self.query_one(TrialForm).point_to, None))

    def action_read(self) -> None:
        self._go("text", self.query_one(About).focus)

    def action_back(self) -> None:
        self._go("list", self.query_one(PresetChooser).focus)

    def _go(self, view: str, focus: Callable[[], object]) -> None:
        """What is not shown cannot have the focus, so it is shown first; what is hidden must not have it still."""
        if self.has_class(f"-{view}"):
            focus()
        else:
            self.set_focus(None)
            self._turn_to(view)
            self.call_after_refresh(focus)

    def _turn_to(self, view: str) -> None:
        for each in VIEWS:
            self.set_class(each == view, f"-{each}")

    def action_runs(self) -> None:
        self.console_app.action_runs()

    def action_copy(self) -> None:
        self._catch_up()
        self.app.copy_to_clipboard(line := drafts.command_line(self._draft))
        self.notify(printable(line), title="Copied", markup=False)

    def action_reset(self) -> None:
        """As the preset has it."""
        self._changes.pop(self._draft.name, None)
        self._show(PresetList.Chosen(self._draft.name))
        self._note()

    @work
    async def action_save(self) -> None:
        """Keep the draft as a preset of one's own, and go there."""
        self._catch_up()
        name, preset = self._draft.name, self._judged.preset
        if preset is None:
            self._refuse()
        elif (kept := await keep_as_own(self.console_app, preset)) is not None:
            self._changes.pop(name, None)
            self._list_presets()
            self._note()
            self.query_one(PresetList).choose(kept)
