"""Timelines and arrivals of a page: what is drawn is what the ranks did, and of many ranks a few."""

import re
from functools import cache

from msgspec.structs import replace

from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.findings.verdict import analyze_waits
from ddptui.live.timeline import LONGEST_WAIT, TYPICAL, excerpts
from ddptui.page.pages import page
from ddptui.page.panes import (
    MATRIX,
    MATRIX_OF_BLOCKS,
    MOST_RANKS,
    MOST_STEPS,
    SHADES,
    arrivals,
    losses,
    matrix,
    of_trial,
    timeline,
)
from ddptui.page.render import UNITS_X, Chart
from tests.support.builders import results_for, two_trials
from tests.support.launches import launch_of
from tests.support.traces import delayed, trace, works_of
from tests.unit.page.pages import Found, Told, a_run, late_steps, shapes, texts

A_TRIAL = a_run()[2].trials[0]  # no rank of it is late


@cache
def aligned(ranks: int = 2, steps: int = 9) -> list[AlignedStep]:
    return align_steps(late_steps(ranks, steps)).steps


def tracks(chart: Chart, rank: int) -> dict[str, str]:
    """The path of each kind of activity of a rank."""
    drawn = [shape for shape in shapes(chart, "path") if shape.text.startswith(f"rank {rank}:")]
    return {str(shape.attributes["class"]).removeprefix("track "): str(shape.attributes["d"]) for shape in drawn}


def test_a_wait_is_as_long_as_it_was() -> None:
    [typical, *_] = excerpts(aligned())
    drawn = timeline(typical)
    ns = sum(aligned_step.ranks[0].wait_ns for aligned_step in typical.steps)
    begin = min(rank.step.begin_ns for rank in typical.steps[0].ranks.values())
    end = max(rank.step.end_ns for rank in typical.steps[-1].ranks.values())
    cells = sum(int(length) for length in re.findall(r"h(\d+)", tracks(drawn, 0)["wait"]))
    assert abs(cells / UNITS_X - ns / (end - begin)) < 0.01
    assert "wait" not in tracks(drawn, 1)
    assert drawn.key[-2:] == [("track transfer", "transfer"), ("track wait", "wait")]


def test_of_times_that_devices_may_be_behind_no_wait_is_drawn() -> None:
    joined = align_steps(late_steps(2, 9), devices={0: "xpu:0", 1: "xpu:1"}).steps
    [typical] = excerpts(joined)
    drawn = timeline(typical)
    assert "wait" not in dict(drawn.key).values()
    assert "ms of host time: the device may be behind" in texts(drawn)
    assert "ms" in texts(timeline(excerpts(aligned())[0]))
    assert arrivals(A_TRIAL, joined) == []


def test_paths_go_forward_only_and_steps_are_marked_where_they_begin() -> None:
    for excerpt in excerpts(aligned()):
        drawn = timeline(excerpt)
        for path in (path for rank in (0, 1) for path in tracks(drawn, rank).values()):
            moves = [int(move) for move in re.findall(r"[mh](\d+)", path)]
            assert path.startswith("M0 500m")
            assert sum(moves) <= UNITS_X
    [excerpt, *_] = excerpts(aligned())
    marks = [shape for shape in shapes(timeline(excerpt), "text") if shape.text.startswith("step")]
    assert [mark.text for mark in marks] == [f"step {each.number}" for each in excerpt.steps]
    assert [mark.text for mark in marks if mark.attributes["class"] == "first ink"] == [f"step {excerpt.number}"]
    assert marks[0].attributes["x"] == "0%"


def test_of_many_ranks_the_ones_of_interest_are_shown_and_a_matrix_put_together() -> None:
    many = aligned(ranks=40, steps=4)
    drawn, [found] = timeline(excerpts(many)[0]), arrivals(A_TRIAL, many)
    assert len(drawn.left) - 1 == len(texts(found)) / 2 == MOST_RANKS
    assert "39" in [rank for _, rank in drawn.left]  # the late one
    assert "rank 39" in texts(found)
    assert drawn.notes == ["24 ranks that waited longer are not shown"]
    preset = two_trials(repeats=1)
    [drawn] = matrix(results_for(preset, launch_of(late_steps(40, 4))).trials[0])
    assert len(drawn.left) - 1 <= MOST_RANKS
    assert drawn.left[1][1] == "0–2"
    assert drawn.name == MATRIX_OF_BLOCKS


def test_arrivals_are_medians_of_at_most_so_many_steps() -> None:
    assert arrivals(A_TRIAL, aligned(ranks=1)) == arrivals(A_TRIAL, []) == []
    [found] = arrivals(A_TRIAL, aligned())
    assert "medians over 9 steps." in found.name
    assert texts(found) == ["rank 0", "", "rank 1", "last in 9 of 9"]
    assert set(dict(found.key)) == {"work", "wait", "transfer", "rest"}
    [long] = arrivals(A_TRIAL, aligned(steps=2 * MOST_STEPS + 1))
    assert int(re.findall(r"over (\d+) steps", long.name)[0]) <= MOST_STEPS


def test_arrivals_are_of_the_steps_that_the_culprit_was_judged_on() -> None:
    """Rank 1 is late from step 12 on, as after a key of the user."""
    works, _ = delayed(works_of(1, steps=40), 1, "forward", lambda number: 30 if number >= 12 else 0)
    analysis = analyze_waits(trace(works))
    assert analysis
    assert analysis.culprit
    assert A_TRIAL.summary
    judged = replace(A_TRIAL.summary, culprit=replace(analysis.culprit, steps=(12, 39)))
    [found] = arrivals(replace(A_TRIAL, summary=judged), analysis.aligned.steps)
    assert "28 steps from 12 to 39" in found.name
    assert texts(found)[-1] == "last in 28 of 28"


def test_the_excerpts_are_the_median_step_and_the_longest_wait_with_their_neighbours() -> None:
    works, _ = delayed(works_of(1, steps=9), 1, "aggregate", lambda number: 30 if number == 6 else 1)
    typical, longest = excerpts(align_steps(trace(works)).steps)
    assert (typical.why, longest.why, longest.number) == (TYPICAL, LONGEST_WAIT, 6)
    assert typical.number != 6
    assert [each.number for each in longest.steps] == [5, 6, 7]
    gaps = [each for each in aligned() if each.number % 2]
    assert [len(excerpt.steps) for excerpt in excerpts(gaps)] == [1] * len(excerpts(gaps))
    assert excerpts([]) == []


def test_a_trial_shows_who_waits_for_whom() -> None:
    run, _, results = a_run()
    panes = of_trial(run, results.trials[1])
    [drawn] = panes["matrix"]
    assert drawn.name == MATRIX
    assert [words for _, words in drawn.left] == ["rank", "0", "1"]
    looks = [str(cell.attributes["class"]) for cell in shapes(drawn, "rect")]
    assert looks[:2] == ["s0", f"s{SHADES}"]
    shown = texts(drawn)
    assert shown[:3] == ["for rank", "0", ""]
    assert drawn.about.startswith(f"rank 0 waited {shown[3]} for rank 1 (100% of its waiting); ")
    assert len(panes["timeline"]) == 2


def test_a_trial_without_steps_has_no_pictures_and_losses_are_of_those_that_have_one() -> None:
    _, preset, results = a_run()
    assert "without instruments" in Found(page(Told([]), preset, results)).text
    run, _, results = a_run()
    [drawn] = losses(run, results)
    assert [words for _, words in drawn.key] == ["a: 1.000", "b: 0.035"]
    assert losses(Told([]), results) == []
