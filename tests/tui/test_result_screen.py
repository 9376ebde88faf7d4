"""The Result screen: what it shows of a run, and what can be done with it."""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from textual.geometry import Region
from textual.widgets import Input

from ddptui.analysis.results import ConfidenceInterval, Culprit, PlaceTime, RankResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report import table as report
from ddptui.report.notes import shown_first
from ddptui.store.overview import results_of
from ddptui.tui.screens.dialogs import ColumnsDialog, HelpScreen, Question
from ddptui.tui.screens.export import FORMATS
from ddptui.tui.screens.result import ResultScreen
from ddptui.tui.widgets.charts import TimeBars
from ddptui.tui.widgets.result_panes import TITLES, Answer, Comparison, Verdict, WhoWaits
from ddptui.tui.widgets.tables import RankDetail
from ddptui.wire.records import Message
from tests.support.builders import ended, failure, journal, launched, preset_of, results_for, two_trials, write_run
from tests.support.gpu_figures import on_gpus
from tests.tui.gpu_recordings import made_up
from tests.tui.opened import each_theme, on, seen, shows, survives, toasts, until
from tests.tui.recordings import over

STEPS_MS = {"slow": 400, "base": 100, "fast": 30, "slowest": 4000}
TRIALS: dict[str, object] = {
    "title": "Which one?",
    "baseline": "base",
    "trial": [{"name": name} for name in STEPS_MS],
    "reference": [
        {"trial": "base", "train_time_s": 3.0, "source": "a paper"},
        {"trial": "slow", "train_time_s": 6.0, "source": "a paper"},
    ],
}


def screen_of(runs: Path, preset: Preset, *journals: list[Message]) -> ResultScreen:
    run = write_run(runs, preset, *journals)
    return ResultScreen(run, preset, results_of(run, preset))


def four_trials(runs: Path) -> ResultScreen:
    return screen_of(runs, preset_of(TRIALS), *(journal(name, step_ms=ms) for name, ms in STEPS_MS.items()))


def with_waits(screen: ResultScreen) -> ResultScreen:
    """In every trial, rank 0 waited 0.9 s for rank 1, which waited 0.1 s for rank 0, on a known line."""
    place = PlaceTime(phase="data", place="f, a.py:7", by="", file="a.py", line=7, last=7, ms={0: 0.5, 1: 12.5})

    def of_rank(rank: RankResult) -> RankResult:
        late, s = (1, 0.9) if rank.rank == 0 else (0, 0.1)
        return msgspec.structs.replace(rank, wait_s=s, exposed_s=s, waited_for_s={late: s})

    trials = [
        msgspec.structs.replace(
            trial,
            repeats=[
                msgspec.structs.replace(each, ranks=[of_rank(rank) for rank in each.ranks], places=[place])
                for each in trial.repeats
            ],
        )
        for trial in screen.results.trials
    ]
    screen.results = msgspec.structs.replace(screen.results, trials=trials)
    return screen


def rows(table: Comparison) -> list[str]:
    return [str(row.key.value) for row in table.ordered_rows]


def said(screen: ResultScreen) -> str:
    return str(screen.query_one(Verdict).query_one("Static").render())


def headers(table: Comparison) -> list[str]:
    return [str(column.label) for column in table.ordered_columns]


# What is shown


async def test_the_baseline_is_marked_and_all_panes_speak_of_the_trial_under_the_cursor(tmp_path: Path) -> None:
    async with on(four_trials(tmp_path)) as (app, pilot, screen):
        words = said(screen)
        assert "slow: 1.20 s here, 6.00 s published (0.2 times as long)" in words
        assert "ratio 4.00 here, 2.00 published" in words
        assert words.count("a paper") == 1
        assert ["base ◆" in seen(app), "◆ baseline" in seen(app), "fast ◆" in seen(app)] == [True, True, False]
        await pilot.press("up", "j")
        assert said(screen).startswith("fast: ")
        assert screen.query_one(RankDetail).row_count == 2
        assert "fast, repeat 1" in seen(app)
        await pilot.press("k")
        assert said(screen).startswith("base: ")


async def test_a_failed_trial_says_so_in_the_table_and_why_in_words(tmp_path: Path) -> None:
    failed = failure("b", error="rank 1: [/not markup] \\x1b")
    async with on(screen_of(tmp_path, two_trials(repeats=1), journal("a"), failed)) as (app, pilot, screen):
        assert "failed" in seen(app)
        await pilot.press("down")
        assert "[/not markup] \\x1b" in seen(app)
        assert screen.panes.present == ["table", "bars", "verdict"]  # no repeat of it has ended


