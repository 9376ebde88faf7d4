"""What is right and what is wrong with a strategy's work, and the words for it."""

import math
from typing import Any

import msgspec
import pytest

from ddptui.analysis.correctness import diverged, error_bound, names_text, problems, why_wrong, with_verdict
from ddptui.analysis.results import Averaging, Check, InSync, Loss, RepeatResult
from ddptui.config.trial import TrialKind
from ddptui.config.values import make_trial
from tests.support.builders import audit, audit_without_numbers, journal, preset_of, result_of, results_for

ALL_REDUCE = make_trial({"world_size": 2})
POWERSGD = make_trial({"strategy": "ddp_powersgd"})
AGREE = InSync(parameters=True, buffers=True, differing=[])
APART = InSync(parameters=False, buffers=True, differing=["weight", "bias"])
SAME_ORDER = "the samples came in the same order in every epoch: set_epoch was not called"
DIFFER = "the ranks differ in weight, bias"


def found(**changes: Any) -> Averaging:
    return Averaging(**msgspec.structs.asdict(audit(**changes)))


def not_finite() -> Averaging:
    return Averaging(**msgspec.structs.asdict(audit_without_numbers()))


def repeat_of(**changes: Any) -> RepeatResult:
    return msgspec.structs.replace(result_of(journal()), **changes)


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({"strategy": "ring", "world_size": 64}, 1e-5),
        ({"launch": "dp"}, 1e-5),
        ({"strategy": "all_reduce", "dtype": "float64"}, 1e-12),
        ({"strategy": "ddp_fp16", "world_size": 8}, 9 / 2048),
        ({"strategy": "ddp_fp16", "dtype": "float64"}, 3 / 2048),  # it is sent in 16 bits all the same
        ({"strategy": "ddp_bf16", "world_size": 1}, 2 / 256),
    ],
)
def test_the_band_is_as_wide_as_the_rounding_of_the_type_that_is_sent(values: dict[str, Any], limit: float) -> None:
    trial = make_trial(values)
    assert error_bound(trial) == limit
    assert why_wrong(found(error=limit), trial) is None
    assert why_wrong(found(error=math.nextafter(limit, 1)), trial) is not None


def test_powersgd_has_no_band_and_is_wrong_only_where_it_left_something_else_altogether() -> None:
    assert error_bound(POWERSGD) is None
    assert why_wrong(found(error=5.0, scaled_error=4.0, own_error=4.0), POWERSGD) is None
    assert "kept its own" in (why_wrong(found(error=5.0, own_scale=1.0, own_error=0.0), POWERSGD) or "")
    assert "0.5 times the mean" in (why_wrong(found(error=0.5, scale=0.5), POWERSGD) or "")


OFF = {"error": 0.7, "scale": 0.9, "scaled_error": 0.7, "own_scale": 0.9, "own_error": 0.6}  # like nothing known


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ((1, 2), "only rank 0 has the mean: the other ranks must receive it, too"),
        ((2,), "only ranks 0 and 1 have the mean: the other ranks must receive it, too"),
        ((0, 1, 2), "gradients are not the mean: weight is 70.00% of its length away from it"),
    ],
)
def test_the_ranks_that_have_the_mean_are_named_if_others_do_not(wrong: tuple[int, ...], why: str) -> None:
    trial = make_trial({"world_size": 3})
    assert why_wrong(msgspec.structs.replace(found(**OFF), wrong_ranks=wrong), trial) == why


KEPT, MULTIPLE = OFF | {"own_error": 0.0}, OFF | {"scaled_error": 0.0}
OF_PARAMETERS = {"of": "parameters"}


