"""The answer to each kind of question, from journals whose figures are known."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from ddptui.analysis.results import PhasesMs, RepeatResult, Results
from ddptui.config.preset import Preset
from ddptui.report import answers
from ddptui.report.answers import KINDS
from ddptui.store.presets import load
from ddptui.wire.messages import Done, Step
from ddptui.wire.records import Injection
from tests.support.builders import (
    audit,
    audit_without_numbers,
    beside,
    done,
    failure,
    journal,
    preset_of,
    results_for,
    with_done,
)
from tests.support.launches import late_launch
from tests.support.traces import all_reduce, gather_scatter

Times = dict[str, Sequence[float]]  # of each trial's repeats: ms a step, of which there are three
FEW = "Do not rely on these times: 3 measured steps"


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


def answer(results: Results, preset: Preset) -> list[str]:
    """The answer, without the word that three steps are too few, which is the same in most of these tests."""
    return [line for line in answers.answer(results, preset) if not line.startswith(FEW)]


def answered(times: Times, trials: Sequence[dict[str, Any]] = (), **fields: Any) -> list[str]:
    return answer(*run(times, trials, **fields))


# Two trials, and many


def test_two_trials_are_one_sentence_with_the_reason() -> None:
    first, second = answered({"a": (10, 10, 10), "b": (20, 21, 22)})
    assert first == "b was 2.1 ± 0.1 times slower than a: all of the extra 33.0 ms went into own work."
    assert second == "The loss is the same in all: 0.667."


@pytest.mark.parametrize(
    ("b", "wanted"),
    [
        ((9.9, 10.1, 10.0), "b took as long as a, as far as 3 repeats can tell."),
        ((7, 10, 14), "Cannot tell whether b differs from a: 3 repeats of b differ by 70%."),
        ((5, 5, 5), "b was 2.00 ± 0.00 times faster than a: all of the 15.0 ms saved came from own work."),
    ],
)
def test_what_the_repeats_cannot_tell_is_not_claimed(b: Sequence[float], wanted: str) -> None:
    assert answered({"a": (10, 10, 10), "b": b})[0] == wanted


def test_of_one_repeat_a_difference_is_about_so_large() -> None:
    assert answered({"a": (10,), "b": (20,)})[0].startswith("b was about 2.0 times slower than a")
    assert (
        answered({"a": (10,), "b": (10.5,)})[0]
        == "Cannot tell whether b differs from a: one repeat shows no difference below 25%."
    )


def test_of_many_trials_the_ends_are_named_and_those_that_do_not_differ() -> None:
    times = {"a": (10, 10), "quick": (5, 5), "slow": (40, 40), "same": (10, 10), "wild": (8, 14)}
    first, second, third = answered(times)
    assert first.startswith("quick was the fastest, 2.00 ± 0.00 times faster than a: ")
    assert second.startswith("slow was the slowest, 4.00 ± 0.00 times slower than a: ")
    assert third == (
        "No difference from a was seen in same; cannot tell for wild: 2 repeats of wild differ by 55%; "
        "the loss is the same in all: 0.667."
    )
    assert answered({"a": (10, 10), "b": (20, 20), "c": (40, 40), "d": (10, 10)}) == [
        "No trial was seen to be faster than a; no difference from a was seen in d.",
        "c was the slowest, 4.00 ± 0.00 times slower than a: all of the extra 90.0 ms went into own work; b was "
        "slower, too.",
        "The loss is the same in all: 0.667.",
    ]


@pytest.mark.parametrize(("a", "b", "wanted"), [(3, 30, f"{FEW} in a"), (3, 3, FEW), (30, 30, "")])
def test_of_few_steps_nothing_is_to_be_relied_on(a: int, b: int, wanted: str) -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    results = results_for(preset, journal("a", steps=a), journal("b", steps=b, step_ms=20))
    said = [line for line in answers.answer(results, preset) if line.startswith("Do not rely")]
    assert said == [f"{wanted} are too few; raise `epochs` or `steps`."] * bool(wanted)


def test_trials_that_cannot_be_told_apart_share_the_place() -> None:
    first, second, *_ = answered({"a": (10, 10), "b": (5, 5.2), "c": (5.1, 5.1), "d": (20, 20), "e": (40, 40)})
    assert first.startswith("b and c were the fastest, too close to call; b was 1.96 ± 0.04 times faster than a: ")
    assert second.startswith("e was the slowest, 4.00 ± 0.00 times slower than a: ")


@pytest.mark.parametrize(
    ("columns", "ms", "named"), [(["loss", "aggregate"], 1, True), (["loss"], 1, False), (["aggregate"], 5, False)]
)
def test_a_time_that_the_preset_wants_seen_and_that_changed_is_the_reason(
    columns: list[str], ms: float, named: bool
) -> None:
    trials = [{"name": "other"}, {"name": "batch", "sched_batch": True}]
    times = {"other": (20, 20), "batch": (10, 10)}
    results, preset = run(times, trials, columns=columns, defaults={"strategy": "all_reduce"})
    first, second, _ = answer(changed(results, "batch", lambda repeat: {"phases_ms": aggregating(repeat, ms)}), preset)
    assert first.startswith("SCHED_BATCH made training 2.00 ± 0.00 times faster: ")
    assert first.endswith(f"the aggregation of a step took {ms:.2f} ms instead of 4.00 ms.") is named
    assert second.startswith("With it, a rank that a message wakes runs at once")


def aggregating(repeat: RepeatResult, ms: float) -> PhasesMs:
    assert repeat.phases_ms
    return msgspec.structs.replace(repeat.phases_ms, aggregate=ms)


def changed(results: Results, name: str, change: Callable[[RepeatResult], dict[str, Any]]) -> Results:
    """The results, with other figures in a trial's repeats."""
    replace = msgspec.structs.replace
    trials = [
        replace(trial, repeats=[replace(repeat, **change(repeat)) for repeat in trial.repeats])
        if trial.name == name
        else trial
        for trial in results.trials
    ]
    return replace(results, trials=trials)


