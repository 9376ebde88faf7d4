"""`--set bottleneck` goes to the trials that can have it. The others are left as they are, and it is known why."""

from typing import Any

import pytest

from ddptui.config.parser import left_as_it_is, parse
from ddptui.config.preset import Preset
from ddptui.config.trial import Bottleneck, TrialError

LATE: list[dict[str, Any]] = [{"at": "backward", "ranks": [1], "sleep_ms": 5}]
DELAY = Bottleneck(at="backward", ranks=(1,), sleep_ms=5)
OWN = {"at": "forward", "ranks": [0], "sleep_ms": 2}


def preset(overrides: dict[str, Any], *trials: dict[str, Any], **table: Any) -> Preset:
    return parse("p", {"trial": [*trials]} | table, overrides)


ONE, DP, TWO = {"name": "one", "launch": "single"}, {"name": "dp", "launch": "dp"}, {"name": "two"}


def test_those_that_can_have_it_have_it_and_it_is_known_why_the_others_cannot() -> None:
    made = preset({"bottleneck": LATE}, ONE, DP, TWO)
    assert [trial.bottleneck for trial in made.trials] == [(), (), (DELAY,)]
    assert left_as_it_is(made.trials, LATE) == {
        "one": "no rank 1: trial one has only rank 0",
        "dp": "dp has one backward for all replicas; use 'forward' or 'aggregate'",
    }


def test_one_that_cannot_have_it_keeps_its_own() -> None:
    made = preset({"bottleneck": LATE, "epochs": 7}, ONE | {"bottleneck": [OWN]}, TWO | {"bottleneck": [OWN]})
    assert [trial.bottleneck for trial in made.trials] == [
        (Bottleneck(at="forward", ranks=(0,), sleep_ms=2),),
        (DELAY,),
    ]
    assert {trial.epochs for trial in made.trials} == {7}


def test_what_no_trial_can_have_is_refused() -> None:
    with pytest.raises(TrialError, match=r"^--set bottleneck\[0\].ranks: no rank 1: trial one has only rank 0"):
        preset({"bottleneck": LATE}, ONE)
    with pytest.raises(TrialError, match=r'^--set bottleneck\[0\].sleep_ms: "slow" is not a number'):
        preset({"bottleneck": [{**LATE[0], "sleep_ms": "slow"}]}, ONE, TWO)


def test_what_the_file_gives_to_a_trial_that_cannot_have_it_is_refused_as_before() -> None:
    with pytest.raises(TrialError, match=r"^defaults.bottleneck\[0\].ranks"):
        preset({}, ONE, TWO, defaults={"bottleneck": LATE})


def test_another_change_that_is_refused_is_not_taken_for_the_bottleneck() -> None:
    with pytest.raises(TrialError, match=r"^--set lr"):
        preset({"bottleneck": LATE, "lr": "fast"}, ONE, TWO)


def test_of_a_matrix_those_points_have_it_that_can() -> None:
    made = parse("p", {"matrix": {"world_size": [1, 2]}}, {"bottleneck": LATE})
    assert [(trial.name, trial.bottleneck) for trial in made.trials] == [
        ("world_size-1", ()),
        ("world_size-2", (DELAY,)),
    ]


def test_a_matrix_of_bottlenecks_has_nothing_to_go_back_to() -> None:
    with pytest.raises(TrialError, match=r"^--set bottleneck\[0\].ranks: no rank 1"):
        parse("p", {"matrix": {"bottleneck": [[], [OWN]], "world_size": [1, 2]}}, {"bottleneck": LATE})
