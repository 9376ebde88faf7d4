"""The console as its screens see it. Screens know this interface and not the app, which imports the screens."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ddptui.config.preset import Preset

if TYPE_CHECKING:  # not imported for the first picture, which would have to wait for them
    from ddptui.run.session import Session
    from ddptui.store.runs import Run


class ConsoleApp(Protocol):
    """What a screen may ask of the app. At most one run is under way at a time."""

    runs: Path  # the folder of runs
    refresh_s: float  # between two updates of a screen that follows a run
    session: "Session | None"  # the run that is under way
    leaving: bool  # the app is about to exit

    def launch(self, prepare: Callable[[], Preset]) -> object:
        """Check a preset in a thread, start it, and show the run. `prepare` may raise PresetError."""

    def resume(self, run: "Run", prepare: Callable[[], Preset]) -> object:
        """Check the preset of a run in a thread, launch what is missing, and show the run."""

    def open_run(self, run: "Run") -> object:
        """Show the results of a run on disk."""

    def replay(self, run: "Run") -> object:
        """Show a run on disk as it went."""

    def run_ended(self, session: "Session") -> None:
        """Note that no rank of this run is left."""

    def show_results(self, session: "Session") -> None:
        """Replace the screen that followed this run by its results."""

    def complain(self, title: str, error: str) -> None:
        """Show an error for some seconds."""

    def action_runs(self) -> None:
        """Show the list of earlier runs."""
