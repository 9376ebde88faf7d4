"""The list to choose one line from, with the keys that all lists have."""

from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import OptionList

from ddptui.tui.widgets.keys import OPTION_KEYS


class Chooser(OptionList):
    """The base of all lists."""

    BINDINGS: ClassVar[list[BindingType]] = [*OPTION_KEYS]
    DEFAULT_CSS = """
    Chooser, Chooser:focus { border: none; padding: 0; background: transparent; scrollbar-size-vertical: 1; }
    """
