"""The trials of a run as bars: as long as they took, or by which parts they took longer than the baseline."""

import msgspec
import pytest

from ddptui.analysis.results import (
    ConfidenceInterval,
    Culprit,
    Injected,
    RankResult,
    RepeatResult,
    Results,
    Summary,
    TrialResult,
)
from ddptui.tui.widgets.charts import TimeBars
from tests.support.builders import beside, ended, failure, journal, launched, preset_of, results_for
from tests.tui.drawn import SIZES, text_of


def bars(results: Results | None, chosen: str | None = None, *, differences: bool = False) -> TimeBars:
    made = TimeBars()
    made.shows_differences = differences
    if results:
        made.show(results, chosen)
    return made


def of_trials(*names: str, **shares: float | None) -> Results:
    """Each trial takes 30 ms more than the one before; the first is the baseline. shares: of the time of each rank."""
    preset = preset_of({"title": "?", "repeats": 1, "baseline": names[0], "trial": [{"name": name} for name in names]})
    journals = [journal(name, step_ms=10 * number) for number, name in enumerate(names, start=1)]
    results = results_for(preset, *journals)
    return msgspec.structs.replace(results, trials=[sharing(trial, **shares) for trial in results.trials])


def sharing(
    trial: TrialResult,
    wait: float | None = None,
    transfer: float | None = None,
    work: float | None = None,
    delay: float = 0.0,
) -> TrialResult:
    """The trial, each of whose ranks spent so much of its time on each part; work: what is left, if not given."""

    def of_rank(rank: RankResult, s: float) -> RankResult:
        worked = 1 - (wait or 0.0) - (transfer or 0.0) if work is None else work
        return msgspec.structs.replace(
            rank,
            wait_s=None if wait is None else wait * s,
            exposed_s=None if transfer is None else ((wait or 0.0) + transfer) * s,
            work_s={"forward": worked * s},
        )

    def of_repeat(repeat: RepeatResult) -> RepeatResult:
        ranks = [of_rank(rank, repeat.train_time_s) for rank in repeat.ranks]
        put_in = [
            Injected(rank=rank.rank, at=at, fired=3, s=s)
            for rank in ranks
            for at, s in (("forward", delay * repeat.train_time_s), ("start", 9.0))
        ]
        return msgspec.structs.replace(repeat, ranks=ranks, injected=put_in if delay else [])

    return msgspec.structs.replace(trial, repeats=[of_repeat(repeat) for repeat in trial.repeats])


# Whole times


def test_a_bar_is_as_long_as_the_trial_took_and_split_as_it_spent_it() -> None:
    assert text_of(bars(of_trials("a", "b", wait=0.5, transfer=0.25), "b"), 60, 9) == [
        "  a ━━━━━━░░░░░░░░░░░░▓▓▓▓▓▓ 0.03 s ◆",
        "▸ b ━━━━━━━━━━━━░░░░░░░░░░░░░░░░░░░░░░░░▓▓▓▓▓▓▓▓▓▓▓▓ 0.06 s",
        "  ━ own work  ░ waiting  ▓ transfer  ◆ baseline",
    ]


def test_what_is_not_explained_is_neither_work_nor_waiting() -> None:
    *lines, legend = text_of(bars(of_trials("a", work=0.5)), 60, 9)
    assert 0.9 < lines[0].count("?") / lines[0].count("━") < 1.1
    assert "? unexplained" in legend


def test_what_has_no_times_says_why() -> None:
    preset = preset_of({"title": "?", "repeats": 1, "trial": [{"name": "a"}, {"name": "b"}]})
    stopped = [launched("b"), ended("interrupted")]
    for told, words in (
        ([], "b was not reached"),
        ([stopped], "b was stopped before its end: no figures"),
        ([failure("b")], "b failed"),  # why, the words beside the bars say
    ):
        assert text_of(bars(results_for(preset, journal("a"), *told)), 60, 9)[1] == f"  {words}"
    assert text_of(bars(None), 60, 9) == ["no trial yet"]


def test_delays_that_were_put_in_are_not_drawn_as_work() -> None:
    *lines, legend = text_of(bars(of_trials("a", wait=0.25, transfer=0.25, delay=0.25)), 60, 9)
    assert all(10 < lines[0].count(glyph) < 14 for glyph in "━╳░▓")
    assert "╳ injected delays" in legend


@pytest.mark.parametrize(("chosen", "differences"), [("t0", False), ("t19", True), (None, False)])
def test_with_too_many_trials_those_around_the_chosen_one_are_seen(chosen: str | None, differences: bool) -> None:
    results = of_trials(*[f"t{number}" for number in range(20)])
    lines = text_of(bars(results, chosen, differences=differences), 60, 8)
    assert len(lines) == 8
    assert any(line.endswith(" trials more") for line in lines)
    assert chosen is None or any(line.startswith(f"▸ {chosen} ") for line in lines)


