"""The ranks of one trial, one by one: who waited, for whom, and what was sent."""

from textual.content import Content

from ddptui.analysis.results import TrialResult
from ddptui.report.rank_columns import COLUMNS
from ddptui.text.tables import fill, telling
from ddptui.tui.widgets.lab_table import LabTable


class RankDetail(LabTable):
    """Shows a row for each rank of the last repeat of a trial."""

    DEFAULT_CSS = "RankDetail { scrollbar-size-horizontal: 0; }"  # it would hide a rank where there are two

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._of = ""

    def show(self, trial: TrialResult | None) -> None:
        """Show the ranks of the trial's last repeat."""
        repeats = trial.repeats if trial else []
        self._of = f"{trial.name}, repeat {len(repeats)}" if trial and repeats else "no repeat has ended"
        ranks = repeats[-1].ranks if repeats else []
        self.fill_columns(telling(fill(COLUMNS, ranks)), [str(rank.rank) for rank in ranks])
        self.call_after_refresh(self._say_what)

    def on_resize(self) -> None:
        self.call_after_refresh(self._say_what)

    def _say_what(self) -> None:
        self.border_subtitle = Content(self._of + ("   ← → more" if self.max_scroll_x > 0 else ""))
