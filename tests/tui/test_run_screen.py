"""The Run screen, fed with the recorded run: none (nobody late), late (rank 1, in backward), killed (rank 1)."""

import re
import shutil
from pathlib import Path

import msgspec
import pytest
from textual.screen import Screen
from textual.widgets import Input

from ddptui.analysis.results import Results
from ddptui.config.trial import Bottleneck
from ddptui.engines.local.command import WatchMode
from ddptui.findings.repeat import NO_OUTCOMES
from ddptui.run.playback import Playback
from ddptui.store.presets import load
from ddptui.store.runs import Run
from ddptui.tui.screens.dialogs import HelpScreen, NameDialog, RunQuestion
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.screens.run import RunScreen
from ddptui.tui.widgets.charts import LineChart
from ddptui.tui.widgets.panes import TITLES, DelayBar, Panes
from ddptui.tui.widgets.rank_panes import RankTable
from ddptui.wire.messages import Hello, Step
from ddptui.wire.records import Launched
from tests.recorded.net import RUNS
from tests.support.launches import told_by
from tests.tui.opened import Opened, on, seen, shows, tick, toasts, until
from tests.tui.recordings import RECORDED, Clock, SampledAsItGoes, ToldAsItGoes, at, moment_s, playback

NEVER_S = 1e6


def replay(trial: str, step: int, clock: Clock | None = None) -> RunScreen:
    return RunScreen(at(trial, step, clock))


def live(trial: str, step: int, clock: Clock | None = None, kind: type[ToldAsItGoes] = ToldAsItGoes) -> RunScreen:
    return RunScreen(kind(at(trial, step, clock)))


async def shown(screen: RunScreen, *keys: str, size: tuple[int, int] = (120, 40)) -> str:
    async with on(screen, size) as (app, pilot, _):
        await pilot.press(*keys)
        await tick(pilot, screen)
        return seen(app)


async def test_who_is_late_is_said_in_words_and_shown_in_the_arrivals() -> None:
    text = await shown(replay("late", 60))
    assert "Rank 1 holds everyone up: 1" in text  # 12 ms and a little
    assert "in backward" in text
    assert "waiting for rank 1" in text
    in_ranks, in_arrivals = [line for line in text.splitlines() if "◀ culprit" in line]  # one word in both panes
    assert "running ◀ culprit" in in_ranks
    assert "rank 1" in in_arrivals
    assert "last in 58 of 58" in in_arrivals


async def test_where_nobody_is_late_nobody_is_named() -> None:
    text = await shown(replay("none", 60))
    assert "culprit" not in text
    assert "no rank stands out" in text or "in transfers" in text


async def test_what_shows_when_the_next_trial_starts_and_when_a_delay_is_put_in() -> None:
    text = re.sub("─+", "─", await shown(live("late", 0)))
    assert "warming up" in text
    assert "─ previous trial: none ─╯╰─ previous trial: none ─" in text
    text = await shown(live("late", 70), "b", "down", "w")
    assert "rank 1  w aggregate  - + 12 ms" in text
    assert "now: backward 12 ms on 1, backward 20 " in text


async def test_every_pane_can_be_had_at_every_size() -> None:
    words = ("progress", "last in", "injected delay", "step 0", "trial", "rank 0  epoch 0", "called by")
    async with on(live("late", 60, kind=SampledAsItGoes)) as (_, pilot, screen):
        for size in ((80, 24), (120, 40), (200, 60)):
            await pilot.resize_terminal(*size)
            for number, (title, word) in enumerate(zip(TITLES.values(), words, strict=True), start=1):
                await pilot.press(str(number))
                screen.tick()
                await shows(pilot, f"─ {number} {title}", word)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_table_so_far_has_no_place_before_a_trial_has_ended(size: tuple[int, int]) -> None:
    async with on(live("none", 30), size) as (app, pilot, screen):
        assert screen.panes.present == ["ranks", "arrivals", "timeline", "loss", "log"]
        await pilot.press("5")
        assert screen.panes.chosen == "ranks"
        assert not screen.panes.pane("so-far").display
        assert "so far" not in seen(app).lower()
        await pilot.press("shift+tab", "tab")
        assert screen.panes.chosen == "ranks"
        told = screen.feed._told  # type: ignore[union-attr]
        told.seek(moment_s(told, "late", 30) - moment_s(told, "none", 30))
        await tick(pilot, screen)
        await pilot.press("5")
        assert screen.panes.chosen == "so-far"
        assert screen.panes.pane("so-far").display


