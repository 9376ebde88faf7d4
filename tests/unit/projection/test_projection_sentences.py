"""The sentences of a projection, its plot and its tables, from figures made by hand."""

import random
import re
from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.cautions import Caution
from ddptui.projection import Point, sentences
from ddptui.projection.costs import CallCosts
from ddptui.projection.measured import MeasuredStep, MeasuredTrial, Work
from ddptui.projection.model import Extrapolation
from ddptui.projection.report import MEASURED, in_full, plot
from ddptui.projection.slowest_rank import RankSpread, rank_spread
from ddptui.text.tables import as_text

RANKS = (2, 4, 8, 16)
NOBODY = RankSpread(slowest=0, excess_s=0.0, uncertainty=1.0, correlation=0.0, steps=400)
FAST = CallCosts(alpha=2e-6, beta=1e-10, source="stated")


def point(ranks: int, wait: float, exposed: float, *, strategy: str = "flat", measured: float | None = None) -> Point:
    step = 10 + wait + exposed
    return Point(
        strategy=strategy,
        ranks=ranks,
        step_ms=step,
        low_ms=0.9 * step,
        high_ms=1.1 * step,
        work_ms=10,
        wait_ms=wait,
        transfer_ms=exposed,
        exposed_ms=exposed,
        efficiency=10 / step,
        measured_ms=measured,
        error=step / measured - 1 if measured else None,
    )


@pytest.mark.parametrize(
    ("waits", "exposed", "sentence"),
    [
        ((1, 2, 3, 4), (2, 2.5, 2, 1), "past 4 ranks waiting for the slowest rank costs more than exposed"),
        ((1, 2, 3, 4), (0.1, 1, 9, 99), "past 4 ranks exposed communication costs more than waiting"),
        ((1, 2, 3, 4), (0, 0, 0, 0), "on any number of ranks waiting for the slowest rank costs more"),
        ((1, 2, 3, 4), (9, 9, 9, 9), "on any number of ranks exposed communication costs more"),
        ((9, 1, 9, 1), (2, 2, 2, 2), "past 8 ranks exposed communication costs more"),
    ],
)
def test_what_costs_more_and_from_where_on(waits: tuple[float, ...], exposed: tuple[float, ...], sentence: str) -> None:
    said = sentences.what_costs_more([point(*each) for each in zip(RANKS, waits, exposed, strict=True)])
    assert said is not None
    assert said.startswith(sentence)
    assert f"on 16 ranks, {max(waits[-1], exposed[-1]):.3g}" in said.replace(".00", "").replace(".0 ", " ")


def test_of_one_number_of_ranks_and_of_none() -> None:
    assert (sentences.what_costs_more([point(8, 4, 1)]) or "").startswith(
        "on 8 ranks waiting for the slowest rank costs more"
    )
    assert sentences.what_costs_more([]) is None


def test_from_where_on_less_than_half_is_work() -> None:
    points = [point(ranks, ranks, 1) for ranks in RANKS]
    assert sentences.efficiency_limit(points) == "past 8 ranks efficiency falls below 50%: on 16 ranks it is 37%"
    assert sentences.efficiency_limit(points[:2]) == "efficiency on 4 ranks: 67%"
    assert sentences.efficiency_limit(points[3:]) == "efficiency on 16 ranks: 37%"
    nearly = [point(2, 0, 0), point(4, 10.03, 0)]
    assert sentences.efficiency_limit(nearly) == "efficiency on 4 ranks: 50%"


def test_which_strategy_is_fastest_on_the_most_ranks() -> None:
    own = [point(ranks, 1, ranks) for ranks in RANKS]
    slow, near, fast = (
        [point(ranks, 1, factor * ranks, strategy=name) for ranks in RANKS]
        for name, factor in (("ring", 2.0), ("gather", 1.1), ("ddp", 0.5))
    )
    assert (
        sentences.fastest([*own, *slow], own)
        == "on 16 ranks flat is fastest: 27.0 ms a step, against 43.0 ms with ring"
    )
    assert (
        sentences.fastest([*own, *fast], own) == "on 16 ranks ddp is fastest: 19.0 ms a step, against 27.0 ms with flat"
    )
    told = "on 16 ranks the fastest take 27.0 ms a step; too close to call, within 10%: flat, gather"
    assert sentences.fastest([*own, *slow, *near], own) == told
    assert sentences.fastest(own, own) is None


