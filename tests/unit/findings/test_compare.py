"""Every figure, from messages made by hand, against what is computed here by hand."""

from typing import Any

import msgspec
import pytest

from ddptui.analysis.correctness import averaging, in_sync, reshuffled, sync_check
from ddptui.analysis.figures import weighted_loss
from ddptui.analysis.policy import Caution
from ddptui.analysis.results import Averaging, Check, InSync, Loss, PhasesMs, StepMs
from ddptui.findings.compare import compare
from ddptui.findings.repeat import outcome_of_messages
from ddptui.wire.messages import Audit, Done
from ddptui.wire.records import Message, Notice
from tests.support.builders import (
    audit,
    audit_without_numbers,
    done,
    ended,
    failure,
    fingerprint,
    hello,
    journal,
    launched,
    outcomes_of,
    preset_of,
    ready,
    result_of,
    results_for,
    step,
    two_trials,
)

WARM = {"warmup": True, "samples": 500, "loss": 99.0, "phases_ms": (900, 900, 900, 900, 900)}

# Launched at 1000 ms. Rank 0: warm-up from 3000, then steps of 10, 20 and 30 ms from 3100 on, 6 samples each;
# rank 1: warm-up from 3050, then steps of 20, 20 and 60 ms from 3100 on, 4 samples each.
BY_HAND: list[Message] = [
    launched(),
    hello(0, pid=11, host="north", device="cpu"),
    hello(1, pid=12, host="south", device="cuda:1"),
    ready(0),
    ready(1),
    step(1, 0, begin_ms=3_050, end_ms=3_100, **WARM),
    step(0, 0, begin_ms=3_000, end_ms=3_100, **WARM),
    step(0, 1, begin_ms=3_100, end_ms=3_110, phases_ms=(1, 1, 1, 1, 1), samples=6, loss=2.0),
    step(1, 1, begin_ms=3_100, end_ms=3_120, phases_ms=(3, 2, 3, 9, 0), samples=4, loss=1.0),
    step(0, 2, begin_ms=3_110, end_ms=3_130, phases_ms=(2, 3, 2, 2, 1), samples=6, loss=5.0),
    step(1, 2, begin_ms=3_120, end_ms=3_140, phases_ms=(4, 2, 5, 1, 0), samples=4, loss=5.0),
    step(0, 3, begin_ms=3_130, end_ms=3_160, phases_ms=(9, 4, 3, 4, 1), samples=6, loss=0.5),
    step(1, 3, begin_ms=3_140, end_ms=3_200, phases_ms=(5, 2, 4, 7, 0), samples=4, loss=1.5),
    done(0, correct=30, evaluated=40),
    done(1, correct=10, evaluated=20, bottleneck_fired=3, bottleneck_ns=30_000_000, sub_batch=4),
    ended(),
]


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)


def test_every_figure_of_a_repeat() -> None:
    result = result_of(BY_HAND)
    assert result.train_time_s == exactly(0.100)  # rank 1: 3200 − 3100; rank 0 needs 60 ms
    assert result.startup_s == exactly(2.050)  # rank 1's first step − the launch
    assert result.steps == 3
    assert result.samples_per_s == exactly(300)  # 3 × 6 + 3 × 4 in 0.1 s
    # Lengths 10 20 20 20 30 60; the deciles lie at 0.5 and 4.5 of the way from the 0th to the 5th.
    assert result.step_ms == StepMs(median=exactly(20), p10=exactly(15), p90=exactly(45))
    # Rank 0's medians: 2 3 2 2 1; rank 1's: 4 2 4 7 0.
    assert result.phases_ms == PhasesMs(
        data=exactly(3), forward=exactly(2.5), backward=exactly(3), aggregate=exactly(4.5), optimizer=exactly(0.5)
    )
    # The first and the last step: (6 × 2 + 4 × 1) / 10 and (6 × 0.5 + 4 × 1.5) / 10.
    assert result.loss == Loss(first=exactly(1.6), last=exactly(0.9))
    assert result.accuracy == exactly(40 / 60)
    assert (result.wait_ms, result.transfer_ms) == (None, None)
    first, second = result.ranks
    assert (first.rank, first.host, first.pid, first.device) == (0, "north", 11, "cpu")
    assert (first.bottleneck_fired, first.bottleneck_s, first.sub_batch) == (0, 0, None)
    assert (second.rank, second.host, second.pid, second.device) == (1, "south", 12, "cuda:1")
    assert (second.bottleneck_fired, second.bottleneck_s, second.sub_batch) == (3, exactly(0.03), 4)


