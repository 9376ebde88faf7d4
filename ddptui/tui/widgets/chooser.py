"""A list that one line is chosen from, with the keys that all lists here have."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import OptionList


class Chooser(OptionList):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Next line", show=False),
        Binding("k", "cursor_up", "Line before", show=False),
        Binding("g", "first", "First line", show=False),
        Binding("G", "last", "Last line", show=False),
    ]
    DEFAULT_CSS = """
    Chooser, Chooser:focus { border: none; padding: 0; background: transparent; scrollbar-size-vertical: 1; }
    """
