"""The dialog that chooses the columns of the table."""

from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.widgets.option_list import Option

from ddptui.text.tables import Filled
from ddptui.tui.widgets.lists import Chooser

KEYS = "space show or hide   enter done\nf as many as fit     esc cancel"


class ColumnsDialog(ModalScreen[frozenset[str] | None]):
    """Dismissed with the keys of the chosen columns (none of them: as many as fit), or with None to change nothing."""

    CSS_PATH: ClassVar[list[str | PurePath]] = ["modal.tcss", "columns.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "show_or_hide", "Show or hide", show=False),
        Binding("enter", "done", "Done", show=False, priority=True),
        Binding("f", "fit", "As many as fit", show=False),
        Binding("escape", "leave", "Cancel", show=False),
    ]

    def __init__(self, offered: Sequence[Filled], shown: Collection[str]) -> None:
        super().__init__()
        self._headers = {column.key: column.header for column in offered}
        self._shown = {*shown}

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = "Columns"
            yield Chooser(*(Option(self._line(key), key) for key in self._headers), markup=False)
            yield Static(KEYS, classes="keys")

    def _line(self, key: str) -> str:
        return f"{'✓' if key in self._shown else ' '} {self._headers[key]}"

    def action_show_or_hide(self) -> None:
        columns = self.query_one(Chooser)
        option = columns.highlighted_option
        if option is not None and option.id is not None:
            self._shown ^= {option.id}
            columns.replace_option_prompt(option.id, self._line(option.id))

    def action_done(self) -> None:
        self.dismiss(frozenset(self._shown))

    def action_fit(self) -> None:
        self.dismiss(frozenset())

    def action_leave(self) -> None:
        self.dismiss(None)