def test_one_measured_step_has_percentiles_too_and_the_loss_is_that_of_the_first_and_the_last_tenth() -> None:
    result = result_of([launched(), hello(0), step(0, begin_ms=3_000, end_ms=3_007), done(0), ended()])
    assert result.step_ms == StepMs(median=exactly(7), p10=exactly(7), p90=exactly(7))
    steps = [step(0, number, begin_ms=number, end_ms=number + 1, loss=float(number)) for number in range(20)]
    result = result_of([launched(), hello(0), *steps, done(0), ended()])
    assert result.loss == Loss(first=exactly(0.5), last=exactly(18.5))  # of steps 0 1 and 18 19


def test_the_loss_is_weighted_by_samples() -> None:
    assert weighted_loss([step(samples=1, loss=4.0), step(samples=3, loss=0.0)]) == exactly(1)
    assert weighted_loss([step(samples=0, loss=None), step(samples=3, loss=2.0)]) == exactly(2)
    assert weighted_loss([step(samples=1, loss=None), step(samples=3, loss=2.0)]) is None
    assert weighted_loss([step(samples=0, loss=None)]) is None
    assert weighted_loss([step(samples=0, loss=1.0), step(samples=0, loss=3.0)]) == exactly(2)
    assert weighted_loss([]) is None


@pytest.mark.parametrize(("evaluated", "accuracy"), [(0, None), (5, 0)])
def test_nothing_evaluated_means_no_accuracy_and_nothing_right_one_of_zero(
    evaluated: int, accuracy: float | None
) -> None:
    result = result_of([launched(), hello(0), step(0), done(0, correct=0, evaluated=evaluated), ended()])
    assert result.accuracy == accuracy


def test_an_outcome_says_which_launch_it_was_and_one_that_stops_short_was_interrupted() -> None:
    found = outcome_of_messages(journal("b", 2))
    assert (found.trial, found.repeat, found.status, found.error) == ("b", 2, "ok", None)
    assert found.command == ("python", "-m", "workers.spawn")
    found = outcome_of_messages(BY_HAND[:-1])
    assert (found.status, found.error, found.result) == ("interrupted", None, None)
    found = outcome_of_messages([*BY_HAND[:-1], ended("failed", "rank 1 was killed by SIGKILL")])
    assert (found.status, found.error, found.result) == ("failed", "rank 1 was killed by SIGKILL", None)
    assert outcome_of_messages([]) is outcome_of_messages([hello(), step(), ended()]) is None


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([hello(0), step(0, warmup=True), done(0)], "no step was measured: all of them were warm-up steps"),
        ([hello(0), hello(1), step(0), step(1), done(0)], "rank 1 never reported that it was done"),
        ([hello(0), hello(1), step(0), done(0), done(1)], "rank 1 never reported a step"),
        ([hello(0), step(0, begin_ms=10, end_ms=10), done(0)], "rank 0 reported steps that took no time"),
        ([], "no rank sent a message"),
    ],
)
def test_a_journal_that_is_not_whole_is_a_failure_and_says_what_it_lacks(messages: list[Message], error: str) -> None:
    found = outcome_of_messages([launched(), *messages, ended()])
    assert (found.status, found.error, found.result) == ("failed", error, None)


@pytest.mark.parametrize(
    ("told", "parameters", "buffers", "differing"),
    [
        ([done(0), done(1)], True, True, []),
        ([done(0), done(1, parameters={"weight": "abc", "bias": "x"}), done(2)], False, True, ["bias"]),
        ([done(0), done(1, buffers={"running_mean": "x"})], True, False, ["running_mean"]),
        (
            [done(0), done(1, parameters={"weight": "x", "bias": "y"}, buffers={"running_mean": "z"})],
            False,
            False,
            ["weight", "bias", "running_mean"],
        ),
        ([done(0), done(1, parameters={"weight": "abc", "bias": "def", "extra": "x"})], False, True, ["extra"]),
        ([done(0, parameters={"weight": "abc", "bias": "def", "extra": "x"}), done(1)], False, True, ["extra"]),
        ([done(0)], None, None, []),  # one copy agrees with nobody
        ([done(0), done(1, parameters={}, buffers={})], None, None, []),  # dp: only one of them holds the model
    ],
)
def test_what_differs_is_named_parameters_and_buffers_apart(
    told: list[Done], parameters: bool | None, buffers: bool | None, differing: list[str]
) -> None:
    assert in_sync(told) == InSync(parameters=parameters, buffers=buffers, differing=differing)


