"""What is typed in to delay a rank that runs."""

from typing import Any

import pytest

from ddptui.config.trial import Bottleneck, Trial, TrialError
from ddptui.config.trial_values import make_trial
from ddptui.tui.screens.inject import can_still_come, sites, with_delay


def trial(**fields: Any) -> Trial:
    return make_trial({"name": "a", **fields})


def delay(at: str = "forward", ranks: tuple[int, ...] = (1,), sleep_ms: float = 20, **others: Any) -> Bottleneck:
    return Bottleneck(at=at, ranks=ranks, sleep_ms=sleep_ms, **others)  # type: ignore[arg-type]


def put_in(
    at: str = "forward", ranks: str = "1", sleep_ms: str = "20", *there: Bottleneck, **fields: Any
) -> tuple[Bottleneck, ...]:
    return with_delay(trial(**fields), there, at, ranks, sleep_ms)


def refusal(at: str = "forward", ranks: str = "1", sleep_ms: str = "20", **fields: Any) -> str:
    with pytest.raises(TrialError) as refused:
        put_in(at, ranks, sleep_ms, **fields)
    return str(refused.value)


def test_a_rank_that_runs_can_be_delayed_anywhere_but_at_its_start() -> None:
    assert sites() == ["data", "forward", "backward", "aggregate"]
    there = (delay("start"), delay("data"), delay("start", (0,)), delay("aggregate"))
    assert can_still_come(there) == (delay("data"), delay("aggregate"))
    assert can_still_come(()) == ()


def test_a_slow_link_stays_as_it_is_and_cannot_be_put_in_while_ranks_run() -> None:
    link = Bottleneck(at="link", ranks=(1,), mbit=100)
    assert can_still_come((link, delay("data"))) == (delay("data"),)
    assert put_in("forward", bottleneck=[{"at": "link", "ranks": [1], "mbit": 100}]) == (delay(),)
    why = "at: the links are made before the ranks start; a slow one goes into the preset"
    assert refusal("link", "1", "100") == why


@pytest.mark.parametrize("at", ["data", "forward", "backward", "aggregate"])
def test_what_was_typed_in_is_a_delay_in_every_step(at: str) -> None:
    assert put_in(at) == (delay(at),)


@pytest.mark.parametrize(
    ("ranks", "sleep_ms", "wanted"),
    [
        ("0", "0.5", delay(ranks=(0,), sleep_ms=0.5)),
        ("0,1", "20", delay(ranks=(0, 1))),
        (" 0 , 1 ", " 20 ", delay(ranks=(0, 1))),
        ("1,", "20", delay(ranks=(1,))),
        ("1", "60000", delay(sleep_ms=60_000)),
        ("1", "2e1", delay()),
    ],
)
def test_numbers_may_be_spelled_as_people_do(ranks: str, sleep_ms: str, wanted: Bottleneck) -> None:
    assert put_in("forward", ranks, sleep_ms) == (wanted,)


def test_it_comes_on_top_of_what_is_there() -> None:
    there = (delay("data"), delay("forward", (0,)), delay("aggregate", per="call"))
    assert put_in("forward", "1", "20", *there) == (*there, delay())


def test_one_at_the_same_site_on_the_same_ranks_gives_way() -> None:
    other = delay("data")
    there = (delay(sleep_ms=5, every=3, jitter="uniform"), other)
    assert put_in("forward", "1", "20", *there) == (other, delay())
    assert put_in("forward", "1", "30", *put_in()) == (delay(sleep_ms=30),)


def test_one_on_other_ranks_too_stays() -> None:
    there = delay(ranks=(0, 1))
    assert put_in("forward", "1", "20", there) == (there, delay())


def test_the_trials_own_delays_are_not_checked_again_nor_added() -> None:
    assert put_in(bottleneck=[{"at": "start", "ranks": [0], "sleep_ms": 3}]) == (delay(),)


@pytest.mark.parametrize(
    ("ranks", "sleep_ms", "why"),
    [
        ("", "20", "ranks: names no rank"),
        (" , ", "20", "ranks: names no rank"),
        ("2", "20", "ranks: no rank 2: trial a has ranks 0 to 1"),
        ("1,1", "20", "ranks: names a rank twice"),
        ("99999999999999999999", "20", "ranks: no rank 99999999999999999999: trial a has ranks 0 to 1"),
        ("-1", "20", "ranks[0]: expected an integer of 0 or more, got -1"),
        ("0,1.5", "20", "ranks[1]: expected an integer, got 1.5"),
        ("one", "20", 'ranks[0]: expected an integer, got "one"'),
        ("true", "20", 'ranks[0]: expected an integer, got "true"'),
        ("0 1", "20", 'ranks[0]: expected an integer, got "0 1"'),
        ("0-1", "20", 'ranks[0]: expected an integer, got "0-1"'),
        ("1", "", 'sleep_ms: "" is not a number'),
        ("1", "20 ms", 'sleep_ms: "20 ms" is not a number'),
        ("1", "1,5", 'sleep_ms: "1,5" is not a number'),
        ("1", "-1", "sleep_ms: expected a number of 0 or more, got -1"),
        ("1", "0", "sleep_ms: a delay needs it: how long, in ms, more than 0"),
        ("1", "nan", "sleep_ms: expected a number of 0 or more, got nan"),
        ("1", "inf", "sleep_ms: expected a number of 86400000 at most, got inf"),
        ("1", "86400001", "sleep_ms: expected a number of 86400000 at most, got 86400001"),
        ("1", "60001", "sleep_ms: at most 60,000 while it runs; a longer delay goes into the preset"),
    ],
)
def test_what_is_no_delay_is_refused_with_the_field_and_the_reason(ranks: str, sleep_ms: str, why: str) -> None:
    assert refusal("forward", ranks, sleep_ms) == why


HOSTILE = [
    "1]",
    "1}]",
    '"',
    "'",
    "\\",
    "1\n2",
    "1\nx = 2",
    "1 # no",
    "[/b]",
    "\x1b[31m",
    "\x7f",
    "\0",
    "1" * 5000,
    "[" * 5000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_typed_in_it_is_refused_in_one_short_line(text: str) -> None:
    for why in (refusal(ranks=text), refusal(sleep_ms=text)):
        assert why.isprintable()
        assert len(why) < 80
        assert "[0]." not in why  # the path of a field in a trial, which nobody has typed


def test_what_could_not_happen_in_the_trial_is_refused() -> None:
    assert refusal("aggregate", strategy="none") == "at: this trial aggregates nothing, so the delay would never happen"
    assert refusal("aggregate", "0", launch="single").startswith("at: this trial aggregates nothing")
    assert refusal("forward", "1", launch="single") == "ranks: no rank 1: trial a has only rank 0"


def test_replicas_can_be_delayed_but_in_the_backward_that_they_share() -> None:
    for at in ("data", "forward", "aggregate"):
        assert put_in(at, launch="dp") == (delay(at),)
    why = refusal("backward", launch="dp")
    assert why == "at: dp has one backward for all replicas: use 'forward' or 'aggregate'"


def test_an_unknown_site_is_refused() -> None:
    assert refusal("optimizer") == "at: unknown value 'optimizer'"
