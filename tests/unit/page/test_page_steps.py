"""Timelines and arrivals of a page: what is drawn is what the ranks did, and of many ranks a few."""

import re
from functools import cache

from msgspec.structs import replace

from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.findings.verdict import analyze_waits
from ddptui.live.excerpts import LONGEST_WAIT, TYPICAL, excerpts
from ddptui.page.recorded import MOST_POINTS, recorded
from ddptui.page.steps import CELLS, MOST_RANKS, MOST_STEPS, Track, arrivals, timeline
from ddptui.page.trials import CAPTION, CAPTION_OF_BLOCKS, MOST_ROWS, SHADES, panel
from tests.support.builders import results_for, step, two_trials
from tests.support.traces import delayed, trace, works_of
from tests.unit.page.pages import Told, a_run, journal_of, late_steps


@cache
def aligned(ranks: int = 2, steps: int = 9) -> list[AlignedStep]:
    return align_steps(dict(enumerate(late_steps(ranks, steps)))).steps


def cells(track: Track, kind: str) -> int:
    """How many cells show this."""
    path = dict(track.paths)[kind]
    return sum(int(length) for length in re.findall(r"h(\d+)", path))


def test_a_wait_is_as_long_as_it_was() -> None:
    [typical, *_] = excerpts(aligned())
    drawn = timeline(typical)
    ns = sum(aligned_step.ranks[0].wait_ns for aligned_step in typical.steps)
    begin = min(rank.step.begin_ns for rank in typical.steps[0].ranks.values())
    end = max(rank.step.end_ns for rank in typical.steps[-1].ranks.values())
    assert abs(cells(drawn.tracks[0], "wait") / CELLS - ns / (end - begin)) < 0.01
    assert "wait" not in dict(drawn.tracks[1].paths)
    assert drawn.kinds[-2:] == ["transfer", "wait"]


def test_of_times_that_devices_may_be_behind_no_wait_is_drawn() -> None:
    joined = align_steps(dict(enumerate(late_steps(2, 9))), devices={0: "xpu:0", 1: "xpu:1"}).steps
    [typical] = excerpts(joined)
    drawn = timeline(typical)
    assert "wait" not in drawn.kinds
    assert drawn.unit == "ms of host time: the device may be behind"
    assert timeline(excerpts(aligned())[0]).unit == "ms"
    assert arrivals(joined, None) is None


def test_paths_go_forward_only_and_stay_in_the_picture() -> None:
    for excerpt in excerpts(aligned()):
        for track in timeline(excerpt).tracks:
            for _, path in track.paths:
                moves = [int(move) for move in re.findall(r"[mh](\d+)", path)]
                assert path.startswith("M0 0m")
                assert sum(moves) <= CELLS


def test_steps_are_marked_where_they_begin_and_the_chosen_one_stands_out() -> None:
    [excerpt, *_] = excerpts(aligned())
    marks = timeline(excerpt).marks
    assert [mark.number for mark in marks] == [each.number for each in excerpt.steps]
    assert [mark.number for mark in marks if mark.is_it] == [excerpt.number]
    assert marks[0].at == "0%"


def test_of_many_ranks_the_ones_of_interest_are_shown_and_the_others_counted() -> None:
    many = aligned(ranks=40, steps=4)
    drawn, found = timeline(excerpts(many)[0]), arrivals(many, None)
    assert found
    assert len(drawn.tracks) == len(found.bars.bars) == MOST_RANKS
    assert 39 in [track.rank for track in drawn.tracks]  # the late one
    assert "rank 39" in [bar.name for bar in found.bars.bars]
    assert drawn.left_out == "24 ranks that waited longer are not shown"


def test_arrivals_are_medians_of_at_most_so_many_steps() -> None:
    found = arrivals(aligned(), None)
    assert found
    assert found.steps == "9 steps"
    assert found.bars.bars[1].figure == "last in 9 of 9"
    assert set(found.bars.kinds) == {"work", "wait", "transfer", "rest"}
    long = arrivals(aligned(steps=2 * MOST_STEPS + 1), None)
    assert long
    assert int(long.steps.split()[0]) <= MOST_STEPS


def test_arrivals_are_of_the_steps_that_the_culprit_was_judged_on() -> None:
    """Rank 1 is late from step 12 on, as after a key of the user."""
    works, _ = delayed(works_of(1, steps=40), 1, "forward", lambda number: 30 if number >= 12 else 0)
    analysis = analyze_waits(trace(works))
    assert analysis
    assert analysis.culprit
    found = arrivals(analysis.aligned.steps, replace(analysis.culprit, steps=(12, 39)))
    assert found
    assert found.steps == "28 steps from 12 to 39"
    assert found.bars.bars[1].figure == "last in 28 of 28"


def test_one_rank_has_no_arrivals() -> None:
    assert arrivals(aligned(ranks=1), None) is None
    assert arrivals([], None) is None


def test_the_excerpts_are_the_median_step_and_the_longest_wait() -> None:
    works, _ = delayed(works_of(1, steps=9), 1, "aggregate", lambda number: 30 if number == 6 else 1)
    typical, longest = excerpts(align_steps(trace(works)).steps)
    assert (typical.why, longest.why, longest.number) == (TYPICAL, LONGEST_WAIT, 6)
    assert typical.number != 6
    assert [each.number for each in longest.steps] == [5, 6, 7]


def test_an_excerpt_holds_no_step_that_is_not_next_to_it() -> None:
    gaps = [each for each in aligned() if each.number % 2]
    assert [len(excerpt.steps) for excerpt in excerpts(gaps)] == [1] * len(excerpts(gaps))
    assert excerpts([]) == []


def test_a_panel_says_who_waits_for_whom() -> None:
    run, _, results = a_run()
    shown = panel(results.trials[1], results, recorded(run, results.trials[1]), "", prints=True)
    assert shown.matrix
    assert [row.ranks for row in shown.matrix.rows] == ["0", "1"]
    assert shown.matrix.rows[0].cells[1].shade == SHADES
    assert shown.matrix.rows[0].cells[0].text == ""
    assert shown.matrix.caption == CAPTION
    assert len(shown.timelines) == 2
    assert not shown.why_empty


def test_many_ranks_are_put_together_in_a_matrix() -> None:
    preset = two_trials(repeats=1)
    told = journal_of(late_steps(40, 4))
    results = results_for(preset, told)
    trial = results.trials[0]
    shown = panel(trial, results, recorded(Told(told), trial), "", prints=False)
    assert shown.matrix
    assert len(shown.matrix.rows) <= MOST_ROWS
    assert shown.matrix.rows[0].ranks == "0–2"
    assert shown.matrix.caption == CAPTION_OF_BLOCKS


def test_a_trial_without_steps_says_why_it_has_no_pictures() -> None:
    _, _, results = a_run()
    run = Told([])
    assert (
        "without instruments"
        in panel(results.trials[1], results, recorded(run, results.trials[1]), "", prints=True).why_empty
    )


def test_a_loss_curve_has_a_bounded_number_of_points() -> None:
    long = [[step(0, n, begin_ms=3000 + 10 * n, end_ms=3009 + 10 * n, loss=1.0) for n in range(2_000)]]
    told = journal_of(long)
    trial = results_for(two_trials(repeats=1), told).trials[0]
    assert MOST_POINTS / 3 < len(recorded(Told(told), trial).loss) <= MOST_POINTS
