"""How the checks of GPUs judge what a run or a probe has left: as expected, and each part of it once not."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.primitive_results import Cell, PrimitivesResult, TimeUs
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
from tests.gpu import test_one_gpu as one
from tests.gpu import test_two_gpus as two
from tests.gpu.judging import Recorded
from tests.support.builders import done, preset_of, results_for, tied, with_done
from tests.support.gpu_checks import missed
from tests.support.gpu_launches import gpu_launch

GB = 2**30
MEMORY = {"peak_gpu_bytes": GB, "peak_gpu_reserved_bytes": 2 * GB}
LAUNCH = with_done(gpu_launch(steps=11), done(0, **MEMORY), done(1, **MEMORY))
RIGHT = Averaging(
    of="gradients", error=0.0, scale=1.0, scaled_error=0.0, own_scale=0.5, own_error=0.5, worst="", worst_error=0.0,
    right=True,
)  # fmt: skip
SOUND = replace(results_for(preset_of({"trial": [{"name": "a"}]}), LAUNCH).trials[0].repeats[0], averaging=RIGHT)
Changes = dict[str, Any] | None  # to the fields of SOUND, and of its ranks (ranks); None: a trial that failed
Check = Callable[..., None]


def repeat(ranks: dict[str, Any] | None = None, **changes: Any) -> RepeatResult:
    return replace(SOUND, ranks=[replace(rank, **ranks or {}) for rank in SOUND.ranks], **changes)


def recorded(
    trials: dict[str, Changes], told: Sequence[Message] = (*LAUNCH, tied(error_ms=0.02)), **fields: Any
) -> Recorded:
    """A run with these trials, each with the same journal. fields: of each."""
    made = []
    for name, changes in trials.items():
        failed = changes is None
        told_of = {"status": "failed" if failed else "ok", "error": "rank 0 died" if failed else None} | fields
        config, repeats = {"backend": name, "batch_size": 256}, [] if changes is None else [repeat(**changes)]
        made.append(TrialResult(name=name, config=config, command=[], repeats=repeats, summary=None, **told_of))
    results = Results(run="r", preset="p", baseline=made[0].name, environment={}, status="ok", trials=made)
    return Recorded(results, {name: list(told) for name in trials})


def missed_in(check: Check, found: Recorded) -> list[str]:
    """What this check, given this run, finds not as expected."""
    given = found if check in (one.test_figures, one.test_gpu_amp) else lambda plan, minutes=3: found
    return missed(check, given, *MORE.get(check, ()))


def delayed(rank: int, at: str, injected_s: float, found_s: float) -> Changes:
    excess = ConfidenceInterval(estimate=found_s, low=found_s, high=found_s)
    culprit = Culprit(rank=rank, phase=at, share=0.9, wait_caused_s=found_s, excess_s=excess)
    return {"culprit": culprit, "injected": [Injected(rank=rank, at=at, fired=10, s=injected_s)]}


MORE: dict[Check, tuple[Any, ...]] = {  # what checks ask for
    one.test_group_of_one: ("ProcessGroupNCCL2",),  # as SOUND has it
    two.test_gpu_backends: ("ProcessGroupNCCL2",),
    two.test_overlap: ("ProcessGroupNCCL2",),
    two.test_faults: (SimpleNamespace(setenv=lambda *_: None),),
}
GLOO, NCCL = {"nccl": None}, {"backend": "nccl"}
STOCK = replace(SOUND.nccl, implementation="ProcessGroupNCCL") if SOUND.nccl else None
DELAYS = {"none": {}, "aggregate": delayed(1, "aggregate", 1.78, 1.77), "backward": delayed(1, "backward", 3.56, 3.59)}
HIDDEN = {"flat-seen": {"overlap": 0.02}, "ddp-seen": {"overlap": 0.7}, "flat-unseen": {}, "ddp-unseen": {}}
LOOKED: dict[str, Changes] = {"unseen": {}, "seen": {"train_time_s": 19.9}}

# A check, a run that is as expected, and how one trial may differ from that, by what the check then misses.
CASES: list[tuple[Check, dict[str, Changes], dict[str, tuple[str, Changes]]]] = [
    (one.test_strategies, {"a": NCCL, "b": NCCL | {"loss": Loss(first=2.015, last=9.0)}}, {
        "b on cpu": ("b", NCCL | {"ranks": {"device": "cpu"}}),
        "loss of the first steps 2.000 to 2.100": ("b", NCCL | {"loss": Loss(first=2.1, last=0.5)}),
        "a loss is not finite": ("b", NCCL | {"loss": Loss(first=None, last=0.5)}),
        "b not in sync": ("b", NCCL | {"in_sync": InSync(parameters=True, buffers=False, differing=["mean"])}),
        "average of b not right": ("b", NCCL | {"averaging": replace(RIGHT, right=None)}),
        "1 of 2 trials ended well; b failed: rank 0 died": ("b", None),
        "b over gloo": ("b", {}),
    }),
    (one.test_group_of_one, {"a": NCCL}, {"a: NCCL 2.28.9, ProcessGroupNCCL": ("a", NCCL | {"nccl": STOCK})}),
    (two.test_gpu_backends, {"nccl": NCCL, "gloo": GLOO}, {
        "nccl over gloo": ("nccl", GLOO),
        "nccl: no NCCL named": ("nccl", NCCL | GLOO),
        "gloo: NCCL 2.28.9, ProcessGroupNCCL2": ("gloo", {}),
    }),
    (one.test_gpu_quickstart, {"group-of-one": NCCL, "two-share-it": GLOO}, {
        "group-of-one over gloo": ("group-of-one", {}),
        "group-of-one: no figures": ("group-of-one", None),
    }),
    (one.test_bottleneck_where, DELAYS, {
        "none: rank 0 named in data": ("none", delayed(0, "data", 0.0, 0.2)),
        "backward: no rank named": ("backward", {}),
        "backward: rank 1 in forward, 3.56 s of 0 ms injected": ("backward", delayed(1, "forward", 0.0, 3.56)),
        "backward: rank 1 in backward, 3.8 s of 3.56 s injected": ("backward", delayed(1, "backward", 3.56, 3.8)),
        "backward: rank 1 in backward, 0 ms of 0 ms injected": ("backward", delayed(1, "backward", 0.0, 0.0)),
        "backward: no figures": ("backward", None),
    }),
    (one.test_figures, {"a": {}, "short": {"train_time_s": 2.9, "joules_a_step": None, "ranks": {"sm_mhz": None}}}, {
        "a: no TFLOP/s": ("a", {"tflops": 0.0}),
        "a: no MFU, although the peak is known": ("a", {"mfu": None}),
        "a: MFU 120%": ("a", {"mfu": 1.2}),
        "a: no joules a step": ("a", {"joules_a_step": None}),
        "a: no clock of the GPU": ("a", {"ranks": {"sm_mhz": None}}),
        "a: no memory taken, or none reserved": ("a", {"ranks": {"peak_gpu_bytes": None}}),
        "a: 4 GB taken of 2 GB reserved": ("a", {"ranks": {"peak_gpu_bytes": 4 * GB}}),
    }),
    (one.test_gpu_amp, {"a": {}, "b": {"loss": Loss(first=2.15, last=0.5)}}, {
        "loss of the first steps 2.000 to 2.500": ("b", {"loss": Loss(first=2.5, last=0.5)}),
        "a step: a 1000 ms and b – ms": ("b", {"step_ms": None}),
    }),
    (one.test_cost_of_looking, LOOKED, {
        "a step of unseen 1 s, of seen 2.01 s: 2.01 × as long": ("seen", {"train_time_s": 20.1}),
        "unseen or seen: no figures": ("seen", None),
    }),
    (two.test_overlap, HIDDEN, {"ddp hid 1%": ("ddp-seen", {"overlap": 0.01})}),
    (two.test_dp_vs_ddp, {"v1-dp": {"ranks": {"sub_batch": 128}}}, {
        "v1-dp: sub-batches 256 and 256": ("v1-dp", {"ranks": {"sub_batch": 256}}),
        "no DataParallel": ("v1-dp", None),
    }),
]  # fmt: skip


@pytest.mark.parametrize(("check", "sound", "flaws"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_check_misses_what_is_not_as_expected(
    check: Check, sound: dict[str, Changes], flaws: dict[str, tuple[str, Changes]]
) -> None:
    assert missed_in(check, recorded(sound)) == []
    for said, (name, changes) in flaws.items():
        found = missed_in(check, recorded(sound | {name: changes}))
        assert any(each.startswith(said) for each in found), (said, found)


def test_each_step_is_told_and_clocks_settle_within_a_second() -> None:
    def missing(*told: Message) -> list[str]:
        return missed_in(one.test_gpu_quickstart, recorded({"group-of-one": NCCL, "two-share-it": GLOO}, told))

    steps = [message for message in LAUNCH if isinstance(message, Ready | Step)]
    assert missing(*steps, tied(at_ms=3_000, error_ms=0.09), tied(at_ms=3_900, error_ms=0.06)) == []
    late, worse = tied(at_ms=4_100, error_ms=0.05), tied(at_ms=6_000, error_ms=0.07)
    assert missing(*steps, tied(at_ms=3_000, error_ms=0.09), late) == ["times of GPUs off by ±90.0 µs at most"]
    assert missing(*steps, tied(at_ms=3_000, error_ms=0.05), worse) == ["times of GPUs off by ±70.0 µs at most"]
    assert missing(*steps[:-1], tied())[0].startswith("group-of-one, rank 1: 10 of 11 steps")
    nothing, no_tie = missing()
    assert nothing == "group-of-one: no rank was ready and two-share-it: no rank was ready"
    assert no_tie == "no rank reported how exact the times of its GPU are"


def test_an_mfu_is_wanted_where_the_peak_is_known() -> None:
    for gpus, said in (((OwnGpu("NVIDIA Unheard Of", "a"),), []), ((), ["a: a rank names no GPU"])):
        told = [replace(message, gpus=gpus) for message in LAUNCH if isinstance(message, Ready)]
        assert missed_in(one.test_figures, recorded({"a": {"mfu": None}}, told)) == said


KEPT = "\ntorch's record of the last collectives of rank 0: trial-hang/repeat-1/*.flight.json"


@pytest.mark.parametrize(
    ("name", "status", "error", "said"),
    [
        ("sound", "ok", None, []),
        ("hang", "failed", f"rank 1 has not arrived{KEPT}", []),
        ("mismatch", "failed", "no progress for 8 s", []),
        ("hang", "failed", "rank 1 has not arrived", ["hang failed: rank 1 has not arrived (no flight record)"]),
        ("kill", "failed", "rank 0 was killed by SIGKILL", ["kill failed: rank 0 was killed by SIGKILL"]),
        ("mismatch", "ok", None, ["mismatch ok: "]),
        ("sound", "failed", "rank 0 died", ["sound: failed"]),
    ],
)
def test_faults(name: str, status: str, error: str | None, said: list[str]) -> None:
    assert missed_in(two.test_faults, recorded({name: {}}, status=status, error=error)) == said


CELL = Cell(
    operation="broadcast", composite=False, reduce_op=None, bytes=1024, calls=5, cv=0.1, algbw_gb_s=1.0, busbw_gb_s=1.0,
    time_us=TimeUs(min=1.0, median=2.0, mean=2.0, p90=3.0, p99=4.0), wrong=0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([CELL], []),
        ([CELL, replace(CELL, wrong=3)], ["broadcast of 1 KB: no time, or wrong in 3 elements"]),
        ([CELL, replace(CELL, time_us=None)], ["broadcast of 1 KB: no time, or wrong in 0 elements"]),
        ([replace(CELL, error="not with CUDA")], ["broadcast of 1 KB: not with CUDA"]),
        ([], ["nothing was measured"]),
    ],
)
def test_primitives(cells: list[Cell], said: list[str]) -> None:
    measured = PrimitivesResult(ranks=2, cadence="back_to_back", backend="nccl", cells=cells)
    found = recorded({"ranks-2": {}}, primitives=[measured])
    assert missed_in(two.test_primitives, found) == missed_in(one.test_primitives_shared, found) == said


MARKS = {"marks": 800, "outside": 0, "farthest_ns": 0, "error_ns": 11_000}
WAITED = {"sums_right": True, "late_ns": 20.3e6, "wait_ns": 19.1e6, "exchanged_right": True, "exchange_ns": 8e7}


@pytest.mark.parametrize(
    ("check", "answer", "said"),
    [
        (one.test_clock, {"idle": MARKS, "busy": MARKS}, []),
        (one.test_clock, {"busy": MARKS | {"outside": 1}}, ["busy: 1 of 800 marks outside, the farthest 0"]),
        (one.test_synchronisation, {"refused": {"ddp, bf16": ""}}, []),
        (one.test_synchronisation, {"refused": {"a": "", "b": "called item()"}}, ["b: called item()"]),
        (one.test_two_ranks_one_gpu, WAITED, []),
        (one.test_two_ranks_one_gpu, WAITED | {"sums_right": False}, ["a sum is wrong"]),
        (one.test_two_ranks_one_gpu, WAITED | {"late_ns": 17.9e6}, ["rank 1 came 17.9 ms late, of 20 put in"]),
        (one.test_two_ranks_one_gpu, WAITED | {"wait_ns": 22.1e6}, ["rank 0 waited 22.1 ms"]),
    ],
)
def test_what_a_probe_answers(check: Check, answer: dict[str, Any], said: list[str]) -> None:
    found = missed(check, lambda question: answer)
    assert len(found) == len(said)
    assert all(text.startswith(words) for text, words in zip(found, said, strict=True))
