"""What two GPUs must show; as test_one_gpu.py."""

import pytest

from ddptui.text.words import percent
from tests.gpu import judging, plans
from tests.gpu.judging import Expect, Observed
from tests.gpu.running import RunPlan

pytestmark = pytest.mark.usefixtures("two_gpus")
MOST_FOR_LOOKING = 2.0  # × a step without instruments
MOST_HIDDEN_BY_FLAT = 0.1  # which sends when backward is over
HALVES = 2  # replicas of dp


def test_gpu_backends(run: RunPlan, expect: Expect, implementation: str) -> None:
    """gloo and NCCL between two GPUs. Expected: losses alike within 1%, in sync, averages right, over the backends
    asked for; NCCL's class named."""
    recorded = run(plans.BACKENDS)
    asked = {trial.name: str(trial.config["backend"]) for trial in recorded.results.trials}
    expect(
        *judging.trained_alike(recorded), judging.over(recorded, asked), *judging.nccl_named(recorded, implementation)
    )


def test_overlap(run: RunPlan, expect: Expect, implementation: str) -> None:
    """How much of the transfer backward hides, and whether looking takes that away. Expected: flat hides at most 10%,
    buckets and ddp more; at most twice as long a step with instruments."""
    recorded = run(plans.OVERLAP)
    names = [name.removesuffix("-seen") for name in recorded.repeats if name.endswith("-seen")]
    hidden = {name: recorded.repeats[f"{name}-seen"].overlap for name in names}
    expect(
        *judging.trained(recorded),
        *(
            Observed(
                overlap is not None and (overlap > MOST_HIDDEN_BY_FLAT) == (name != "flat"),
                f"{name} hid {percent(overlap)}",
            )
            for name, overlap in hidden.items()
        ),
        *(judging.costs_at_most(recorded, f"{name}-unseen", f"{name}-seen", MOST_FOR_LOOKING) for name in names),
    )


def test_primitives(run: RunPlan, expect: Expect) -> None:
    """What a call costs between two GPUs over NCCL, from 1 KB to 64 MB, isend/irecv as well. Expected: every value
    right, a time for every size."""
    recorded = run(plans.PRIMITIVES)
    expect(judging.ended_well(recorded), judging.primitives_right(recorded))


def test_strategies_of_two(run: RunPlan, expect: Expect) -> None:
    """Every exact strategy between two GPUs over NCCL, ring as well. Expected: losses alike within 1%, in sync,
    averages right, over nccl."""
    recorded = run(plans.STRATEGIES_OF_TWO)
    expect(*judging.trained_alike(recorded), judging.over(recorded, "nccl"))


def test_batchnorm(run: RunPlan, expect: Expect) -> None:
    """SyncBatchNorm between two GPUs. Expected: losses alike within 1%, in sync, averages right, over nccl."""
    recorded = run(plans.BATCHNORM)
    expect(*judging.trained_alike(recorded), judging.over(recorded, "nccl"))


def test_faults(run: RunPlan, expect: Expect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank of two that dies, stops, hangs or is out of step, over NCCL. Expected: each is stopped and named (rank 1),
    but for a mismatch; a stalled one leaves torch's flight record."""
    # flight records; every torch reads this name, newer ones with a warning
    monkeypatch.setenv("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")
    expect(*map(judging.fault_named, run(plans.FAULTS, minutes=5).results.trials))


def test_dp_vs_ddp(run: RunPlan, expect: Expect) -> None:
    """DataParallel and DistributedDataParallel on two GPUs. Expected: all end well, in sync; DataParallel cuts each
    batch into halves."""
    recorded = run(plans.SPLIT)
    sizes = {trial.name: trial.config["batch_size"] for trial in recorded.results.trials}
    cuts = {
        name: [rank.sub_batch for rank in repeat.ranks]
        for name, repeat in recorded.repeats.items()
        if name.endswith("-dp")
    }
    expect(
        *judging.trained(recorded),
        judging.none_of([] if cuts else ["no DataParallel"], ""),
        *(
            Observed(cut == [sizes[name] // HALVES] * HALVES, f"{name}: sub-batches {' and '.join(map(str, cut))}")
            for name, cut in cuts.items()
        ),
        judging.step_times(recorded),
    )
