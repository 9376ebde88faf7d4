"""The Run screen for a lecture hall: the headline and the arrivals, as large as the terminal allows."""

import re
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical

from ddptui.live.monitor import RunMonitor
from ddptui.text.drawing import Line, cell_len, large, paragraph
from ddptui.tui.widgets.canvas import Canvas
from ddptui.tui.widgets.last_steps import LargeArrivals
from ddptui.tui.widgets.panes import last_arrivals

ENDS = [re.compile(end) for end in (r"; | · |\. ", ": ")]  # where the part in large letters may end, the longest first


class Headline(Canvas):
    """Draws a sentence centered: its first part in large letters, if they fit, and the rest below."""

    _sentence = ""

    def show(self, sentence: str) -> None:
        """Draw this sentence."""
        if sentence != self._sentence:
            self._sentence = sentence
            self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        lines = _centered(self._sentence, width)
        for end in ENDS:
            first, *rest = end.split(self._sentence, maxsplit=1)
            below = _centered(" ".join(rest), width)
            if drawn := large(first, width, height - len(below)):
                lines = [*drawn, *below]
                break
        return [*[[]] * ((height - len(lines)) // 2), *([(line, "strong")] for line in lines)]


def _centered(words: str, width: int) -> list[str]:
    return [" " * ((width - cell_len(line)) // 2) + line for line in paragraph(words, width)]


class Lecture(Vertical):
    """The headline, and below it the arrivals in bars that fill the rest."""

    DEFAULT_CSS = (
        "Lecture { display: none; layer: lecture; dock: top; height: 100%; padding: 0 1; background: $background; }"
    )

    def compose(self) -> ComposeResult:
        yield Headline()
        yield LargeArrivals()

    def show(self, sentence: str, watched: RunMonitor) -> None:
        """Draw the headline and the last arrivals, dimmed if they are the previous trial's."""
        self.query_one(Headline).show(sentence)
        arrivals = self.query_one(LargeArrivals)
        arrivals.set_class(watched.shown is not watched, "-before")
        arrivals.show(*last_arrivals(watched.shown))
