"""The user's own strategy is graded by all of its repeats, and not for what other code or the machine did."""

from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.finding import Kind
from ddptui.wire.messages import Audit
from ddptui.wire.records import Failure, Message
from tests.support.builders import (
    audit,
    audit_without_numbers,
    done,
    failure,
    journal,
    preset_of,
    results_for,
    with_done,
)

WRONG = audit(error=0.5, scaled_error=0.5, worst_error=0.5, tensors=2, wrong=("weight",), wrong_tensors=1)
OWN = {"name": "a", "strategy": "mine.py:average"}


def repeat(number: int, found: Audit) -> list[Message]:
    return with_done(journal("a", number), *(done(rank, audit=found) for rank in (0, 1)))


def failed(**changes: Any) -> list[Message]:
    *begun, end = failure("a")
    return [*begun, replace(end, failure=Failure(summary="it failed", **changes))]


def grades(*journals: list[Message], repeats: int = 1) -> list[tuple[Kind, str | None]]:
    preset = preset_of({"title": "?", "trial": [OWN, {"name": "b"}], "repeats": repeats})
    others = [journal("b", number) for number in range(1, repeats + 1)]
    found = results_for(preset, *journals, *others).findings
    return [(each.kind, each.doubt) for each in found if each.kind in (Kind.OWN_RIGHT, Kind.OWN_WRONG)]


def test_one_wrong_repeat_is_enough() -> None:
    assert grades(repeat(1, audit()), repeat(2, audit()), repeats=2) == [(Kind.OWN_RIGHT, None)]
    [(kind, doubt)] = grades(repeat(1, WRONG), repeat(2, audit()), repeats=2)
    assert (kind, doubt) == (Kind.OWN_WRONG, "1 of 2 tensors is not the mean: weight; the others are right")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"rank": 1}, [(Kind.OWN_WRONG, "it failed")]),
        ({"place": "mine.py:3"}, [(Kind.OWN_WRONG, "it failed")]),
    ],
)
def test_a_failure_without_a_rank_or_a_line_is_not_the_strategys(changes: Any, expected: Any) -> None:
    assert grades(failed(**changes)) == expected


def test_what_is_not_finite_is_wrong() -> None:
    assert grades(repeat(1, audit_without_numbers())) == [
        (Kind.OWN_WRONG, "the gradients that it leaves are not finite")
    ]
