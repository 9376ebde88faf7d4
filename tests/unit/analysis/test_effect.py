"""Whether a difference counts as one, given how far the repeats lie apart."""

import pytest

from ddptui.analysis.effect import are_real, beside_baseline, chance_of, effects
from ddptui.wire.records import Load, Message
from tests.support.builders import beside, failure, journal, preset_of, results_for


def outcome(a_ms: tuple[float, ...], b_ms: tuple[float, ...]) -> str:
    preset = preset_of({"repeats": len(a_ms), "trial": [{"name": "a"}, {"name": "b"}]})
    journals = [
        journal(name, number, step_ms=ms)
        for name, of_trial in (("a", a_ms), ("b", b_ms))
        for number, ms in enumerate(of_trial, start=1)
    ]
    results = results_for(preset, *journals)
    [effect] = beside_baseline(results)
    mirrored = effects(results)["a", "b"].outcome
    assert mirrored == {"slower": "faster", "faster": "slower"}.get(effect.outcome, effect.outcome)
    return effect.outcome


@pytest.mark.parametrize(
    ("a_ms", "b_ms", "wanted"),
    [
        ((10, 10, 10), (20, 21, 22), "slower"),
        ((20, 21, 22), (10, 10, 10), "faster"),
        ((10, 10, 10), (10.1, 9.9, 10.2), "alike"),
        ((10, 10, 10), (10.5, 10.4, 10.6), "slower"),  # by 1.05 ± 0.01
        ((10, 10, 10), (10.5, 10.2, 10.9), "alike"),  # by 1.05 ± 0.04, but chance does as much: t is 2.7
        ((10, 11.5, 14), (10.7, 12.3, 14.9), "slower"),  # by 1.07 ± 0.00: what slowed the machine slowed both
        ((10, 10), (11, 10.4), "alike"),  # by 1.07 ± 0.03, but of two repeats each
        ((10, 10), (11, 11.1), "slower"),
        ((10, 10, 10), (10.4, 10.2, 10.9), "alike"),  # by 1.04 ± 0.05, though each repeat is slower
        ((10, 10, 10), (8, 12, 13), "unclear"),
        ((10, 14, 10), (11, 13, 10), "unclear"),
        ((10,), (11.5,), "unclear"),  # one repeat does not show a difference below a quarter
        ((10,), (13,), "slower"),
        ((10,), (7.5,), "faster"),
    ],
)
def test_a_difference_counts_if_it_exceeds_what_the_repeats_differ_by(
    a_ms: tuple[float, ...], b_ms: tuple[float, ...], wanted: str
) -> None:
    assert outcome(a_ms, b_ms) == wanted


@pytest.mark.parametrize(
    ("t", "freedom", "chance"),
    [(12.706, 1, 0.05), (4.303, 2, 0.05), (3.182, 3, 0.05), (2.228, 10, 0.05), (5.841, 3, 0.01), (3.646, 30, 0.001)],
)
def test_how_often_chance_explains_a_difference(t: float, freedom: int, chance: float) -> None:
    assert chance_of(t, freedom) == chance_of(-t, freedom) == pytest.approx(chance, rel=1e-3)
    assert chance_of(0.0, freedom) == pytest.approx(1)


def test_many_differences_have_to_be_surer_the_smallest_chance_first() -> None:
    assert are_real([0.04]) == [True]
    assert are_real([0.04, 0.01]) == [True, True]
    assert are_real([0.04, 0.03]) == [False, False]
    assert are_real([0.6, 0.016, 0.9]) == [False, True, False]
    assert are_real([]) == []


def test_where_repeats_or_figures_are_missing_those_that_are_there_are_compared() -> None:
    preset = preset_of({"repeats": 2, "trial": [{"name": "a"}, {"name": "b"}]})
    results = results_for(preset, journal("a", 1), journal("a", 2, step_ms=20), journal("b", 1, step_ms=40))
    [effect] = beside_baseline(results)
    assert (effect.ratio.low, effect.ratio.high, effect.repeats) == pytest.approx((4, 4, 1))
    results = results_for(preset, journal("a"), failure("b"))
    assert (effects(results), beside_baseline(results)) == ({}, [])


def test_beside_a_busy_machine_the_repeats_are_compared_as_they_took_turns() -> None:
    preset = preset_of({"repeats": 3, "trial": [{"name": "a"}, {"name": "b"}]})
    journals = [
        beside(journal(name, number, step_ms=factor * ms))
        for number, ms in enumerate((10, 20, 14), start=1)
        for name, factor in (("a", 1.0), ("b", 2 + number / 100))
    ]
    [effect] = beside_baseline(results_for(preset, *journals))
    assert (effect.outcome, effect.rough, effect.repeats) == ("slower", "disturbed by other programs", 3)
    assert (effect.ratio.low, effect.ratio.high) == pytest.approx((2.01, 2.03))
    [effect] = beside_baseline(results_for(preset, *journals[:2], *map(quiet, journals[2:])))
    assert (effect.rough, effect.repeats) == ("", 2)  # one of three was disturbed: it is left out
    assert effect.ratio.low == pytest.approx(2.02)


def quiet(messages: list[Message]) -> list[Message]:
    return [message for message in messages if not isinstance(message, Load)]