def test_no_strategy_is_fastest_where_one_is_rough() -> None:
    own, other = [point(16, 1, 2)], replace(point(16, 1, 9, strategy="ring"), rough=True)
    assert sentences.fastest([*own, other], own) is None
    (note,) = sentences.rough_notes([*own, other], FAST._replace(worst=0.8))
    assert "off by up to 80%" in note
    assert "ring." in note
    assert sentences.rough_notes(own, FAST._replace(worst=0.8)) == []


def test_figures_are_spelled_so_that_they_can_be_read() -> None:
    told = [sentences.with_unit(ms) for ms in (0.05, 12.0, 20_449.396, 204_493.96, 20_449_396.0)]
    assert told == ["50.0 µs", "12.0 ms", "20.4 s", "3 min", "5.7 h"]
    assert [sentences.ms(value) for value in (None, 12.0, 20_449.4, 20_449_396.0)] == [
        "–",
        "12.0",
        "20449",
        "20,449,396",
    ]
    assert [sentences.percent(part) for part in (0.5, 0.01, 0.0004, 0.0)] == ["50%", "1%", "< 1%", "0%"]
    assert sentences.percent(0.0004, 1) == "< 0.1%"


def test_what_was_measured_stands_beside_what_was_predicted() -> None:
    points = [point(2, 1, 1, measured=10), point(4, 1, 1), point(4, 1, 1, strategy="ring", measured=15)]
    said = sentences.predicted_and_measured(points, "flat", 2, other_network=False)
    assert said == (
        "predicted against measured, a step: flat on 2 ranks (fitted to it) 12.0 ms against 10.0 ms (+20.0%); "
        "ring on 4 ranks 12.0 ms against 15.0 ms (-20.0%)"
    )
    assert not sentences.predicted_and_measured([point(8, 1, 1)], "flat", 2, other_network=False)


def test_how_far_predictions_are_off_comes_first_and_what_they_were_made_from_last() -> None:
    points = [point(2, 1, 1, measured=10), point(4, 1, 1, measured=15)]
    first, *_, last = sentences.findings(points, "flat", 2, other_network=False)
    assert first == "predicted against measured, a step: flat on 4 ranks 12.0 ms against 15.0 ms (-20.0%)"
    assert "on 2 ranks (fitted to it)" in last


def noted(ranks: RankSpread, measured: int = 2, **more: Any) -> list[str]:
    return sentences.notes(sentences.ProjectionContext(measured, 64, ranks, FAST, "weak", **more))


@pytest.mark.parametrize(
    ("ranks", "note"),
    [
        (NOBODY._replace(slowest=1, excess_s=3e-3, uncertainty=1e-3), "rank 1 worked 3.00 ms longer than the mean"),
        (NOBODY._replace(correlation=0.5), r"slow in the same steps \(correlation 0.50\), .* the wait is shorter"),
        (NOBODY._replace(correlation=-0.5), r"slow in different steps \(correlation -0.50\), .* the wait is longer"),
    ],
)
def test_ranks_that_are_no_chance_are_noted(ranks: RankSpread, note: str) -> None:
    with_it = noted(ranks)
    assert len(with_it) == len(noted(NOBODY)) + 1
    assert re.search(note, "\n".join(with_it))
    assert len(noted(ranks._replace(steps=19))) == len(noted(NOBODY._replace(steps=19)))


def test_what_chance_makes_is_not_noted() -> None:
    """Of eight ranks one is the longest by chance alone; of 25 steps, correlations come out at 0.4."""
    longer = NOBODY._replace(excess_s=2.5e-3, uncertainty=1e-3)
    assert len(noted(longer)) == len(noted(NOBODY)) + 1
    assert len(noted(longer, 8)) == len(noted(NOBODY, 8))
    assert len(noted(NOBODY._replace(correlation=0.39, steps=25))) == len(noted(NOBODY))