@pytest.mark.parametrize(
    ("changes", "ranks", "why"),
    [
        (KEPT | {"own_scale": 1.0}, 2, "each rank kept its own gradients: nothing was averaged"),
        (OFF | {"own_scale": 0.9995, "own_error": 9e-4}, 2, "each rank kept its own gradients: nothing was averaged"),
        (KEPT | {"own_scale": 1 / 3} | OF_PARAMETERS, 3, "each rank kept its own parameters, times 0.333: nothing was"),
        (KEPT | {"own_scale": -1.0}, 2, "each rank kept its own gradients, times -1: nothing was averaged"),
        (MULTIPLE | {"scale": 2.0}, 2, "gradients are 2 times the mean: they are the sum, the division is missing"),
        (MULTIPLE | {"scale": 4.0} | OF_PARAMETERS, 4, "parameters are 4 times the mean: they are the sum, the divisi"),
        (MULTIPLE | {"scale": 0.25}, 4, "gradients are 0.25 times the mean: the sum was divided once too often"),
        (MULTIPLE | {"scale": 2.0}, 4, "gradients are 2 times the mean: the sum was divided by 2 instead of 4"),
        (MULTIPLE | {"scale": -2.0}, 2, "gradients are -2 times the mean"),
        (
            OFF | {"weights": (0.0, 1.0, 1e-17), "weighted_error": 0.0},
            3,
            "gradients are those of rank 1 alone: the other ranks' do not count",
        ),
        (
            OFF | {"weights": (0.5, 1.0), "weighted_error": 0.0},
            2,
            "gradients are a weighted sum over the ranks (rank 0 × 0.5 and rank 1 × 1), but each rank must count × 0.5",
        ),
        (
            OFF | {"error": 0.0123, "worst": "fc.1.bias"} | OF_PARAMETERS,
            2,
            "parameters are not the mean: fc.1.bias is 1.23% of its length away from it",
        ),
    ],
)
def test_what_was_left_in_place_of_the_mean_is_said(changes: dict[str, Any], ranks: int, why: str) -> None:
    assert why_wrong(found(**changes), make_trial({"world_size": ranks})).startswith(why)


@pytest.mark.parametrize("trial", [ALL_REDUCE, POWERSGD], ids=["a band", "no band"])
def test_what_is_not_finite_is_wrong_whatever_the_band(trial: Any) -> None:
    why = "parameters are not finite: there is nothing to compare"
    for none in ("error", "scale", "own_scale"):
        assert why_wrong(found(of="parameters", **{none: None}), trial) == why
    assert why_wrong(not_finite(), trial) == why.replace("parameters", "gradients")


@pytest.mark.parametrize(
    ("inside", "outside", "words"),
    [
        ({"own_scale": -2.0, "own_error": 6.9e-3}, {"own_scale": -2.0, "own_error": 7.1e-3}, "kept its own"),
        ({"own_scale": 1.0, "own_error": 0.0}, {"own_scale": 1.0, "own_error": None}, "kept its own"),
        ({"own_scale": 1.0021, "own_error": 0.0}, {"own_scale": 1.0009, "own_error": 0.0}, ", times 1"),
        ({"own_scale": 0.9979, "own_error": 0.0}, {"own_scale": 0.9991, "own_error": 0.0}, ", times 0.998"),
        ({"scale": -2.0, "scaled_error": 6.9e-3}, {"scale": -2.0, "scaled_error": 7.1e-3}, "times the mean"),
        ({"scale": 2.0, "scaled_error": 0.0}, {"scale": 2.0, "scaled_error": None}, "times the mean"),
        ({"scale": 2.0019, "scaled_error": 0.0}, {"scale": 2.0021, "scaled_error": 0.0}, "they are the sum"),
        ({"scale": 1.9981, "scaled_error": 0.0}, {"scale": 1.9979, "scaled_error": 0.0}, "they are the sum"),
        ({"scale": 0.4996, "scaled_error": 0.0}, {"scale": 0.4994, "scaled_error": 0.0}, "divided once too often"),
    ],
)
def test_a_multiple_is_called_by_its_name_if_it_explains_nearly_all_of_the_error(
    inside: dict[str, Any], outside: dict[str, Any], words: str
) -> None:
    assert words in why_wrong(found(**OFF | inside), ALL_REDUCE)
    assert words not in why_wrong(found(**OFF | outside), ALL_REDUCE)


def test_what_is_all_zero_is_nobodys_own_and_a_small_error_no_multiple_of_one() -> None:
    zero = found(error=0.9, scale=0.0, scaled_error=0.0, own_scale=0.0, own_error=0.0)
    assert why_wrong(zero, ALL_REDUCE) == "gradients are all zero"
    small = found(error=1e-4, scale=1.0, scaled_error=1e-4)
    assert "weight is 0.01% of its length away" in why_wrong(small, ALL_REDUCE)


