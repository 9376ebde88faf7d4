"""What the repeats of a trial say together: the word, who is named in most of them, and what would have been."""

from typing import Any

import msgspec
import pytest

from ddptui.analysis.culprit import culprit_of_repeats
from ddptui.analysis.policy import FEWEST_STEPS
from ddptui.analysis.results import ConfidenceInterval, Culprit, InSync, Loss, RepeatResult, WhatIf
from ddptui.findings import compare


def blamed(rank: int = 1, **changes: Any) -> Culprit:
    found = Culprit(
        rank=rank,
        phase="forward",
        share=0.9,
        wait_caused_s=2.0,
        excess_s=ConfidenceInterval(estimate=2.0, low=1.9, high=2.1),
    )
    return msgspec.structs.replace(found, **changes)


def repeat(culprit: Culprit | None = None, **changes: Any) -> RepeatResult:
    found = RepeatResult(
        train_time_s=10.0, startup_s=1.0, steps=100, samples_per_s=1.0, step_ms=None, phases_ms=None,
        loss=Loss(first=None, last=None), accuracy=None, in_sync=InSync(parameters=None, buffers=None, differing=[]),
        ranks=[], culprit=culprit,
    )  # fmt: skip
    return msgspec.structs.replace(found, **changes)


def shares(wait: float, transfer: float, steps: int = 100) -> RepeatResult:
    return repeat(wait_share=wait, transfer_share=transfer, steps=steps)


FEW = shares(0.5, 0.0, steps=FEWEST_STEPS - 1)


@pytest.mark.parametrize(
    ("repeats", "word"),
    [
        ([shares(0.5, 0.0), shares(0.5, 0.1), shares(0.0, 0.5)], "skew"),
        ([shares(0.0, 0.5), shares(0.1, 0.5), shares(0.5, 0.0)], "transfer"),
        ([shares(0.5, 0.0), shares(0.0, 0.5)], "mixed"),
        ([], "inconclusive"),
        ([repeat()], "inconclusive"),  # it has no operations
        ([FEW], "inconclusive"),
        ([shares(0.5, 0.0, steps=FEWEST_STEPS), repeat()], "skew"),
    ],
)
def test_the_word_is_that_of_the_median_shares(repeats: list[RepeatResult], word: str) -> None:
    assert compare.verdict_of_repeats(repeats) == word


@pytest.mark.parametrize(
    ("ranks", "rank"),
    [
        ([], None),
        ([1], 1),
        ([1, None], None),
        ([1, 0], None),
        ([1, 1, None], 1),
        ([None, 1, None, 1, 1], 1),
    ],
)
def test_who_is_named_in_more_than_half_of_the_repeats_is_named(ranks: list[int | None], rank: int | None) -> None:
    found = culprit_of_repeats([repeat(None if each is None else blamed(each)) for each in ranks])
    assert (found.rank if found else None) == rank


def test_the_figures_are_means_over_the_repeats_that_name_it() -> None:
    repeats = [
        repeat(blamed(share=0.8, wait_caused_s=1.0, excess_s=ConfidenceInterval(estimate=1.0, low=0.7, high=1.3))),
        repeat(blamed(share=0.6, wait_caused_s=3.0, excess_s=ConfidenceInterval(estimate=3.0, low=2.6, high=3.4))),
        repeat(blamed(rank=0, share=0.1, wait_caused_s=50.0)),
    ]
    found = culprit_of_repeats(repeats)
    assert (found.share, found.wait_caused_s, found.excess_s.estimate) == pytest.approx((0.7, 2.0, 2.0))
    # Their own halves, 0.35 on average, do not shrink; two repeats 2 apart say little of their mean.
    half = (0.35**2 + 2.0**2) ** 0.5
    assert (found.excess_s.low, found.excess_s.high) == pytest.approx((2.0 - half, 2.0 + half))


def test_the_phase_is_the_most_frequent_one_and_it_is_slower_everywhere_if_most_repeats_say_so() -> None:
    found = culprit_of_repeats([repeat(blamed(phase=phase)) for phase in ("data", "forward", "forward")])
    assert found.phase == "forward"
    for factors, slower in (((2.0, 3.0, None), 2.5), ((2.0, None), None), ((None,), None)):
        assert culprit_of_repeats([repeat(blamed(slower=factor)) for factor in factors]).slower == slower


def test_what_would_have_been_is_the_median_over_those_who_name_the_culprit() -> None:
    def told(culprit: Culprit | None, without: float | None, skew: float) -> RepeatResult:
        return repeat(culprit, what_if_s=WhatIf(without_culprit=without, without_skew=skew))

    repeats = [told(blamed(), 4.0, 3.0), told(blamed(), 6.0, 5.0), told(blamed(0), 100.0, 4.0), told(None, None, 8.0)]
    found = compare.what_if_of_repeats(repeats, blamed())
    assert found == WhatIf(without_culprit=5.0, without_skew=4.5)
    assert compare.what_if_of_repeats(repeats, None) == WhatIf(without_culprit=None, without_skew=4.5)
    assert compare.what_if_of_repeats([repeat()], None) is None