def test_what_the_band_the_efficiency_and_the_tail_are_is_said() -> None:
    assert sentences.efficiency_note("weak", 2) == "efficiency: the measured work of a step, over the step"
    assert "measured work of 2 ranks" in sentences.efficiency_note("strong", 2)
    assert any(note.startswith("no band: 19 steps") for note in noted(NOBODY._replace(steps=19)))
    tail = noted(NOBODY, extrapolation=Extrapolation(4096, 400, 83e-3), longest_wait_ms=140.0)
    assert any("than the 400 measured steps" in note and "140 ms" in note and "83.0 ms" in note for note in tail)
    assert any("took 1.50 times" in note for note in noted(NOBODY, factor=1.5))


def test_a_calibrated_wait_is_said_and_is_not_less_than_is_said() -> None:
    notes = noted(NOBODY._replace(correlation=0.5), wait_factor=0.8)
    assert any("the measured wait was 0.800 times" in note for note in notes)
    assert any("slow in the same steps" in note for note in notes)
    assert not any("the wait is shorter" in note for note in notes)


def of_lengths(*ranks: list[float]) -> MeasuredTrial:
    moments = [
        MeasuredStep(tuple(Work(s, 0.0, 0.0, 0.0, 0.0, 0.0) for s in step), ()) for step in zip(*ranks, strict=True)
    ]
    return MeasuredTrial((moments,), (), len(ranks), 0, 1, 1.0)


def test_how_ranks_differ() -> None:
    draw = random.Random(1)
    one = [draw.gauss(10, 1) for _ in range(400)]
    other = [draw.gauss(11, 1) for _ in range(400)]
    found = rank_spread(of_lengths(one, other))
    assert found.slowest == 1
    assert found.excess_s == pytest.approx(0.5, abs=0.1)
    assert found.uncertainty == pytest.approx(0.05, rel=0.1)
    assert found.correlation == pytest.approx(0, abs=0.1)
    assert rank_spread(of_lengths(one, one)).correlation == pytest.approx(1)
    assert rank_spread(of_lengths(one, [20 - s for s in one])).correlation == pytest.approx(-1)
    assert rank_spread(of_lengths([1.0] * 5, [1.0] * 5)).correlation == 0


def test_a_caution_names_the_trials_that_it_is_true_of() -> None:
    found = sentences.caution_notes({"two": {Caution.OTHER_LOAD}, "four": {Caution.OTHER_LOAD}, "eight": set()})
    assert len(found) == 1
    assert found[0].startswith("caution, two, four: other programs kept")


def test_the_plot_has_a_line_a_band_what_was_measured_and_two_axes() -> None:
    points = [point(ranks, ranks, 1, measured=20.0 if ranks == 8 else None) for ranks in RANKS]
    drawn = plot(points, 60, 8)
    assert len(drawn) == 1 + 8 + 1
    assert max(map(len, drawn)) <= 60 + len(" ranks")
    assert "".join(drawn).count(MEASURED) == 1
    assert drawn[-1].split() == ["2", "4", "8", "16", "ranks"]
    assert "logarithmic" not in drawn[0]
    assert "logarithmic" in plot([point(2, 1, 1), point(4096, 5000, 1)], 60, 8)[0]
    without = [replace(each, low_ms=None, high_ms=None) for each in points]
    assert "".join(plot(without, 60, 8)).count(MEASURED) == 1
    assert plot(points[:1], 60, 8) == []
    assert plot(points, 10, 8) == []


def test_where_there_is_no_room_columns_go_and_no_line_breaks() -> None:
    points = [point(ranks, ranks, 1, measured=20.0) for ranks in RANKS]
    wide, narrow = as_text(in_full(points), 200), as_text(in_full(points), 60)
    assert "transfer" in wide[0]
    assert "transfer" not in narrow[0]
    assert {"ranks", "step", "efficiency", "measured", "error"} <= set(narrow[0].split())
    assert max(map(len, narrow)) <= 60
    assert "error" not in as_text(in_full([point(2, 1, 1)]), 200)[0]