def test_what_is_exact_must_be_so_in_the_smallest_tensor_and_what_rounds_need_not() -> None:
    tiny = found(error=1e-9, worst="first.bias", worst_error=0.8)
    assert why_wrong(tiny, ALL_REDUCE) == "gradients are not the mean: first.bias is 80.00% of its length away from it"
    assert why_wrong(tiny, make_trial({"strategy": "ddp_fp16"})) is None


@pytest.mark.parametrize(
    ("averaging", "trial", "right", "why"),
    [
        (found(), ALL_REDUCE, True, None),
        (found(**OFF), ALL_REDUCE, False, "gradients are not the mean: weight is 70.00% of its length away from it"),
        (not_finite(), ALL_REDUCE, None, "gradients are not finite: there is nothing to compare"),
        (found(**OFF), POWERSGD, None, None),
        (found(**KEPT), POWERSGD, False, "each rank kept its own gradients, times 0.9: nothing was averaged"),
        (not_finite(), POWERSGD, None, "gradients are not finite: there is nothing to compare"),
    ],
)
def test_the_verdict_is_right_or_wrong_and_why_or_neither(
    averaging: Averaging, trial: Any, right: bool | None, why: str | None
) -> None:
    assert with_verdict(averaging, trial) == msgspec.structs.replace(averaging, right=right, why=why)


def check(step: int, *, agree: bool) -> Check:
    return Check(step=step, parameters=agree, buffers=True, differing=[] if agree else ["weight"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"in_sync": InSync(parameters=None, buffers=None, differing=[]), "averaging": None, "reshuffled": None}, []),
        ({"in_sync": AGREE, "averaging": with_verdict(found(), ALL_REDUCE), "reshuffled": True}, []),
        ({"sync_checks": [check(4, agree=False)]}, []),  # parameters that are averaged drift apart until they are
        ({"in_sync": APART, "sync_checks": [check(4, agree=True)]}, [DIFFER]),
        (
            {"in_sync": APART, "sync_checks": [check(step, agree=step < 9) for step in (4, 9, 14)]},
            [f"{DIFFER}, first seen after step 9"],
        ),
        (
            {"in_sync": APART, "sync_checks": [check(step, agree=False) for step in (0, 1)]},
            [f"{DIFFER}, first seen after step 0"],
        ),
        (
            {"in_sync": InSync(parameters=True, buffers=False, differing=["running_mean"])},
            ["parameters agree, but the ranks differ in their buffers: running_mean"],
        ),
        (
            {"in_sync": InSync(parameters=False, buffers=False, differing=["weight", "running_mean"])},
            ["the ranks differ in weight, running_mean"],
        ),
        ({"averaging": with_verdict(found(**OFF), POWERSGD)}, []),
        (
            {"averaging": with_verdict(not_finite(), ALL_REDUCE), "loss": Loss(first=2.0, last=None)},
            [],
        ),  # no check fails
        (
            {"in_sync": APART, "averaging": with_verdict(not_finite(), ALL_REDUCE), "reshuffled": False},
            [DIFFER, "gradients are not finite: there is nothing to compare", SAME_ORDER],
        ),
    ],
)
def test_every_light_that_is_red_says_why(changes: dict[str, Any], words: list[str]) -> None:
    assert list(problems(ALL_REDUCE, repeat_of(**changes))) == words


def test_of_many_tensors_three_are_named() -> None:
    said = [names_text([f"p{index}" for index in range(number)]) for number in (0, 1, 3, 4, 5)]
    assert said == ["", "p0", "p0, p1, p2", "p0, p1, p2 and 1 more tensor", "p0, p1, p2 and 2 more tensors"]


def test_a_loss_that_was_never_a_number_is_no_divergence_of_a_watched_command() -> None:
    [trial] = results_for(preset_of({"trial": [{"name": "a"}]}), journal("a")).trials

    def is_said(kind: TrialKind, first: float | None) -> bool:
        repeat = repeat_of(loss=Loss(first=first, last=None))
        return diverged(msgspec.structs.replace(trial, kind=kind, repeats=[repeat]))

    assert is_said("command", 2.3)
    assert not is_said("command", None)
    assert is_said("training", None)
