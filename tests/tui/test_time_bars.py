"""The trials of a run as bars: as long as they took, whatever became of them."""

import msgspec
import pytest

from ddptui.analysis.results import Injected, Results, TrialResult
from ddptui.tui.widgets import time_bars
from ddptui.tui.widgets.time_bars import TimeBars
from tests.support.builders import ended, failure, journal, launched, preset_of, results_for
from tests.tui.drawn import SIZES, text_of


def bars(results: Results | None, chosen: str | None = None) -> TimeBars:
    made = TimeBars()
    made._results, made._chosen = results, chosen
    return made


def of_trials(*names: str, wait: float | None = None, transfer: float | None = None) -> Results:
    """Each trial takes 30 ms more than the one before; the first is the baseline."""
    preset = preset_of({"title": "?", "repeats": 1, "baseline": names[0], "trial": [{"name": name} for name in names]})
    journals = [journal(name, step_ms=10 * number) for number, name in enumerate(names, start=1)]
    results = results_for(preset, *journals)
    return msgspec.structs.replace(results, trials=[_sharing(trial, wait, transfer) for trial in results.trials])


def _sharing(trial: TrialResult, wait: float | None, transfer: float | None) -> TrialResult:
    repeats = [msgspec.structs.replace(each, wait_share=wait, transfer_share=transfer) for each in trial.repeats]
    return msgspec.structs.replace(trial, repeats=repeats)


def test_a_bar_is_as_long_as_the_trial_took_and_split_as_it_spent_it() -> None:
    assert text_of(bars(of_trials("a", "b", wait=0.5, transfer=0.25), "b"), 60, 9) == [
        "  a ━━━━━━░░░░░░░░░░░░▓▓▓▓▓▓ 0.03 s ◆",
        "▸ b ━━━━━━━━━━━━░░░░░░░░░░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓▓▓▓▓ 0.06 s",
        "  ━ work  ░ wait  ▓ transfer  ◆ baseline",
    ]


def test_where_nothing_is_known_of_waiting_all_is_work() -> None:
    assert {"░", "▓"}.isdisjoint("".join(text_of(bars(of_trials("a")), 60, 9)[:-1]))


def test_shares_of_more_than_all_leave_the_bar_as_long_as_it_was() -> None:
    bar = text_of(bars(of_trials("a", wait=0.75, transfer=0.75)), 60, 9)[0]
    assert (bar.count("━"), bar.count("░") > 2 * bar.count("▓") > 0) == (0, True)
    assert len(bar) == len(text_of(bars(of_trials("a")), 60, 9)[0])


def test_a_trial_without_figures_says_why() -> None:
    preset = preset_of({"title": "?", "repeats": 1, "trial": [{"name": "a"}, {"name": "b"}]})
    lines = text_of(bars(results_for(preset, journal("a"), failure("b"))), 60, 9)
    assert lines[1] == "  b failed: rank 1 killed by SIGKILL"


def test_a_trial_that_was_not_run_says_so() -> None:
    preset = preset_of({"title": "?", "repeats": 1, "trial": [{"name": "a"}, {"name": "b"}]})
    assert text_of(bars(results_for(preset, journal("a"))), 60, 9)[1] == "  b not reached"
    stopped = [launched("b"), ended("interrupted")]
    assert text_of(bars(results_for(preset, journal("a"), stopped)), 60, 9)[1] == "  b stopped"


def test_delays_that_were_put_in_are_not_drawn_as_work() -> None:
    results = of_trials("a", wait=0.25, transfer=0.25)
    put_in = [Injected(rank=1, at="forward", fired=3, s=0.015), Injected(rank=1, at="start", fired=1, s=9.0)]
    *lines, legend = text_of(bars(with_delays(results, put_in)), 60, 9)
    assert all(10 < lines[0].count(glyph) < 14 for glyph in "━╳░▓")
    assert "╳ delay put in" in legend


def test_delays_of_more_than_all_the_time_leave_no_work_and_the_bar_as_long_as_it_was() -> None:
    results = of_trials("a", wait=0.5, transfer=0.25)
    bar = text_of(bars(with_delays(results, [Injected(rank=1, at="data", fired=1, s=9.0)])), 60, 9)[0]
    assert (bar.count("━"), bar.count("╳") > 5) == (0, True)
    assert len(bar) == len(text_of(bars(results), 60, 9)[0])
    [trial] = with_delays(results, [Injected(rank=1, at="data", fired=1, s=9.0)]).trials
    assert all(length >= 0 for _, length in time_bars._parts(trial))


def with_delays(results: Results, put_in: list[Injected]) -> Results:
    trials = [
        msgspec.structs.replace(
            trial, repeats=[msgspec.structs.replace(each, injected=put_in) for each in trial.repeats]
        )
        for trial in results.trials
    ]
    return msgspec.structs.replace(results, trials=trials)


@pytest.mark.parametrize("chosen", ["t0", "t7", "t19", None])
def test_with_too_many_trials_those_around_the_chosen_one_are_seen(chosen: str | None) -> None:
    lines = text_of(bars(of_trials(*[f"t{number}" for number in range(20)]), chosen), 60, 8)
    assert len(lines) == 8
    assert "and 14 trials more" in lines
    assert chosen is None or any(line.startswith(f"▸ {chosen} ") for line in lines)


def test_before_the_first_trial_it_says_so() -> None:
    assert text_of(bars(None), 60, 9) == ["no trial yet"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("share", [None, 0.0, 1.0, 2.0])
def test_it_fits_where_there_is_room_for_anything(size: tuple[int, int], share: float | None) -> None:
    width, height = size
    lines = text_of(bars(of_trials("a", "a-very-long-name-indeed", wait=share, transfer=share), "a"), width, height)
    assert len(lines) <= max(3, height)
    assert width < 40 or max(map(len, lines)) <= width


def test_where_the_clocks_of_hosts_do_not_tell_nobody_knows_what_was_waiting() -> None:
    known = of_trials("a", "b", wait=0.5, transfer=0.25)
    [first, other] = known.trials
    apart = [msgspec.structs.replace(each, clock_error_ms=3.0, wait_share=None) for each in first.repeats]
    lines = text_of(
        bars(msgspec.structs.replace(known, trials=[msgspec.structs.replace(first, repeats=apart), other])), 60, 9
    )
    assert set(lines[0]) >= {"?"}
    assert {"━", "░", "▓"}.isdisjoint(lines[0])
    assert "? unknown" in lines[-1]
    assert "unknown" not in text_of(bars(known), 60, 9)[-1]
