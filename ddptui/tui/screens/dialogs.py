"""The dialogs: questions, the columns of a table, the name of a preset to save, and help."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.table import Table
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Click, Resize
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Button, Input, Static
from textual.widgets.option_list import Option

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.host.load import READ_EVERY_S
from ddptui.run.quiet import Calm
from ddptui.store import own_presets
from ddptui.text.tables import Filled
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound, clickable, name_of
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.widgets.lists import Chooser

if TYPE_CHECKING:
    from ddptui.engines.local.foreign import Terms

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """The base of all dialogs. Escape cancels: it dismisses the dialog with None."""

    CSS_PATH = "dialogs.tcss"  # relative to the subclass's file: all dialogs are in this folder
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", show=False)]

    def on_resize(self, event: Resize) -> None:
        """Let the screens below follow: before its own method, Textual calls this, and then lays them out."""
        for screen in self.app.screen_stack:
            if isinstance(screen, LabScreen):
                screen.set_size_classes(event.size)

    def on_click(self, event: Click) -> None:
        """Cancel the dialog if the click is beside it."""
        if event.widget is self:
            self.dismiss(None)


class Question(Dialog[Answer]):
    """A question above its buttons. The focus starts on the first button, so that a double key does no harm."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "app.focus_next", show=False),
        Binding("left", "app.focus_previous", show=False),
    ]

    def __init__(self, question: str, **buttons: tuple[str, str]) -> None:
        """`buttons`: their labels and actions, by id; that of `yes` has consequences."""
        super().__init__()
        self._question, self._buttons = question, buttons

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, id="question", markup=False)
            with Horizontal(classes="buttons"):
                for name, (label, action) in self._buttons.items():
                    button = Button(label, id=name, action=f"screen.{action}", compact=True)
                    button.variant = "error" if name == "yes" else "default"
                    yield button


class Confirm(Question[bool]):
    """A yes-or-no question; the result is True for yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "dismiss(False)", "No", show=False),
        Binding("y", "dismiss(True)", "Yes", show=False),
    ]

    def __init__(self, question: str, *, yes: str = "Yes", no: str = "No") -> None:
        super().__init__(question, no=(f"{no} (esc)", "dismiss(False)"), yes=(f"{yes} (y)", "dismiss(True)"))


class RunQuestion(Confirm):
    """A question about a running run; it closes when the run ends."""


class LettingGo(Question[bool | None]):
    """Asks whether to end a watched training. The result is True to end it, False to leave it running, None to keep
    watching."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "dismiss(False)", "Leave it running", show=False),
        Binding("e", "dismiss(True)", "End it", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(
            "This is your own training. End it, or leave it running unwatched? The recorded steps are kept.",
            no=("Cancel (esc)", "dismiss(None)"),
            leave=("Leave it running (l)", "dismiss(False)"),
            yes=("End it (e)", "dismiss(True)"),
        )


class BusyMachine(Question[bool]):
    """Asks whether to start a run although other programs keep this machine busy. The result is True to start. After
    Wait, the dialog closes with True as soon as the machine is quiet."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "wait", "Wait", show=False),
        Binding("s", "dismiss(True)", "Start anyway", show=False),
    ]

    def __init__(self, busy: str) -> None:
        super().__init__(
            "",
            no=("Cancel (esc)", "dismiss(False)"),
            wait=("Wait (w)", "wait"),
            yes=("Start anyway (s)", "dismiss(True)"),
        )
        self._busy, self._waits = busy, False

    @work
    async def on_mount(self) -> None:
        self._show()
        calm = await in_background(partial(Calm, self._busy))
        while not (await in_background(calm.is_there) and self._waits):
            self._busy = calm.busy
            self._show()
            await asyncio.sleep(READ_EVERY_S)
        if self in self.app.screen_stack:  # otherwise the user has just answered
            self.dismiss(True)

    def action_wait(self) -> None:
        """Start the run as soon as this machine is quiet."""
        self._waits = True
        self.query_one("#wait").display = False
        self._show()

    def _show(self) -> None:
        now = f"This machine is busy: {self._busy}." if self._busy else "This machine is quiet now."
        then = "The run starts once it is quiet." if self._waits else "Wait until it is quiet?" if self._busy else ""
        for question in self.query("#question").results(Static):  # it is gone if the user has just answered
            question.update(Content(f"{now} {then}"))


LEAVING = "Stop watching this training? It continues on its own hosts. The recorded steps are kept."


async def may_stop(app: App[Any], terms: "Terms", question: str, *, yes: str) -> bool:
    """Ask whether to stop a run; for the user's own training, also whether to end the training itself."""
    if not terms.outlives:
        return await app.push_screen_wait(RunQuestion(question, yes=yes, no="Cancel")) is True
    if terms.elsewhere:
        return await app.push_screen_wait(RunQuestion(LEAVING, yes="Stop watching", no="Cancel")) is True
    ends = await app.push_screen_wait(LettingGo())
    if ends:
        terms.outlives = False
    return ends is not None


class ColumnsDialog(Dialog[Collection[str] | None]):
    """A list of columns, what the one under the cursor shows, and the keys below it. Dismissed with the keys of the
    chosen columns (none of them: as many as fit)."""

    AROUND = 12  # lines of the screen that are not for the list
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "show_or_hide", "Show or hide", show=False),
        Binding("enter", "done", "Done", show=False, priority=True),  # with priority, since the list binds enter, too
        bound("reset", "dismiss(())", "As many as fit", show=False),
    ]

    def __init__(self, offered: Sequence[Filled], shown: Collection[str]) -> None:
        super().__init__()
        self._offered = {column.key: column for column in offered}
        self._shown = {*shown}

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Columns"
            yield Chooser(*(Option(self.line(key), key) for key in self._offered), markup=False)
            yield Static(id="about", markup=False)
            yield Static(Content("  ").join(self._keys()), classes="keys")

    def _keys(self) -> Iterable[Content]:
        yield clickable("space", "show or hide", "show_or_hide")
        yield clickable("enter", "done", "done")
        yield clickable(name_of("reset", self.app), "as fit", "dismiss(())")
        yield clickable("esc", "cancel", "dismiss(None)")

    def on_resize(self, event: Resize) -> None:
        # In cells: Textual works out the dialog's own height as if a share of the screen were no limit.
        self.query_one(Chooser).styles.max_height = max(1, self.size.height - self.AROUND)

    @on(Chooser.OptionHighlighted)
    def _explain(self, event: Chooser.OptionHighlighted) -> None:
        about = self._offered[event.option_id].about if event.option_id else ""
        self.query_one("#about", Static).update(Content(about))

    def line(self, key: str) -> str:
        """Return what the list shows of a column."""
        return f"{'✓' if key in self._shown else ' '} {self._offered[key].header}"

    @on(Chooser.OptionSelected)  # by a click: enter has another action
    def action_show_or_hide(self) -> None:
        columns = self.query_one(Chooser)
        if key := columns.chosen:
            self._shown ^= {key}
            columns.replace_option_prompt(key, self.line(key))

    def action_done(self) -> None:
        self.dismiss(self._shown)


