"""The screen for a run of primitives: buffers before and after each call, or times by size."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Resize
from textual.getters import query_one
from textual.timer import Timer
from textual.widgets import OptionList, Static

from ddptui.analysis.extent import shortfall
from ddptui.analysis.primitives.cells import PrimitiveKey
from ddptui.analysis.primitives.results import View
from ddptui.config.trial import Trial
from ddptui.live import headline, rank_states
from ddptui.live.primitives import PrimitivesProgress, current_primitive
from ddptui.live.rank_states import STALLED
from ddptui.report.notes import answer
from ddptui.report.primitives.plot import What
from ddptui.report.rows import what_became
from ddptui.text.words import in_a_row
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.export import ExportableRun
from ddptui.tui.screens.following import BACK_KEYS, REPLAY_KEYS, RUN_KEYS, Feed, Following
from ddptui.tui.widgets.frame import PaneBar, TitleBar
from ddptui.tui.widgets.primitive_times import PrimitiveTimes, SizeTable
from ddptui.tui.widgets.primitives import PrimitiveGrid, PrimitiveList, items_of
from ddptui.wire.records import Message

PLAY_EVERY_S = 1.0
MOST_TRIALS = 9  # trials that have a digit as their key


FORMS = {  # what each file contains
    "html": "one file for a browser: everything, with zoomable plots",
    "svg": "the plot, for a paper or a README",
    "markdown": "all tables, and the findings",
    "csv": "one line per timing, or per buffer",
    "json": "everything, as in results.json",
}


class PrimitivesScreen(Following, ExportableRun):
    """Follows a run of primitives, and shows its results. `after`: whether buffers are shown after the call."""

    CSS_PATH = "primitives.tcss"
    PURPOSE = "What each primitive does to every rank's buffers: guess, then look. Or how long it takes for each size."
    BINDINGS: ClassVar[list[BindingType]] = [
        *RUN_KEYS,
        bound("export", "export", "Export"),
        bound("replay", "replay", "Replay"),
        *REPLAY_KEYS,
        bound("seek_back", "seek(-5)", "Seek back", show=False, tooltip="Replay: go back 5 s"),
        bound("seek", "seek(5)", "Seek", show=False, tooltip="Replay: go forward 5 s"),
        bound("hold", "hold", "Hold", show=False, tooltip="Pause or continue the replay"),
        *BACK_KEYS,
        Binding("space", "reveal", "Look", tooltip="Show the buffers after the call, or before it"),
        Binding("right", "step(1)", "Next", key_display="→", tooltip="The next primitive"),
        bound("next", "step(1)", "Next", tooltip="The next primitive"),
        Binding("left", "step(-1)", "Previous", key_display="←", show=False, tooltip="The previous primitive"),
        bound("before", "step(-1)", "Previous", show=False, tooltip="The previous primitive"),
        bound("play", "play", "Play", tooltip="Step through all primitives, one step a second, or stop"),
        bound("figure", "figure", "Plot", tooltip="Plot the time, or the bus bandwidth"),
        Binding("space", "mark", "Draw", tooltip="Keep this primitive in the plot, or remove it"),
        bound("trial", "trial(0)", "Trial", tooltip="The next trial"),
        *(Binding(str(n), f"trial({n})", "Trial by its number", show=False) for n in range(1, MOST_TRIALS + 1)),
    ]
    SPARE_KEYS = ("faster(1)", "faster(-1)")
    REPLAY_ACTIONS = (*Following.REPLAY_ACTIONS, "hold")

    _list = query_one(PrimitiveList)

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self.after = False
        if isinstance(feed, EndedRun):
            self.so_far = PrimitivesProgress.of(feed.results)
        else:
            self.so_far = PrimitivesProgress(feed.finished_before)
        self.trial = feed.preset.trials[0]
        has_times = any(trial.primitives == "measure" for trial in feed.preset.trials)
        self.forms = {form: holds for form, holds in FORMS.items() if form != "svg" or has_times}
        self._set_classes(self.trial, restyle=False)  # Textual styles the screen when it opens
        self._chosen: str | None = None
        self._led_to: str | None = None  # the running primitive, to which the cursor was moved
        self._leads = not isinstance(feed, EndedRun)  # move the cursor with the run, until the user moves it
        self._marked: list[PrimitiveKey] = []
        self._what: What = "time"
        self._playing: Timer | None = None
        self._answer: list[str] | None = None  # the run's answer; None until it has ended
        self._sentence = ""  # the text of the line at the top

    @property
    def explained(self) -> dict[str, Sequence[tuple[str, str]]]:
        sizes = self.query_one(SizeTable).explained
        return {"Columns of the sizes": sizes} if sizes else {}  # no sizes if buffers are shown

    def compose_content(self) -> ComposeResult:
        yield Static(id="now", markup=False)
        yield from self.compose_damage()
        yield PaneBar()
        with Horizontal(id="body"):
            yield PrimitiveList(id="list", classes="pane")
            yield PrimitiveGrid(id="grid", classes="pane")
            yield PrimitiveTimes(id="times")

    def on_mount(self) -> None:
        self._turn_to(self.trial)
        self._list.focus()  # Textual focuses nothing on a screen that opens while the terminal is in the background

    def on_resize(self, event: Resize) -> None:
        """Redraw for the new size after Textual has set the screen's classes: a finished run is not redrawn by a
        timer."""
        self.call_after_refresh(self.tick)

    # Following

    def take_in(self, messages: Sequence[Message], *, restarted: bool) -> None:
        if restarted:
            self.so_far = PrimitivesProgress()
        self.so_far.add(messages)

    def draw(self) -> None:
        self._lead()
        self._show_chosen()
        if self.is_over and self._answer is None:
            self._answer = answer(self.feed.results)
        if (sentence := self._status() or self._why_incomplete() or self._answered()) != self._sentence:
            self._sentence = sentence
            self.set_class(bool(sentence), "-said")
            self.query_one("#now", Static).update(Content(sentence))
        feed, live, title = self.feed, self.watched.live, self.query_one(TitleBar)
        if isinstance(feed, EndedRun) or self.ended_ns is not None:
            status = ", ".join(filter(None, [feed.results.status, shortfall(feed.results)]))
            title.show(f"{feed.preset.name} ▸ result", f"{feed.run.name}  {status}")
        else:
            calls = f"{live.step} of {live.steps}" if live.steps else ""
            under_way = current_primitive(live, self.trial_under_way())
            title.show(self.place(), self.progress(feed, feed.now_ns(), self.pace(), under_way, calls))

    def announce_end(self, status: str) -> None:
        self.notify(f"{self.feed.preset.name}: {status}", title="The run has ended", timeout=5, markup=False)

    def _answered(self) -> str:
        """Return the question and its answer. With little room, only the answer's first sentence; for buffers nothing,
        since those of four ranks fill a terminal of 24 lines."""
        if not self._answer:
            return ""
        if self.has_class("-tall") or self.has_class("-high"):
            differences = [f"Difference: {line}." for line in self.feed.results.differences or ()]  # of two runs
            return in_a_row([self.feed.preset.title, *self._answer, *differences], ".")
        return self._answer[0] if self.trial.primitives == "measure" else ""

    def _status(self) -> str:
        """Return what the title does not show: that a run has not begun, has stalled, or has failed."""
        if isinstance(self.feed, EndedRun):
            return ""
        if self.feed.error:
            return self.feed.error
        now_ns, live = self.ended_ns or self.feed.now_ns(), self.watched.live
        states = rank_states.states(live, {}, now_ns)  # primitives have no training steps to align
        is_stalled = any(state.startswith(STALLED) for state in states.values())
        is_plain = live.status == "running" and live.step and not is_stalled
        is_done = live.status == "ok" and not live.failures
        return "" if is_plain or is_done else headline.sentence(self.watched, states, self.feed.preset, now_ns)

    def _lead(self) -> None:
        """List the trial's primitives, and keep the cursor on the running one until the user moves it."""
        trial = self.trial_under_way() if self._leads else None
        if trial is not None and trial is not self.trial:
            self._turn_to(trial)
        self._list_items()  # first, since the last item must be in the list before it can be chosen
        if trial is not None and trial.primitives == "measure" and self._list.option_count:
            self._list.highlighted = self._list.option_count - 1
            self._led_to = self._list.chosen

    def _why_incomplete(self) -> str:
        """Return why a trial's results are incomplete; empty if they are complete."""
        trial = next((trial for trial in self.feed.results.trials if trial.name == self.trial.name), None)
        if trial is None or trial.status == "ok" or not self.is_over:
            return ""
        return f"{trial.name} {what_became(trial)}" + (f": {trial.error.splitlines()[0]}" if trial.error else "")

    def _turn_to(self, trial: Trial) -> None:
        self.trial = trial
        trials = self.feed.preset.trials
        bar = {f"trial({number})": f"{number} {each.name}" for number, each in enumerate(trials, start=1)}
        self.query_one(PaneBar).show(bar, f"trial({trials.index(trial) + 1})")
        self._set_classes(trial)
        self.refresh_bindings()  # the keys differ between buffers and times

    def _set_classes(self, trial: Trial, *, restyle: bool = True) -> None:
        classes = {f"-{kind}": trial.primitives == kind for kind in ("see", "measure")}
        self.update_classes(classes | {"-trials": len(self.feed.preset.trials) > 1}, restyle)

    def _list_items(self) -> None:
        self._list.show(items_of(self.so_far.result(self.trial.name), self._marked))

    def _show_chosen(self) -> None:
        result, chosen, primitive = self.so_far.result(self.trial.name), self._list.chosen, self._list.primitive
        if chosen != self._chosen:
            self._chosen, self.after = chosen, False  # show each primitive before the call first, so the user can guess
        if self.trial.primitives == "see":
            view = primitive if isinstance(primitive, View) else None
            note = "playing; a stops it" if self._playing else ""
            self.query_one(PrimitiveGrid).show(view, after=self.after, note=note)
        elif isinstance(primitive, PrimitiveKey) and result is not None:
            self.query_one(PrimitiveTimes).show(result, primitive, self._marked, self._what)

    @on(OptionList.OptionHighlighted)
    def _follow(self) -> None:
        if self._list.chosen != self._led_to and self._led_to is not None:  # the user moved the cursor, not `_lead`
            self._leads = False
        self._show_chosen()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "export" | "replay":
                return self.is_over
            case "reveal" | "play":
                return self.trial.primitives == "see"
            case "mark" | "figure":
                return self.trial.primitives == "measure"
            case "trial":
                return len(self.feed.preset.trials) > 1
            case _:
                return super().check_action(action, parameters)

    @on(OptionList.OptionSelected)
    def _select(self) -> None:  # the list turns enter into this message
        self.action_reveal() if self.trial.primitives == "see" else self.action_mark()

    def action_reveal(self) -> None:
        self._show_chosen()  # keys can be faster than the messages that they cause
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
        """Go one step further: from before a call to after it, then to the next primitive; stop at the end."""
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
        if isinstance(key := self._list.primitive, PrimitiveKey):
            others = [other for other in self._marked if other != key]
            self._marked = others if key in self._marked else [*others, key]
            self._list_items()
            self._show_chosen()

    def action_trial(self, number: int) -> None:
        trials = self.feed.preset.trials
        number = number or (trials.index(self.trial) + 1) % len(trials) + 1  # 0: the next one
        if number <= len(trials):
            self._leads = False
            self._turn_to(trials[number - 1])
            self.draw()

    @property
    def ended(self) -> EndedRun:
        return EndedRun(self.feed.run, self.feed.preset, self.feed.results)

    @property
    def chosen_trial(self) -> str | None:
        return self.trial.name