def blamed(results: Results, costs: dict[str, float]) -> Results:
    """In these trials rank 1 was late, and cost the others so much."""

    def blame(trial: TrialResult) -> TrialResult:
        if trial.name not in costs or trial.summary is None:
            return trial
        excess = ConfidenceInterval(estimate=1.0, low=0.9, high=1.1)
        culprit = Culprit(rank=1, phase="aggregate", share=1.0, wait_caused_s=costs[trial.name], excess_s=excess)
        return msgspec.structs.replace(trial, summary=msgspec.structs.replace(trial.summary, culprit=culprit))

    return msgspec.structs.replace(results, trials=[blame(trial) for trial in results.trials])


async def test_it_opens_on_the_trial_in_which_a_rank_cost_most_and_says_so_first(tmp_path: Path) -> None:
    screen = four_trials(tmp_path)
    screen.results = blamed(screen.results, {"slow": 1.0, "fast": 3.0, "slowest": 2.0})
    async with on(screen) as (app, pilot, screen):
        assert screen.query_one(Comparison).chosen == "fast"
        assert "3 In words: rank 1 is late, in aggregate" in seen(app)
        assert said(screen).startswith("fast: ")
        await pilot.press("p")
        assert screen.query_one(Verdict).border_title == "3 In words"


async def test_another_trial_can_be_chosen_from_every_pane(tmp_path: Path) -> None:
    async with on(four_trials(tmp_path), (80, 24)) as (app, pilot, screen):
        assert "esc Back" in seen(app).splitlines()[-1]
        shown = {binding.binding.action for binding in screen.active_bindings.values() if binding.binding.show}
        assert len(shown - {"command_palette"}) <= 6, shown
        for pane in "1234":
            await pilot.press("2", "up", "up", "up", pane, "n", "n", "p")
            assert screen.query_one(Comparison).chosen == "base"
        await pilot.press("2", "down")
        assert screen.query_one(Comparison).chosen == "fast"
        table = screen.query_one(Comparison)
        narrow = table.shown
        await pilot.resize_terminal(200, 60)
        assert {"trial", "train", "ratio"} <= {*narrow} < {*table.shown}


# Layout


@pytest.mark.parametrize(
    ("size", "visible"),
    [
        ((120, 20), ["table"]),
        ((80, 24), ["table", "verdict"]),
        ((120, 24), ["table", "verdict"]),
        ((120, 40), [*TITLES][:-1]),  # the last one shares its place
    ],
)
async def test_as_many_panes_as_there_is_room_for(tmp_path: Path, size: tuple[int, int], visible: list[str]) -> None:
    def showing(screen: ResultScreen) -> list[str]:
        return [pane for pane in TITLES if screen.query_one(f"#{pane}").region.area]

    async with on(with_waits(four_trials(tmp_path)), size) as (_, pilot, screen):
        await until(pilot, lambda: showing(screen) == visible)
        for number, pane in enumerate(TITLES, start=1):
            await pilot.press(str(number))
            await until(pilot, lambda pane=pane: pane in showing(screen))
            assert screen.focused is screen.query_one(f"#{pane}")
            assert len(showing(screen)) == len(visible)


async def test_what_gpus_reached_is_in_the_table_and_what_slowed_them_in_words(tmp_path: Path) -> None:
    run = made_up(tmp_path)
    async with on(ResultScreen(run, run.preset(), on_gpus(over(run).results)), (200, 60)) as (app, _, _):
        for words in ("gpu mem.", "4.00+2.50 GB", "TFLOP/s", "MFU %", "31.6 ⚠", "held back a GPU's clock"):
            assert words in seen(app)


@each_theme
async def test_it_survives_every_theme_and_size(themes: Iterable[str], tmp_path: Path) -> None:
    async with on(four_trials(tmp_path)) as (_, pilot, _):
        await survives(pilot, themes, "base ◆")


async def test_a_run_in_which_nothing_ended_is_shown(tmp_path: Path) -> None:
    async with on(screen_of(tmp_path, two_trials(), [launched("b"), ended("interrupted")])) as (app, pilot, screen):
        assert rows(screen.query_one(Comparison)) == ["a", "b"]
        assert "a was not reached" in said(screen)
        await pilot.press("down")
        assert "stopped" in seen(app)
        assert "b was stopped before its end: no figures" in said(screen)
        await pilot.press("o", "o", "O", "y", "Y", "4")