@pytest.mark.parametrize("share", [None, 2.0])
@pytest.mark.parametrize("differences", [False, True])
def test_it_fits_where_there_is_room_for_anything(share: float | None, differences: bool) -> None:
    results = of_trials("a", "a-very-long-name-indeed", wait=share, transfer=share)
    for width, height in SIZES:
        lines = text_of(bars(results, "a-very-long-name-indeed", differences=differences), width, height)
        assert width < 40 or len(lines) <= max(4, height)
        assert width < 40 or max(map(len, lines)) <= width


def test_where_the_clocks_of_hosts_do_not_tell_waiting_and_transfer_are_one() -> None:
    *lines, legend = text_of(bars(of_trials("a", transfer=0.5)), 60, 9)
    assert "?" in lines[0]
    assert {"░", "▓"}.isdisjoint(lines[0])
    assert "? waiting or transfer" in legend
    assert "waiting or" not in text_of(bars(of_trials("a", wait=0.25, transfer=0.25)), 60, 9)[-1]


# Differences


def test_what_is_added_is_right_of_the_line_and_what_is_saved_left_of_it() -> None:
    results = of_trials("base", "more", "less")
    base, more, less = results.trials  # of 30, 60 and 90 ms
    trials = [
        sharing(base, work=0.5, wait=0.5, transfer=0.0),
        sharing(more, work=0.25, wait=0.5, transfer=0.25),
        sharing(less, work=0.1, wait=0.0, transfer=0.9),
    ]
    *lines, legend = text_of(bars(msgspec.structs.replace(results, trials=trials), differences=True), 60, 9)
    at = lines[0].index("│")
    assert [line.index("│") for line in lines] == [at] * 3
    assert lines[0][at:] == "│ ◆"
    assert set(lines[1][at + 1 :].split()[0]) == {"░", "▓"}  # as much work as before
    assert lines[1].endswith(" +0.03 s")
    assert set(lines[2][:at].split()[-1]) == {"░", "━"}
    assert set(lines[2][at + 1 :].split()[0]) == {"▓"}
    saved, added = lines[2][:at].count("░") + lines[2][:at].count("━"), lines[2].count("▓")
    assert pytest.approx((added - saved) / added, abs=0.06) == 60 / 81  # 90 ms instead of 30, with 81 ms of transfer
    assert [name in legend for name in ("own work", "waiting", "transfer", "unexplained")] == [True, True, True, False]


def test_the_difference_of_the_chosen_trial_is_a_sum_in_words() -> None:
    results = of_trials("base", "more", wait=0.0, transfer=0.0)
    base, more = results.trials  # of 30 and 60 ms
    late = blamed(sharing(more, wait=0.25, transfer=0.0))
    results = msgspec.structs.replace(results, trials=[base, late])
    lines = text_of(bars(results, "more", differences=True), 50, 9)
    assert lines[-2:] == ["  +30.0 ms = +15.0 own work +15.0 waiting for rank", "  1 (aggregate)"]
    assert len(text_of(bars(results, "base", differences=True), 60, 9)) == 3  # the baseline has no difference
    assert not any("=" in line for line in text_of(bars(results, "more"), 60, 9))


def blamed(trial: TrialResult) -> TrialResult:
    """Rank 1 was late."""
    excess = ConfidenceInterval(estimate=1.0, low=0.9, high=1.1)
    culprit = Culprit(rank=1, phase="aggregate", share=1.0, wait_caused_s=9.0, excess_s=excess)
    assert isinstance(trial.summary, Summary)
    repeats = [
        msgspec.structs.replace(
            repeat, ranks=[msgspec.structs.replace(rank, wait_caused_s=9.0) for rank in repeat.ranks]
        )
        for repeat in trial.repeats
    ]
    return msgspec.structs.replace(
        trial, repeats=repeats, summary=msgspec.structs.replace(trial.summary, culprit=culprit)
    )


def test_without_a_baseline_no_difference_is_drawn_and_the_reason_is_told() -> None:
    preset = preset_of({"title": "?", "repeats": 1, "trial": [{"name": "a"}, {"name": "b"}]})
    failed = results_for(preset, failure("a"), journal("b"))
    assert text_of(bars(failed, "b", differences=True), 60, 9) == [
        "no differences: a, the baseline, failed (rank 1 was killed",
        "by SIGKILL)",
    ]
    disturbed = results_for(preset, beside(journal("a")), journal("b"))
    assert any(line.endswith(" s ⚠") for line in text_of(bars(disturbed, "b", differences=True), 60, 9))
    first, second, *_ = text_of(bars(disturbed, "b"), 60, 9)
    assert first.endswith(" 0.03 s ⚠ ◆")
    assert second.endswith(" 0.03 s")
