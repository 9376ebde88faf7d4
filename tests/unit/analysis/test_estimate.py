"""How long a preset will take, by what earlier runs took."""

import math
from typing import Any

import msgspec
import pytest

from ddptui.analysis.repeats import END_S, estimate, spell
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from tests.support.builders import (
    done,
    ended,
    hello,
    journal,
    launched,
    preset_of,
    ready,
    results_for,
    timed,
    two_trials,
)
from tests.unit.report.edited import edited

# A journal has one warm-up step and three steps of 10 ms; the first step begins 2 s after the launch.
STARTUP_S = 2.0
AS_JOURNALED = {"epochs": 2, "warmup_steps": 1}


def one_trial(name: str = "a", **fields: Any) -> Preset:
    return preset_of({"trial": [{"name": name, **AS_JOURNALED, **fields}]})


def ran(preset: Preset, step_ms: float = 10) -> Results:
    return results_for(preset, *(journal(trial.name, step_ms=step_ms) for trial in preset.trials))


def test_nothing_is_known_of_what_was_never_run_and_where_one_trial_is_unknown_all_are() -> None:
    assert estimate(one_trial(), []) is None
    assert estimate(one_trial(), [ran(one_trial(launch="process"))]) is None
    assert estimate(one_trial(), [ran(one_trial(steps=4))]) is None  # epochs cannot be counted after steps
    both = preset_of({"trial": [{"name": "a", **AS_JOURNALED}, {"name": "b", "launch": "single"}]})
    assert estimate(both, [ran(one_trial())]) is None


def cold(results: Results) -> Results:
    """The same, but every launch started cold."""
    return edited(results, repeat=lambda *_: {"start": "cold", "startup_s": 10.0})


def test_what_starts_warm_does_not_take_as_long_to_start_as_what_started_cold() -> None:
    past = cold(ran(one_trial()))
    assert estimate(one_trial(), [past]) is None
    assert estimate(one_trial(start="cold"), [past]) == pytest.approx(10.0 + 4 * 0.010 + END_S["cold"])
    assert estimate(one_trial(), [past, ran(one_trial(model="mlp"))]) == pytest.approx(taking(4))
    assert estimate(one_trial(model="mlp"), [past]) is None


def measured(**fields: Any) -> Preset:
    return preset_of({"kind": "primitives", "trial": [{"name": "a", "primitives": "measure", **fields}]})


def test_primitives_take_what_they_took() -> None:
    told = [message(rank) for message in (hello, ready, timed, done) for rank in (0, 1)]
    past = results_for(measured(), [launched(at_ms=1_000), *told, ended()])
    assert estimate(measured(), [past]) == pytest.approx(past.trials[0].primitives[0].took_s)
    assert estimate(measured(iterations=7), [past]) is None


def test_every_launch_counts_and_the_newest_run() -> None:
    both = two_trials(defaults=AS_JOURNALED)
    assert estimate(both, [ran(both)]) == pytest.approx(2 * 2 * taking(4))
    assert estimate(one_trial(), [ran(one_trial(), 50), ran(one_trial())]) == pytest.approx(taking(20))


def taking(steps: float) -> float:
    """Of a warm start and so many steps, in s."""
    return STARTUP_S + steps * 0.010 + END_S["warm"]


@pytest.mark.parametrize(
    ("fields", "steps"),
    [({"name": "b"}, 4), ({"epochs": 6}, 12), ({"steps": 100}, 100), ({"batch_size": 32}, 8), ({"lr": 0.5}, 4)],
)
def test_training_is_scaled_by_the_steps_whatever_its_name_and_its_preset(fields: dict[str, Any], steps: int) -> None:
    past = msgspec.structs.replace(ran(one_trial()), preset="other")
    assert estimate(one_trial(**fields), [past]) == pytest.approx(taking(steps))


@pytest.mark.parametrize(
    "fields", [{"model": "mlp"}, {"strategy": "ring"}, {"bottleneck": [{"at": "data", "ranks": [0], "sleep_ms": 1}]}]
)
def test_another_training_tells_nothing(fields: dict[str, Any]) -> None:
    assert estimate(one_trial(**fields), [ran(one_trial())]) is None


def test_a_delay_that_was_there_before_is_no_other_training() -> None:
    delayed = one_trial(bottleneck=[{"at": "data", "ranks": [0], "sleep_ms": 1}])
    read_again = msgspec.json.decode(msgspec.json.encode(ran(delayed)), type=Results)
    assert estimate(delayed, [read_again]) == pytest.approx(taking(4))


def test_a_config_of_a_later_version_is_passed_over() -> None:
    past = ran(one_trial())
    strange = msgspec.structs.replace(past.trials[0], config={"launch": "spawn", "world_size": 2, "quantum": True})
    assert estimate(one_trial(), [msgspec.structs.replace(past, trials=[strange])]) is None


@pytest.mark.parametrize(
    ("s", "words"),
    [
        (0.2, "~1 s"), (8.4, "~8 s"), (18.2, "~20 s"), (57.4, "~55 s"), (57.6, "~1 min"), (100, "~2 min"),
        (3569, "~59 min"), (5400, "~1.5 h"),
    ],
)  # fmt: skip
def test_in_round_words(s: float, words: str) -> None:
    assert spell(s) == words


def test_what_trains_until_it_is_stopped_has_no_end() -> None:
    endless = one_trial(epochs=0)
    assert estimate(endless, []) == estimate(endless, [ran(one_trial())]) == math.inf
    assert spell(math.inf) == "until you stop it"
    assert estimate(one_trial(), [ran(endless)]) is None
