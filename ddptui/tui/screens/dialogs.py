"""The dialogs: questions, the columns of a table, the name of a preset to save, and help."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.table import Table
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.events import Click, Key, Resize
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Input, Static
from textual.widgets.option_list import Option

from ddptui.config.parser import PresetError
from ddptui.host.load import READ_EVERY_S
from ddptui.run.prepare import Calm
from ddptui.store import user_presets
from ddptui.text.tables import Filled
from ddptui.tui.background import in_background
from ddptui.tui.keys import bound, clickable, name_of
from ddptui.tui.screens.base import LabScreen
from ddptui.tui.widgets.lists import Chooser
from ddptui.tui.widgets.tables import LabTable

if TYPE_CHECKING:
    from ddptui.engines.local.command import WatchMode

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """The base of all dialogs. Escape cancels, and so does a click beside the dialog: its result is None."""

    CSS_PATH = "dialogs.tcss"  # relative to the subclass's file: all dialogs are in this folder
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    def on_resize(self, event: Resize) -> None:
        """Let the screens below follow: before its own method, Textual calls this, and then lays them out."""
        for screen in self.app.screen_stack:
            if isinstance(screen, LabScreen):
                screen.set_size_classes(event.size)

    def on_click(self, event: Click) -> None:
        if event.widget is self:
            self.action_cancel()

    def action_cancel(self) -> None:
        self.dismiss(None)


BUSY = "This machine is busy: {}. The run starts once it is quiet."


class Question(Dialog[str | None]):
    """A question above its buttons: one to cancel, and one for each answer. The result is the key of the answer. The
    focus starts on the first button, so that a double key does no harm."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "app.focus_next", "Next answer", show=False),
        Binding("left", "app.focus_previous", "Previous answer", show=False),
        Binding("n", "dismiss(None)", "No", show=False),
    ]

    def __init__(self, question: str, **answers: str) -> None:
        """`answers`: their labels, by key; the last one has consequences."""
        super().__init__()
        self._question, self._answers = question, answers

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, id="question", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel (esc)", action="screen.dismiss(None)", compact=True)
                for key, label in self._answers.items():
                    button = Button(f"{label} ({key})", id=key, action=f"screen.dismiss('{key}')", compact=True)
                    button.variant = "error" if key == [*self._answers][-1] else "default"
                    yield button

    def on_key(self, event: Key) -> None:
        if event.key in self._answers:
            event.stop()  # otherwise the screen below would get it, too
            self.dismiss(event.key)


class RunQuestion(Question):
    """A question about a running run; it closes when the run ends."""


class BusyMachine(Question):
    """Tells which other programs keep this machine busy, and closes as soon as it is quiet. The result is None only if
    the run is not to start."""

    def __init__(self, busy: str) -> None:
        super().__init__(BUSY.format(busy), y="Start anyway")
        self._busy = busy

    @work
    async def on_mount(self) -> None:
        calm = await in_background(partial(Calm, self._busy))
        while not await in_background(calm.is_there):
            self.query_one("#question", Static).update(Content(BUSY.format(calm.busy or self._busy)))
            await asyncio.sleep(READ_EVERY_S)
        self.dismiss("y")


LEAVING = "Stop watching this training? It continues on its own hosts. The recorded steps are kept."
ENDING = "This is your own training. End it, or leave it running unwatched? The recorded steps are kept."


async def may_stop(app: App[Any], mode: "WatchMode", question: str, *, yes: str) -> bool:
    """Ask whether to stop a run; for the user's own training, also whether to end the training itself."""
    dialog = RunQuestion(question, y=yes)
    if mode.outlives:
        dialog = RunQuestion(ENDING, l="Leave it running", e="End it")
        if mode.elsewhere:
            dialog = RunQuestion(LEAVING, y="Stop watching")
    answer = await app.push_screen_wait(dialog)
    if answer == "e":
        mode.outlives = False
    return answer is not None


