"""The Run screen of a running training run, or of its replay: ranks, waits, timeline, losses, results so far.

While the run trains, its keys inject delays: they choose a rank, a site and a length, and inject or remove the delay.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import DataTable, Static

from ddptui.config.checks import USUAL_MS, Delays, delay_of, next_length, sites, still_to_come, with_delay, without
from ddptui.config.trial import Site, Trial
from ddptui.live import headline
from ddptui.run.playback import Playback
from ddptui.run.runner import Session
from ddptui.store import user_presets
from ddptui.tui.draft import without_old_figures
from ddptui.tui.keys import bound
from ddptui.tui.screens.base import PanedScreen, pane_keys
from ddptui.tui.screens.dialogs import save_as_own
from ddptui.tui.screens.following import FOLLOWING_KEYS, Following
from ddptui.tui.widgets.charts import LineChart
from ddptui.tui.widgets.frame import PaneBar, ProgressBar, TitleBar
from ddptui.tui.widgets.panes import TITLES, DelayBar, Lecture, Panes, Picture
from ddptui.tui.widgets.rank_panes import RankTable
from ddptui.tui.widgets.result_panes import Comparison
from ddptui.tui.widgets.texts import WherePane
from ddptui.wire.records import Message

STEP = "Replay: go one step of all ranks forward or back, and pause"
LECTURE = "Show only headline and arrivals, for a projector, and back"
TRIAL = "Replay: go to the first step of the next or the previous trial"
CHANGE = "Replay: go to the next or the previous change of delays by hand"
PLACE = "Replay: go to this many tenths of the run"


class RunScreen(PanedScreen, Following):
    """Follows a training run. When a run succeeds, its results replace this screen; a failed run stays visible."""

    CSS_PATH = "run.tcss"
    PURPOSE = "A running run: ranks, arrivals, timeline, loss, and the table so far."
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("delay", "delay", "Delay", tooltip="Inject the chosen delay into the chosen rank, or remove it"),
        bound("no_delays", "no_delays", "Remove all delays", show=False),
        bound("where", "where", "Where", show=False, tooltip="Choose where in a step the delay is"),
        bound("more", "longer(1)", "Longer", show=False, tooltip="Make the delay longer"),
        bound("less", "longer(-1)", "Shorter", show=False, tooltip="Make the delay shorter"),
        Binding("down", "rank(1)", "Next rank", show=False),
        Binding("up", "rank(-1)", "Previous rank", show=False),
        bound("save", "save", "Save as mine", show=False, tooltip="Save the preset with these delays as your own"),
        Binding("space", "hold", "Hold", tooltip="Freeze the screen while the run continues"),
        Binding("space", "playback('pause')", "Pause", tooltip="Pause or continue the replay"),
        bound("lecture", "lecture", "Lecture", show=False, tooltip=LECTURE),
        bound("stacks", "stacks", "Stacks", show=False, tooltip="Ask every rank where in its code it is, now"),
        bound("step", "playback('step', 1)", "Step", show=False, tooltip=STEP),
        bound("step_back", "playback('step', -1)", "Step back", show=False, tooltip=STEP),
        bound("next", "playback('seek_launch', 1)", "Trial", show=False, tooltip=TRIAL),
        bound("before", "playback('seek_launch', -1)", "Previous trial", show=False, tooltip=TRIAL),
        bound("delay", "playback('seek_change', 1)", "Next change", show=False, tooltip=CHANGE),
        bound("no_delays", "playback('seek_change', -1)", "Previous change", show=False, tooltip=CHANGE),
        Binding("left", "playback('seek', -5)", "Seek", show=False, key_display="← →", tooltip="Replay: go back 5 s"),
        Binding("right", "playback('seek', 5)", "Seek", show=False, tooltip="Replay: go forward 5 s"),
        # With priority, since tables bind enter, too.
        Binding(
            "enter", "results", "Results", tooltip="Show the results; ends a training that has no end", priority=True
        ),
        bound("log_scale", "log_scale", "Log scale", show=False, tooltip="Switch the logarithmic scale on or off"),
        *FOLLOWING_KEYS,
        *(
            Binding(f"{n}", f"playback('seek_share', {n / 10})", "Place", show=False, key_display="0–9", tooltip=PLACE)
            for n in range(10)
        ),
        *pane_keys(TITLES),  # after the tenths, which are disabled in a run under way
    ]
    SPARE_KEYS = (
        "playback('faster', 1)", "playback('faster', -1)", "playback('seek', -5)", "playback('step', 1)",
        "playback('seek_launch', 1)", "playback('seek_change', 1)",
    )  # fmt: skip

    feed: Session | Playback
    panes = query_one(Panes)
    _ranks = query_one(RankTable)

    def __init__(self, feed: Session | Playback) -> None:
        super().__init__(feed)
        self.held = False
        self._picture: Picture | None = None  # the data that was drawn last
        self._site: Site = "backward"  # site of the next delay
        self._sleep_ms: float = USUAL_MS
        # Launch time and delays that were sent, not yet confirmed; the time is 0 until the first launch starts.
        self._sent: tuple[int, Delays] | None = None

    def compose_content(self) -> ComposeResult:
        yield ProgressBar(self.feed.seek_share if isinstance(self.feed, Playback) else None)
        yield Static(id="now", markup=False)
        yield from self.compose_damage()
        yield DelayBar()
        with Vertical(id="below"):
            yield PaneBar()
            yield Panes(numbered=not isinstance(self.feed, Playback))  # in a replay, digits choose a place in the run
            yield Lecture()

    def on_mount(self) -> None:
        self.query_one(Comparison).pinned = self.console_app.settings.columns

    def take_in(self, messages: Sequence[Message], *, restarted: bool) -> None:
        trial = self.trial_under_way()
        if self._sent is not None and self._sent[0] == 0 and trial is not None and self.watched.live.trial is not None:
            self._send(trial, self._sent[1])

    def draw(self) -> None:
        if self.ended_ns is not None and self.feed.results.status == "ok" and self.app.screen is self:
            self.action_results()
        elif self._picture is None or not (self.held and self.goes_on):  # the user must not miss the end
            self._draw()

    def _draw(self) -> None:
        self._picture = picture = self._look()  # shared by header and panes, so that they agree
        sentence = self.feed.error or headline.headline_text(
            self.watched, picture.states, self.feed.preset, picture.now_ns
        )
        self.query_one("#now", Static).update(Content(sentence), layout=False)  # a layout would triple the cost
        parts = ["on hold: space continues" if self.held else "", headline.checks(self.watched)]
        parts.append(headline.steps(self.watched.live))
        self.query_one(TitleBar).shown = self.place(), self.progress(self.feed, picture.now_ns, *parts)
        if self.has_class("-lecture"):
            self.query_one(Lecture).show(sentence, picture.watched)
        else:
            self.panes.draw(picture, self.feed)
        if isinstance(self.feed, Playback):
            course = self.feed.course
            share = course.share(picture.now_ns)
            firsts, changes = (list(map(course.share, marks)) for marks in (course.firsts_ns, course.changes_ns))
            self.query_one(ProgressBar).show(share, f"  {self.pace()}", firsts, changes)
        if isinstance(self.feed, Session):
            live, preset = self.watched.live, self.feed.preset
            launches = headline.launches(preset, live)
            done = headline.part_done(preset, live) if launches > 1 else None
            self.query_one(ProgressBar).show(done, " of the run")
            self._show_delay()

    def _look(self) -> Picture:
        now_ns = self.ended_ns or self.feed.now_ns()
        self.watched.look(now_ns, at_once=isinstance(self.feed, Playback) and self.feed.paused)
        waits_for = self.watched.judgement.waits_for if self.watched.judgement else {}
        return Picture(self.watched, headline.rank_states(self.watched.live, waits_for, now_ns), now_ns)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("zoom", "pane", "next_pane") and self.has_class("-lecture"):
            return False
        if action == "results":
            trial, has_begun = self.trial_under_way(), self.watched.live.trial is not None
            return not self.goes_on or (has_begun and trial is not None and trial.trains_until_stopped)
        if parameters[:1] == ("seek_change",) and isinstance(self.feed, Playback):
            return bool(self.feed.course.changes_ns)
        return super().check_action(action, parameters)

    def action_hold(self) -> None:
        self.held = not self.held
        self._draw()

    def action_lecture(self) -> None:
        self.minimize()  # otherwise a zoomed pane would cover the lecture
        self.toggle_class("-lecture")
        self._draw()

    def action_results(self) -> None:
        if isinstance(self.feed, Playback):
            self.console_app.open_run(self.feed.run)  # the whole run, wherever the replay is
        elif self.goes_on:
            self.skip(self.watched.live.launched_ns, "The training ends after one of its next steps.")
        else:
            from ddptui.tui.screens.result import ResultScreen  # late, so that the first screen appears sooner

            self.app.switch_screen(ResultScreen(self.feed.run, self.feed.preset, self.feed.results))

    def action_pane(self, name: str) -> None:
        super().action_pane(name)  # and draw only this one, so that it appears at once
        self.panes.draw_pane(self.panes.pane(name), self._picture or self._look(), self.feed)

    def action_stacks(self) -> None:
        if self.watched.live.status == "running":
            self.controls.ask_for_stacks(self.watched.live.launched_ns)
            self.action_pane("where")
            pane = self.query_one(WherePane)
            pane.border_subtitle = "asked: each rank answers with its stack"  # a toast would cover it

    def action_log_scale(self) -> None:
        chart = self.query_one(LineChart)
        chart.logarithmic = not chart.logarithmic
        chart.redraw()

    # Delays

    def _show_delay(self) -> None:
        """Show the chosen delay, and the delays that the ranks have."""
        bar, trial = self.query_one(DelayBar), self.trial_under_way()
        bar.display = self.goes_on
        if trial is not None:
            bar.show(self._ranks.rank, self._site_in(trial), self._sleep_ms, self._delays(trial))

    def _site_in(self, trial: Trial) -> Site:
        possible = sites(trial)
        return self._site if self._site in possible else possible[-1]

    def _delays(self, trial: Trial) -> Delays:
        """Return the ranks' delays, those already sent to them included."""
        live = self.watched.live
        if self._sent is not None and self._sent[0] == live.launched_ns:
            return self._sent[1]
        return still_to_come(trial.bottleneck if live.injected is None else live.injected)

    def _chosen(self) -> tuple[Trial, int, Site, Delays] | None:
        """Return the trial under way, the chosen rank and site, and the ranks' delays; None before the first rank."""
        trial, rank = self.trial_under_way(), self._ranks.rank
        if trial is None or rank is None:
            return None
        return trial, rank, self._site_in(trial), self._delays(trial)

    def _send(self, trial: Trial, delays: Delays) -> None:
        """Give the ranks these delays; before the first launch, keep them for it."""
        live = self.watched.live
        if live.trial is not None and live.status != "running":
            self.notify(f"Trial {trial.name} has ended.", title="Delay not injected", severity="warning", markup=False)
            return
        self._sent = live.launched_ns, delays
        if live.trial is not None:
            self.controls.inject(delays, live.launched_ns)
        self._show_delay()

    def action_delay(self) -> None:
        """Inject the chosen delay into the chosen rank, or remove it if the rank has it."""
        if chosen := self._chosen():
            trial, rank, at, delays = chosen
            has_it = delay_of(delays, rank, at)
            self._send(trial, without(delays, rank, at) if has_it else with_delay(delays, rank, at, self._sleep_ms))

    def action_no_delays(self) -> None:
        trial = self.trial_under_way()
        if trial is not None and self._delays(trial):
            self._send(trial, ())

    def action_where(self) -> None:
        if (trial := self.trial_under_way()) is not None:
            possible = sites(trial)
            self._site = possible[(possible.index(self._site_in(trial)) + 1) % len(possible)]
            self._choose_length()

    def action_rank(self, by: int) -> None:
        """Choose the next or the previous rank; after the last one, the first."""
        self._ranks.move_cursor(row=(self._ranks.cursor_row + by) % max(1, self._ranks.row_count))
        self._choose_length()

    @on(DataTable.RowHighlighted, "#ranks")
    def _choose_length(self) -> None:
        """If the chosen rank has a delay at the chosen site, show its length: the keys then change this delay."""
        if chosen := self._chosen():
            _, rank, at, delays = chosen
            if delay := delay_of(delays, rank, at):
                self._sleep_ms = delay.sleep_ms
            self._show_delay()

    def action_longer(self, by: int) -> None:
        """Choose another length; if the rank has this delay, change it at once."""
        self._sleep_ms = next_length(self._sleep_ms, by)
        if chosen := self._chosen():
            trial, rank, at, delays = chosen
            if delay_of(delays, rank, at):
                self._send(trial, with_delay(delays, rank, at, self._sleep_ms))
            self._show_delay()

    @work
    async def action_save(self) -> None:
        """Save the preset, with the ranks' current delays in the trial under way."""
        trial, preset = self.trial_under_way(), self.feed.preset
        if trial is not None:
            others = tuple(each for each in trial.bottleneck if each not in still_to_come(trial.bottleneck))
            changed = msgspec.structs.replace(trial, bottleneck=(*others, *self._delays(trial)))
            trials = tuple(changed if each is trial else each for each in preset.trials)
            kept = without_old_figures(msgspec.structs.replace(preset, trials=trials), preset)
            await save_as_own(self.app, preset.name, partial(user_presets.save, kept))
