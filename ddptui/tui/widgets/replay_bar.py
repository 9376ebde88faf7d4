"""Where a replay is in its run, as video players show it."""

from collections.abc import Callable, Sequence

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click
from textual.widget import Widget

OVER, TO_COME = "━┿", "─┼"  # a cell of the bar, and one in which a launch has its first step
CHANGED = "b"  # a cell in which delays were put in or taken out by hand
PERCENT, PACE = 6, 31  # cells, also of what stands before them: the bar stays as long, whatever is said


class ReplayBar(Widget):
    """Shows how much of the run is over, where each launch has its first step, where delays were changed by hand, and
    how the replay goes on. A click on the bar goes there."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "ReplayBar { height: 1; padding: 0 1; color: $text-muted; }"
    _share = 0.0
    _firsts: Sequence[float] = ()
    _changes: Sequence[float] = ()
    _pace = ""

    def __init__(self, seek: Callable[[float], None]) -> None:
        """`seek`: goes to the moment at which so much of the run is over, 0 to 1."""
        super().__init__()
        self._seek = seek

    def show(self, share: float, firsts: Sequence[float], changes: Sequence[float], pace: str) -> None:
        """Draw the places of the replay, of the first steps and of the changes, from 0 to 1. `pace`: how it goes on."""
        if (share, firsts, changes, pace) != (self._share, self._firsts, self._changes, self._pace):
            self._share, self._firsts, self._changes, self._pace = share, firsts, changes, pace
            self.refresh()

    @property
    def _cells(self) -> int:
        return max(1, self.size.width - PERCENT - PACE)

    def render(self) -> RenderResult:
        cells = self._cells
        over = round(self._share * cells)
        firsts, changes = (
            {min(cells - 1, int(share * cells)) for share in shares} for shares in (self._firsts, self._changes)
        )
        bar = "".join(
            CHANGED if cell in changes else (OVER if cell < over else TO_COME)[cell in firsts] for cell in range(cells)
        )
        place = f"{self._share:.0%}".rjust(PERCENT)
        return Content.assemble((bar[:over], "$text-primary"), bar[over:], f"{place}  {self._pace}")

    def on_click(self, event: Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and place.x < self._cells:
            self._seek(place.x / self._cells)