def test_a_trial_that_only_switches_something_is_called_by_what_it_switches() -> None:
    trials = [{"name": "unseen", "instruments": "off"}, {"name": "seen"}]
    assert answered({"unseen": (10, 10), "seen": (10, 10)}, trials)[0] == (
        "Measuring made no difference that 2 repeats could show."
    )


# Failures, interruptions, disturbances


def test_without_a_baseline_there_is_nothing_to_compare_with() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    assert answer(results_for(preset, failure("a"), journal("b")), preset) == [
        "Cannot tell: a, the baseline, failed: rank 1 killed by SIGKILL."
    ]


def test_a_failed_trial_is_said_after_what_could_be_compared() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})
    results = results_for(preset, journal("a"), journal("b", step_ms=20), failure("c"))
    assert "c failed: the reason is below." in answer(results, preset)


def test_a_disturbed_baseline_gives_a_rough_answer() -> None:
    preset = preset_of({"repeats": 2, "trial": [{"name": "a"}, {"name": "b"}]})
    repeats = [beside(journal("a")), journal("b", step_ms=7), beside(journal("a", 2)), journal("b", 2, step_ms=12)]
    found = answer(results_for(preset, *repeats), preset)
    assert found[0] == "b took roughly 0.70 to 1.20 times as long as a."
    rough = "The times of a are rough: other programs kept 1.0 cores busy, most of all make (process 4711)."
    assert rough in found


def test_with_a_baseline_that_a_hand_has_changed_nothing_is_compared() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    told = journal("a")
    told.insert(5, Injection(at_ns=0, bottleneck=()))
    assert answer(results_for(preset, told, journal("b")), preset)[0] == (
        "Cannot tell with a, the baseline: every repeat was changed by hand."
    )


def test_before_anything_is_measured_only_the_interruption_can_be_told() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    results = results_for(preset)
    assert answer(results, preset) == [
        f"The run was interrupted before a trial finished: `ddptui --resume {results.run}` goes on."
    ]
    assert answer(msgspec.structs.replace(results, status="ok"), preset) == []


def test_an_interrupted_run_says_so() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})
    assert answer(results_for(preset, journal("a"), journal("b", step_ms=20)), preset)[-1] == (
        "The run was interrupted: 2 of 3 trials have figures."
    )


# Delays


def delayed(ms: float, at: str = "backward") -> list[dict[str, Any]]:
    return [{"at": at, "ranks": [1], "sleep_ms": ms}]