async def test_the_answer_stands_first_if_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["Rank 1 of [/b] is late.", "Without it, training would take two thirds of the time." * 2]
    monkeypatch.setattr("ddptui.tui.screens.result.answer", lambda results: sentences)
    async with on(four_trials(tmp_path / "a")) as (app, pilot, screen):
        lines = seen(app).splitlines()
        first = next(at for at, line in enumerate(lines) if "Rank 1 of [/b] is late." in line)
        assert "Which one?" in lines[first - 1]
        assert first < next(at for at, line in enumerate(lines) if "1 Trials" in line)
        assert screen.query_one(Answer).region.height == 2 + 2  # borders; the sentences are longer than a line
        await pilot.resize_terminal(60, 16)
        await until(pilot, lambda: screen.query_one("#panes").region.height == 16 - 3 - 3)
        await shows(pilot, "Rank 1 of [/b] is late.", "base ◆")
        await pilot.press("3")
        assert "is late." not in seen(app)
    monkeypatch.setattr("ddptui.tui.screens.result.answer", lambda results: [])
    async with on(four_trials(tmp_path / "b")) as (app, _, screen):
        assert not screen.query(Answer)
        assert "1 Trials" in seen(app).splitlines()[1]


def heights(screen: ResultScreen) -> dict[str, int]:
    return {pane: screen.query_one(f"#{pane}").region.height for pane in TITLES}


async def test_panes_without_content_take_no_room_and_others_the_whole_screen_until_they_give_it_back(
    tmp_path: Path,
) -> None:
    """No collective was recorded, and no line sampled."""

    def whole(screen: ResultScreen, pane: str) -> bool:
        width, height = screen.size
        return screen.query_one(f"#{pane}").region == Region(0, 0, width, height - 1)  # the keys stay

    async with on(four_trials(tmp_path)) as (app, pilot, screen):
        assert screen.panes.present == ["table", "bars", "verdict", "ranks"]
        for number in ("5", "6"):
            await pilot.press("1", number)
            assert screen.panes.chosen == "table"
        assert (heights(screen)["waits"], heights(screen)["where"]) == (0, 0)
        assert "Who waits" not in seen(app)
        assert "7" not in str(screen.query_one("#ranks").border_title)
        await until(pilot, lambda: heights(screen)["bars"] == heights(screen)["verdict"])
        await pilot.press("shift+tab")
        assert screen.panes.chosen == "ranks"
        await pilot.press("2", "z")
        await until(pilot, lambda: whole(screen, "bars"))
        await pilot.press("3")
        await until(pilot, lambda: whole(screen, "verdict"))
        await pilot.press("z")
        await until(pilot, lambda: not whole(screen, "verdict"))
        await pilot.press("z")
        await until(pilot, lambda: whole(screen, "verdict"))
        await pilot.press("escape")
        await until(pilot, lambda: not whole(screen, "verdict"))
        assert app.screen is screen


async def test_the_panes_follow_the_trial_under_the_cursor(tmp_path: Path) -> None:
    """The second trial was not reached: it has neither ranks nor waits."""
    async with on(screen_of(tmp_path, two_trials(), journal("a"))) as (app, pilot, screen):
        await until(pilot, lambda: screen.panes.present == ["table", "bars", "verdict", "ranks"])
        await pilot.press("4", "n")
        await until(pilot, lambda: "no repeat has ended" in seen(app))  # it stays as long as it is the chosen one
        await pilot.press("1")
        await until(pilot, lambda: screen.panes.present == ["table", "bars", "verdict"])


async def test_no_pane_is_cut_while_the_one_beside_it_stands_empty(tmp_path: Path) -> None:
    """8 trials: half of the room is too little for them, and more than the ranks of one need."""
    preset = preset_of({"title": "?", "trial": [{"name": f"t{number}"} for number in range(8)]})
    result = screen_of(tmp_path, preset, *(journal(f"t{number}") for number in range(8)))
    async with on(result, (80, 24)) as (_, pilot, screen):
        await pilot.press("4")
        await until(pilot, lambda: heights(screen)["table"] == 8 + 3)
        assert heights(screen)["ranks"] >= 2 + 3
        await pilot.press("2")  # both are cut, so both have half
        await until(pilot, lambda: abs(heights(screen)["table"] - heights(screen)["bars"]) <= 1)


