"""Whether a difference counts as one, given how far the repeats lie apart."""

import random
from math import exp

import pytest

from ddptui.findings.effect import effect_between, effects
from tests.support.builders import failure, journal, preset_of, results_for


def outcome(a_ms: tuple[float, ...], b_ms: tuple[float, ...]) -> str:
    preset = preset_of({"repeats": len(a_ms), "trial": [{"name": "a"}, {"name": "b"}]})
    journals = [
        journal(name, number, step_ms=ms)
        for name, of_trial in (("a", a_ms), ("b", b_ms))
        for number, ms in enumerate(of_trial, start=1)
    ]
    results = results_for(preset, *journals)
    [effect] = effects(results.trials, results.trials[0])
    between = effect_between(results.trials[1], results.trials[0])
    assert between == effect
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


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_of_equal_trials_one_in_twenty_seems_to_differ(repeats: int) -> None:
    """Judged by the ± alone, it would be 173, 56 and 8 of the 400."""
    chance = random.Random(repeats)

    def times() -> tuple[float, ...]:
        return tuple(10 * exp(chance.gauss(0, 0.05)) for _ in range(repeats))

    differing = sum(outcome(times(), times()) in ("slower", "faster") for _ in range(400))
    assert differing <= 0.07 * 400


def test_a_trial_without_figures_has_no_effect() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    a, b = results_for(preset, journal("a"), failure("b")).trials
    assert effects([a, b], a) == []
    assert effect_between(b, a) is None


def test_where_repeats_are_missing_the_ratio_may_be_anything_between_the_extremes() -> None:
    preset = preset_of({"repeats": 2, "trial": [{"name": "a"}, {"name": "b"}]})
    a, b = results_for(preset, journal("a", 1), journal("a", 2, step_ms=20), journal("b", 2, step_ms=40)).trials
    effect = effect_between(b, a)
    assert effect is not None
    assert (effect.ratio.low, effect.ratio.high) == pytest.approx((2, 4))
