"""What is found of a run whose trials are looked at beside each other, from journals whose figures are known."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.findings import questions
from ddptui.findings.questions import question_of
from ddptui.store.presets import load
from ddptui.wire.messages import Done, Step
from ddptui.wire.records import Failure
from tests.support.builders import (
    audit,
    audit_without_numbers,
    beside,
    done,
    ended,
    failure,
    journal,
    preset_of,
    results_for,
    with_done,
)
from tests.support.launches import late_launch
from tests.support.traces import all_reduce, gather_scatter

Times = dict[str, Sequence[float]]  # of each trial's repeats: ms a step, of which there are three


def run(times: Times, trials: Sequence[dict[str, Any]] = (), **fields: Any) -> tuple[Results, Preset]:
    """A run whose trials took so long."""
    trials = trials or [{"name": name} for name in times]
    preset = preset_of({"repeats": max(map(len, times.values())), "trial": list(trials), **fields})
    journals = [
        journal(name, number, step_ms=ms, ranks=next(one for one in preset.trials if one.name == name).world_size)
        for name, of_trial in times.items()
        for number, ms in enumerate(of_trial, start=1)
    ]
    return results_for(preset, *journals), preset


def found_in(results: Results) -> list[Finding]:
    """All findings but that three steps are too few, which is true of most of these runs."""
    return [finding for finding in results.findings if finding.kind is not Kind.TOO_FEW_STEPS]


def named(*names: str, **fields: Any) -> Preset:
    """A preset with trials of these names."""
    return preset_of({"trial": [{"name": name} for name in names], **fields})


AB, ABC = named("a", "b"), named("a", "b", "c")


def found(times: Times, trials: Sequence[dict[str, Any]] = (), **fields: Any) -> list[Finding]:
    return found_in(run(times, trials, **fields)[0])


def told(findings: Sequence[Finding]) -> list[tuple[Kind, tuple[str, ...]]]:
    """Their kinds, and the trials that they are about."""
    return [(finding.kind, finding.trials) for finding in findings]


def test_a_trial_took_so_many_times_as_long_and_what_most_of_it_is() -> None:
    first, second = found({"a": (10, 10, 10), "b": (20, 21, 22)})
    assert (first.kind, first.trials, first.place) == (Kind.SLOWER, ("b",), "a")
    assert first.numbers["ratio_times"] == pytest.approx(2.1)
    assert first.numbers["off_times"] == pytest.approx(0.1)
    assert first.numbers["work_s"] == pytest.approx(first.numbers["whole_s"]) == pytest.approx(0.033)
    assert (second.kind, second.place) == (Kind.SAME_LOSS, "all trials")


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ((10, 10, 10), (9.9, 10.1, 10.0), Kind.ALIKE),
        ((10, 10, 10), (7, 10, 14), Kind.UNCLEAR),
        ((10, 10, 10), (5, 5, 5), Kind.FASTER),
        ((10,), (20,), Kind.SLOWER),
        ((10,), (10.5,), Kind.UNCLEAR),
    ],
)
def test_what_the_repeats_cannot_tell_is_not_claimed(a: Sequence[float], b: Sequence[float], kind: Kind) -> None:
    finding = found({"a": a, "b": b})[0]
    assert finding.kind is kind
    assert ("off_times" in finding.numbers) <= (len(a) > 1)  # of one repeat a difference is about so large


def test_of_many_trials_the_ends_are_named_and_those_that_do_not_differ() -> None:
    times = {"a": (10, 10), "quick": (5, 5), "slow": (40, 40), "same": (10, 10), "wild": (8, 14)}
    assert told(found(times)) == [
        (Kind.FASTEST, ("quick",)),
        (Kind.SLOWEST, ("slow",)),
        (Kind.ALIKE, ("same",)),
        (Kind.UNCLEAR, ("wild",)),
        (Kind.SAME_LOSS, ("a", "a")),
    ]


def test_trials_that_cannot_be_told_apart_share_the_place() -> None:
    findings = found({"a": (10, 10), "b": (5, 5.2), "c": (5.1, 5.1), "d": (20, 20), "e": (40, 40)})
    assert told(findings)[:2] == [(Kind.FASTEST, ("b", "c")), (Kind.SLOWEST, ("e",))]


@pytest.mark.parametrize(("a", "b", "names"), [(3, 30, ("a",)), (3, 3, ()), (30, 30, None)])
def test_of_few_steps_nothing_is_to_be_relied_on(a: int, b: int, names: tuple[str, ...] | None) -> None:
    results = results_for(AB, journal("a", steps=a), journal("b", steps=b, step_ms=20))
    few = [finding.trials for finding in results.findings if finding.kind is Kind.TOO_FEW_STEPS]
    assert few == ([] if names is None else [names])


def test_without_a_baseline_there_is_nothing_to_compare_with() -> None:
    first, second = found_in(results_for(AB, failure("a"), journal("b")))
    assert (first.kind, first.doubt) == (Kind.NO_BASELINE, "a, the baseline, failed (rank 1 was killed by SIGKILL)")
    assert told([second]) == [(Kind.FAILED, ("a",))]


def test_a_failed_trial_is_said_after_what_could_be_compared() -> None:
    findings = told(found_in(results_for(ABC, journal("a"), journal("b", step_ms=20), failure("c"))))
    assert (findings[0], findings[-1]) == ((Kind.SLOWER, ("b",)), (Kind.FAILED, ("c",)))


def test_a_disturbed_baseline_gives_a_rough_answer() -> None:
    repeats = [beside(journal("a")), journal("b", step_ms=7), beside(journal("a", 2)), journal("b", 2, step_ms=12)]
    first = found_in(results_for(named("a", "b", repeats=2), *repeats))[0]
    assert told([first]) == [(Kind.ROUGHLY, ("b",))]
    assert [first.numbers[f"{end}_times"] for end in ("low", "high")] == pytest.approx([0.7, 1.2])


def test_an_interrupted_run_says_so_and_before_anything_is_measured_nothing_else() -> None:
    results = results_for(AB)
    assert [(finding.kind, finding.place) for finding in results.findings] == [(Kind.NOTHING_YET, results.run)]
    assert questions.answer_of(replace(results, status="ok"), AB) == []
    last = found_in(results_for(ABC, journal("a"), journal("b", step_ms=20)))[-1]
    assert (last.kind, last.numbers) == (Kind.INTERRUPTED, {"done": 2, "of_trials": 3})


def delayed(*sizes_ms: float, at: str = "backward", names: str = "{:g}-ms") -> list[dict[str, Any]]:
    """Trials in which rank 1 is late by so much."""
    late = {"at": at, "ranks": [1]}
    return [{"name": names.format(ms), "bottleneck": [late | {"sleep_ms": ms}]} for ms in sizes_ms]


def of_delays(*sizes_ms: float, rank: int = 1, without: bool = True) -> list[Finding]:
    """What is found of these delays, where this rank was late in truth. without: beside a trial without delay."""
    sound = [{"name": "none"}] if without else []
    defaults = {"world_size": 2, "strategy": "all_reduce"}
    preset = preset_of({"trial": [*sound, *delayed(*sizes_ms)], "defaults": defaults})
    launches = [late_launch(f"{ms:g}-ms", ms=ms, seed=3, rank=rank) for ms in sizes_ms]
    return found_in(results_for(preset, *[late_launch("none", seed=3)] * without, *launches))


def test_of_a_row_of_delays_it_is_said_from_which_on_the_rank_was_found() -> None:
    first, cost = of_delays(0.05, 10, 20)
    assert (first.kind, first.rank, first.numbers) == (Kind.FOUND_FROM, 1, {"from_ms": 10, "missed_ms": 0.05})
    assert cost.trials == ("20-ms",)


def test_a_culprit_that_was_not_delayed_is_not_the_rank_that_was_to_be_found() -> None:
    first = of_delays(10, 20, 40, rank=0)[0]
    assert (first.kind, first.rank, first.numbers) == (Kind.FOUND_FROM, 1, {"missed_ms": 40})
    assert told(of_delays(40, rank=0, without=False)) == [(Kind.TRAINED, ()), (Kind.DELAY_MISSED, ("40-ms",))]


def test_a_delay_before_the_first_step_is_in_no_train_time() -> None:
    trials = [{"name": "none"}, *delayed(1, at="start", names="start")]
    assert told(found({"none": (10, 10), "start": (10, 10)}, trials)) == [(Kind.ALIKE, ("start",))]


def test_who_waits_for_whom_follows_the_chain() -> None:
    trials = [{"name": name, "strategy": name} for name in ("all_reduce", "gather_scatter")]
    late = {"world_size": 3, "bottleneck": [{"at": "backward", "ranks": [2], "sleep_ms": 20}]}
    preset = preset_of({"trial": trials, "defaults": late})
    shapes = {"all_reduce": all_reduce, "gather_scatter": gather_scatter}
    journals = [late_launch(name, ms=20, rank=2, ranks=3, shape=shape) for name, shape in shapes.items()]
    first, chain = found_in(results_for(preset, *journals))
    assert (first.kind, first.rank, first.trials) == (Kind.DELAY_FOUND, 2, ("all_reduce", "gather_scatter"))
    assert 15 < first.numbers["low_ms"] <= first.numbers["high_ms"] < 25
    assert (chain.kind, chain.trials, chain.rank) == (Kind.CHAIN, ("gather_scatter",), 1)
    assert chain.numbers == {"for_rank": 0, "then_rank": 2}


def test_a_delay_in_the_baseline_is_not_taken_for_none() -> None:
    first = of_delays(10, 20, without=False)[0]
    assert told([first]) == [(Kind.SLOWER, ("20-ms",))]
    assert "slept_s" not in first.numbers


def with_checks(**of_b: Done) -> list[Finding]:
    mistake = {"mistake": "divide_twice"} if of_b else {}
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b", **mistake}]})
    return found_in(results_for(preset, journal("a"), with_done(journal("b"), *of_b.values())))


def test_a_loss_that_is_not_finite_is_the_finding_and_no_failed_check() -> None:
    lost = with_done(journal("b"), *(done(rank, audit=audit_without_numbers()) for rank in (0, 1)))
    lost = [replace(said, loss=None) if isinstance(said, Step) else said for said in lost]
    findings = told(found_in(results_for(AB, journal("a"), lost)))
    assert findings[0] == (Kind.DIVERGED, ("b",))
    assert Kind.CHECK_FAILS not in dict(findings)
    last = found_in(results_for(ABC, journal("a"), lost, journal("c")))[-1]
    assert (last.kind, last.place, last.numbers["of_trials"]) == (Kind.SAME_LOSS, None, 2)


def test_of_mistakes_it_is_said_which_check_finds_them() -> None:
    count, check = with_checks(wrong=done(1, audit=audit(error=0.7, scale=2.0)))
    assert (count.kind, count.trials, count.numbers) == (Kind.MISTAKES, (), {"found": 1, "mistakes": 1})
    assert (check.kind, check.place, check.trials) == (Kind.CHECK_FAILS, "average", ("b",))
    [unseen] = with_checks(fine=done(1))
    assert (unseen.trials, unseen.numbers) == (("b",), {"found": 0, "mistakes": 1})


@pytest.mark.parametrize(
    ("differing", "place"),
    [({"parameters": {"weight": "x", "bias": "def"}}, "in sync"), ({"buffers": {"running_mean": "x"}}, "buffers")],
)
def test_training_that_fails_a_check_is_found_without_a_mistake_too(differing: dict[str, Any], place: str) -> None:
    own = with_done(journal("b", step_ms=20), done(1, **differing))
    first, *others = found_in(results_for(AB, journal("a"), own))
    assert (first.kind, first.place, first.trials) == (Kind.CHECK_FAILS, place, ("b",))
    assert first.severity == "critical"
    # where only buffers differ, the question is answered nevertheless
    assert ((Kind.SLOWER, ("b",)) in told(others)) == (place == "buffers")


def test_of_faults_it_is_said_whether_the_reason_names_the_rank() -> None:
    trials = [{"name": "sound"}] + [
        {"name": name, "fault": [{"kind": "kill", "rank": 1, "step": 2}]}
        for name in ("named", "wrong", "said", "unsaid", "survived")
    ]
    preset = preset_of({"trial": trials, "defaults": {"world_size": 2}})
    results = results_for(
        preset,
        journal("sound"),
        failure("named"),  # as journals of older versions do, only in words
        failure("wrong", error="rank 0 died, and rank 1 with it"),
        [*failure("said")[:-1], replace(ended("failed", "rank 0 is"), failure=Failure(summary="rank 0 is", rank=1))],
        [*failure("unsaid")[:-1], replace(ended("failed", "rank 1 is"), failure=Failure(summary="rank 1 is"))],
        journal("survived"),
    )
    count, *others = found_in(results)
    assert (count.kind, count.rank, count.numbers) == (Kind.FAULTS_NAMED, 1, {"found": 2, "faults": 5})
    assert told(others) == [(Kind.FAULT_SURVIVED, ("survived",)), (Kind.FAULT_UNNAMED, ("wrong", "unsaid"))]


def test_a_fault_that_was_stopped_before_its_step_has_not_been_survived() -> None:
    trials = [{"name": "sound"}, {"name": "stopped", "fault": [{"kind": "kill", "rank": 1, "step": 2}]}]
    preset = preset_of({"trial": trials, "defaults": {"world_size": 2}})
    messages = [*journal("stopped")[:-1], replace(journal()[-1], status="interrupted")]
    assert [kind for kind, _ in told(found_in(results_for(preset, journal("sound"), messages)))] == [Kind.INTERRUPTED]


def test_hiding_most_is_told_apart_from_saving_most() -> None:
    buckets = {"small": 1.0, "ddp": 9.0}
    trials = [{"name": "flat", "strategy": "flat"}, *({"name": name, "bucket_mb": mb} for name, mb in buckets.items())]
    ms = {"flat": (20, 20), "small": (20, 20), "ddp": (10, 10)}
    results, preset = run(ms, trials, defaults={"world_size": 2, "strategy": "bucketed"})
    hidden = {"flat": 0.0, "small": 0.66, "ddp": 0.58}
    overlapping = [
        replace(trial, repeats=[replace(repeat, overlap=hidden[trial.name]) for repeat in trial.repeats])
        for trial in results.trials
    ]
    shares, times = {}, []
    for each in questions.overlap(replace(results, trials=overlapping), preset):
        if each.kind is Kind.OVERLAP:
            shares[each.trials] = each.numbers
        else:
            times.append(each)
    assert [*shares.items()] == [(("small",), {"share": 0.66}), (("ddp",), {"share": 0.58}), (("flat",), {})]
    assert told(times) == [(Kind.ALIKE, ("small",)), (Kind.FASTER, ("ddp",))]


def test_one_rank_hides_no_communication() -> None:
    trials = [{"name": "a", "bucket_mb": 1.0}, {"name": "b", "bucket_mb": 25.0}]
    first = found({"a": (10,), "b": (20,)}, trials, defaults={"world_size": 1, "strategy": "bucketed"})[0]
    assert (first.kind, first.trials) == (Kind.SLOWER, ("b",))


def test_scaling_is_told_in_samples_a_second_beside_the_ideal() -> None:
    def scaled(*sizes: int) -> list[Finding]:
        trials = [{"name": f"{size}", "world_size": size} for size in sizes]
        return found({f"{size}": (10,) for size in sizes}, trials)

    two, four = scaled(1, 2, 4)
    assert told([two]) == [(Kind.SPEEDUP, ("2",))]
    assert two.numbers == {"speedup_times": pytest.approx(2), "ideal_times": 2, "ranks": 2, "base_ranks": 1}
    assert (four.numbers["ranks"], four.numbers["ideal_times"]) == (4, 4)
    last = scaled(2, 4, 8)[-1]  # from two ranks on, there is a command that predicts it
    assert last.kind is Kind.PREDICTABLE
    assert last.place.startswith("ddptui project ")
    assert last.place.endswith(" --trial 2 --ranks 2,4,8")


def test_strategies_with_several_numbers_of_ranks_are_compared_at_each() -> None:
    trials = [
        {"name": f"{strategy}-{size}", "strategy": strategy, "world_size": size}
        for strategy in ("all_reduce", "flat")
        for size in (2, 1)
    ]
    times = {"all_reduce-2": (10, 10), "all_reduce-1": (20, 20), "flat-2": (15, 15), "flat-1": (20, 20)}
    two, one, *_ = found(times, trials)
    assert (two.kind, two.trials, two.place) == (Kind.SLOWER, ("flat-2",), "all_reduce-2")
    assert (one.kind, one.trials, one.place) == (Kind.ALIKE, ("flat-1",), "all_reduce-1")


def test_launch_modes_are_compared_by_training_and_by_start() -> None:
    trials = [{"name": name, "launch": name} for name in ("process", "spawn")]
    training, start = found({"process": (10, 10), "spawn": (20, 20)}, trials)
    assert (training.kind, training.trials) == (Kind.SLOWER, ("spawn",))
    assert (start.kind, start.numbers) == (Kind.START, {"low_s": 2.0, "high_s": 2.0})


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ({"a": (10, 10), "b": (20, 20), "c": (30, 30)}, Kind.PUBLISHED_HOLDS),
        ({"a": (10, 10), "b": (30, 30), "c": (20, 20)}, Kind.PUBLISHED_SWAPPED),
        ({"a": (10, 10), "b": (20, 25), "c": (24, 23)}, Kind.PUBLISHED_UNCLEAR),
    ],
)
def test_the_published_order(times: Times, kind: Kind) -> None:
    references = [{"trial": name, "train_time_s": place} for place, name in enumerate("abc", start=1)]
    last = found(times, reference=references)[-1]
    assert (last.kind, last.trials) == (kind, ("a", "b", "c"))


RULES = {
    "ranking": "quickstart strategies ddp-by-hand scheduler-tick gpu-amp",
    "blame": "who-waits",
    "delays": "bottleneck-where straggler-sweep",
    "twins": "allreduce-vs-reduce-broadcast gradients-or-parameters",
    "scaling": "scaling project-validation",
    "overlap": "overlap slow-link",
    "split": "dataparallel-split",
    "checks": "mistakes",
    "faults": "faults",
    "of_primitives": "algorithms",
}


@pytest.mark.parametrize(("rule", "names"), RULES.items(), ids=RULES)
def test_each_preset_asks_the_question_that_it_means(rule: str, names: str) -> None:
    for name in names.split():
        preset = load(name, {})
        assert question_of(results_for(preset), preset).rule.__name__ == rule, name
