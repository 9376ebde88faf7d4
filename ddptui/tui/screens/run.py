"""To be written."""

from textual.app import ComposeResult
from textual.widgets import Static

from ddptui.tui.screens.base import LabScreen


class RunScreen(LabScreen):
    def __init__(self, *what: object) -> None:
        super().__init__()

    def compose_content(self) -> ComposeResult:
        yield Static("RunScreen")
