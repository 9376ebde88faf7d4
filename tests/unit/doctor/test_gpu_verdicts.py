"""How the GPU report judges what a run has left: as expected, and each part of it once not."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ddptui.analysis.primitives.results import Cell, PrimitivesResult, TimeUs
from ddptui.analysis.results import InSync, Loss, RepeatResult
from ddptui.doctor.gpu_report import verdicts
from ddptui.doctor.gpu_report.check import Observed, Recorded, together
from ddptui.wire.messages import OwnGpu
from tests.support.builders import done, preset_of, ready, results_for, tied, with_done
from tests.support.gpu_launches import H100, gpu_launch
from tests.support.gpu_results import (
    NCCL,
    RIGHT,
    all_told,
    delayed,
    gpu_rank,
    gpu_recorded,
    gpu_repeat,
    gpu_trial,
)

Trials = dict[str, RepeatResult | None]
APART = InSync(parameters=True, buffers=False, differing=["mean"])
WRONG_AVERAGE = msgspec.structs.replace(RIGHT, right=False)
ALONE = InSync(parameters=None, buffers=None, differing=[])


def red(observed: Observed, *words: str) -> None:
    assert not observed.ok
    for word in words:
        assert f"✗ {word}" in observed.text


def test_what_is_not_as_expected_comes_first_with_a_mark() -> None:
    assert together([Observed(True, "a"), Observed(False, "b"), Observed(True, "")]) == (False, "✗ b; a")
    assert together([Observed(True, "a"), Observed(True, "b")]) == (True, "a; b")


# What holds for every training


def pair(**changes: Any) -> Recorded:
    return gpu_recorded({"a": gpu_repeat(), "b": gpu_repeat(**changes)})


def test_a_training_as_expected() -> None:
    ok, text = verdicts.trained_alike(pair())
    assert ok
    for word in ("2 of 2 trials ended well", "all ranks on GPUs", "loss of the first steps 2.000", "averages right"):
        assert word in text
    assert verdicts.trained_alike(pair(in_sync=ALONE, averaging=None)).ok  # one process
    assert verdicts.trained_alike(pair(loss=Loss(first=2.015, last=9.0))).ok


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ranks": [gpu_rank(0, device="cpu")]}, "b on cpu"),
        ({"loss": Loss(first=2.1, last=0.5)}, "loss of the first steps 2.000 to 2.100"),
        ({"loss": Loss(first=None, last=0.5)}, "a loss is not finite"),
        ({"in_sync": APART}, "not in sync: b"),
        ({"averaging": WRONG_AVERAGE}, "average not right: b"),
        ({"averaging": msgspec.structs.replace(RIGHT, right=None)}, "average not right: b"),
    ],
)
def test_a_training_with_a_flaw(changes: dict[str, Any], said: str) -> None:
    red(verdicts.trained_alike(pair(**changes)), said)


def test_a_trial_that_failed_or_has_no_figures() -> None:
    red(verdicts.trained(gpu_recorded({"a": gpu_repeat(), "b": None})), "1 of 2 trials ended well; b failed: rank 0")
    nothing = verdicts.trained(gpu_recorded([gpu_trial("a", None, status="ok")]))
    assert nothing == (False, "0 of 1 trial ended well; a has no figures")


# gpu-quickstart


def quickstart(backend: str = "nccl", **journal: Any) -> Recorded:
    trials: Trials = {"group-of-one": gpu_repeat(backend=backend), "two-share-it": gpu_repeat(backend="gloo")}
    return gpu_recorded(trials, all_told(**journal))


def test_the_quickstart() -> None:
    ok, text = verdicts.quickstart(quickstart())
    assert ok
    assert "group-of-one over nccl, two-share-it over gloo; a message for each step; times of GPUs off by ±20.0" in text
    red(verdicts.quickstart(quickstart("gloo")), "group-of-one over gloo")
    red(verdicts.quickstart(quickstart(error_ms=0.061)), "times of GPUs off by ±61.0 µs at most")


def test_steps_that_are_missing() -> None:
    lost = gpu_recorded(quickstart().results.trials, all_told()[:-1])
    red(verdicts.quickstart(lost), "steps missing: group-of-one, rank 0: 3 of 4")
    red(
        verdicts.quickstart(gpu_recorded(quickstart().results.trials, [])),
        "steps missing: group-of-one: no rank was ready",
        "no rank reported",
    )


@pytest.mark.parametrize(
    ("ties", "ok"),
    [
        ([(3_000, 0.09), (3_900, 0.05)], True),  # it settled within the second
        ([(3_000, 0.09), (4_100, 0.05)], False),  # a second later it was still the first
        ([(3_000, 0.05), (6_000, 0.07)], False),  # it got worse
        ([(3_000, 0.05)], True),
    ],
)
def test_the_clock_may_take_a_second_to_settle(ties: list[tuple[float, float]], ok: bool) -> None:
    messages = [*all_told(error_ms=0.0)[:1], *(tied(at_ms=at, error_ms=error) for at, error in ties)]
    assert verdicts.training.clocks_tied(gpu_recorded({"a": gpu_repeat()}, messages)).ok == ok


# Delays


DELAYS: Trials = {
    "none": gpu_repeat(),
    "aggregate": delayed(1, "aggregate", 1.78, 1.77),
    "backward": delayed(1, "backward", 3.56, 3.59),
}


def test_delays_that_are_found() -> None:
    ok, text = verdicts.delays(gpu_recorded(DELAYS))
    assert ok
    assert "aggregate: rank 1 in aggregate, 1.77 s of 1.78 s injected" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"none": delayed(0, "data", 0.0, 0.2)}, "none: rank 0 named in data"),
        ({"backward": gpu_repeat()}, "backward: no rank named"),
        ({"backward": delayed(0, "backward", 3.56, 3.56)}, "backward: rank 0 in backward"),
        ({"backward": delayed(1, "forward", 3.56, 3.56)}, "backward: rank 1 in forward"),
        ({"backward": delayed(1, "backward", 3.56, 3.8)}, "backward: rank 1 in backward, 3.8 s of 3.56 s injected"),
        ({"backward": delayed(1, "backward", 0.0, 0.0)}, "backward: rank 1 in backward, 0 ms of 0 ms injected"),
        ({"backward": None}, "backward: no figures"),
    ],
)
def test_delays_that_are_not(changes: Trials, said: str) -> None:
    red(verdicts.delays(gpu_recorded(DELAYS | changes)), said)


# Backends


def test_all_over_one_backend() -> None:
    assert verdicts.over("nccl")(pair()).ok
    red(verdicts.over("nccl")(pair(backend="gloo", nccl=None)), "b over gloo")


def backends(nccl: RepeatResult, gloo: RepeatResult) -> Recorded:
    trials = [gpu_trial(name, repeat, config={"backend": name}) for name, repeat in (("nccl", nccl), ("gloo", gloo))]
    return gpu_recorded(trials)


def test_gloo_and_nccl_between_two_gpus() -> None:
    over_gloo = gpu_repeat(backend="gloo", nccl=None)
    judge = verdicts.backends("ProcessGroupNCCL")
    ok, text = judge(backends(gpu_repeat(), over_gloo))
    assert ok
    assert "nccl: NCCL 2.28.9, ProcessGroupNCCL" in text
    red(judge(backends(over_gloo, over_gloo)), "nccl over gloo")
    red(judge(backends(gpu_repeat(nccl=None), over_gloo)), "nccl: NCCL's version is not reported")
    red(judge(backends(gpu_repeat(), gpu_repeat(backend="gloo"))), "gloo: NCCL named, over gloo")
    red(verdicts.backends("ProcessGroupNCCL2")(backends(gpu_repeat(), over_gloo)), "nccl: NCCL 2.28.9")
    red(judge(backends(gpu_repeat(nccl=msgspec.structs.replace(NCCL, version="")), over_gloo)), "nccl: NCCL")


def test_one_of_torchs_implementations_of_nccl() -> None:
    ok, text = verdicts.over("nccl", "ProcessGroupNCCL")(pair())
    assert ok
    assert "b: NCCL 2.28.9, ProcessGroupNCCL" in text
    red(verdicts.over("nccl", "ProcessGroupNCCL2")(pair()), "b: NCCL 2.28.9, ProcessGroupNCCL")
    red(verdicts.over("nccl", "ProcessGroupNCCL")(pair(backend="gloo", nccl=None)), "b over gloo")


# Figures of a GPU


def figured(name: str = H100, **changes: Any) -> Recorded:
    """A trial of four seconds on GPUs of this name."""
    told = msgspec.structs.replace(ready(), gpus=(OwnGpu(name, "GPU-1"),), precision="bf16")
    return gpu_recorded({"b": gpu_repeat(**({"train_time_s": 4.0} | changes))}, [told])


def test_figures_that_are_told() -> None:
    ok, text = verdicts.gpu_figures(figured())
    assert ok
    assert "b: 400 TFLOP/s, MFU 40%, 12.5 J a step, 1980 MHz and 1980 MHz, 1 GB of 2 GB reserved" in text
    unknown = verdicts.gpu_figures(figured("NVIDIA Unheard Of", mfu=None))
    assert unknown.ok
    assert "MFU –" in unknown.text
    short = {"train_time_s": 2.9, "joules_a_step": None, "ranks": [gpu_rank(sm_mhz=None)]}
    assert verdicts.gpu_figures(figured(**short)).ok  # there may have been one heartbeat, or none


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tflops": None}, "b: no TFLOP/s"),
        ({"tflops": 0.0}, "b: no TFLOP/s"),
        ({"mfu": None}, "b: no MFU, although the peak is known"),
        ({"mfu": 1.2}, "b: MFU 120%"),
        ({"mfu": 0.0}, "b: MFU 0%"),
        ({"joules_a_step": None}, "b: no joules a step"),
        ({"ranks": [gpu_rank(sm_mhz=None)]}, "b: no clock of the GPU"),
        ({"ranks": [gpu_rank(peak_gpu_reserved_bytes=None)]}, "b: no memory taken, or none reserved"),
        ({"ranks": [gpu_rank(peak_gpu_bytes=2**32)]}, "b: 4 GB taken of 2 GB reserved"),
    ],
)
def test_figures_that_are_missing_or_cannot_be(changes: dict[str, Any], said: str) -> None:
    red(verdicts.gpu_figures(figured(**changes)), said)


def test_a_rank_that_names_no_gpu() -> None:
    results, _ = figured()
    red(verdicts.gpu_figures(Recorded(results, {"b": [ready()]})), "b: a rank names no GPU")
    red(verdicts.gpu_figures(Recorded(results, {"b": []})), "b: a rank names no GPU")


def test_figures_as_the_analysis_makes_them_of_a_launch() -> None:
    preset = preset_of({"trial": [{"name": "a"}]})
    messages = with_done(gpu_launch(uuids=[["a"]]), done(peak_gpu_bytes=2**30, peak_gpu_reserved_bytes=2**31))
    recorded = Recorded(results_for(preset, messages), {"a": messages})
    ok, text = verdicts.gpu_figures(recorded)
    assert ok
    assert "MHz" in text


# Times


@pytest.mark.parametrize(
    ("judge", "cheap", "dear", "most"),
    [(verdicts.looking, "unseen", "seen", 2.0), (verdicts.pair(1.2), "pageable", "page-locked", 1.2)],
)
def test_what_may_cost_so_much(judge: Callable[[Recorded], Observed], cheap: str, dear: str, most: float) -> None:
    def taking(factor: float) -> Recorded:
        return gpu_recorded({cheap: gpu_repeat(), dear: gpu_repeat(train_time_s=factor)})

    ok, text = judge(taking(most - 0.01))
    assert ok
    assert f"a step of {cheap} 10 ms, of {dear}" in text
    red(judge(taking(most + 0.01)), "a step of")
    red(judge(gpu_recorded({cheap: gpu_repeat(), dear: None})), f"{cheap} or {dear}: no figures")


def test_short_types_may_differ_more() -> None:
    ok, text = verdicts.short_types(pair(loss=Loss(first=2.15, last=0.5)))
    assert ok
    assert "a step: a 10.0 ms, b 10.0 ms" in text
    red(verdicts.short_types(pair(loss=Loss(first=2.5, last=0.5))), "loss of the first steps 2.000 to 2.500")
    red(verdicts.short_types(pair(step_ms=None)), "a step: a 10.0 ms, b – ms")


def overlapping(**changes: RepeatResult) -> Recorded:
    trials: Trials = {"flat-seen": gpu_repeat(overlap=0.02), "ddp-seen": gpu_repeat(overlap=0.7)}
    trials |= {"flat-unseen": gpu_repeat(overlap=None), "ddp-unseen": gpu_repeat(overlap=None)}
    return gpu_recorded(trials | {name.replace("_", "-"): repeat for name, repeat in changes.items()})


def test_overlap() -> None:
    ok, text = verdicts.overlap(overlapping())
    assert ok
    assert "flat hid 2%; ddp hid 70%" in text
    red(verdicts.overlap(overlapping(flat_seen=gpu_repeat(overlap=0.5))), "flat hid 50%")
    red(verdicts.overlap(overlapping(ddp_seen=gpu_repeat(overlap=0.01))), "ddp hid 1%")
    red(verdicts.overlap(overlapping(ddp_seen=gpu_repeat(overlap=None))), "ddp hid –")
    red(verdicts.overlap(overlapping(ddp_seen=gpu_repeat(overlap=0.7, train_time_s=3.0))), "a step of ddp-unseen")


def test_halves() -> None:
    def cut(*sizes: int) -> Recorded:
        ranks = [gpu_rank(number, sub_batch=size) for number, size in enumerate(sizes)]
        return gpu_recorded([gpu_trial("v1-dp", gpu_repeat(ranks=ranks), config={"batch_size": 256})])

    assert verdicts.split(cut(128, 128)).ok
    red(verdicts.split(cut(256, 0)), "v1-dp: sub-batches 256 and 0")
    red(verdicts.split(gpu_recorded([gpu_trial("a", gpu_repeat(), config={"batch_size": 1})])), "no DataParallel")


# Primitives


def measured(environment: dict[str, Any] | None = None, **changes: Any) -> Recorded:
    time = TimeUs(min=1.0, median=2.0, mean=2.0, p90=3.0, p99=4.0)
    cell = Cell(
        operation="broadcast", composite=False, reduce_op=None, bytes=1024, calls=5, time_us=time, cv=0.1,
        algbw_gb_s=1.0, busbw_gb_s=1.0, wrong=0,
    )  # fmt: skip
    result = PrimitivesResult(ranks=2, cadence="back_to_back", backend="nccl", cells=[cell])
    changed = msgspec.structs.replace(result, cells=[cell, msgspec.structs.replace(cell, **changes)])
    trials = [gpu_trial("ranks-2", None, status="ok", error=None, primitives=[changed])]
    results, messages = gpu_recorded(trials)
    return Recorded(msgspec.structs.replace(results, environment=environment or {}), messages)


def test_primitives() -> None:
    ok, text = verdicts.primitives(measured())
    assert ok
    assert "2 sizes of 1 operation right and timed" in text
    red(verdicts.primitives(measured(wrong=3)), "wrong: broadcast of 1 KB: no time, or wrong in 3 elements")
    red(verdicts.primitives(measured(time_us=None)), "wrong: broadcast of 1 KB")
    red(verdicts.primitives(measured(error="not with CUDA")), "wrong: broadcast of 1 KB: not with CUDA")
    nothing = PrimitivesResult(ranks=2, cadence="back_to_back", backend="nccl")
    empty = gpu_recorded([gpu_trial("ranks-2", None, status="ok", primitives=[nothing])])
    red(verdicts.primitives(empty), "nothing was measured")


# Faults


KEPT = "\ntorch's record of the last collectives of rank 0: trial-hang/repeat-1/*.flight.json"


def faulty(name: str, error: str | None) -> Observed:
    sound = gpu_trial("sound", gpu_repeat())
    faulty = gpu_trial(name, gpu_repeat() if error is None else None, error=error)
    return verdicts.faults(gpu_recorded([sound, faulty]))


def test_faults() -> None:
    ok, text = faulty("hang", f"rank 1 has not arrived{KEPT}")
    assert ok
    assert text == "sound: ok; hang failed: rank 1 has not arrived"
    assert faulty("kill", "rank 1 killed by SIGKILL").ok
    assert faulty("mismatch", "no progress for 8 s").ok
    red(faulty("hang", "rank 1 has not arrived"), "hang failed: rank 1 has not arrived (no flight record)")
    red(faulty("kill", "rank 0 killed by SIGKILL"), "kill failed: rank 0")
    red(faulty("mismatch", None), "mismatch ok")
    red(verdicts.faults(gpu_recorded({"sound": None})), "sound: failed")
