"""The primitives, in place of a training: each one seen, step by step, or measured, size by size; as the run goes, as
it went, and when it is over."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.timer import Timer
from textual.widgets import OptionList, Static

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation
from ddptui.analysis.primitives.results import PrimitivesResult, View
from ddptui.config.trial import Trial
from ddptui.live.primitives import PrimitivesProgress, current_primitive
from ddptui.report.primitives.ownership import view_title
from ddptui.report.primitives.plot import What
from ddptui.report.status import what_became
from ddptui.text.printable import printable
from ddptui.tui.screens.following import Feed, Following, Over
from ddptui.tui.widgets.pane_bar import PaneBar
from ddptui.tui.widgets.primitive_grid import PrimitiveGrid
from ddptui.tui.widgets.primitive_list import Item, PrimitiveList
from ddptui.tui.widgets.primitive_times import PrimitiveTimes
from ddptui.wire.records import Message

PLAY_EVERY_S = 1.0
TO_BE_SEEN = ("reveal", "play")
TO_BE_MEASURED = ("mark", "figure")
MOST_TRIALS = 9  # that have a key of their own


class PrimitivesScreen(Following):
    """`after`: the chosen primitive is shown after its call."""

    CSS_PATH = "primitives.tcss"
    PURPOSE = "What each primitive does to every rank's buffers: guess, then look. Or how long it takes, size by size."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "reveal", "Look", tooltip="What the call has left; and what was there before"),
        Binding("right,n", "step(1)", "Next", key_display="→", tooltip="The next primitive"),
        Binding("left,p", "step(-1)", "Before", key_display="←", show=False, tooltip="The primitive before"),
        Binding("a", "play", "Play", tooltip="Go on by itself, a step a second; and stop"),
        Binding("y", "figure", "Plot", tooltip="Draw the time, or the bus bandwidth"),
        Binding("space", "mark", "Draw", tooltip="Keep this one in the plot, whichever is chosen; and take it out"),
        Binding("t", "next_trial", "Trial", tooltip="The next trial"),
        *(Binding(str(n), f"trial({n})", "Trial by its number", show=False) for n in range(1, MOST_TRIALS + 1)),
    ]

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self.after = False
        self.so_far = self._fresh()
        self.trial = feed.preset.trials[0]
        self._chosen: str | None = None
        self._led_to: str | None = None  # what the run has led to; None: somebody chooses for himself
        self._leads = not isinstance(feed, Over)
        self._marked: list[PrimitiveKey] = []
        self._what: What = "time"
        self._playing: Timer | None = None
        self._said = self._trial_shown = ""  # what is on the screen: the line above all, and the trial

    def compose_content(self) -> ComposeResult:
        yield Static(id="now", markup=False)
        yield PaneBar()
        with Horizontal(id="body"):
            yield PrimitiveList(id="list")
            yield PrimitiveGrid(id="grid", classes="pane")
            yield PrimitiveTimes(id="times")

    def on_mount(self) -> None:
        self.set_class(len(self.feed.preset.trials) > 1, "-trials")
        self._list.focus()

    @property
    def _list(self) -> PrimitiveList:
        return self.query_one(PrimitiveList)

    # Following

    def begin_anew(self) -> None:
        self.so_far = self._fresh()

    def take_in(self, messages: Sequence[Message]) -> None:
        self.so_far.add(messages)

    def draw(self) -> None:
        self._lead()
        self._show_trial()
        if (said := self.said() or self._why_not_all()) != self._said:
            self._said = said
            self.set_class(bool(said), "-said")
            self.query_one("#now", Static).update(Content(printable(said)))
        self.show_title(current_primitive(self.watched.live, self.trial_under_way()))

    def _fresh(self) -> PrimitivesProgress:
        return (
            PrimitivesProgress.of(self.feed.results)
            if isinstance(self.feed, Over)
            else PrimitivesProgress(self.feed.there)
        )

    def _lead(self) -> None:
        """Whoever has chosen nothing yet is led to what is being measured."""
        at = self.trial_under_way() if self._leads else None
        if at is None:
            return
        self._turn_to(at)
        if at.primitives == "measure" and (names := self._names(self.so_far.result(at.name))):
            self._show_trial()
            self._led_to = names[-1]
            self._list.choose(self._led_to)

    def _why_not_all(self) -> str:
        """Of a trial that has less to show than it should, or nothing."""
        found = next((each for each in self.feed.results.trials if each.name == self.trial.name), None)
        if found is None or found.status == "ok" or self.is_told:
            return ""
        return f"{self.trial.name} {what_became(found)}" + (f": {found.error.splitlines()[0]}" if found.error else "")

    # Showing

    @property
    def _result(self) -> PrimitivesResult | None:
        return self.so_far.result(self.trial.name)

    def _names(self, result: PrimitivesResult | None) -> list[str]:
        return [item.name for item in self._items(result)]

    def _items(self, result: PrimitivesResult | None) -> list[Item]:
        if result is None:
            return []
        views = [Item(view_title(view), is_wrong=view.error is not None) for view in result.views]
        groups = by_operation(result.cells).items()
        return views + [
            Item(str(which), which in self._marked, any(cell.wrong or cell.error for cell in cells))
            for which, cells in groups
        ]

    def _show_trial(self) -> None:
        if self.trial.name != self._trial_shown:
            self._trial_shown = self.trial.name
            trials = [trial.name for trial in self.feed.preset.trials]
            self.query_one(PaneBar).show(dict(zip(trials, trials, strict=True)), self.trial.name)
        for kind in ("see", "measure"):
            self.set_class(self.trial.primitives == kind, f"-{kind}")
        self._list.show(self._items(self._result))
        self._show_chosen()

    def _show_chosen(self) -> None:
        result, chosen = self._result, self._list.chosen
        if chosen != self._chosen:
            self._chosen, self.after = chosen, False
        views: dict[str, View] = {view_title(view): view for view in result.views} if result else {}
        if self.trial.primitives == "see":
            note = "playing: a stops it" if self._playing else ""
            self.query_one(PrimitiveGrid).show(views.get(chosen or ""), after=self.after, note=note)
        elif result is not None and (which := self._which(chosen)) is not None:
            self.query_one(PrimitiveTimes).show(result, which, self._marked, self._what)

    def _which(self, name: str | None) -> PrimitiveKey | None:
        cells = self._result.cells if self._result else []
        return next((which for which in by_operation(cells) if str(which) == name), None)

    def _turn_to(self, trial: Trial) -> None:
        if trial is not self.trial:
            self.trial = trial
            self.refresh_bindings()

    @on(OptionList.OptionHighlighted)
    def _follow(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if self._list.chosen != self._led_to and self._led_to is not None:
            self._leads = False
        self._show_chosen()

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in TO_BE_SEEN:
            return self.trial.primitives == "see"
        if action in TO_BE_MEASURED:
            return self.trial.primitives == "measure"
        if action in ("trial", "next_trial"):
            return len(self.feed.preset.trials) > 1
        return super().check_action(action, parameters)

    @on(OptionList.OptionSelected)
    def _select(self, event: OptionList.OptionSelected) -> None:
        """A list takes enter for itself."""
        event.stop()
        self.action_reveal() if self.trial.primitives == "see" else self.action_mark()

    def action_reveal(self) -> None:
        """Keys can be faster than the messages that follow from them."""
        self._show_chosen()
        self.after = not self.after
        self._show_chosen()

    def action_step(self, by: int) -> None:
        self._list.step(by)
        self._show_chosen()

    def action_play(self) -> None:
        if self._playing is None:
            self._playing = self.set_interval(PLAY_EVERY_S, self.play_on)
        else:
            self._playing.stop()
            self._playing = None
        self._show_chosen()

    def play_on(self) -> None:
        """What was before the call, then what is after it, then the next one; to the end."""
        if not self.after:
            self.action_reveal()
        elif self._list.step(1):
            self._show_chosen()
        else:
            self.action_play()

    def action_figure(self) -> None:
        self._what = "busbw" if self._what == "time" else "time"
        self._show_chosen()

    def action_mark(self) -> None:
        which = self._which(self._list.chosen)
        if which is not None:
            self._marked = [*(each for each in self._marked if each != which), *([which] * (which not in self._marked))]
            self._show_trial()

    def action_trial(self, number: int) -> None:
        trials = self.feed.preset.trials
        if number <= len(trials):
            self._leads = False
            self._turn_to(trials[number - 1])
            self.draw()

    def action_next_trial(self) -> None:
        trials = self.feed.preset.trials
        self.action_trial((trials.index(self.trial) + 1) % len(trials) + 1)