class ColumnsDialog(Dialog[Collection[str] | None]):
    """A list of columns, what the one under the cursor shows, and the keys below it. The result is the keys of the
    chosen columns (none of them: as many as fit)."""

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
            yield Chooser(*(Option(self._line(key), key) for key in self._offered), markup=False)
            yield Static(id="about", markup=False)
            keys = [
                clickable("space", "show or hide", "show_or_hide"),
                clickable("enter", "done", "done"),
                clickable(name_of("reset", self.app), "as fit", "dismiss(())"),
                clickable("esc", "cancel", "dismiss(None)"),
            ]
            yield Static(Content("  ").join(keys), classes="keys")

    def _line(self, key: str) -> str:
        return f"{'✓' if key in self._shown else ' '} {self._offered[key].header}"

    @on(Chooser.OptionHighlighted)
    def _explain(self, event: Chooser.OptionHighlighted) -> None:
        self.query_one("#about", Static).update(Content(self._offered[event.option_id or ""].about))

    @on(Chooser.OptionSelected)  # by a click: enter has another action
    def action_show_or_hide(self) -> None:
        columns = self.query_one(Chooser)
        if key := columns.chosen:
            self._shown ^= {key}
            columns.replace_option_prompt(key, self._line(key))

    def action_done(self) -> None:
        self.dismiss(self._shown)


class NameDialog(Dialog[str | None]):
    """Asks for a name. The result is a valid one. `problem`: says why a name cannot be used; empty: it can."""

    def __init__(self, question: str, suggested: str, yes: str, problem: Callable[[str], str]) -> None:
        super().__init__()
        self._question, self._suggested, self._yes, self._problem = question, suggested, yes, problem

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False)
            yield Input(self._suggested, compact=True)
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


async def save_as_own(
    app: App[object], preset: str, save: Callable[[str], object], *, renames: bool = False
) -> str | None:
    """Save a preset as the user's own, or rename it, after asking for a name, and before another preset is replaced.
    Return the name; None if nothing was done."""
    verb = "Rename" if renames else "Save"
    suggested = user_presets.suggested_name(preset)
    name = await app.push_screen_wait(NameDialog(f"{verb} {preset} as", suggested, verb, user_presets.name_problem))
    if name is None or (renames and name == preset):
        return None
    replace = Question(f"There is a preset {name}. Replace it? The old one goes to the trash.", y="Replace")
    if user_presets.path_of(name).exists() and not await app.push_screen_wait(replace):
        return None
    try:
        save(name)
    except PresetError as error:
        app.notify(str(error), title="Not saved", severity="error", timeout=8, markup=False)
        return None
    app.notify(str(user_presets.path_of(name)), title=f"Saved as {name}", markup=False)
    return name


Entries = Sequence[tuple[str, str]]  # names, each with its explanation


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

    def compose(self) -> ComposeResult:
        nodes = {"This screen": self._of, "Everywhere": self.app, "The chosen pane": self._of.focused}
        sections: dict[str, Entries] = {heading: _keys_of(self._of, node) for heading, node in nodes.items()}
        explained = {f"Columns of the {table.what}": table.explained for table in self._of.query(LabTable)}
        explained = {heading: columns for heading, columns in explained.items() if columns}
        with VerticalScroll(classes="dialog") as pane:
            pane.border_title = " · ".join(["Keys", *explained])
            yield Static(getattr(self._of, "PURPOSE", ""), markup=False)
            for heading, entries in {**sections, **explained}.items():
                if entries:
                    yield Static(Content.styled(heading, "bold"), classes="heading")
                    yield Static(_grid(entries))


def _keys_of(screen: Screen[object], node: DOMNode | None) -> Entries:
    keys: dict[str, list[str]] = {}  # by what they do: keys with the same effect share a line
    for active in screen.active_bindings.values():
        binding = active.binding
        if active.node is node and not binding.system:
            effect = ": ".join(filter(None, [binding.description, binding.tooltip]))
            keys.setdefault(effect, []).append(screen.app.get_key_display(binding))
    return [(" ".join(dict.fromkeys(names)), effect) for effect, names in keys.items()]


def _grid(entries: Entries) -> Table:
    """A grid of names with their explanations, wrapped beside them."""
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(width=18, style="bold", no_wrap=True)
    grid.add_column(ratio=1)
    for name, what in entries:
        grid.add_row(Text(f"  {name}"), Text(what))
    return grid
