"""Delays by hand: where they can be, and what is left when one is taken out."""

from typing import Any

import pytest

from ddptui.config.delays import LENGTHS_MS, delay_of, next_length, sites, still_to_come, with_delay, without
from ddptui.config.trial import Bottleneck
from ddptui.config.values import make_trial

LINK = Bottleneck(at="link", ranks=(1,), mbit=100)


def delay(at: str = "forward", ranks: tuple[int, ...] = (1,), sleep_ms: float = 20, **others: Any) -> Bottleneck:
    return Bottleneck(at=at, ranks=ranks, sleep_ms=sleep_ms, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "possible"),
    [
        ({}, ["data", "forward", "backward", "aggregate"]),
        ({"launch": "dp"}, ["data", "forward", "aggregate"]),
        ({"launch": "single"}, ["data", "forward", "backward"]),
        ({"strategy": "none"}, ["data", "forward", "backward"]),
        ({"launch": "command", "command": ["a"]}, ["data", "forward", "backward", "aggregate"]),
    ],
)
def test_a_running_rank_is_delayed_where_its_trial_can_be_but_not_at_its_start(
    fields: dict[str, Any], possible: list[str]
) -> None:
    assert sites(make_trial({"name": "a", **fields})) == possible


def test_a_start_is_over_and_a_slow_link_is_no_delay() -> None:
    assert still_to_come((delay("start"), LINK, delay("data"), delay("start", (0,)))) == (delay("data"),)
    assert still_to_come(()) == ()


def test_one_of_the_same_rank_at_the_same_site_gives_way() -> None:
    there = (delay(sleep_ms=5, every=3, jitter="uniform"), delay("data"), delay(ranks=(0,)))
    assert with_delay(there, 1, "forward", 30) == (delay("data"), delay(ranks=(0,)), delay(sleep_ms=30))


def test_other_ranks_keep_what_they_share_with_it() -> None:
    there = (delay(ranks=(0, 1, 2), every=3), delay("data"))
    assert without(there, 1, "forward") == (delay(ranks=(0, 2), every=3), delay("data"))
    assert without((delay(),), 1, "forward") == ()
    assert with_delay(there, 1, "forward", 5)[-1] == delay(sleep_ms=5)


def test_the_delay_of_a_rank_is_found_by_its_site() -> None:
    there = (delay("data", (0, 1)), delay())
    assert delay_of(there, 1, "data") == there[0]
    assert delay_of(there, 0, "forward") is None


def test_lengths_go_up_and_down_and_end() -> None:
    assert (next_length(20, 1), next_length(20, -1)) == (50, 10)
    assert (next_length(7.5, 1), next_length(7.5, -1)) == (10, 5)  # a preset may say any
    assert next_length(LENGTHS_MS[-1], 1) == LENGTHS_MS[-1]
    assert next_length(LENGTHS_MS[0], -1) == LENGTHS_MS[0]
    assert next_length(86_400_000, -1) == LENGTHS_MS[-1]