def of_delays(*sizes_ms: float) -> list[str]:
    trials = [{"name": "none"}, *({"name": f"{ms:g}-ms", "bottleneck": delayed(ms)} for ms in sizes_ms)]
    preset = preset_of({"trial": trials, "defaults": {"world_size": 2, "strategy": "all_reduce"}})
    launches = [late_launch(f"{ms:g}-ms", ms=ms, seed=3) for ms in sizes_ms]
    return answer(results_for(preset, late_launch("none", seed=3), *launches), preset)


def test_of_a_delay_it_is_said_how_much_came_through() -> None:
    [words] = of_delays(20)
    assert words.startswith("A delay of 20 ms on rank 1 after each backward made training about 3.")
    assert words.endswith("ms slept came through.")


def test_of_a_row_of_delays_it_is_said_from_which_on_the_rank_was_found() -> None:
    found, cost = of_delays(0.05, 10, 20)
    assert found == "Rank 1 was identified as the cause from 10 ms a step on, and not at 50 µs."
    assert cost.startswith("A delay of 20 ms on rank 1")


def test_a_culprit_that_was_not_delayed_is_not_the_rank_that_was_to_be_found() -> None:
    late = [{"name": f"{ms}-ms", "bottleneck": delayed(ms)} for ms in (10, 20, 40)]
    preset = preset_of({"trial": [{"name": "none"}, *late], "defaults": {"world_size": 2, "strategy": "all_reduce"}})
    of_another_rank = [late_launch(f"{ms}-ms", ms=ms, rank=0) for ms in (10, 20, 40)]
    words = answer(results_for(preset, late_launch("none"), *of_another_rank), preset)
    assert words[0] == "Rank 1 was not identified as the cause at any of these delays."
    alone = preset_of({"trial": [{"name": "40-ms"}], "defaults": {"world_size": 2, "bottleneck": delayed(40)}})
    words = answer(results_for(alone, of_another_rank[-1]), alone)
    assert words[1:] == ["A delay of 40 ms on rank 1 after each backward was not found."]


def test_a_delay_before_the_first_step_is_in_no_train_time() -> None:
    trials = [{"name": "none"}, {"name": "start", "bottleneck": delayed(1, "start")}]
    words = answered({"none": (10, 10), "start": (10, 10)}, trials)
    assert words == ["A delay of 1 ms on rank 1 before the first step made no difference that 2 repeats could show."]


def test_who_waits_for_whom_follows_the_chain() -> None:
    trials = [{"name": name, "strategy": name} for name in ("all_reduce", "gather_scatter")]
    late = {"world_size": 3, "bottleneck": [{"at": "backward", "ranks": [2], "sleep_ms": 20}]}
    preset = preset_of({"trial": trials, "defaults": late})
    shapes = {"all_reduce": all_reduce, "gather_scatter": gather_scatter}
    journals = [late_launch(name, ms=20, rank=2, ranks=3, shape=shape) for name, shape in shapes.items()]
    first, chain, direct = answer(results_for(preset, *journals), preset)
    assert first.startswith("The others wait for rank 2, which has a delay of 20 ms after each backward: ")
    assert first.endswith(" a step in both trials.")
    assert chain == "Under gather_scatter, rank 1 waits for rank 0, which waits for rank 2."
    assert direct == "Under all_reduce, the others wait for it directly."


# Checks and faults


def with_checks(**of_b: Done) -> list[str]:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b", **({"mistake": "divide_twice"} if of_b else {})}]})
    return answer(results_for(preset, journal("a"), with_done(journal("b"), *of_b.values())), preset)


def test_a_loss_that_is_not_finite_is_the_finding_and_no_failed_check() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    lost = with_done(journal("b"), *(done(rank, audit=audit_without_numbers()) for rank in (0, 1)))
    lost = [msgspec.structs.replace(said, loss=None) if isinstance(said, Step) else said for said in lost]
    said = answer(results_for(preset, journal("a"), lost), preset)
    assert said[0] == "The loss of b is not finite: training diverged."
    assert not any("average" in line for line in said)
    three = preset_of({"trial": [{"name": "a"}, {"name": "b"}, {"name": "c"}]})
    said = answer(results_for(three, journal("a"), lost, journal("c")), three)
    assert said[-1] == "The loss is the same in a and c: 0.667."


def test_of_mistakes_it_is_said_which_check_finds_them() -> None:
    assert with_checks(wrong=done(1, audit=audit(error=0.7, scale=2.0)))[0] == (
        'The checks found 1 of 1 mistake: "average" fails in b.'
    )
    unseen = with_checks(fine=done(1))
    assert unseen[0] == "The checks found 0 of 1 mistake."
    assert unseen[1] == "b passes every check."  # one repeat does not show what it costs


