"""Results of trials on GPUs, made by hand: all as expected, unless a test changes it. And the GPU report's presets as
they run on the CPU."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ddptui.analysis.primitives.results import NcclUse
from ddptui.analysis.results import (
    Averaging,
    ConfidenceInterval,
    Culprit,
    Injected,
    InSync,
    Loss,
    RankResult,
    RepeatResult,
    Results,
    StepMs,
    TrialResult,
)
from ddptui.doctor.gpu_report.check import Observed, Recorded
from ddptui.doctor.gpu_report.plans import Plan
from ddptui.wire.messages import Ready
from ddptui.wire.records import Message
from tests.support.builders import ready, step, tied

RIGHT = Averaging(
    of="gradients", error=0.0, scale=1.0, scaled_error=0.0, own_scale=0.5, own_error=0.5, worst="", worst_error=0.0,
    right=True,
)  # fmt: skip
NCCL = NcclUse(version="2.28.9", implementation="ProcessGroupNCCL")


def gpu_rank(number: int = 0, **changes: Any) -> RankResult:
    rank = RankResult(
        rank=number, host="h", pid=1, device=f"cuda:{number}", bottleneck_fired=0, bottleneck_s=0.0, sm_mhz=1980.0,
        peak_gpu_bytes=2**30, peak_gpu_reserved_bytes=2**31,
    )  # fmt: skip
    return msgspec.structs.replace(rank, **changes)


def gpu_repeat(**changes: Any) -> RepeatResult:
    repeat = RepeatResult(
        train_time_s=1.0, startup_s=1.0, steps=100, samples_per_s=1.0, phases_ms=None, accuracy=0.9,
        step_ms=StepMs(median=10.0, p10=9.0, p90=11.0), loss=Loss(first=2.0, last=0.5), averaging=RIGHT,
        in_sync=InSync(parameters=True, buffers=True, differing=[]), ranks=[gpu_rank(0), gpu_rank(1)],
        backend="nccl", nccl=NCCL, tflops=400.0, mfu=0.4, joules_a_step=12.5,
    )  # fmt: skip
    return msgspec.structs.replace(repeat, **changes)


def gpu_trial(name: str, repeat: RepeatResult | None, **changes: Any) -> TrialResult:
    trial = TrialResult(
        name=name, status="ok" if repeat else "failed", error=None if repeat else "rank 0 died", config={}, command=[],
        repeats=[repeat] if repeat else [], summary=None,
    )  # fmt: skip
    return msgspec.structs.replace(trial, **changes)


def gpu_results(trials: Mapping[str, RepeatResult | None] | Sequence[TrialResult]) -> Results:
    built = [gpu_trial(name, repeat) for name, repeat in trials.items()] if isinstance(trials, Mapping) else [*trials]
    return Results(run="r", preset="p", baseline=built[0].name, environment={}, status="ok", trials=built)


def gpu_recorded(
    trials: Mapping[str, RepeatResult | None] | Sequence[TrialResult],
    messages: Sequence[Message] | None = None,
) -> Recorded:
    """Each trial with the same journal; without one, that of a rank that told all."""
    results = gpu_results(trials)
    journal = messages if messages is not None else all_told()
    return Recorded(results, {trial.name: list(journal) for trial in results.trials})


def all_told(steps: int = 4, error_ms: float = 0.02) -> list[Message]:
    """What a rank sends that tells every step, and whose clock is well known."""
    planned: Ready = ready(steps=steps)
    return [planned, tied(error_ms=error_ms), *(step(number=number) for number in range(steps))]


def delayed(rank: int, at: str, injected_s: float, found_s: float) -> RepeatResult:
    """A repeat in which one rank was delayed, and blamed."""
    culprit = Culprit(
        rank=rank, phase=at, share=0.9, wait_caused_s=found_s,
        excess_s=ConfidenceInterval(estimate=found_s, low=found_s, high=found_s),
    )  # fmt: skip
    return gpu_repeat(culprit=culprit, injected=[Injected(rank=rank, at=at, fired=10, s=injected_s)])


def on_the_cpu(plan: Plan, trials: tuple[str, ...] = (), **changes: Any) -> Plan:
    """The plan as it runs without GPUs, with other fields (None: as the preset has it), and only these trials."""
    fields = plan.set | {"device": "cpu", "share_gpu": False} | changes
    given = {key: value for key, value in fields.items() if value is not None}
    return msgspec.structs.replace(plan, set=given, trials=trials or plan.trials)


def missed(observed: Observed) -> list[str]:
    """What was not as expected, of which there is something."""
    assert not observed.ok
    return [part.removeprefix("✗ ") for part in observed.text.split("; ") if part.startswith("✗ ")]
