"""The dialog that matches the trials of two runs by hand."""

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content

from ddptui.analysis.results import Results
from ddptui.report.run_diff.matching import Matches, matched_twice, settings_apart
from ddptui.report.run_diff.pairs import Pair
from ddptui.text.drawing import shorten
from ddptui.text.words import listed
from ddptui.tui.keys import clickable
from ddptui.tui.screens.dialogs import ListDialog
from ddptui.tui.widgets.lists import Chooser

WIDEST = 24  # cells of a name


class MatchDialog(ListDialog[Matches | None]):
    """Each trial of A with one of B, or none. Dismissed with the matches; a trial of B is in one of them at most."""

    HEADING, AROUND = "Match trials: A | B", 11
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "turn(1)", "The next trial of B, or none", show=False),
        Binding("left", "turn(-1)", "The trial of B before", show=False),
        Binding("enter", "done", "Compare", show=False, priority=True),  # the list takes enter for itself
    ]

    def __init__(self, a: Results, b: Results, matches: Matches) -> None:
        """`matches`: for each trial of A."""
        super().__init__(trial.name for trial in a.trials)
        self._a = {trial.name: trial for trial in a.trials}
        self._b = {trial.name: trial for trial in b.trials}
        self._matches = dict(matches)

    def keys(self) -> Iterable[Content]:
        yield clickable("← →", "another trial of B", "turn(1)")
        yield clickable("enter", "compare", "done")
        yield clickable("esc", "cancel", "dismiss(None)")

    def _show(self) -> None:
        trials = self.query_one(Chooser)
        for name in self._a:
            trials.replace_option_prompt(name, self.line(name))
        self._explain()

    def line(self, name: str) -> Content:
        other = self._matches[name]
        width = min(WIDEST, max(map(len, self._a)))
        twice = other in matched_twice(self._matches)
        return Content.assemble(
            f"{shorten(name, width):{width}} | ",
            (shorten(other or "none", WIDEST), "$text-error" if twice else "" if other else "dim"),
            " !" if twice else "",
        )

    @on(Chooser.OptionHighlighted)
    def _explain(self) -> None:
        """Say which settings of the chosen pair differ, or what prevents the comparison."""
        if twice := matched_twice(self._matches):
            return self.say(f"{listed(twice)}: matched more than once. Leave one, set the others to none.")
        chosen = self.query_one(Chooser).chosen
        other = self._matches[chosen] if chosen else None
        if chosen is None or other is None:
            return self.say("Compared with none.")
        apart = settings_apart(Pair(self._a[chosen], self._b[other]))
        self.say(f"Their settings differ in {listed(apart)}." if apart else "Their settings are the same.")

    @on(Chooser.OptionSelected)  # by a click: enter is taken
    def _next(self) -> None:
        self.action_turn(1)

    def action_turn(self, by: int) -> None:
        if chosen := self.query_one(Chooser).chosen:
            choices = [None, *self._b]
            self._matches[chosen] = choices[(choices.index(self._matches[chosen]) + by) % len(choices)]
            self._show()

    def action_done(self) -> None:
        if not matched_twice(self._matches):
            self.dismiss(self._matches)