def test_a_check_says_after_which_step_and_what_differs_parameters_and_buffers_apart() -> None:
    others = {
        9: fingerprint(1, 9, parameters={"weight": "abc", "bias": "other"}),
        14: fingerprint(1, 14, buffers={"running_mean": "other"}),
    }
    assert [sync_check([fingerprint(0, step), other]) for step, other in others.items()] == [
        Check(step=9, parameters=False, buffers=True, differing=["bias"]),
        Check(step=14, parameters=True, buffers=False, differing=["running_mean"]),
    ]


def test_the_checks_of_a_repeat_are_of_what_its_ranks_told_in_any_order() -> None:
    late = [fingerprint(1, 2), fingerprint(0, 2), fingerprint(0, 3), fingerprint(1, 1), fingerprint(0, 1)]
    found = result_of([*BY_HAND[:3], *late, *BY_HAND[3:]])
    assert [(check.step, check.parameters) for check in found.sync_checks] == [(1, True), (2, True)]
    assert msgspec.structs.replace(found, sync_checks=[]) == result_of(BY_HAND)


@pytest.mark.parametrize(
    ("audits", "worst"),
    [
        ([audit(error=0.1), audit(error=0.3, worst="bias"), audit(error=0.2)], 1),
        ([audit(error=0.3, of="parameters"), None, audit(error=0.2)], 0),
        ([audit(error=1e300), audit_without_numbers()], 1),
        ([audit_without_numbers(), audit(error=1e300)], 0),
    ],
)
def test_the_audit_is_of_the_rank_that_is_farthest_from_the_mean_or_not_finite(
    audits: list[Audit | None], worst: int
) -> None:
    found = averaging([done(rank, audit=told) for rank, told in enumerate(audits)])
    assert found == Averaging(**msgspec.structs.asdict(audits[worst]), right=None, why=None)


def test_only_what_is_true_of_every_rank_is_said_of_all() -> None:
    """Everybody has rank 0's: there it is its own, on rank 1 it is not."""
    own = audit(error=0.7, scaled_error=0.7, own_scale=1.0, own_error=0.0)
    others = audit(error=0.7, scaled_error=0.7, own_scale=0.1, own_error=0.9)
    for told in ([own, others], [others, own]):
        found = averaging([done(rank, audit=words) for rank, words in enumerate(told)])
        assert (found.own_scale, found.own_error) == (0.1, 0.9)
    assert averaging([]) is averaging([done(0), done(1)]) is None


@pytest.mark.parametrize(
    ("orders", "verdict"),
    [
        ([], None),
        ([("1",), ("1",)], None),
        ([("1", "2", "1")], True),  # only the epoch before counts
        ([("1", "2", "2", "3")], False),
        ([("1", "2"), ("3", "3")], False),
        ([("3", "3"), ("1", "2")], False),
        ([(), ("1", "2")], True),
    ],
)
def test_an_order_is_new_if_no_rank_has_had_it_in_the_epoch_before(
    orders: list[tuple[str, ...]], verdict: bool | None
) -> None:
    assert reshuffled(done(rank, orders=order) for rank, order in enumerate(orders)) is verdict


def test_ratios_are_taken_repeat_by_repeat() -> None:
    times = {("a", 1): 10, ("b", 1): 30, ("a", 2): 20, ("b", 2): 30}
    results = results_for(two_trials(), *(journal(name, number, step_ms=ms) for (name, number), ms in times.items()))
    first, second = (trial.summary for trial in results.trials)
    assert (first.ratio.median, first.ratio.low, first.ratio.high) == (1, 1, 1)
    assert second.ratio.median == exactly(2.25)  # of 30 / 10 and 30 / 20
    assert (second.ratio.low, second.ratio.high) == (exactly(1.5), exactly(3))
    assert first.train_time_s.median == exactly(0.045)
    assert (first.train_time_s.min, first.train_time_s.max) == (exactly(0.03), exactly(0.06))
    assert first.samples_per_s == exactly((48 / 0.03 + 48 / 0.06) / 2)
    assert first.speedup == exactly(1)
    assert second.speedup == exactly((48 / 0.09) / 1_200)


