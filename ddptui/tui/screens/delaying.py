"""Injects delays while a run trains: keys choose a rank, a site and a length, and inject or remove the delay."""

import msgspec
from textual import on, work
from textual.binding import Binding
from textual.widgets import DataTable

from ddptui.config.delays import USUAL_MS, Delays, delay_of, next_length, sites, still_to_come, with_delay, without
from ddptui.config.trial import Site, Trial
from ddptui.run.session import Session
from ddptui.tui.draft import without_old_figures
from ddptui.tui.keys import bound
from ddptui.tui.screens.dialogs import save_as_own
from ddptui.tui.screens.following import Feed, Following
from ddptui.tui.widgets.delay_bar import DelayBar
from ddptui.tui.widgets.rank_table import RankTable

DELAY_KEYS = (
    bound("delay", "delay", "Delay", tooltip="Inject the chosen delay into the chosen rank, or remove it"),
    bound("no_delays", "no_delays", "Remove all delays", show=False),
    bound("where", "where", "Where", show=False, tooltip="Choose where in a step the delay is"),
    bound("more", "longer(1)", "Longer", show=False, tooltip="Make the delay longer"),
    bound("less", "longer(-1)", "Shorter", show=False, tooltip="Make the delay shorter"),
    Binding("down", "rank(1)", "Next rank", show=False),
    Binding("up", "rank(-1)", "Previous rank", show=False),
    bound("save", "save", "Save as mine", show=False, tooltip="Save the preset with these delays as your own"),
)


class Delaying(Following):
    """The base of screens with keys for delays. Subclasses have a DelayBar, and a RankTable for choosing the rank."""

    RUN_ACTIONS = (*Following.RUN_ACTIONS, "delay", "no_delays", "where", "longer", "rank", "other_rank")

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed)
        self._site: Site = "backward"  # site of the next delay
        self._sleep_ms: float = USUAL_MS
        self._sent: tuple[int, Delays] | None = None  # launch time and delays that were sent, not yet confirmed
        self._kept: Delays | None = None  # delays for the first launch, which has not started yet

    def tick(self) -> None:
        super().tick()
        trial = self.trial_under_way()
        if self._kept is not None and trial is not None and self.watched.live.trial is not None:
            delays, self._kept = self._kept, None
            self._send(trial, delays)

    def show_delay(self) -> None:
        """Show the chosen delay, and the delays that the ranks have."""
        bar, trial = self.query_one(DelayBar), self.trial_under_way()
        bar.display = self.goes_on
        if trial is not None:
            rank = self.query_one(RankTable).rank
            bar.show(rank, self._site_in(trial), self._sleep_ms, self._delays(trial))

    def _site_in(self, trial: Trial) -> Site:
        possible = sites(trial)
        return self._site if self._site in possible else possible[-1]

    def _delays(self, trial: Trial) -> Delays:
        """Return the ranks' delays, those already sent to them included."""
        live = self.watched.live
        if self._sent is not None and self._sent[0] == live.launched_ns:
            return self._sent[1]
        return still_to_come(trial.bottleneck if live.injected is None else live.injected)

    def _send(self, trial: Trial, delays: Delays) -> None:
        live = self.watched.live
        is_to_come = live.trial is None
        if isinstance(self.feed, Session) and self.goes_on and (live.status == "running" or is_to_come):
            self._sent = live.launched_ns, delays
            if is_to_come:
                self._kept = delays
            else:
                self.feed.controls.inject(delays, live.launched_ns)
            self.show_delay()
        else:
            self.notify(f"Trial {trial.name} has ended.", title="Delay not injected", severity="warning", markup=False)

    def action_delay(self) -> None:
        trial, rank = self.trial_under_way(), self.query_one(RankTable).rank
        if trial is None or rank is None:
            return
        delays, at = self._delays(trial), self._site_in(trial)
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
            self._choose_length(trial)

    def action_rank(self, by: int) -> None:
        """Choose the next or the previous rank, like the cursor keys of the rank table."""
        ranks = self.query_one(RankTable)
        ranks.move_cursor(row=ranks.cursor_row + by)
        self.show_delay()

    def action_other_rank(self) -> None:
        """Choose the next rank; after the last one, the first."""
        ranks = self.query_one(RankTable)
        self.action_rank(1 if ranks.cursor_row + 1 < ranks.row_count else -ranks.cursor_row)

    @on(DataTable.RowHighlighted, "#ranks")
    def _choose_rank(self) -> None:
        if (trial := self.trial_under_way()) is not None:
            self._choose_length(trial)

    def _choose_length(self, trial: Trial) -> None:
        """If the chosen rank has a delay at the chosen site, show its length: the keys then change this delay."""
        rank = self.query_one(RankTable).rank
        if rank is not None and (delay := delay_of(self._delays(trial), rank, self._site_in(trial))):
            self._sleep_ms = delay.sleep_ms
        if self.goes_on:
            self.show_delay()

    def action_longer(self, by: int) -> None:
        """Choose another length; if the rank has this delay, change it at once."""
        self._sleep_ms = next_length(self._sleep_ms, by)
        trial, rank = self.trial_under_way(), self.query_one(RankTable).rank
        if trial is None or rank is None:
            return
        delays, at = self._delays(trial), self._site_in(trial)
        if delay_of(delays, rank, at):
            self._send(trial, with_delay(delays, rank, at, self._sleep_ms))
        self.show_delay()

    @work
    async def action_save(self) -> None:
        """Save the preset, with the ranks' current delays in the trial under way."""
        trial, preset = self.trial_under_way(), self.feed.preset
        if trial is not None:
            others = tuple(each for each in trial.bottleneck if each not in still_to_come(trial.bottleneck))
            changed = msgspec.structs.replace(trial, bottleneck=(*others, *self._delays(trial)))
            trials = tuple(changed if each is trial else each for each in preset.trials)
            await save_as_own(self.app, without_old_figures(msgspec.structs.replace(preset, trials=trials), preset))