class NameDialog(Dialog[str | None]):
    """Asks for a name. The result is a valid one. `problem`: says why a name cannot be used; empty: it can."""

    def __init__(self, question: str, usual: str, yes: str, problem: Callable[[str], str]) -> None:
        super().__init__()
        self._question, self._usual, self._yes, self._problem = question, usual, yes, problem

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False)
            yield Input(self._usual, compact=True)
            yield Static(id="why", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", id="no", action="screen.dismiss(None)", compact=True)
                yield Button(f"{self._yes} (enter)", id="yes", variant="primary", compact=True)

    @on(Input.Changed)
    def _show_refusal(self, event: Input.Changed) -> None:
        self.query_one("#why", Static).update(Content(self._problem(event.value.strip())))

    @on(Input.Submitted)
    @on(Button.Pressed, "#yes")
    def _answer(self) -> None:
        name = self.query_one(Input).value.strip()
        if not self._problem(name):  # otherwise the dialog stays open and shows the problem
            self.dismiss(name)


async def save_as_own(app: App[object], preset: Preset) -> str | None:
    """Ask for a name, and before a preset is replaced; then save. Return the name, or None if not saved."""
    usual = own_presets.suggested_name(preset.name)
    dialog = NameDialog("Save as your own preset, named", usual, "Save", own_presets.name_problem)
    name = await _free_name(app, dialog, "There is a preset {}. Replace it?")
    if name is None or not _done(app, "Not saved", partial(own_presets.save, preset, name)):
        return None
    app.notify(str(own_presets.path_of(name)), title=f"Saved as {name}", markup=False)
    return name


async def rename_own(app: App[object], name: str) -> str | None:
    """Rename one of the user's presets, after asking for a name. Return the new name, or None if it is unchanged."""
    dialog = NameDialog(f"Rename the preset {name}", name, "Rename", own_presets.name_problem)
    new = await _free_name(app, dialog, "There is a preset {}. Replace it? The old one goes to the trash.", but=name)
    if new in (None, name) or not _done(app, "Not renamed", partial(own_presets.rename, name, new)):
        return None
    app.notify(str(own_presets.path_of(new)), title=f"Renamed to {new}", markup=False)
    return new


async def delete_own(app: App[object], name: str) -> bool:
    """Move one of the user's presets to the trash, after a question. Return whether it was moved."""
    undo = name_of("undo", app)
    question = f"Delete your preset {name}? {undo} restores the last deleted preset."
    if not await app.push_screen_wait(Confirm(question, yes="Delete")):
        return False
    if not _done(app, "Not deleted", partial(own_presets.discard, name)):
        return False
    app.notify(f"Moved to the trash. {undo} restores it.", title=name, markup=False)
    return True


async def _free_name(app: App[object], dialog: NameDialog, question: str, but: str = "") -> str | None:
    """Ask for a name; if another preset than `but` has it, ask whether to replace that. Return the name, or None."""
    name = await app.push_screen_wait(dialog)
    if name is None or name == but or not own_presets.path_of(name).exists():
        return name
    return name if await app.push_screen_wait(Confirm(question.format(name), yes="Replace")) else None


def _done(app: App[object], failed: str, change: Callable[[], object]) -> bool:
    """Change the files of presets; show an error if that fails. Return whether it succeeded."""
    try:
        change()
    except PresetError as error:
        app.notify(str(error), title=failed, severity="error", timeout=8, markup=False)
        return False
    return True


EVERYWHERE = (
    ("{help} f1", "Help", ""),
    ("ctrl+p", "Command palette", "presets, runs, views, exports, themes"),
    ("tab shift+tab", "Next pane, previous pane", ""),
    ("{quit} ctrl+q", "Quit", "asks first while a run is under way"),
)
OF_ALL_SCREENS = ("app.focus_next", "app.focus_previous", "screen.copy_text")  # Textual's own actions, not listed
KEYS_WIDTH = 16


class HelpScreen(Dialog[None]):
    """Shows the keys that are active now, on the screen below, everywhere, and in the focused pane; then what else the
    screen explains, such as its columns."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("help", "dismiss(None)", "Close", show=False),
        bound("quit", "dismiss(None)", "Close", show=False),
        Binding("f1", "dismiss(None)", "Close", show=False),
    ]

    def __init__(self, of: Screen[object]) -> None:
        super().__init__()
        self._of = of

    def _everywhere(self) -> Iterator[tuple[str, str, str]]:
        keys = {means: name_of(means, self.app) for means in ("help", "quit")}
        return ((names.format(**keys), *effect) for names, *effect in EVERYWHERE)  # type: ignore[misc]

    def compose(self) -> ComposeResult:
        lines = [Content(getattr(self._of, "PURPOSE", "")), Content("")]
        lines += [Content.styled("This screen", "bold"), *map(_line, _keys_of(self._of, self._of)), Content("")]
        lines += [Content.styled("Everywhere", "bold"), *map(_line, self._everywhere()), Content("")]
        focused = self._of.focused
        if focused is not None and (keys := _keys_of(self._of, focused)):
            titles = [node.border_title for node in focused.ancestors_with_self if isinstance(node, Widget)]
            title = next(filter(None, titles), "with the focus")  # the title of the widget or of its container
            lines += [Content.styled(f"In the pane {title}", "bold"), *map(_line, keys)]
        explained: Mapping[str, Sequence[tuple[str, str]]] = getattr(self._of, "explained", {})
        with VerticalScroll(classes="dialog") as pane:
            pane.border_title, pane.border_subtitle = (
                " · ".join(["Keys", *explained]),
                "esc, or a click beside it, closes",
            )
            yield Static(Content("\n").join(lines))
            for heading, entries in explained.items():
                yield Static(Content.styled(heading, "bold"), classes="heading")
                yield Static(_grid(entries))


def _keys_of(screen: Screen[object], node: Widget) -> list[tuple[str, str, str]]:
    keys: dict[tuple[str, str], list[str]] = {}  # by name and tooltip: keys with the same effect share a line
    for active in screen.active_bindings.values():
        binding = active.binding
        if active.node is node and not binding.system and binding.action not in OF_ALL_SCREENS:
            keys.setdefault((binding.description, binding.tooltip), []).append(screen.app.get_key_display(binding))
    return [(" ".join(dict.fromkeys(names)), *effect) for effect, names in keys.items()]


def _grid(entries: Sequence[tuple[str, str]]) -> Table:
    """A grid of names with their explanations, wrapped beside them."""
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(width=KEYS_WIDTH + 2, style="bold", no_wrap=True)
    grid.add_column(ratio=1)
    for name, what in entries:
        grid.add_row(Text(f"  {name}"), Text(what))
    return grid


def _line(entry: tuple[str, str, str]) -> Content:
    keys, name, what = entry
    return Content.assemble((f"  {keys:{KEYS_WIDTH}} ", "bold"), name, (f"  {what}" if what else "", "dim"))
