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

from ddptui.analysis.primitive_results import PrimitiveKey, View
from ddptui.analysis.repeats import shortfall
from ddptui.config.trial import Trial
from ddptui.live import headline
from ddptui.live.headline import STALLED
from ddptui.live.state import PrimitivesProgress
from ddptui.report.blocks import What
from ddptui.report.notes import answer
from ddptui.report.rows import what_became
from ddptui.text.words import in_a_row
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import EndedRun
from ddptui.tui.screens.export import ExportableRun, invitation
from ddptui.tui.screens.following import FOLLOWING_KEYS, Feed, Following
from ddptui.tui.widgets.buffers import PrimitiveGrid, PrimitiveList, PrimitiveTimes
from ddptui.tui.widgets.frame import PaneBar, TitleBar
from ddptui.wire.records import Message

PLAY_EVERY_S = 1.0
MOST_TRIALS = 9  # trials that have a digit as their key
LOOK = "Show the buffers after the call, or before it"
MARK = "Keep this primitive in the plot, or remove it"
KINDS = {"reveal": "see", "play": "see", "mark": "measure", "figure": "measure"}  # action -> kind of trial that has it


class PrimitivesScreen(Following, ExportableRun):
    """Follows a run of primitives, and shows its results."""

    CSS_PATH = "primitives.tcss"
    PURPOSE = "What each primitive does to every rank's buffers: guess, then look. Or how long it takes for each size."
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("answer", "answer", "Answer", tooltip="Answer the questions of this lesson"),
        bound("export", "export", "Export"),
        bound("replay", "replay", "Replay"),
        bound("seek_back", "playback('seek', -5)", "Seek back", show=False, tooltip="Replay: go back 5 s"),
        bound("seek", "playback('seek', 5)", "Seek", show=False, tooltip="Replay: go forward 5 s"),
        bound("hold", "playback('pause')", "Hold", show=False, tooltip="Pause or continue the replay"),
        Binding("space", "reveal", "Look", tooltip=LOOK),
        Binding("enter", "reveal", "Look", show=False, tooltip=LOOK, priority=True),  # since the list binds enter, too
        Binding("right", "step(1)", "Next", key_display="→", tooltip="The next primitive"),
        bound("next", "step(1)", "Next", tooltip="The next primitive"),
        Binding("left", "step(-1)", "Previous", key_display="←", show=False, tooltip="The previous primitive"),
        bound("before", "step(-1)", "Previous", show=False, tooltip="The previous primitive"),
        bound("play", "play", "Play", tooltip="Step through all primitives, one step a second, or stop"),
        bound("figure", "figure", "Plot", tooltip="Plot the time, or the bus bandwidth"),
        Binding("space", "mark", "Draw", tooltip=MARK),
        Binding("enter", "mark", "Draw", show=False, tooltip=MARK, priority=True),
        bound("trial", "trial(0)", "Trial", tooltip="The next trial"),
        *(Binding(str(n), f"trial({n})", "Trial by its number", show=False) for n in range(1, MOST_TRIALS + 1)),
        *FOLLOWING_KEYS,
    ]
    SPARE_KEYS = ("play", "playback('faster', 1)", "playback('faster', -1)")
    forms = ("html", "svg", "markdown", "csv", "json")
    _list = query_one(PrimitiveList)

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        if isinstance(feed, EndedRun):
            self.so_far = PrimitivesProgress.of(feed.results)
        else:
            self.so_far = PrimitivesProgress(feed.finished_before)
        self.trial = feed.preset.trials[0]
        self._revealed: str | None = None  # the primitive whose buffers are shown after the call, while it is chosen
        self._is_led = True  # the screen turns to the running trial, until the user chooses one
        self._marked: list[PrimitiveKey] = []
        self._what: What = "time"
        self._playing: Timer | None = None

    @property
    def after(self) -> bool:
        """Whether buffers are shown after the call; first before it, so that the user can guess."""
        return self._revealed is not None and self._revealed == self._list.chosen

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
        self._list_items()
        self._show_chosen()
        line, sentence = self.query_one("#now", Static), self._sentence()
        line.display = bool(sentence)
        if str(line.content) != sentence:
            line.update(Content(sentence))
        feed, live, title = self.feed, self.watched.live, self.query_one(TitleBar)
        if isinstance(feed, EndedRun) or self.is_over:
            status = ", ".join(filter(None, [feed.results.status, shortfall(feed.results)]))
            title.shown = f"{feed.preset.name} ▸ result", f"{feed.run.name}  {status}"
        else:
            calls = f"{live.step} of {live.steps}" if live.steps else ""
            called = f"last call: {live.called}" if live.called and live.status == "running" else ""
            title.shown = self.place(), self.progress(feed, feed.now_ns(), self.pace(), called, calls)

    def _sentence(self) -> str:
        """Return what the title does not show: that a run has not begun, has stalled, or has failed; then why the
        chosen trial's results are incomplete, or the answer."""
        feed, live = self.feed, self.watched.live
        if not isinstance(feed, EndedRun):
            now_ns = self.ended_ns or feed.now_ns()
            states = headline.rank_states(live, {}, now_ns)  # primitives have no training steps to align
            is_stalled = any(state.startswith(STALLED) for state in states.values())
            is_plain = live.status == "running" and live.step and not is_stalled
            if feed.error or not (is_plain or (live.status == "ok" and not live.failures)):
                return feed.error or headline.headline_text(self.watched, states, feed.preset, now_ns)
        if not self.is_over:
            return ""
        trial = next((trial for trial in feed.results.trials if trial.name == self.trial.name), None)
        if trial is not None and trial.status != "ok":
            return f"{trial.name} {what_became(trial)}" + (f": {trial.error.splitlines()[0]}" if trial.error else "")
        said = answer(feed.results)
        if self.has_class("-tall") or self.has_class("-high"):
            differences = [f"Difference: {line}." for line in feed.results.differences or ()]  # of two runs
            questions = invitation(self.exported()[0], self.app)
            return in_a_row([feed.preset.localized_title * bool(said), *said, *differences, questions], ".")
        # With little room, only the first sentence; for buffers nothing, since those of four ranks fill 24 lines.
        return said[0] if said and self.trial.primitives == "measure" else ""

    def _list_items(self) -> None:
        """List the trial's primitives. Until the user chooses a trial or moves the cursor, turn to the running trial,
        and to the primitive that was measured last."""
        is_led = self._is_led and not isinstance(self.feed, EndedRun)
        is_led &= self._list.highlighted in (None, 0 if self.trial.primitives == "see" else self._list.option_count - 1)
        trial = self.trial_under_way()
        if is_led and trial is not None and trial is not self.trial:
            self._turn_to(trial)
        self._list.show(self.so_far.result(self.trial.name), self._marked)
        if is_led and self.trial.primitives == "measure" and self._list.option_count:
            self._list.highlighted = self._list.option_count - 1

    def _turn_to(self, trial: Trial) -> None:
        self.trial = trial
        trials, bar = self.feed.preset.trials, self.query_one(PaneBar)
        bar.display = len(trials) > 1
        titles = {f"trial({number})": f"{number} {each.name}" for number, each in enumerate(trials, start=1)}
        bar.show(titles, f"trial({trials.index(trial) + 1})")
        self.query_one(PrimitiveGrid).display = trial.primitives == "see"
        self.query_one(PrimitiveTimes).display = trial.primitives == "measure"
        self.refresh_bindings()  # the keys differ between buffers and times

    @on(OptionList.OptionHighlighted)
    def _show_chosen(self) -> None:
        result, primitive = self.so_far.result(self.trial.name), self._list.primitive
        if self.trial.primitives == "see":
            view = primitive if isinstance(primitive, View) else None
            note = "playing; a stops it" if self._playing else ""
            self.query_one(PrimitiveGrid).show(view, after=self.after, note=note)
        elif isinstance(primitive, PrimitiveKey) and result is not None:
            self.query_one(PrimitiveTimes).show(result, primitive, self._marked, self._what)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in KINDS:
            return self.trial.primitives == KINDS[action]
        if action in ("export", "replay", "answer"):
            return self.is_over and (action != "answer" or bool(self.feed.preset.questions))
        return len(self.feed.preset.trials) > 1 if action == "trial" else super().check_action(action, parameters)

    def action_reveal(self) -> None:
        self._revealed = None if self.after else self._list.chosen
        self._show_chosen()

    def action_step(self, by: int) -> None:
        self._list.step(by)

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
        elif not self._list.step(1):
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
            self._is_led = False
            self._turn_to(trials[number - 1])
            self.draw()

    def exported(self) -> tuple[EndedRun, str | None]:
        return EndedRun(self.feed.run, self.feed.preset, self.feed.results), self.trial.name