async def test_one_process_has_no_arrivals_and_a_run_without_losses_no_chart() -> None:
    feed = Crowd(1)
    alone = msgspec.structs.replace(feed.preset.trials[0], world_size=1, bottleneck=())
    feed.preset = msgspec.structs.replace(feed.preset, trials=(alone,))
    async with on(RunScreen(feed)) as (app, pilot, screen):
        assert screen.panes.present == ["ranks", "timeline", "loss", "log"]
        screen.watched.live.ranks[0].losses.points = []
        await tick(pilot, screen)
        assert screen.panes.present == ["ranks", "timeline", "log"]
        assert "Loss" not in seen(app)
        assert screen.check_action("pane", ("loss",)) is False


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_output_of_a_watched_training_is_seen_from_the_start(size: tuple[int, int]) -> None:
    clock = Clock()
    run = Run(RUNS / "watched")
    told = Playback(run, run.preset(), clock)
    feed, first = ToldAsItGoes(told), [Launched(trial=told.preset.trials[0].name, repeat=1, at_ns=1, command=())]
    drain, feed.drain = feed.drain, lambda: [first.pop()] if first else []  # type: ignore[method-assign]
    async with on(RunScreen(feed), size) as (app, pilot, screen):
        assert screen.panes.present == ["ranks", "log"]  # it may train nothing
        assert "6 Output" in seen(app)
        assert size[0] == 80 or screen.panes.pane("log").region.height > 20
        feed.drain = drain  # type: ignore[method-assign]
        told.seek(moment_s(told, told.preset.trials[0].name, 20))
        await tick(pilot, screen)
        screen.tick()
        assert {"arrivals", "timeline", "log"} <= {*screen.panes.present}
        assert "so-far" not in screen.panes.present  # there is one trial
        where, log = screen.panes.pane("where"), screen.panes.pane("log")
        screen.watched.live.lines[0] = ()
        await tick(pilot, screen)
        assert size[0] == 80 or (where.region.y, where.region.width) == (log.region.y, log.region.width)


async def test_the_replay_of_a_damaged_journal_says_what_is_missing(tmp_path: Path) -> None:
    run = Run(shutil.copytree(RECORDED, tmp_path / "damaged"))
    path = run.repeat_folder("late", 1) / "messages.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:20], b"{spoilt}\n", *lines[21:]]))
    text = await shown(RunScreen(Playback(run, run.preset(), Clock())), size=(200, 60))
    assert "caution: trial-late/repeat-1/messages.jsonl: line 21 cannot be read" in text


async def test_a_replay_can_be_stopped_and_moved() -> None:
    clock = Clock()
    async with on(replay("late", 60, clock)) as (app, pilot, screen):
        assert not screen.query_one(DelayBar).display
        await pilot.press("space")
        before = screen.watched.live.step
        clock.passes(5)
        screen.tick()
        assert screen.watched.live.step == before
        await pilot.press("full_stop", "full_stop")
        assert screen.watched.live.step > before
        await pilot.press("left", "left")
        screen.tick()  # a seek is worked out at the next one
        assert screen.watched.live.finished <= 1  # what was told before is void
        assert screen.watched.live.trial == "none" or screen.watched.live.step < before
        await pilot.press("space", "plus", "plus")
        assert "replay × 5" in seen(app)
        clock.passes(1000)
        await tick(pilot, screen)
        assert screen.watched.live.status == "failed"
        assert not toasts(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ResultScreen))


async def test_holding_holds_the_picture_and_not_the_run_and_the_chart_can_be_zoomed() -> None:
    clock = Clock()
    async with on(live("late", 30, clock)) as (app, pilot, screen):
        await pilot.press("space")
        before = seen(app)
        clock.passes(0.3)
        await tick(pilot, screen)
        assert screen.watched.live.step > 31
        assert seen(app) == before
        assert "on hold" in before
        await pilot.press("space")
        assert seen(app) != before
        await pilot.press("L")
        assert screen.query_one(LineChart).logarithmic
        await pilot.press("4", "z")
        assert screen.maximized is screen.query_one(Panes).pane("loss")
        await pilot.press("escape")
        assert screen.maximized is None
        assert screen.is_current