def test_training_that_fails_a_check_is_not_to_be_trusted() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    wrong = with_done(journal("b"), done(1, parameters={"weight": "x", "bias": "def"}))
    assert answer(results_for(preset, journal("a"), wrong), preset)[0] == (
        'Do not trust what b learned: "in sync" fails in b.'
    )


def test_of_faults_it_is_said_whether_the_reason_names_the_rank() -> None:
    trials = [{"name": "sound"}] + [
        {"name": name, "fault": [{"kind": "kill", "rank": 1, "step": 2}]} for name in ("named", "wrong", "survived")
    ]
    preset = preset_of({"trial": trials, "defaults": {"world_size": 2}})
    results = results_for(
        preset,
        journal("sound"),
        failure("named"),
        failure("wrong", error="rank 0 died, and rank 1 with it"),
        journal("survived"),
    )
    assert answer(results, preset) == [
        "1 of 3 faults ended the trial with a reason that names the rank.",
        "survived trained to the end in spite of its fault.",
        "The reason does not name the rank in wrong.",
    ]
    alone = preset_of({"trial": trials[:2], "defaults": {"world_size": 2}})
    assert answer(results_for(alone, journal("sound"), failure("named")), alone) == [
        "The fault ended its trial, and the reason names rank 1.",
        "sound, without a fault, trained to the end.",
    ]


def test_a_fault_that_was_stopped_before_its_step_has_not_been_survived() -> None:
    trials = [{"name": "sound"}, {"name": "stopped", "fault": [{"kind": "kill", "rank": 1, "step": 2}]}]
    preset = preset_of({"trial": trials, "defaults": {"world_size": 2}})
    messages = [*journal("stopped")[:-1], msgspec.structs.replace(journal()[-1], status="interrupted")]
    assert answer(results_for(preset, journal("sound"), messages), preset) == [
        "The run was interrupted: 1 of 2 trials has figures."
    ]


def test_a_disturbed_trial_is_named_beside_what_was_found() -> None:
    preset = preset_of({"trial": [{"name": "a"}, {"name": "b"}]})
    assert answer(results_for(preset, journal("a"), beside(journal("b", step_ms=20), s=0.04)), preset)[-1] == (
        "The times of b are rough: other programs kept 1.0 cores busy, most of all make (process 4711)."
    )


def test_a_delay_in_the_baseline_is_not_taken_for_none() -> None:
    trials = [{"name": f"{ms}-ms", "bottleneck": delayed(ms)} for ms in (10, 20)]
    preset = preset_of({"trial": trials, "defaults": {"world_size": 2, "strategy": "all_reduce"}})
    words = answer(results_for(preset, *(late_launch(f"{ms}-ms", ms=ms) for ms in (10, 20))), preset)
    assert words[0].startswith("20-ms was about 1.")
    assert "slept" not in " ".join(words)


def test_hiding_most_is_told_apart_from_saving_most() -> None:
    trials = [
        {"name": "flat", "strategy": "flat"},
        {"name": "small", "bucket_mb": 1.0},
        {"name": "ddp", "bucket_mb": 9.0},
    ]
    ms = {"flat": (20, 20), "small": (20, 20), "ddp": (10, 10)}
    results, preset = run(ms, trials, defaults={"world_size": 2, "strategy": "bucketed"})
    overlaps = {"flat": 0.0, "small": 0.66, "ddp": 0.58}
    shown = [
        msgspec.structs.replace(
            trial, repeats=[msgspec.structs.replace(repeat, overlap=overlaps[trial.name]) for repeat in trial.repeats]
        )
        for trial in results.trials
    ]
    words = answer(msgspec.structs.replace(results, trials=shown), preset)
    assert words[:2] == [
        "Hidden behind backward, of all communication: small 66% and ddp 58%; flat hid nothing.",
        "small saved no train time that 2 repeats could show.",
    ]
    assert words[2].startswith("ddp was 2.00 ± 0.00 times faster than flat")


def test_one_rank_hides_no_communication() -> None:
    trials = [{"name": "a", "bucket_mb": 1.0}, {"name": "b", "bucket_mb": 25.0}]
    words = answered({"a": (10,), "b": (20,)}, trials, defaults={"world_size": 1, "strategy": "bucketed"})
    assert words[0].startswith("b was about 2.0 times slower than a")


