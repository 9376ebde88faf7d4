"""Delays by hand, and of `--set`: where they can be, and what is left as it is."""

from typing import Any

import pytest

from ddptui.config.checks import LENGTHS_MS, delay_of, next_length, sites, still_to_come, with_delay, without
from ddptui.config.parser import parse, skipped_overrides
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, TrialError
from ddptui.config.values import make_trial

LINK = Bottleneck(at="link", ranks=(1,), mbit=100)


def delay(at: str = "forward", ranks: tuple[int, ...] = (1,), sleep_ms: float = 20, **others: Any) -> Bottleneck:
    return Bottleneck(at=at, ranks=ranks, sleep_ms=sleep_ms, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "possible"),
    [
        ({}, ["data", "forward", "backward", "aggregate"]),
        ({"launch": "dp"}, ["data", "forward", "aggregate"]),
        ({"strategy": "none"}, ["data", "forward", "backward"]),
        ({"launch": "command", "command": ["a"]}, ["data", "forward", "backward", "aggregate"]),
    ],
)
def test_a_running_rank_is_delayed_where_its_trial_can_be(fields: dict[str, Any], possible: list[str]) -> None:
    assert sites(make_trial({"name": "a", **fields})) == possible


def test_a_start_is_over_and_a_slow_link_is_no_delay() -> None:
    assert still_to_come((delay("start"), LINK, delay("data"), delay("start", (0,)))) == (delay("data"),)
    assert still_to_come(()) == ()


def test_one_of_the_same_rank_at_the_same_site_gives_way_and_others_keep_what_they_share() -> None:
    there = (delay(sleep_ms=5, every=3, jitter="uniform"), delay("data"), delay(ranks=(0,)))
    assert with_delay(there, 1, "forward", 30) == (delay("data"), delay(ranks=(0,)), delay(sleep_ms=30))
    there = (delay(ranks=(0, 1, 2), every=3), delay("data"))
    assert without(there, 1, "forward") == (delay(ranks=(0, 2), every=3), delay("data"))
    assert without((delay(),), 1, "forward") == ()
    assert with_delay(there, 1, "forward", 5)[-1] == delay(sleep_ms=5)
    there = (delay("data", (0, 1)), delay())
    assert delay_of(there, 1, "data") == there[0]
    assert delay_of(there, 0, "forward") is None


def test_lengths_go_up_and_down_and_end() -> None:
    assert (next_length(20, 1), next_length(20, -1)) == (50, 10)
    assert (next_length(7.5, 1), next_length(7.5, -1)) == (10, 5)  # a preset may say any
    assert next_length(LENGTHS_MS[-1], 1) == LENGTHS_MS[-1]
    assert next_length(LENGTHS_MS[0], -1) == LENGTHS_MS[0]
    assert next_length(86_400_000, -1) == LENGTHS_MS[-1]


LATE: list[dict[str, Any]] = [{"at": "backward", "ranks": [1], "sleep_ms": 5}]
DELAY = Bottleneck(at="backward", ranks=(1,), sleep_ms=5)
OWN = {"at": "forward", "ranks": [0], "sleep_ms": 2}


def preset(overrides: dict[str, Any], *trials: dict[str, Any], **table: Any) -> Preset:
    return parse("p", {"trial": [*trials]} | table, overrides)


ONE, DP, TWO = {"name": "one", "launch": "single"}, {"name": "dp", "launch": "dp"}, {"name": "two"}


def test_overrides_go_to_the_trials_and_points_of_a_matrix_that_can_have_them() -> None:
    made = preset({"bottleneck": LATE}, ONE, DP, TWO)
    assert [trial.bottleneck for trial in made.trials] == [(), (), (DELAY,)]
    assert skipped_overrides(made.trials, LATE) == {
        "one": "no rank 1: trial one has only rank 0",
        "dp": "dp has one backward for all replicas; use 'forward' or 'aggregate'",
    }
    made = preset({"bottleneck": LATE, "epochs": 7}, ONE | {"bottleneck": [OWN]}, TWO | {"bottleneck": [OWN]})
    assert [trial.bottleneck for trial in made.trials] == [
        (Bottleneck(at="forward", ranks=(0,), sleep_ms=2),),
        (DELAY,),
    ]
    assert {trial.epochs for trial in made.trials} == {7}
    made = parse("p", {"matrix": {"world_size": [1, 2]}}, {"bottleneck": LATE})
    assert [(trial.name, trial.bottleneck) for trial in made.trials] == [
        ("world_size-1", ()),
        ("world_size-2", (DELAY,)),
    ]


def test_what_no_trial_can_have_or_the_file_gives_to_one_that_cannot_is_refused() -> None:
    with pytest.raises(TrialError, match=r"^--set bottleneck\[0\].ranks: no rank 1: trial one has only rank 0"):
        preset({"bottleneck": LATE}, ONE)
    with pytest.raises(TrialError, match=r'^--set bottleneck\[0\].sleep_ms: "slow" is not a number'):
        preset({"bottleneck": [{**LATE[0], "sleep_ms": "slow"}]}, ONE, TWO)
    with pytest.raises(TrialError, match=r"^defaults.bottleneck\[0\].ranks"):
        preset({}, ONE, TWO, defaults={"bottleneck": LATE})
    with pytest.raises(TrialError, match=r"^--set lr"):
        preset({"bottleneck": LATE, "lr": "fast"}, ONE, TWO)
    with pytest.raises(TrialError, match=r"^--set bottleneck\[0\].ranks: no rank 1"):
        parse("p", {"matrix": {"bottleneck": [[], [OWN]], "world_size": [1, 2]}}, {"bottleneck": LATE})