def test_a_ratio_needs_the_baseline_of_the_same_repeat() -> None:
    only_second = results_for(two_trials(), journal("a", 2, step_ms=20), journal("b", 1, step_ms=30))
    assert only_second.trials[1].summary.ratio is None
    assert only_second.trials[1].summary.speedup == exactly(20 / 30)
    alone = results_for(two_trials(), journal("b", 1)).trials[1].summary
    assert (alone.ratio, alone.speedup) == (None, None)
    of_b = results_for(two_trials(baseline="b", repeats=1), journal("a", step_ms=10), journal("b", step_ms=20))
    assert (of_b.baseline, of_b.trials[0].summary.ratio.median) == ("b", exactly(0.5))


def cut_short(trial: str, repeat: int = 1, status: str = "skipped") -> list[Message]:
    """A launch that ended with this status after its steps had begun."""
    return [*journal(trial, repeat)[:-3], ended(status)]


ALL = [journal("a", 1), journal("b", 1), journal("a", 2), journal("b", 2)]


@pytest.mark.parametrize(
    ("journals", "status", "trials"),
    [
        (ALL, "ok", [("ok", 2), ("ok", 2)]),
        ([*ALL[:3], failure("b", 2, "why")], "failed", [("ok", 2), ("failed", 1)]),  # it keeps what it had
        ([journal("a", 1), failure("b", 1), journal("a", 2)], "failed", [("ok", 2), ("failed", 0)]),
        ([journal("a", 1)], "interrupted", [("ok", 1), ("skipped", 0)]),
        ([*ALL[:3], [launched("b", 2), ended("interrupted")]], "interrupted", [("ok", 2), ("ok", 1)]),
        ([], "interrupted", [("skipped", 0), ("skipped", 0)]),
        ([*ALL[:3], cut_short("b", 2)], "ok", [("ok", 2), ("ok", 1)]),  # it does not interrupt the run
        ([ALL[0], cut_short("b"), ALL[2]], "ok", [("ok", 2), ("skipped", 0)]),
        ([ALL[0], cut_short("b")], "interrupted", [("ok", 1), ("skipped", 0)]),  # the other has to go to its end
        ([cut_short("b"), ALL[0], cut_short("a", 2, "interrupted")], "interrupted", [("ok", 1), ("skipped", 0)]),
        ([cut_short("a"), failure("b")], "failed", [("skipped", 0), ("failed", 0)]),
    ],
)
def test_a_run_ends_as_its_trials_did(
    journals: list[list[Message]], status: str, trials: list[tuple[str, int]]
) -> None:
    results = results_for(two_trials(), *journals)
    assert results.status == status
    assert [(trial.status, len(trial.repeats)) for trial in results.trials] == trials
    for trial in results.trials:
        assert (trial.summary is None) == (not trial.repeats)


def test_the_results_name_their_run_and_schema_and_how_each_trial_was_launched() -> None:
    results = results_for(two_trials(), journal("a"), failure("b", error="why"))
    assert (results.schema, results.run, results.preset) == (1, "the-run", "made")
    assert results.environment == {"host": "here"}
    first, second = results.trials
    assert (first.config["launch"], first.command) == ("spawn", ["python", "-m", "workers.spawn"])
    assert (second.error, second.summary) == ("why", None)
    assert results_for(two_trials(), journal("a")).trials[1].command == []


def test_waiting_in_a_queue_is_no_part_of_the_start() -> None:
    first, *rest = BY_HAND
    queued = [Notice(at_ns=at_ms * 1_000_000, text="a job is queued") for at_ms in (1100, 2500)]
    assert result_of([first, *queued, *rest]).startup_s == pytest.approx(2.050 - 1.5)
    later = [*BY_HAND[:-1], Notice(at_ns=9_000_000_000, text="a job is over"), BY_HAND[-1]]
    assert result_of(later).startup_s == exactly(2.050)


def test_cores_of_other_hosts_are_not_this_ones() -> None:
    """Four threads share one core of this host; on how many they run elsewhere, nobody has asked."""
    crowd: list[Message] = journal("a")
    for engine, crowded in (({}, True), ({"name": "slurm", "nodes": 2}, False)):
        preset = preset_of({"engine": engine, "trial": [{"name": "a", "threads": 2}]})
        results = compare(preset, "the-run", {"cores": 1}, outcomes_of(crowd))
        assert results.trials[0].summary
        assert (Caution.OVERSUBSCRIBED in results.trials[0].summary.warnings) == crowded