async def test_where_the_bars_have_no_room_d_shows_them(tmp_path: Path) -> None:
    async with on(with_waits(four_trials(tmp_path)), (80, 24)) as (app, pilot, _):
        assert "Where the time went" not in seen(app).split("│")[-1]
        await pilot.press("f")
        await shows(pilot, "2 Where the time went, against the baseline", "▸ ")


async def test_the_matrix_has_a_cursor_and_differences_to_the_baseline_are_drawn_and_taken_back(tmp_path: Path) -> None:
    async with on(with_waits(four_trials(tmp_path))) as (app, pilot, screen):
        waits = screen.query_one(WhoWaits)
        await until(pilot, lambda: "rank 0 waited 900 ms for rank 1" in str(waits.border_subtitle))  # the longest one
        chosen = screen.query_one(Comparison).chosen
        await pilot.press("5", "down")
        assert str(waits.border_subtitle) == "rank 1 waited 100 ms in all"
        await pilot.press("down", "right", "left")  # the first two stay within the matrix
        assert str(waits.border_subtitle) == "rank 1 waited 100 ms for rank 0 (100% of its waiting)"
        assert screen.query_one(Comparison).chosen == chosen
        head = next(line for line in seen(app).splitlines() if "for 0" in line)
        at = head.index("for 1") - waits.region.x
        await pilot.click(WhoWaits, offset=(at, 2))
        assert "rank 0 waited 900 ms for rank 1 (100%" in str(waits.border_subtitle)
        await pilot.click(WhoWaits, offset=(at + 30, 2))  # beside the matrix
        assert "rank 0 waited 900 ms for rank 1 (100%" in str(waits.border_subtitle)
        await pilot.press("1")
        bars = screen.query_one(TimeBars)
        assert bars.border_title == "2 Where the time went"
        await pilot.press("up", "up", "f")
        assert bars.border_title == "2 Where the time went, against the baseline"
        await shows(pilot, "▸ slow", "+0.90 s = ", "│ ◆")
        await pilot.press("f")
        assert bars.border_title == "2 Where the time went"
        assert "│ ◆" not in seen(app)
        for pane, form in (("1", "html"), ("2", "svg"), ("5", "matrix.svg")):  # the chosen pane's is offered first
            await pilot.press(pane, "x")
            await until(pilot, lambda: [*app.screen.query(Input)])
            assert app.screen.query_one(Input).value.endswith(f"{screen.run.name}.{form}")
            await pilot.press("escape")


# Sorting and columns


async def test_help_explains_the_columns_and_the_row_and_the_table_are_copied(tmp_path: Path) -> None:
    async with on(four_trials(tmp_path)) as (app, pilot, screen):
        await pilot.press("question_mark", "end")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen) and "The host that the rank ran on." in seen(app))
        help_screen = app.screen
        await pilot.press("escape")
        explained = dict(screen.query_one(Comparison).explained)
        assert "train s" in explained
        assert "Δ delay" not in explained
        assert app.screen is not help_screen
        await pilot.press("up", "y")
        cells = app.clipboard.split("\t")
        assert cells[0] == "base ◆"
        assert "0.30" in cells
        assert len(cells) == len(screen.query_one(Comparison).shown)
        await pilot.press("Y")
        assert app.clipboard == report.markdown(screen.results, screen.preset)
        # whether it arrived cannot be known
        assert [toast.title for toast in app._notifications] == ["Sent to the terminal's clipboard"] * 2
        assert all("If it does not arrive" in toast for toast in toasts(app))


async def test_columns_are_explained_chosen_and_given_back_and_those_out_of_sight_are_told(tmp_path: Path) -> None:
    async with on(four_trials(tmp_path), (80, 24)) as (app, pilot, screen):
        await pilot.press("c", "down")
        await until(pilot, lambda: isinstance(app.screen, ColumnsDialog) and "The launch mode: what" in seen(app))
        assert "esc cancel" in seen(app)  # the dialog is not cut
        await pilot.press("escape")
        table = screen.query_one(Comparison)
        fitting = table.shown
        await pilot.press("c", "down", "space", "enter")
        assert {*table.shown} ^ {*fitting} == {"launch"}
        await pilot.press("c", "space", "escape")
        assert "trial" in table.shown
        await pilot.press("c", "ctrl+r")
        assert table.shown == fitting
        assert "← → more" in str(table.border_subtitle)
        first = headers(table)
        await pilot.press("right")
        assert (headers(table)[0], {*headers(table)} & {*first}) == ("trial", {"trial"})
        assert "slowest" in seen(app)
        table.choose_columns(["trial", "train"])
        assert str(table.border_subtitle) == "◆ baseline"


