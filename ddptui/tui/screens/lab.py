"""The Lab, the first screen: choose a preset, change it, see what would run and for how long, and run it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import ScreenResume
from textual.getters import query_one
from textual.widgets import Static

from ddptui.analysis.policy import MOST_OTHER_LOAD
from ddptui.analysis.repeats import busy_now, estimate, spell
from ddptui.config.parser import BOTTLENECK, PresetError
from ddptui.config.preset import Preset, links_of
from ddptui.engines.checks import prepare, why_not_here
from ddptui.engines.local import links
from ddptui.host import machine
from ddptui.host.load import LoadMeter, descendants
from ddptui.store import overview, user_presets
from ddptui.store.presets import BrokenPreset, all_presets, describe_size
from ddptui.tui import draft as drafts
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound, name_of
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import NameDialog, Question, save_as_own
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.lists import PresetChooser, PresetList, RecentRuns, Shelves
from ddptui.tui.widgets.tables import TrialTable
from ddptui.tui.widgets.texts import AboutPreset, CommandLine
from ddptui.tui.widgets.trial_form import TrialForm

UNKNOWN = "not run here yet"
LOOK_EVERY_S = 2.0  # interval of load measurements


class Lab(LabScreen):
    """Shows list, text, trials, form and command line of the chosen preset: all at once, or one view at a time."""

    PURPOSE = "Choose a preset, change it, run it."
    CSS_PATH = "lab.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "run", "Run"),
        Binding("f5", "run", "Run", show=False),
        bound("filter", "filter", "Filter"),
        bound("edit", "edit", "Change"),
        bound("read", "read", "Read"),
        Binding("escape", "back", "Back"),
        bound("runs", "runs", "Runs"),
        bound("duplicate", "duplicate", "Duplicate trial", show=False, tooltip="Add a copy of the trial, to change it"),
        bound("copy", "copy", "Copy the command line", show=False),
        bound("command", "command", "Command of the trial", show=False, tooltip="Of its ranks, with the environment"),
        bound("save", "save", "Save the changed preset as my own", show=False),
        bound("rename", "rename", "Rename", show=False, tooltip="Rename a preset of your own"),
        bound("delete", "delete", "Delete", show=False, tooltip="Move a preset of your own to the trash"),
        bound("undo", "undo", "Undo", show=False, tooltip="Bring back the preset that was deleted last"),
        bound("reset", "reset", "Undo all changes", show=False),
    ]

    SPARE_KEYS = ("duplicate", "delete", "undo", "rename")
    _list, _form, _table = query_one(PresetList), query_one(TrialForm), query_one(TrialTable)

    def __init__(self) -> None:
        super().__init__(classes="-list")
        self._shelves: Shelves = {}
        self._presets: dict[str, Preset] = {}
        self._broken: dict[str, str] = {}  # preset -> why it cannot be read
        self._unfit: dict[str, str] = {}  # preset -> why this machine cannot run it
        self._past = overview.RecentResults([], [])
        self._times: dict[str, str] = {}  # preset -> how long it takes
        self._drafts: dict[str, drafts.Draft] = {}  # preset -> unsaved changes
        self._draft = drafts.Draft("")  # the preset under the cursor with its changes
        self._validation = drafts.Validation(None, None, "no preset is chosen")
        self._meter: LoadMeter | None = None  # None until the first measurement

    def compose_content(self) -> ComposeResult:
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield PresetList(id="list", classes="pane")
                yield Static(id="brief", markup=False)
                yield RecentRuns(id="recent", classes="pane")
            with Vertical(id="right"):
                yield AboutPreset(id="about", classes="pane")
                yield TrialTable(id="trials", classes="pane")
                yield TrialForm(id="form")
                yield CommandLine(id="command", classes="pane")

    def on_mount(self) -> None:
        self._list_presets(*all_presets())
        self.query_one(PresetChooser).focus()
        if self.console_app.watch_load:
            self.set_interval(LOOK_EVERY_S, self._look_at_load)

    def on_screen_resume(self, event: ScreenResume) -> None:
        self.call_after_refresh(self._load)

    @work(group="load", exclusive=True)
    async def _load(self) -> None:
        """Read what takes too long before the first screen, and what other screens may have changed."""
        self._past = await in_background(partial(overview.recent_runs, self.console_app.runs))
        shelves, broken = await in_background(all_presets)
        presets = [preset for members in shelves.values() for preset in members]
        self._unfit = await in_background(lambda: {each.name: why for each in presets if (why := why_not_here(each))})
        self.call_later(self._show_loaded, shelves, broken)

    def _show_loaded(self, shelves: Shelves, broken: Sequence[BrokenPreset]) -> None:
        self._show_title()
        self.query_one(RecentRuns).show(self._past.lines)
        self._list_presets(shelves, broken)
        self._show_trials()

    @work(group="busy")
    async def _look_at_load(self) -> None:
        """Show which other programs would disturb a run that starts now."""
        if self.console_app.session is not None:
            self._meter = None  # otherwise its next reading would include the ranks of this run
            return
        if self._meter is None:
            self._meter = await in_background(partial(LoadMeter, descendants, MOST_OTHER_LOAD))
        for load in await in_background(self._meter.read):
            self.console_app.busy = busy_now(load)
            self._show_title()

    def _show_title(self) -> None:
        busy = self.console_app.busy
        self.query_one(TitleBar).shown = "ddptui", f"⚠ {busy}" if busy else machine.in_short()

    def _list_presets(self, shelves: Shelves, broken: Sequence[BrokenPreset]) -> None:
        """List presets that were just read. Changes to the former content of a file are dropped."""
        before, self._shelves = self._presets, shelves
        self._presets = {preset.name: preset for members in shelves.values() for preset in members}
        self._broken = {file.name: file.why for file in broken}
        self._drafts = {name: draft for name, draft in self._drafts.items() if before[name] == self._presets.get(name)}
        self._times = {name: self._time(preset) for name, preset in self._presets.items()}
        self._show_list()

    def _show_list(self) -> None:
        changed = [name for name, draft in self._drafts.items() if draft.is_changed]
        notes = self._times | dict.fromkeys(changed, "changed")
        self._list.show(self._shelves, [*self._broken], notes, [*self._unfit])

    def _time(self, preset: Preset) -> str:
        """Return how long a preset takes, if that is known."""
        if preset.has_no_end:
            return "no end"
        known = estimate(preset, self._past.results)
        return spell(known) if known else ""

    @on(PresetChooser.OptionHighlighted, "#presets")
    def _show(self, event: PresetChooser.OptionHighlighted) -> None:
        name = event.option_id or ""
        preset = self._presets.get(name)
        title, text = (preset.localized_title, preset.localized_about) if preset else (name, self._broken.get(name, ""))
        if why := self._unfit.get(name):
            text = f"**This machine cannot run it.** {why}.\n\n{text}"
        self.query_one(AboutPreset).show(title, text)
        draft = self._drafts.get(name) or drafts.Draft(name)
        self._change(draft, self._form.trial if draft == self._draft else None)  # equal: the list was filled anew

    @on(TrialForm.Changed)
    def _follow_form(self, changed: TrialForm.Changed) -> None:
        self._change(changed.draft, changed.trial)
        self._table.choose(changed.trial)

    def _change(self, draft: drafts.Draft, trial: str | None = None) -> None:
        """Show a draft, and what would run. `trial`: the one that the form changes; None: all."""
        self._draft = draft
        if draft.name in self._presets:
            self._drafts[draft.name] = draft
        self._validation = validation = drafts.validate(draft)  # without slow checks
        self._form.show(self._presets.get(draft.name), draft, validation, trial)
        self._show_trials()
        self._show_list()
        if validation.prepared and not links.is_tried() and any(map(links_of, validation.prepared.trials)):
            self._try_links()

    @work(thread=True, exclusive=True, group="links")
    def _try_links(self) -> None:
        links.problem()  # tests in a subprocess whether this machine can emulate slow links
        self.call_later(lambda: self._change(self._draft, self._form.trial))

    def _show_trials(self) -> None:
        """Show the trials that would run; if the draft is invalid, those of the preset without the changes."""
        preset, before = self._validation.preset, self._presets.get(self._draft.name)
        shown, what = preset or before, self._validation.reason
        title, equal = "Trials without the changes" if shown else "Trials", ""
        if preset and before:
            what = f"{describe_size(preset)}, {self._time(preset) or UNKNOWN}"
            title, equal = f"Trials · {what}", drafts.became_equal(preset, before)
        self._table.show(shown, title, self._validation.left, equal)
        brief = Content.assemble((shown.localized_title if shown else self._draft.name, "bold"), "\n", what)
        self.query_one("#brief", Static).update(brief)
        self._show_command()

    @on(TrialTable.RowHighlighted)
    def _show_command(self) -> None:
        self.query_one(CommandLine).show(self._draft, self._table.trial if self._validation.preset else None)

    @on(RecentRuns.OptionSelected, "#recent")
    def _open(self, event: RecentRuns.OptionSelected) -> None:
        self.console_app.open_run(self.query_one(RecentRuns).runs[event.option_index])

    def on_descendant_focus(self) -> None:
        """Show the focused pane if there is room for only one."""
        in_form, in_left = self._form.has_focus_within, self.query_one("#left").has_focus_within
        self._form.set_class(in_form, "-focused")
        self._turn_to("form" if in_form else "list" if in_left else "text")
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable letter keys in the form, whose fields take letters, and keys that lead to the current view."""
        if self.has_class("-form"):
            return action not in ("filter", "edit", "read", "runs", "copy", "delete", "undo")
        return not (action == "read" and self.has_class("-text")) and not (action == "back" and self.has_class("-list"))

    def action_run(self) -> None:
        if self._validation.prepared is None:
            self._refuse()
        else:
            self.console_app.launch(partial(prepare, self._validation.prepared))

    def _refuse(self) -> None:
        """Go to the wrong field; if nothing was changed, tell the user why the preset cannot run."""
        if self._draft.is_changed:
            self._go("form", self._form.point_to)
        else:
            self.app.clear_notifications()  # otherwise a second try would show the notification twice
            self.console_app.complain("Cannot be run", self._validation.reason)

    def action_filter(self) -> None:
        self._go("list", self._list.filter)

    def action_runs(self) -> None:
        self.console_app.action_runs()

    def action_edit(self) -> None:
        """Change all trials; from the table of trials, only the chosen one."""
        self._change(self._draft, self._table.chosen if self._table.has_focus else None)
        self._go("form", self._form.point_to)

    def _made(self) -> Preset | None:
        """Return the preset with its changes; if they are invalid, tell the user why."""
        if self._validation.preset is None:
            self._refuse()
        return self._validation.preset

    @property
    def _trial(self) -> str:
        """The trial that is changed or, if all are, the one under the cursor."""
        return self._form.trial or self._table.chosen or ""

    @work
    async def action_duplicate(self) -> None:
        """Add a copy of a trial, and change it."""
        made, trial = self._made(), self._trial
        if made is None:
            return
        problem = partial(drafts.copy_problem, made)
        dialog = NameDialog(f"Duplicate trial {trial} as", f"{trial}-2", "Duplicate", problem)
        if (name := await self.app.push_screen_wait(dialog)) is not None:
            self._change(drafts.duplicated(self._draft, trial, name), name)
            self._table.choose(name)
            self._go("form", partial(self._form.point_to, BOTTLENECK))

    def action_remove(self) -> None:
        """Leave a trial out."""
        made = self._made()
        if made is not None and len(made.trials) == 1:
            self.notify("This is the last trial: a run needs one.", severity="warning")
        elif made is not None:
            self._change(drafts.without(self._draft, self._trial))

    def action_command(self) -> None:
        self.query_one(CommandLine).turn()

    def action_read(self) -> None:
        self._go("text", self.query_one(AboutPreset).focus)

    def action_back(self) -> None:
        self._go("list", self.query_one(PresetChooser).focus)

    def _go(self, view: str, focus: Callable[[], object]) -> None:
        if not self.has_class(f"-{view}"):  # a hidden widget must neither get nor keep the focus
            self.set_focus(None)
            self._turn_to(view)
        focus()

    def _turn_to(self, view: str) -> None:
        classes = {f"-{name}": name == view for name in ("list", "text", "form")}
        # These classes matter only if there is no room for all views: otherwise do not restyle the screen.
        self.update_classes(classes, self.has_class("-narrow") or self.has_class("-short"))

    def action_copy(self) -> None:
        line = drafts.command_line(self._draft)
        self.copy(line, line)

    def action_reset(self) -> None:
        self._change(drafts.Draft(self._draft.name))

    @work
    async def action_save(self) -> None:
        name, made = self._draft.name, self._made()
        if made is not None:
            kept = drafts.without_old_figures(made, self._presets[name])
            if (saved := await save_as_own(self.app, name, partial(user_presets.save, kept))) is not None:
                for each in (name, saved):  # changes to a replaced preset are dropped as well
                    self._drafts.pop(each, None)
                self._list_again(saved)

    def _list_again(self, name: str) -> None:
        """List the presets again, with the cursor on this one."""
        self._list_presets(*all_presets())
        self._list.choose(name)

    def _is_own(self, what: str) -> bool:
        """Return whether the preset under the cursor is the user's own. If it is not, tell the user."""
        if why := user_presets.why_not_own(self._draft.name):
            self.notify(f"{why}: it cannot be {what}.", severity="warning", markup=False)
        return not why

    @work
    async def action_rename(self) -> None:
        draft = self._draft
        if self._is_own("renamed"):
            new = await save_as_own(self.app, draft.name, partial(user_presets.rename, draft.name), renames=True)
            if new is not None:
                self._list_again(new)
                self._change(msgspec.structs.replace(draft, name=new))

    @work
    async def action_delete(self) -> None:
        name, undo = self._draft.name, name_of("undo", self.app)
        question = Question(f"Delete your preset {name}? {undo} restores the last deleted preset.", y="Delete")
        if not self._is_own("deleted") or not await self.app.push_screen_wait(question):
            return
        try:
            user_presets.discard(name)
        except PresetError as error:
            self.console_app.complain("Not deleted", str(error))
        else:
            self.notify(f"Moved to the trash. {undo} restores it.", title=name, markup=False)
            self._list_presets(*all_presets())

    def action_undo(self) -> None:
        try:
            name = user_presets.bring_back()
        except PresetError as error:
            self.console_app.complain("Not restored", str(error))
        else:
            self._list_again(name)
            self.notify("Restored from the trash.", title=name, markup=False)