def test_a_word_at_the_start_has_a_capital_although_a_trial_has_its_name() -> None:
    assert answered({"a": (10, 10), "the": (10, 10)})[-1].startswith("The loss is the same")


# Ranks and launch modes


def test_scaling_is_told_in_samples_a_second_beside_the_ideal() -> None:
    trials = [{"name": "1", "world_size": 1}, {"name": "2", "world_size": 2}, {"name": "4", "world_size": 4}]
    words = answered({"1": (10,), "2": (10,), "4": (10,)}, trials)
    assert words[0] == (
        "With the same global batch, 2 ranks made 2.00 and 4 ranks 4.00 times as many samples a second as 1 rank "
        "(ideal: 2 and 4)."
    )


def test_strategies_with_several_numbers_of_ranks_are_compared_at_each() -> None:
    trials = [
        {"name": f"{strategy}-{size}", "strategy": strategy, "world_size": size}
        for strategy in ("all_reduce", "flat")
        for size in (2, 1)
    ]
    times = {"all_reduce-2": (10, 10), "all_reduce-1": (20, 20), "flat-2": (15, 15), "flat-1": (20, 20)}
    words = answered(times, trials)
    assert words[0] == (
        "Against all_reduce, flat was as fast, as far as 2 repeats can tell, with 1 rank and 1.50 ± 0.00 times slower "
        "with 2 ranks."
    )
    assert words[1].startswith("With 1 rank, all_reduce trained 2.00 ± 0.00 times slower than with 2 ranks: ")


def test_amounts_of_a_grid_are_told_in_their_order() -> None:
    trials = [
        {"name": f"{name}-{size}", "strategy": name, "world_size": size} for size in (2, 1) for name in ("flat", "ring")
    ]
    words = answered({trial["name"]: (10, 10) for trial in trials}, trials)
    assert words[0] == "Against flat, ring was as fast, as far as 2 repeats can tell, with 1 and 2 ranks."


def test_any_two_fields_make_a_grid_and_losses_that_differ_are_told() -> None:
    trials = [
        {"name": f"{average}-{every}", "average": average, "every": every}
        for average in ("gradients", "parameters")
        for every in (1, 4, 16)
    ]
    times = {trial["name"]: (10 / trial["every"], 10 / trial["every"]) for trial in trials}
    results, preset = run(times, trials, defaults={"strategy": "flat"})
    against = (
        "Against averaging gradients, averaging parameters was as fast, as far as 2 repeats can tell, with every = 1, "
        "4 and 16."
    )
    along = "With every = 16, averaging gradients trained 16.00 ± 0.00 times faster than with every = 1"
    first, second = answer(results, preset)
    assert (first, second[: len(along)]) == (against, along)
    first, second, _ = answer(ending(ending(results, "gradients-4", 0.3), "gradients-16", 1.5), preset)
    assert first == against
    assert second == (
        "Averaging gradients ends at a loss of 0.667, 0.300 and 1.500 with every = 1, 4 and 16; averaging parameters "
        "at 0.667, 0.667 and 0.667."
    )


def ending(results: Results, name: str, loss: float) -> Results:
    return changed(results, name, lambda repeat: {"loss": msgspec.structs.replace(repeat.loss, last=loss)})


def test_from_two_ranks_on_scaling_names_the_command_that_predicts_it() -> None:
    trials = [{"name": f"{size}", "world_size": size} for size in (2, 4, 8)]
    words = answered({"2": (10,), "4": (10,), "8": (10,)}, trials)
    assert words[-1].startswith("What 2 alone predicts for 4 and 8 ranks: `ddptui project ")
    assert " --trial 2 --ranks 2,4,8" in words[-1]
    assert not any(
        "project" in words
        for words in answered(
            {"1": (10,), "2": (10,), "4": (10,)}, [{"name": f"{size}", "world_size": size} for size in (1, 2, 4)]
        )
    )


