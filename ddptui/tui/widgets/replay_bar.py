"""The progress bar of a replay, as in a video player."""

from collections.abc import Callable, Sequence
from typing import Any

from textual.app import RenderResult
from textual.content import Content
from textual.events import Click

from ddptui.tui.widgets.frame import Bar

OVER, TO_COME = "━┿", "─┼"  # a plain cell of the bar, and a cell with the first step of a launch
CHANGED = "b"  # a cell in which the user injected or removed delays
PERCENT, PACE = 6, 31  # fixed widths of the texts in cells, so that the bar keeps its length


class ReplayBar(Bar):
    """Shows the position in the run, the first step of each launch, the user's changes of delays, and the speed. A
    click on the bar seeks to that place."""

    ALLOW_SELECT = False
    shown: tuple[Any, ...] = (0.0, (), (), "")

    def __init__(self, seek: Callable[[float], None]) -> None:
        """`seek`: seeks to a position in the run, from 0 to 1."""
        super().__init__()
        self._seek = seek

    def show(self, share: float, firsts: Sequence[float], changes: Sequence[float], pace: str) -> None:
        """Draw the positions of the replay, of first steps, and of changes, from 0 to 1. `pace`: the speed in words."""
        self.update(share, firsts, changes, pace)

    @property
    def _cells(self) -> int:
        return max(1, self.size.width - PERCENT - PACE)

    def render(self) -> RenderResult:
        share, firsts, changes, pace = self.shown
        cells = self._cells
        over = round(share * cells)
        firsts, changes = self._spots(firsts), self._spots(changes)
        bar = "".join(
            CHANGED if cell in changes else (OVER if cell < over else TO_COME)[cell in firsts] for cell in range(cells)
        )
        place = f"{share:.0%}".rjust(PERCENT)
        return Content.assemble((bar[:over], "$text-primary"), bar[over:], f"{place}  {pace}")

    def _spots(self, shares: Sequence[float]) -> set[int]:
        return {min(self._cells - 1, int(share * self._cells)) for share in shares}

    def on_click(self, event: Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and place.x < self._cells:
            self._seek(place.x / self._cells)
