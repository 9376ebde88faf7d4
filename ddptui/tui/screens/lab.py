"""The Lab, the first screen: choose a preset, change it, see what would run and for how long, and run it."""

from collections.abc import Callable
from datetime import date
from functools import partial
from itertools import count
from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import DescendantFocus, ScreenResume
from textual.getters import query_one
from textual.widgets import Static

from ddptui.analysis.cautions import MOST_OTHER_LOAD
from ddptui.analysis.disturbance import busy_now
from ddptui.analysis.estimate import estimate, spell
from ddptui.config.engine import links_of
from ddptui.config.parser import BOTTLENECK, PresetError
from ddptui.config.preset import Preset
from ddptui.engines.checks import torchvision_models
from ddptui.engines.local import links
from ddptui.engines.preflight import why_not_here
from ddptui.host import machine
from ddptui.host.load import LoadMeter, descendants
from ddptui.store import overview, own_presets
from ddptui.store.presets import FileState, all_presets, describe_size, file_states
from ddptui.tui import draft as drafts
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound
from ddptui.tui.launch_check import prepare_draft
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.screens.dialogs import NameDialog, delete_own, rename_own, save_as_own
from ddptui.tui.widgets.frame import TitleBar
from ddptui.tui.widgets.lists import PresetChooser, PresetList, RecentRuns
from ddptui.tui.widgets.tables import TrialTable
from ddptui.tui.widgets.texts import About, CommandLine
from ddptui.tui.widgets.trial_form import LINE, TrialForm