def sent(screen: RunScreen) -> list[tuple[Bottleneck, ...] | None]:
    assert screen.feed.controls is not None
    return [*screen.feed.controls.requests(screen.watched.live.launched_ns)]


def delay(at: str = "backward", rank: int = 0, ms: float = 20) -> Bottleneck:
    return Bottleneck(at=at, ranks=(rank,), sleep_ms=ms)  # type: ignore[arg-type]


NARROW, WIDE = (80, 24), (120, 40)
DELAYS: list[tuple[str, list[str], list[tuple[Bottleneck, ...]]]] = [
    ("in and out", ["b", "b"], [(delay(),), ()]),
    ("another rank", ["down", "b", "b"], [(delay(rank=1),), ()]),
    ("from another pane, and no further than the ranks", ["2", "down", "down", "b"], [(delay(rank=1),)]),
    ("two ranks", ["up", "b"], [(delay(rank=1), delay())]),
    ("all out", ["B", "B"], [()]),
    ("another place", ["w", "b", "w", "b"], [(delay("aggregate"),), (delay("aggregate"), delay("data"))]),
    ("longer while it is in", ["B", "b", "+", "-", "-"], [(), *[(delay("data", ms=ms),) for ms in (20, 50, 20, 10)]]),
    ("longer and shorter", ["b", "+", "+", "+", "-", "b"], [(), (delay("data", ms=50),)]),
]


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_single_keys_put_delays_in_and_take_them_out(size: tuple[int, int]) -> None:
    async with on(live("none", 30), size) as (_, pilot, screen):
        for what, keys, put_in in DELAYS:
            await pilot.press(*keys)
            assert sent(screen) == put_in, what


async def test_a_click_on_a_part_of_the_bar_presses_its_key() -> None:
    async with on(live("none", 30), NARROW) as (_, pilot, screen):
        bar = screen.query_one(DelayBar)
        for part in ("rank 0", "backward", "+", "inject"):
            text = str(bar.render())
            await pilot.click(DelayBar, offset=(1 + text.index(part), 0))
        assert sent(screen) == [(delay("aggregate", rank=1, ms=50),)]
        assert "remove" in str(bar.render())


async def test_the_delays_of_the_trial_itself_can_be_taken_out_and_changed() -> None:
    screen = live("late", 30)
    [own] = screen.feed.preset.trials[1].bottleneck
    async with on(screen) as (_, pilot, _):
        while own.at not in str(screen.query_one(DelayBar).render()).partition("now")[0]:
            await pilot.press("w")
        await pilot.press(*["down"] * own.ranks[0], "+", "b")
        assert [[each.sleep_ms > own.sleep_ms for each in delays] for delays in sent(screen)] == [[True], []]


async def test_what_was_set_up_or_is_replayed_is_saved_as_a_preset() -> None:
    put_in = (delay(), delay("aggregate", rank=1))
    for screen, trial in ((live("none", 30), "none"), (replay("late", 30), "late")):
        async with on(screen) as (app, pilot, _):
            if trial == "late":
                screen.watched.live.injected = put_in
            else:
                await pilot.press("b", "down", "w", "b")
            await pilot.press("ctrl+s")
            await until(pilot, lambda: isinstance(app.screen, NameDialog))
            app.screen.query_one(Input).value = f"{trial}-mine"
            await pilot.press("enter")
            await until(pilot, lambda screen=screen: app.screen is screen and toasts(app))
        delays = {each.name: each.bottleneck for each in screen.feed.preset.trials} | {trial: put_in}
        assert {each.name: each.bottleneck for each in load(f"{trial}-mine").trials} == delays


async def test_stopping_and_skipping_ask_and_what_is_confirmed_after_its_launch_has_ended_skips_no_other() -> None:
    clock = Clock()
    async with on(live("none", 30, clock)) as (app, pilot, screen):
        controls = screen.feed.controls
        assert controls is not None
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, RunQuestion))
        clock.passes(moment_s(screen.feed._told, "late", 30) - moment_s(screen.feed._told, "none", 30))
        screen.tick()
        assert screen.watched.live.trial == "late"
        await pilot.press("y")
        await until(pilot, lambda: app.screen is screen and bool(toasts(app)))
        assert "Not skipped: the launch has ended already." in toasts(app)
        assert controls.end() is None
        await pilot.press("S", "escape")
        assert controls.end() is None
        await pilot.press("s", "escape")
        assert controls.end() is None
        await pilot.press("s", "y")
        assert controls.end() == "skipped"
        await pilot.press("escape", "y")
        assert controls.end() == "interrupted"
        assert isinstance(app.screen, RunScreen)


