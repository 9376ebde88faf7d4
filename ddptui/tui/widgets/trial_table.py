"""The trials of a preset, what sets them apart first."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.report.preset_columns import facts
from ddptui.text.printable import printable
from ddptui.tui.widgets.lab_table import Header, LabTable


class TrialTable(LabTable):
    """Shows a row for each trial, and a column for each field that tells them apart."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.run", "Run")]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, classes="pane")
        self._trials: dict[str, Trial] = {}

    @property
    def trial(self) -> Trial | None:
        """Return the trial under the cursor."""
        return self._trials.get(self.chosen or "")

    def show(self, preset: Preset, title: str) -> None:
        """Show the trials of a preset under a title."""
        shown = facts(preset)
        self._trials = {trial.name: trial for trial in preset.trials}
        headers = [Header(fact.header, fact.header, left=True) for fact in shown]
        cells = zip(*(map(printable, fact.cells) for fact in shown), strict=True)
        self.fill(headers, dict(zip(self._trials, cells, strict=True)))
        self.border_title, self.border_subtitle = title, ""
        if len(preset.trials) > 1:
            apart = ", ".join(fact.header for fact in shown[1:] if fact.differs)
            self.border_subtitle = Content(f"baseline {preset.baseline} · they differ in {apart or 'nothing'}")

    def show_none(self) -> None:
        """A preset that cannot be read has no trials."""
        self._trials = {}
        self.fill([], {})
        self.border_title, self.border_subtitle = "Trials", ""