@pytest.mark.parametrize(
    ("spawn", "wanted"),
    [
        (
            (10, 10),
            "Once ranks run, what started them made no difference that 2 repeats can show: process and spawn trained "
            "for 30.0 ms.",
        ),
        (
            (10, 10.5),
            "Once ranks run, what started them made no difference that 2 repeats can show: process and spawn trained "
            "for 30.0 to 30.8 ms.",
        ),
        (
            (9, 15),
            "Cannot tell whether it matters what started the ranks: 2 repeats of spawn differ by 50%; process and "
            "spawn trained for 30.0 to 36.0 ms.",
        ),
        (
            (20, 20),
            "process and spawn trained for 30.0 to 60.0 ms: spawn was 2.00 ± 0.00 times slower "
            "than process, though their ranks work alike.",
        ),
    ],
)
def test_launch_modes_are_compared_by_training_and_by_start(spawn: Sequence[float], wanted: str) -> None:
    trials = [{"name": name, "launch": name} for name in ("process", "spawn")]
    words = answered({"process": (10, 10), "spawn": spawn}, trials)
    assert words[0] == wanted
    assert words[1] == "The first step was reached after 2 s (process) to 2 s (process)."


def test_ranks_with_several_devices_are_not_compared_as_launch_modes() -> None:
    trials = [{"name": "spawn"}, {"name": "launch", "launch": "launch"}, {"name": "two", "gpus_per_rank": 2}]
    words = answered({"spawn": (10, 10), "launch": (10, 10), "two": (30, 30)}, trials)
    assert words[0].endswith("can show: spawn and launch trained for 30.0 ms.")


def test_of_one_repeat_it_is_not_said_that_launch_modes_do_not_matter() -> None:
    trials = [{"name": name, "launch": name} for name in ("process", "spawn")]
    assert answered({"process": (10,), "spawn": (11,)}, trials)[0] == (
        "Cannot tell whether it matters what started the ranks: one repeat shows no difference below 25%; process and "
        "spawn trained for 30.0 to 33.0 ms."
    )


def test_a_batch_that_data_parallel_cuts_is_shown_in_its_parts() -> None:
    trials = [{"name": "alone", "launch": "single"}, {"name": "two", "launch": "dp", "world_size": 2, "batch_size": 5}]
    preset = preset_of({"trial": trials, "defaults": {"strategy": "none"}})
    cut = with_done(journal("two"), done(0, sub_batch=3), done(1, sub_batch=2))
    assert answer(results_for(preset, journal("alone", ranks=1), cut), preset) == [
        "DataParallel cut each batch of 5 into 3+2 for 2 replicas.",
        "The parts are of equal length, rounded up, and the last replica gets the rest.",
    ]


# What was published


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        ({"a": (10, 10), "b": (20, 20), "c": (30, 30)}, "The published order is reproduced: a < b < c."),
        (
            {"a": (10, 10), "b": (30, 30), "c": (20, 20)},
            "(a < b < c), this run swaps c before b.",
        ),
        (
            {"a": (10, 10), "b": (20, 25), "c": (24, 23)},
            "Of the published order (a < b < c), b and c are within the noise; the rest is reproduced.",
        ),
        ({"a": (10,), "b": (11,), "c": (12,)}, "Whether the published order (a < b < c) holds cannot be told"),
        ({"a": (10,), "b": (20,), "c": (30,)}, "The published order is reproduced: a < b < c."),
    ],
)
def test_the_published_order(times: Times, wanted: str) -> None:
    references = [{"trial": name, "train_time_s": place} for place, name in enumerate("abc", start=1)]
    assert wanted in answered(times, reference=references)[-1]


# The presets


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("quickstart", "ranking"),
        ("strategies", "ranking"),
        ("ddp-by-hand", "ranking"),
        ("who-waits", "blame"),
        ("bottleneck-where", "delays"),
        ("straggler-sweep", "delays"),
        ("allreduce-vs-reduce-broadcast", "grid"),
        ("scaling", "scaling"),
        ("overlap", "overlap"),
        ("slow-link", "overlap"),
        ("dataparallel-split", "split"),
        ("mistakes", "checks"),
        ("faults", "faults"),
        ("algorithms", "primitives"),
        ("gradients-or-parameters", "grid"),
        ("project-validation", "scaling"),
        ("scheduler-tick", "ranking"),
        ("gpu-amp", "ranking"),
    ],
)
def test_each_preset_asks_the_question_that_it_means(name: str, kind: str) -> None:
    preset = load(name, {})
    results = results_for(preset)
    assert next(one for one in KINDS if one.asks(results, preset)).sentences.__name__ == kind