VIEWS = ("list", "text", "form")
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
        bound(
            "duplicate",
            "duplicate",
            "Duplicate trial",
            show=False,
            tooltip="Add a copy of the chosen trial, to change it",
        ),
        bound("copy", "copy", "Copy the command line", show=False),
        bound("command", "command", "Command of the trial", show=False, tooltip="Of its ranks, with the environment"),
        bound("save", "save", "Save the changed preset as my own", show=False),
        bound("rename", "rename", "Rename", show=False, tooltip="Rename a preset of your own"),
        bound("delete", "delete", "Delete", show=False, tooltip="Move a preset of your own to the trash"),
        bound("undo", "undo", "Undo", show=False, tooltip="Bring back the preset that was deleted last"),
        bound("reset", "reset", "Undo all changes", show=False),
    ]

    SPARE_KEYS = ("duplicate", "delete", "undo", "rename")
    _list, _form = query_one(PresetList), query_one(TrialForm)

    def __init__(self) -> None:
        super().__init__(classes="-list")
        self._presets: dict[str, Preset] = {}
        self._broken: dict[str, str] = {}
        self._unfit: dict[str, str] = {}  # preset -> why this machine cannot run it
        self._files: dict[str, FileState] = {}  # preset -> state of its file when it was listed
        self._drafts: dict[str, drafts.Draft] = {}  # preset -> unsaved changes
        self._past = overview.RecentRuns([], [])
        self._times: dict[str, str] = {}  # preset -> how long it takes; empty: to be worked out
        self._machine = ""  # short description of this machine
        self._meter: LoadMeter | None = None  # None until the first measurement
        self._draft = drafts.Draft("")  # the preset under the cursor with its changes
        self._validation = drafts.Validation(None, None, "no preset is chosen")

    def compose_content(self) -> ComposeResult:
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield PresetList(id="list", classes="pane")
                yield Static(id="brief", markup=False)
                yield RecentRuns(id="recent", classes="pane")
            with Vertical(id="right"):
                yield About(id="about", classes="pane")
                yield TrialTable(id="trials", classes="pane")
                yield TrialForm(id="form")
                yield CommandLine(id="command", classes="pane")

    def on_mount(self) -> None:
        self._list_presets()
        self.query_one(PresetChooser).focus()
        if self.console_app.watch_load:
            self.set_interval(LOOK_EVERY_S, self._look_at_load)

    def on_screen_resume(self, event: ScreenResume) -> None:
        self.call_after_refresh(self._load)

    @work(group="past")
    async def _load(self) -> None:
        """Load what takes too long before the first screen, and what a run may have changed."""
        past = await in_background(partial(overview.recent_runs, self.console_app.runs, date.today()))
        this_machine = await in_background(lambda: (machine.in_short(), torchvision_models()))
        presets = [*self._presets.values()]
        unfit = await in_background(lambda: {each.name: why for each in presets if (why := why_not_here(each))})
        self.call_later(self._show_loaded, past, unfit, *this_machine)

    def _show_loaded(
        self, past: overview.RecentRuns, unfit: dict[str, str], this_machine: str, models: tuple[str, ...]
    ) -> None:
        self._past, self._unfit = past, unfit
        self._times = {}  # of the runs before
        self._machine = this_machine
        self._show_title()
        self._form.offer_models(models)
        self.query_one(RecentRuns).show(past.lines)
        self._list_if_changed()
        self._show_notes()
        self._show_trials()

    @work(group="load")
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
        self.query_one(TitleBar).show("ddptui", f"⚠ {busy}" if busy else self._machine)

    def _list_if_changed(self) -> None:
        """List the presets again if their files have changed, since other screens save presets, too."""
        before, now = self._files, file_states()
        if now != before:
            for name in own_presets.own_names():
                if before.get(name) != now.get(name):
                    self._drafts.pop(name, None)  # these changes applied to the old content of the file
            self._list_presets()

    def _list_presets(self) -> None:
        self._files = file_states()  # first, so that a file written while they are read is read again
        shelves, broken = all_presets()
        self._presets = {preset.name: preset for presets in shelves.values() for preset in presets}
        self._broken = {file.name: file.why for file in broken}
        self._times = {}
        self._list.fill(shelves, broken, own_presets.own_names())

    def _show_notes(self) -> None:
        # Without the changes, so they stay until runs or presets are read again.
        self._times = self._times or {name: self._note(preset) for name, preset in self._presets.items()}
        self._list.show_notes(
            self._times, [name for name, draft in self._drafts.items() if draft.is_changed], [*self._unfit]
        )

    def _note(self, preset: Preset) -> str:
        """Return how long a preset takes, if that is known."""
        if preset.has_no_end:
            return "no end"
        known = estimate(preset, self._past.results)
        return spell(known) if known else ""

    @on(PresetList.Chosen)
    def _show(self, chosen: PresetList.Chosen) -> None:
        draft, preset = self._drafts.get(chosen.name) or drafts.Draft(chosen.name), self._presets.get(chosen.name)
        if draft != self._draft or preset is not self._form.preset:  # else the list was filled anew
            self._draft = draft
            self._form.show(preset, draft)
        title, text = (preset.title, preset.about) if preset else (chosen.name, self._broken.get(chosen.name, ""))
        if why := self._unfit.get(chosen.name):
            text = f"**This machine cannot run it.** {why}.\n\n{text}"
        self.query_one(About).show(title, text)
        self._validate()

    @on(TrialForm.Changed)
    def _follow_form(self, changed: TrialForm.Changed) -> None:
        self._change(changed.draft)
        self.query_one(TrialTable).choose(self._form.trial)

    def _change(self, draft: drafts.Draft) -> None:
        self._draft = self._drafts[draft.name] = draft
        self._validate()
        self._show_notes()

    def _sync_draft(self) -> None:
        # Keys can be faster than the messages that they cause.
        name, (draft, _) = self._list.chosen, self._form.read()
        if name is not None and name != self._draft.name:
            self._show(PresetList.Chosen(name))
        elif self._draft.name in self._presets and draft != self._draft:
            self._change(draft)

    def _validate(self) -> None:
        self._validation = validation = drafts.validate(self._draft)  # without slow checks
        if problem := self._form.read()[1]:
            self._validation = validation = drafts.Validation(validation.preset, None, problem)
        reason, prepared = validation.reason, validation.prepared
        at_fault = LINE if problem else drafts.at_fault(self._draft, reason) if reason else None
        self._form.show_verdict(validation.preset, reason, at_fault)
        self._show_trials()
        if prepared is not None and not links.is_tried() and any(map(links_of, prepared.trials)):
            self._try_links()

    @work(thread=True, exclusive=True, group="links")
    def _try_links(self) -> None:
        links.problem()  # tests in a subprocess whether this machine can emulate slow links
        self.call_later(self._validate)

    def _show_trials(self) -> None:
        """Show the trials that would run; if the draft is invalid, those of the preset without the changes."""
        table, preset, name = self.query_one(TrialTable), self._validation.preset, self._draft.name
        shown = preset or self._presets.get(name)
        what = self._validation.reason
        if preset:
            known = estimate(preset, self._past.results)
            what = f"{describe_size(preset)}, {spell(known) if known else UNKNOWN}"
        title = f"Trials · {what}" if preset else "Trials without the changes" if shown else "Trials"
        equal = drafts.became_equal(preset, self._presets[name]) if preset and self._draft.is_changed else ""
        table.show(shown, title, self._validation.left, equal)
        brief = Content.assemble((shown.title if shown else name, "bold"), "\n", what)
        self.query_one("#brief", Static).update(brief)
        self._show_command()

    @on(TrialTable.RowHighlighted)
    def _show_command(self) -> None:
        trial = self.query_one(TrialTable).trial if self._validation.preset else None
        self.query_one(CommandLine).show(self._draft, trial)

    @on(RecentRuns.OptionSelected, "#recent")
    def _open(self, event: RecentRuns.OptionSelected) -> None:
        self.console_app.open_run(self.query_one(RecentRuns).runs[event.option_index])

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Show the focused pane if there is room for only one."""
        in_form, in_list = (self.query_one(pane) in event.widget.ancestors_with_self for pane in ("#form", "#left"))
        self._form.show_focus(has_it=in_form)
        self._turn_to("form" if in_form else "list" if in_list else "text")
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable letter keys in the form, whose fields take letters, and keys that lead to the current view."""
        if self.has_class("-form"):
            return action not in ("filter", "edit", "read", "runs", "copy", "delete", "undo")
        return not (action == "read" and self.has_class("-text")) and not (action == "back" and self.has_class("-list"))

    def action_run(self) -> None:
        self._sync_draft()
        if self._validation.prepared is None:
            self._refuse()
        else:
            self.console_app.launch(partial(prepare_draft, self._validation.prepared))

    def _refuse(self) -> None:
        """Go to the wrong field, or notify the user why the draft cannot run, unless the form shows the reason."""
        reason = self._validation.reason
        if self._draft.is_changed or self._form.read()[1]:
            self._go("form", partial(self._form.point_to, drafts.at_fault(self._draft, reason) or LINE))
        elif not self.query_one("#reason").region:
            self.app.clear_notifications()  # otherwise a second try would show the notification twice
            self.notify(reason, title="Cannot be run", severity="error", timeout=8, markup=False)

    def action_filter(self) -> None:
        self._go("list", self._list.filter)

    def action_runs(self) -> None:
        self.console_app.action_runs()

    def action_edit(self) -> None:
        """Change all trials; from the table of trials, only the chosen one."""
        self._sync_draft()
        table = self.query_one(TrialTable)
        self._form.show(self._presets.get(self._draft.name), self._draft, table.chosen if table.has_focus else None)
        self._go("form", partial(self._form.point_to, None))

    def _edited_trial(self) -> str | None:
        """Return the trial that is changed or, if all are, the one under the cursor; None if the draft is invalid."""
        self._sync_draft()
        if self._validation.preset is None:
            self._refuse()
            return None
        return self._form.trial or self.query_one(TrialTable).chosen

    @work
    async def action_duplicate(self) -> None:
        """Add a copy of a trial, and change it."""
        trial, made = self._edited_trial(), self._validation.preset
        if trial is None or made is None:
            return
        names = {each.name for each in made.trials}
        usual = next(free for number in count(2) if (free := f"{trial}-{number}") not in names)
        problem = partial(drafts.copy_problem, made)
        dialog = NameDialog(f"Duplicate trial {trial}, named", usual, "Duplicate", problem)
        if (name := await self.app.push_screen_wait(dialog)) is not None:
            self._change(drafts.duplicated(self._draft, trial, name))
            self._form.show(self._presets.get(self._draft.name), self._draft, name)
            self.query_one(TrialTable).choose(name)
            self._go("form", partial(self._form.point_to, BOTTLENECK))

    def action_remove(self) -> None:
        """Leave a trial out."""
        trial, made = self._edited_trial(), self._validation.preset
        if trial is None or made is None:
            return
        if len(made.trials) == 1:
            self.notify("This is the last trial: a run needs one.", severity="warning")
            return
        self._form.show(self._presets.get(self._draft.name), drafts.without(self._draft, trial))
        self._change(drafts.without(self._draft, trial))

    def action_command(self) -> None:
        self.query_one(CommandLine).turn()

    def action_read(self) -> None:
        self._go("text", self.query_one(About).focus)

    def action_back(self) -> None:
        self._go("list", self.query_one(PresetChooser).focus)

    def _go(self, view: str, focus: Callable[[], object]) -> None:
        if not self.has_class(f"-{view}"):  # a hidden widget must neither get nor keep the focus
            self.set_focus(None)
            self._turn_to(view)
        focus()

    def _turn_to(self, view: str) -> None:
        classes = {f"-{name}": name == view for name in VIEWS}
        # These classes matter only if there is no room for all views: otherwise do not restyle the screen.
        self.update_classes(classes, self.has_class("-narrow") or self.has_class("-short"))

    def action_copy(self) -> None:
        self._sync_draft()
        line = drafts.command_line(self._draft)
        self.copy(line, line)

    def action_reset(self) -> None:
        self._drafts.pop(self._draft.name, None)
        self._form.show(self._presets.get(self._draft.name), drafts.Draft(self._draft.name))
        self._change(drafts.Draft(self._draft.name))

    @work
    async def action_save(self) -> None:
        self._sync_draft()
        name, preset = self._draft.name, self._validation.preset
        if preset is None:
            self._refuse()
            return
        preset = drafts.without_old_figures(preset, self._presets[name])
        if (saved := await save_as_own(self.app, preset)) is not None:
            for each in (name, saved):  # changes to a replaced preset are dropped as well
                self._drafts.pop(each, None)
            self._list_again(saved)

    def _list_again(self, name: str | None) -> None:
        """List the presets again, with the cursor on this one."""
        self._list_presets()
        self._show_notes()
        if name is not None:
            self._list.choose(name)

    def _chosen_own(self, what: str) -> str | None:
        """Return the preset under the cursor; if it is not the user's own, notify the user and return None."""
        name = self._list.chosen
        if name is not None and (why := own_presets.why_not_own(name)):
            self.notify(f"{why}: it cannot be {what}.", severity="warning", markup=False)
            return None
        return name

    @work
    async def action_rename(self) -> None:
        self._sync_draft()
        name = self._chosen_own("renamed")
        if name is not None and (new := await rename_own(self.app, name)) is not None:
            draft = self._drafts.pop(name, drafts.Draft(name))  # changes to a replaced preset are dropped
            self._drafts[new] = msgspec.structs.replace(draft, name=new)
            self._list_again(new)

    @work
    async def action_delete(self) -> None:
        name = self._chosen_own("deleted")
        if name is not None and await delete_own(self.app, name):
            beside = self._list.beside
            self._drafts.pop(name, None)
            self._list_again(beside)

    def action_undo(self) -> None:
        try:
            name = own_presets.bring_back()
        except PresetError as error:
            self.notify(str(error), title="Not restored", severity="warning", markup=False)
        else:
            self._list_again(name)
            self.notify("Restored from the trash.", title=name, markup=False)