async def test_columns_are_sorted_by_number_and_by_click_and_the_cursor_stays_with_its_trial(tmp_path: Path) -> None:
    async with on(four_trials(tmp_path)) as (_, pilot, screen):
        table = screen.query_one(Comparison)
        await pilot.press("up")
        while "train s ▲" not in headers(table):
            await pilot.press("o")
        assert rows(table) == ["fast", "base", "slow", "slowest"]
        await pilot.press("O")
        assert rows(table) == ["slowest", "slow", "base", "fast"]
        assert "train s ▼" in headers(table)
        assert table.chosen == "base"
        while any("▲" in header or "▼" in header for header in headers(table)):
            await pilot.press("o")
        assert rows(table) == [*STEPS_MS]
        for arrow in ("▲", "▼", "▲"):
            await pilot.click(Comparison, offset=(4, 1))
            assert headers(table)[0] == f"trial {arrow}"


# Taking it elsewhere


async def test_a_run_is_exported_and_a_file_replaced_if_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with on(four_trials(tmp_path / "runs")) as (app, pilot, screen):
        path = tmp_path / f"{screen.run.name}.trace.json"
        await pilot.press("x", *["down"] * [*FORMATS].index("trace"), "enter")
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == [str(path)]
        assert json.loads(path.read_text())["traceEvents"]
        there = tmp_path / f"{screen.run.name}.md"
        there.write_text("precious")
        for answer, text in (("n", "precious"), ("y", report.markdown(screen.results, screen.preset))):
            await pilot.press("x", *["down"] * [*FORMATS].index("markdown"), "enter")
            await until(pilot, lambda: isinstance(app.screen, Question))
            assert "Replace" in seen(app)  # it? may be on the next line, where the path is long
            await pilot.press(answer)
            await app.workers.wait_for_complete()
            assert there.read_text() == text


async def test_a_pane_is_exported_and_a_bad_path_complained_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with on(four_trials(tmp_path / "runs")) as (app, pilot, screen):
        path = tmp_path / f"{screen.run.name}.timeline.svg"
        await pilot.press("down", "x")
        chosen = screen.exported()[1]
        assert chosen != shown_first(screen.results)
        await shows(pilot, f"a few steps on a time axis, in {chosen}")
        await pilot.press(*["down"] * [*FORMATS].index("timeline.svg"))
        typed = app.screen.query_one(Input)
        await until(pilot, lambda: typed.value == str(path))
        assert typed.cursor_position == len(typed.value)  # where ctrl+u and letters go on
        await pilot.press("enter")
        await until(pilot, lambda: toasts(app))
        assert toasts(app) == [str(path)]
        assert f">{chosen}<" in path.read_text()
        await pilot.press("x")
        app.screen.query_one(Input).value = str(tmp_path / "nowhere" / "[/x].md")
        await pilot.press("tab")
        assert app.screen.query_one(Input).has_focus
        await pilot.press("enter")
        await until(pilot, lambda: len(toasts(app)) == 2)
        assert toasts(app)[-1] == f"{tmp_path / 'nowhere' / '[/x].md'}: No such file or directory"


# The table, as a run grows


async def test_the_table_grows_under_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = preset_of(TRIALS)
    built: list[int] = []
    rebuild = Comparison.lay_out
    monkeypatch.setattr(Comparison, "lay_out", lambda *told: (built.append(1), rebuild(*told)))

    def after(*names: str) -> Results:
        return results_for(preset, *(journal(name, step_ms=STEPS_MS[name]) for name in names))

    async with on(four_trials(tmp_path)) as (_, pilot, screen):
        table = Comparison(growing=True)
        await screen.mount(table)
        table.show(after("base", "fast"), preset)
        await pilot.pause()
        assert rows(table) == ["base", "fast"]
        table.move_cursor(row=1)
        built.clear()
        results = after("slow", "base", "fast")
        for _ in range(3):
            table.show(results, preset)
        table.show(after("slow", "base", "fast"), preset)
        assert rows(table) == ["slow", "base", "fast"]
        assert table.chosen == "fast"
        assert built == [1]


async def test_the_title_says_how_many_repeats_were_left_out(tmp_path: Path) -> None:
    skipped = [*journal("b", 2)[:-3], ended("skipped")]
    journals = (journal("a"), journal("b"), journal("a", 2), skipped)
    async with on(screen_of(tmp_path, two_trials(), *journals)) as (app, _, _):
        assert "ok, 3 of 4 repeats finished" in seen(app).splitlines()[0]