async def test_a_training_of_the_users_own_is_ended_only_if_that_is_wanted() -> None:
    screen = live("none", 30)
    assert isinstance(screen.feed, ToldAsItGoes)
    screen.feed.terms = WatchMode(outlives=True)
    async with on(screen) as (app, pilot, _):
        for answer, ended, outlives in (
            ("escape", None, True),
            ("l", "interrupted", True),
            ("e", "interrupted", False),
        ):
            await pilot.press("S")
            await until(pilot, lambda: isinstance(app.screen, RunQuestion))
            await pilot.press(answer)
            await until(pilot, lambda: app.screen is screen)
            assert screen.feed.controls.end() == ended
            assert screen.feed.terms.outlives == outlives


async def test_a_run_that_failed_stays_to_be_read_and_enter_shows_its_results() -> None:
    clock = Clock()
    async with on(live("killed", 30, clock)) as (app, pilot, screen):
        assert screen.query_one(DelayBar).display
        clock.passes(1000)
        screen.tick()
        await tick(pilot, screen)  # that it is over is seen once all has been told
        assert app.screen is screen
        assert not screen.query_one(DelayBar).display  # it is there only while ranks run
        assert "SIGKILL" in toasts(app)[0]
        assert f"{screen.feed.preset.name}: failed" in toasts(app)
        assert [ended.results.status for ended in app.finished.values()] == ["failed"]
        await pilot.press("enter")
        assert isinstance(app.screen, ResultScreen)


async def test_help_says_what_the_bindings_say() -> None:
    helped = []
    for screen in (live("none", 30), replay("none", 30)):
        async with on(screen, (120, 60)) as (app, pilot, _):
            await pilot.press("question_mark")
            assert isinstance(app.screen, HelpScreen)
            helped.append(seen(app))
            await pilot.press("escape")
            assert app.screen is screen
    of_run, of_replay = helped
    assert "Inject the chosen delay into the chosen rank, or remove it" in of_run
    assert "◀ culprit: the others wait for it." in of_run
    assert "Put a delay in" not in of_replay
    assert "Replay faster" in of_replay
    assert "Replay faster" not in of_run


async def test_where_it_is_too_small_a_card_says_so_and_the_way_back_is_clear() -> None:
    async with on(replay("late", 60)) as (app, pilot, screen):
        before = seen(app).splitlines()[:8]
        for size in ((1, 1), (20, 5), (59, 30), (100, 15)):
            for now in (size, (120, 40)):
                await pilot.resize_terminal(*now)
                await tick(pilot, screen)
                if now not in ((1, 1), (120, 40)):
                    assert "too small" in seen(app)
            assert seen(app).splitlines()[:8] == before


class Crowd:
    """Many ranks, a step each."""

    controls = None
    error = None
    finished_before = NO_OUTCOMES
    is_over = False
    restarted = False
    paused = True
    speed = 1.0

    def __init__(self, ranks: int) -> None:
        told = playback()
        self.run, self.preset, self.results = told.run, told.preset, told.results
        messages = [message for _, message in told_by(told.recording)]
        hello = next(message for message in messages if isinstance(message, Hello))
        step = next(message for message in messages if isinstance(message, Step) and not message.warmup)
        self._messages: list[object] = [Launched(trial="none", repeat=1, at_ns=1, command=())]
        self._messages += [msgspec.structs.replace(hello, rank=rank, world_size=ranks) for rank in range(ranks)]
        self._messages += [msgspec.structs.replace(step, rank=rank) for rank in range(ranks)]

    def drain(self) -> list[object]:
        messages, self._messages = self._messages, []
        return messages

    def now_ns(self) -> int:
        return 2


