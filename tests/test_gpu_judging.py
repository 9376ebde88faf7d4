"""How the checks of GPUs judge what a run or a probe has left: as expected, and each part of it once not."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from ddptui.analysis.primitives.results import Cell, PrimitivesResult, TimeUs
from ddptui.analysis.results import (
    Averaging,
    ConfidenceInterval,
    Culprit,
    Injected,
    InSync,
    Loss,
    RepeatResult,
    Results,
    TrialResult,
)
from ddptui.wire.messages import OwnGpu, Ready, Step
from ddptui.wire.records import Message
from tests.gpu import test_one_gpu, test_two_gpus
from tests.gpu.judging import Recorded
from tests.support.builders import done, preset_of, results_for, tied, with_done
from tests.support.gpu_checks import missed
from tests.support.gpu_launches import gpu_launch

GB = 2**30
MEMORY = {"peak_gpu_bytes": GB, "peak_gpu_reserved_bytes": 2 * GB}
LAUNCH = with_done(gpu_launch(steps=11), done(0, **MEMORY), done(1, **MEMORY))
SOUND = results_for(preset_of({"trial": [{"name": "a"}]}), LAUNCH).trials[0].repeats[0]
OVER_GLOO = {"nccl": None}  # as the repeat is otherwise
OVER_NCCL = {"backend": "nccl"}
RIGHT = Averaging(
    of="gradients", error=0.0, scale=1.0, scaled_error=0.0, own_scale=0.5, own_error=0.5, worst="", worst_error=0.0,
    right=True,
)  # fmt: skip
Trials = dict[str, dict[str, Any] | None]  # by name what is otherwise than in SOUND; None: it failed


def repeat(**changes: Any) -> RepeatResult:
    """changes: also of each rank (ranks), and of the one who is late (late)."""
    ranks = [msgspec.structs.replace(rank, **changes.pop("ranks", {})) for rank in SOUND.ranks[:1]]
    return msgspec.structs.replace(SOUND, **({"ranks": ranks, "averaging": RIGHT} | changes))


def recorded(trials: Trials, told: Sequence[Message] = (*LAUNCH, tied(error_ms=0.02)), **fields: Any) -> Recorded:
    """A run with these trials; fields: of each. Each with the same journal."""
    made = [
        TrialResult(
            name=name, status="failed" if changes is None else "ok", summary=None, command=[],
            error="rank 0 died" if changes is None else None, **({"config": {}} | fields),
            repeats=[] if changes is None else [repeat(**changes)],
        )
        for name, changes in trials.items()
    ]  # fmt: skip
    results = Results(run="r", preset="p", baseline=made[0].name, environment={}, status="ok", trials=made)
    return Recorded(results, {name: list(told) for name in trials})


def missed_of(check: Callable[..., None], found: Recorded, *more: object) -> list[str]:
    return missed(check, lambda plan, minutes=3: found, *more)


def delay(rank: int, at: str, injected_s: float, found_s: float) -> dict[str, Any]:
    """What a repeat tells in which this rank was delayed, and named."""
    excess = ConfidenceInterval(estimate=found_s, low=found_s, high=found_s)
    culprit = Culprit(rank=rank, phase=at, share=0.9, wait_caused_s=found_s, excess_s=excess)
    return {"culprit": culprit, "injected": [Injected(rank=rank, at=at, fired=10, s=injected_s)]}


STOCK, NEWER = "ProcessGroupNCCL", "ProcessGroupNCCL2"  # SOUND has the newer
PAIR: Trials = {"a": OVER_NCCL, "b": OVER_NCCL}
BACKENDS: Trials = {"nccl": OVER_NCCL, "gloo": OVER_GLOO}
FOUR: Trials = {"group-of-one": OVER_NCCL, "two-share-it": OVER_GLOO}
DELAYS: Trials = {
    "none": {}, "aggregate": delay(1, "aggregate", 1.78, 1.77), "backward": delay(1, "backward", 3.56, 3.59),
}  # fmt: skip
HIDDEN: Trials = {
    "flat-seen": {"overlap": 0.02}, "ddp-seen": {"overlap": 0.7}, "flat-unseen": {}, "ddp-unseen": {},
}  # fmt: skip
TWICE = {"train_time_s": 20.1}
one, two = test_one_gpu, test_two_gpus

# A check, a run that is as expected, and by what it then misses how trials differ from that.
CASES: list[tuple[Callable[..., None], Trials, dict[str, Trials]]] = [
    (one.test_strategies, PAIR, {
        "b on cpu": {"b": OVER_NCCL | {"ranks": {"device": "cpu"}}},
        "loss of the first steps 2.000 to 2.100": {"b": OVER_NCCL | {"loss": Loss(first=2.1, last=0.5)}},
        "a loss is not finite": {"b": OVER_NCCL | {"loss": Loss(first=None, last=0.5)}},
        "b not in sync": {"b": OVER_NCCL | {"in_sync": InSync(parameters=True, buffers=False, differing=["mean"])}},
        "average of b not right": {"b": OVER_NCCL | {"averaging": msgspec.structs.replace(RIGHT, right=None)}},
        "1 of 2 trials ended well; b failed: rank 0 died": {"b": None},
        "b over gloo": {"b": {}},
    }),
    (one.test_strategies_shared, {"a": {}, "b": {"loss": Loss(first=2.015, last=9.0)}}, {
        "b over nccl": {"b": OVER_NCCL},
    }),
    (two.test_strategies_of_two, PAIR, {"b over gloo": {"b": {}}}),
    (two.test_batchnorm, PAIR, {"b over gloo": {"b": {}}}),
    (one.test_compile, {"a": {}}, {"0 of 1 trial ended well; a failed: rank 0 died": {"a": None}}),
    (one.test_gpu_quickstart, FOUR, {"group-of-one over gloo": {"group-of-one": {}}}),
    (one.test_bottleneck_where, DELAYS, {
        "none: rank 0 named in data": {"none": delay(0, "data", 0.0, 0.2)},
        "backward: no rank named": {"backward": {}},
        "backward: rank 0 in backward, 3.56 s of 0 ms injected": {"backward": delay(0, "backward", 0.0, 3.56)},
        "backward: rank 1 in forward, 3.56 s of 0 ms injected": {"backward": delay(1, "forward", 0.0, 3.56)},
        "backward: rank 1 in backward, 3.8 s of 3.56 s injected": {"backward": delay(1, "backward", 3.56, 3.8)},
        "backward: rank 1 in backward, 0 ms of 0 ms injected": {"backward": delay(1, "backward", 0.0, 0.0)},
        "backward: no figures": {"backward": None},
    }),
    (one.test_figures, {"a": {}}, {
        "a: no TFLOP/s": {"a": {"tflops": 0.0}},
        "a: no MFU, although the peak is known": {"a": {"mfu": None}},
        "a: MFU 120%": {"a": {"mfu": 1.2}},
        "a: no joules a step": {"a": {"joules_a_step": None}},
        "a: no clock of the GPU": {"a": {"ranks": {"sm_mhz": None}}},
        "a: no memory taken, or none reserved": {"a": {"ranks": {"peak_gpu_bytes": None}}},
        "a: 4 GB taken of 2 GB reserved": {"a": {"ranks": {"peak_gpu_bytes": 4 * GB}}},
    }),
    (one.test_gpu_amp, {"a": {}, "b": {"loss": Loss(first=2.15, last=0.5)}}, {
        "loss of the first steps 2.000 to 2.500": {"b": {"loss": Loss(first=2.5, last=0.5)}},
        "a step: a 1000 ms and b – ms": {"b": {"step_ms": None}},
    }),
    (one.test_cost_of_looking, {"unseen": {}, "seen": {"train_time_s": 19.9}}, {
        "a step of unseen 1 s, of seen 2.01 s: 2.01 × as long": {"seen": TWICE},
        "unseen or seen: no figures": {"seen": None},
    }),
    (one.test_pin_memory, {"one-process-pageable": {}, "one-process-page-locked": {"train_time_s": 11.9}}, {
        "a step of one-process-pageable 1 s": {"one-process-page-locked": {"train_time_s": 12.1}},
    }),
    (two.test_overlap, HIDDEN, {
        "flat hid 50%": {"flat-seen": {"overlap": 0.5}},
        "ddp hid 1%": {"ddp-seen": {"overlap": 0.01}},
        "ddp hid –": {"ddp-seen": {"overlap": None}},
        "a step of ddp-unseen 1 s": {"ddp-seen": {"overlap": 0.7} | TWICE},
    }),
]  # fmt: skip


@pytest.mark.parametrize(("check", "sound", "flaws"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_check_misses_what_is_not_as_expected(
    check: Callable[..., None], sound: Trials, flaws: dict[str, Trials]
) -> None:
    def missed_with(changes: Trials) -> list[str]:
        found = recorded(sound | changes)
        given = found if check in (one.test_figures, one.test_gpu_amp) else lambda plan, minutes=3: found
        return missed(check, given, *([NEWER] if check is two.test_overlap else []))

    assert missed_with({}) == []
    for said, changes in flaws.items():
        assert any(each.startswith(said) for each in missed_with(changes)), (said, missed_with(changes))


def test_the_class_of_nccl_is_held_against_the_one_asked_for() -> None:
    def missing(nccl: dict[str, Any], gloo: dict[str, Any], implementation: str = NEWER) -> list[str]:
        trials = recorded({"nccl": nccl, "gloo": gloo})
        for trial in trials.results.trials:
            trial.config["backend"] = trial.name
        return missed_of(two.test_gpu_backends, trials, implementation)

    gloo = {"nccl": None}
    assert missing(OVER_NCCL, gloo) == []
    assert missing(OVER_NCCL, gloo, STOCK) == ["nccl: NCCL 2.28.9, ProcessGroupNCCL2"]
    assert missing(OVER_NCCL | gloo, gloo) == ["nccl: no NCCL named"]
    assert missing(OVER_NCCL, {}) == ["gloo: NCCL 2.28.9, ProcessGroupNCCL2"]
    assert missing({}, gloo) == ["nccl over gloo", "nccl: NCCL 2.28.9, ProcessGroupNCCL2"]
    assert missed_of(one.test_group_of_one, recorded(PAIR), STOCK) == [
        "a: NCCL 2.28.9, ProcessGroupNCCL2",
        "b: NCCL 2.28.9, ProcessGroupNCCL2",
    ]


def test_each_step_is_told_and_clocks_settle_within_a_second() -> None:
    def missing(*told: Message) -> list[str]:
        return missed_of(one.test_gpu_quickstart, recorded(FOUR, told))

    steps = [message for message in LAUNCH if isinstance(message, Ready | Step)]
    assert missing(*steps, tied(error_ms=0.06)) == []
    assert missing(*steps, tied(at_ms=3_000, error_ms=0.09), tied(at_ms=3_900, error_ms=0.05)) == []
    late, worse = tied(at_ms=4_100, error_ms=0.05), tied(at_ms=6_000, error_ms=0.07)
    assert missing(*steps, tied(at_ms=3_000, error_ms=0.09), late) == ["times of GPUs off by ±90.0 µs at most"]
    assert missing(*steps, tied(at_ms=3_000, error_ms=0.05), worse) == ["times of GPUs off by ±70.0 µs at most"]
    assert missing(*steps[:-1], tied())[0].startswith("group-of-one, rank 1: 10 of 11 steps")
    nothing, no_tie = missing()
    assert nothing == "group-of-one: no rank was ready and two-share-it: no rank was ready"
    assert no_tie == "no rank reported how exact the times of its GPU are"


def test_figures_are_wanted_where_they_can_be() -> None:
    def missing(name: str = "NVIDIA Unheard Of", **changes: Any) -> list[str]:
        told = [message for message in LAUNCH if isinstance(message, Ready)]
        gpus = (OwnGpu(name, "a"),) if name else ()
        told = [msgspec.structs.replace(ready, gpus=gpus) for ready in told]
        return missed(one.test_figures, recorded({"a": {"mfu": None} | changes}, told))

    assert missing() == []
    assert missing("") == ["a: a rank names no GPU"]
    # it may have had one heartbeat, or none
    assert missing(train_time_s=2.9, joules_a_step=None, ranks={"sm_mhz": None}) == []


def test_faults_are_stopped_and_name_their_rank() -> None:
    def missing(name: str, error: str | None) -> list[str]:
        faulty = recorded({"sound": {}, name: {}})
        status = "ok" if error is None else "failed"
        faulty.results.trials[1] = msgspec.structs.replace(faulty.results.trials[1], status=status, error=error)
        return missed_of(two.test_faults, faulty)

    kept = "\ntorch's record of the last collectives of rank 0: trial-hang/repeat-1/*.flight.json"
    assert missing("hang", f"rank 1 has not arrived{kept}") == []
    assert missing("kill", "rank 1 killed by SIGKILL") == missing("mismatch", "no progress for 8 s") == []
    assert missing("hang", "rank 1 has not arrived") == ["hang failed: rank 1 has not arrived (no flight record)"]
    assert missing("kill", "rank 0 killed by SIGKILL") == ["kill failed: rank 0 killed by SIGKILL"]
    assert missing("mismatch", None) == ["mismatch ok: "]
    assert missed_of(two.test_faults, recorded({"sound": None})) == ["sound: failed"]


def test_a_batch_is_cut_into_halves() -> None:
    def missing(name: str, size: int) -> list[str]:
        halves = repeat(ranks={"sub_batch": size}).ranks * 2
        found = recorded({name: {}}, config={"batch_size": 256})
        found.results.trials[0].repeats[0] = msgspec.structs.replace(SOUND, ranks=halves, averaging=RIGHT)
        return missed_of(two.test_dp_vs_ddp, found)

    assert missing("v1-dp", 128) == []
    assert missing("v1-dp", 256) == ["v1-dp: sub-batches 256 and 256"]
    assert missing("v1-ddp", 128) == ["no DataParallel"]


CELL = Cell(
    operation="broadcast", composite=False, reduce_op=None, bytes=1024, calls=5, cv=0.1, algbw_gb_s=1.0, busbw_gb_s=1.0,
    time_us=TimeUs(min=1.0, median=2.0, mean=2.0, p90=3.0, p99=4.0), wrong=0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"wrong": 3}, ["broadcast of 1 KB: no time, or wrong in 3 elements"]),
        ({"time_us": None}, ["broadcast of 1 KB: no time, or wrong in 0 elements"]),
        ({"error": "not with CUDA"}, ["broadcast of 1 KB: not with CUDA"]),
        (None, ["nothing was measured"]),
    ],
)
def test_primitives(changes: dict[str, Any] | None, said: list[str]) -> None:
    cells = [CELL, msgspec.structs.replace(CELL, **changes)] if changes is not None else []
    measured = PrimitivesResult(ranks=2, cadence="back_to_back", backend="nccl", cells=cells)
    found = recorded({"ranks-2": {}}, primitives=[measured])
    assert missed_of(two.test_primitives, found) == missed_of(one.test_primitives_shared, found) == said


# Probes


MARKS = {"marks": 800, "outside": 0, "farthest_ns": 0, "error_ns": 11_000}
WAITED = {"sums_right": True, "late_ns": 20.3e6, "wait_ns": 19.1e6, "exchanged_right": True, "exchange_ns": 8e7}
PROBED: list[tuple[Callable[..., None], dict[str, Any], list[str]]] = [
    (one.test_clock, {"idle": MARKS, "busy": MARKS}, []),
    (one.test_clock, {"busy": MARKS | {"outside": 1}}, ["busy: 1 of 800 marks outside, the farthest 0"]),
    (one.test_clock, {"busy": MARKS | {"error_ns": 61_000}}, ["busy: 0 of 800 marks outside"]),
    (one.test_clock, {"busy": MARKS | {"marks": 99}}, ["busy: 0 of 99 marks outside"]),
    (one.test_synchronisation, {"refused": {"ddp, bf16": ""}}, []),
    (one.test_synchronisation, {"refused": {"a": "", "b": "RuntimeError: called item()"}}, ["b: RuntimeError: called"]),
    (one.test_synchronisation, {"refused": {}}, ["0 combinations tried"]),
    (one.test_two_ranks_one_gpu, WAITED, []),
    (one.test_two_ranks_one_gpu, WAITED | {"sums_right": False}, ["a sum is wrong"]),
    (one.test_two_ranks_one_gpu, WAITED | {"late_ns": 17.9e6}, ["rank 1 came 17.9 ms late, of 20 put in"]),
    (one.test_two_ranks_one_gpu, WAITED | {"wait_ns": 22.1e6}, ["rank 0 waited 22.1 ms"]),
    (one.test_two_ranks_one_gpu, WAITED | {"exchanged_right": False}, ["isend/irecv of 64 MB wrong"]),
]


@pytest.mark.parametrize(("check", "answer", "said"), PROBED)
def test_what_a_probe_answers(check: Callable[..., None], answer: dict[str, Any], said: list[str]) -> None:
    found = missed(check, lambda question: answer)
    assert len(found) == len(said)
    assert all(text.startswith(words) for text, words in zip(found, said, strict=True))


def test_versions() -> None:
    facts = {"torch": "2.14.1", "nccl": "2.28.9", "gpus": ["H100"]}
    assert missed(one.test_versions, facts) == []
    assert missed(one.test_versions, facts | {"nccl": None}) == ["torch 2.14.1, nccl None, gpus ['H100']"]