@pytest.mark.parametrize("ranks", [1, 8])
async def test_there_is_a_line_for_every_rank(ranks: int) -> None:
    """Ticks follow each other: a table that makes room for itself must come to rest."""
    async with on(RunScreen(Crowd(ranks))) as (app, pilot, screen):
        for _ in range(4):
            await tick(pilot, screen)
        lines = seen(app).splitlines()
    for rank in range(ranks):
        assert [line for line in lines if line.startswith(f"│ {rank:>5}  ")], rank


async def test_a_thousand_ranks_can_be_walked_through() -> None:
    async with on(RunScreen(Crowd(1000))) as (app, pilot, screen):
        table = screen.query_one(RankTable)
        assert table.row_count == 1000
        table.move_cursor(row=999)
        await pilot.pause()
        await tick(pilot, screen)
        assert " 999 " in seen(app)
        assert table.rank == 999


async def test_log_lines_of_the_chosen_rank_are_shown_as_they_are(tmp_path: Path) -> None:
    told = at("late", 60)
    run = tmp_path / "run"
    shutil.copytree(told.run.folder, run)
    log = run / "trial-late" / "repeat-1" / "rank-0.log"
    log.write_bytes(b"[bold]no markup[/] \x1b[31mno colour\x07 [/\n\xff\xfe broken\n")
    told.run = Run(run)
    screen = RunScreen(ToldAsItGoes(told))
    text = await shown(screen, "6")
    assert "[bold]no markup[/] \\x1b[31mno colour\\x07 [/" in text
    assert "�� broken" in text
    text = await shown(live("late", 60), "down", "6")
    assert "─ rank 1 ─╯" in text
    assert "rank 1  epoch 0" in text


class EndsWell(ToldAsItGoes):
    """The recorded run, as if none of its trials had failed."""

    @property
    def results(self) -> Results:
        return msgspec.structs.replace(super().results, status="ok")


@pytest.mark.parametrize(
    ("key", "dialog", "outlives"),
    [
        ("s", RunQuestion, False),
        ("S", RunQuestion, True),
        ("ctrl+q", RunQuestion, True),
        ("question_mark", HelpScreen, False),
    ],
)
async def test_a_run_that_ends_under_a_dialog_shows_its_results_after_it(
    key: str, dialog: type[Screen[object]], outlives: bool, tmp_path: Path
) -> None:
    """A question about the run closes by itself then: its keys would be for a run that is no more."""

    clock = Clock()
    feed = EndsWell(at("none", 30, clock))
    feed.terms = WatchMode(outlives=outlives)
    screen = RunScreen(feed)
    app = Opened(tmp_path, screen, refresh_s=NEVER_S)  # the results do not wait for another look at the run
    app.session = feed
    async with app.run_test() as pilot:
        await app.mounted
        screen.tick()
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, dialog))
        clock.passes(1000)
        screen.tick()
        await tick(pilot, screen)  # that it is over is seen once all has been told
        if dialog is HelpScreen:
            assert isinstance(app.screen, dialog)
            await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ResultScreen))
        assert screen not in app.screen_stack
        assert not [worker for worker in app.workers if worker.is_running]
        assert (feed.controls.end(), feed.terms.outlives, app.leaving) == (None, outlives, False)


async def test_a_delay_that_comes_too_late_is_not_lost_silently() -> None:
    """The launch ends, and the next one has not begun."""
    async with on(live("none", 30)) as (app, pilot, screen):
        screen.watched.live.status = "ok"
        await pilot.press("b")
        assert sent(screen) == []
        assert any("none has ended" in toast for toast in toasts(app))


async def test_a_delay_that_comes_too_early_is_kept_until_the_first_launch_begins() -> None:
    """Torch is being imported: there is no launch yet."""
    clock = Clock()
    screen = live("none", 30, clock)
    feed = screen.feed
    drain, feed.drain = feed.drain, list  # type: ignore[method-assign]
    async with on(screen) as (app, pilot, _):
        await pilot.press("down", "w", "+", "b")
        assert sent(screen) == []
        assert "now: aggregate 50 ms on 1" in str(screen.query_one(DelayBar).render())
        assert "starting: importing torch" in seen(app)
        assert not screen.check_action("results", ())  # a second enter does not end what has not begun
        feed.drain = drain  # type: ignore[method-assign]
        screen.tick()
        assert sent(screen) == [(delay("aggregate", rank=1, ms=50),)]
        screen.tick()
        assert sent(screen) == []
