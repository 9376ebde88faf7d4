"""What one GPU must show: `make test-gpu`. Docstrings say what is tried, and what is expected."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ddptui.text.words import MS, US, count, digits
from tests.gpu import judging, plans
from tests.gpu.judging import MOST_TIE_ERROR_NS, Expect, Observed, Recorded
from tests.gpu.running import RunPlan

Probe = Callable[[str], dict[str, Any]]  # answers a question of probes.py
SHORT_TYPES_TOLERANCE = 0.1  # relative: a step in fp16 may be skipped until its loss is scaled as it should be
MOST_FOR_LOOKING = 2.0  # × a step without instruments
MOST_FOR_PINNING = 1.2  # × a step with pageable memory
FEWEST_MARKS = 100
PUT_IN_MS, WITHIN_MS = 20.0, 2.0  # as nccl_pair.py puts in; by how much the measured wait may differ


def test_doctor(expect: Expect) -> None:
    """What `ddptui doctor` finds. Expected: nothing that keeps a run from starting."""
    done = subprocess.run(
        [sys.executable, "-m", "ddptui", "doctor"], capture_output=True, text=True, timeout=300, check=False
    )
    print(done.stdout, done.stderr)
    to_mend = [line for line in done.stdout.splitlines() if line.startswith(("!", "✗"))]
    expect(Observed(done.returncode == 0, "; ".join([f"{len(to_mend)} to mend", *to_mend])))


def test_versions(facts: dict[str, object], expect: Expect) -> None:
    """What torch, CUDA and NCCL there are, and how collectives are observed. Expected: a GPU and NCCL."""
    text = ", ".join(f"{name} {value}" for name, value in facts.items())
    expect(Observed(bool(facts["nccl"] and facts["gpus"]), text))


def test_gpu_quickstart(run: RunPlan, expect: Expect) -> None:
    """One GPU: alone, in a group over NCCL, shared over gloo, under DataParallel. Expected: losses alike within 1%, in
    sync, averages right, over nccl and gloo; a message for each step; times of the GPU known to ±60 µs after a second.
    """
    recorded = run(plans.QUICKSTART)
    expect(
        *judging.trained_alike(recorded),
        judging.over(recorded, {"group-of-one": "nccl", "two-share-it": "gloo"}),
        judging.every_step_told(recorded),
        judging.clocks_tied(recorded),
    )


def test_clock(probe: Probe, expect: Expect) -> None:
    """Times of marks on the GPU, against host times just before and after; its queue idle, then busy. Expected: none
    outside the error reported for it, which is ±60 µs at most."""
    expect(
        *(
            Observed(
                marks["outside"] == 0 and marks["marks"] >= FEWEST_MARKS and marks["error_ns"] <= MOST_TIE_ERROR_NS,
                f"{queue}: {marks['outside']} of {count(marks['marks'], 'mark')} outside, the farthest "
                f"{digits(marks['farthest_ns'] / US)} µs beyond; error reported ±{digits(marks['error_ns'] / US)} µs",
            )
            for queue, marks in probe("clock").items()
        )
    )


def test_bottleneck_where(run: RunPlan, expect: Expect) -> None:
    """Two ranks share the GPU, and rank 1 is delayed. Expected: rank 1 named in aggregate and in backward, its delay
    within 5%; no rank without a delay."""
    recorded = run(plans.DELAYS)
    sites = {"none": None, "aggregate": (1, "aggregate"), "backward": (1, "backward")}
    expect(*judging.trained(recorded), *(judging.delay_found(recorded, name, site) for name, site in sites.items()))


def test_strategies(run: RunPlan, expect: Expect) -> None:
    """Every exact strategy, with one rank over NCCL. Expected: losses alike within 1%, averages right, over nccl."""
    recorded = run(plans.STRATEGIES)
    expect(*judging.trained_alike(recorded), judging.over(recorded, "nccl"))


def test_strategies_shared(run: RunPlan, expect: Expect) -> None:
    """Every exact strategy but ring, with two ranks that share the GPU. Expected: losses alike within 1%, in sync,
    averages right, over gloo."""
    recorded = run(plans.STRATEGIES_SHARED)
    expect(*judging.trained_alike(recorded), judging.over(recorded, "gloo"))


def test_primitives_shared(run: RunPlan, expect: Expect) -> None:
    """What a call costs between two ranks that share the GPU, from 1 KB to 64 MB. Expected: every value right, a time
    for every size."""
    recorded = run(plans.PRIMITIVES_SHARED)
    expect(judging.ended_well(recorded), judging.primitives_right(recorded))


@pytest.fixture(scope="module")
def amp(run: RunPlan) -> Recorded:
    """One run for two checks."""
    return run(plans.AMP, minutes=6)


def test_gpu_amp(amp: Recorded, expect: Expect) -> None:
    """ResNet-50 in float32, bf16 and fp16. Expected: losses within 10%."""
    expect(*judging.trained_alike(amp, SHORT_TYPES_TOLERANCE), judging.step_times(amp))


def test_figures(amp: Recorded, expect: Expect) -> None:
    """TFLOP/s, MFU, joules, clocks and memory of the same run. Expected: all reported, MFU where the peak is known, and
    at most 100%; memory taken at most that reserved."""
    expect(judging.ended_well(amp), *judging.figures_told(amp))


def test_compile(run: RunPlan, expect: Expect) -> None:
    """ResNet-50 in bf16 through torch.compile. Expected: ends well."""
    recorded = run(plans.COMPILED, minutes=5)
    expect(*judging.trained_alike(recorded), judging.step_times(recorded))


def test_cost_of_looking(run: RunPlan, expect: Expect) -> None:
    """ResNet-50 on small images, with instruments and without. Expected: a step at most twice as long with them."""
    recorded = run(plans.LOOKING)
    expect(*judging.trained(recorded), judging.costs_at_most(recorded, "unseen", "seen", MOST_FOR_LOOKING))


def test_pin_memory(run: RunPlan, expect: Expect) -> None:
    """The same training with pageable and with page-locked memory. Expected: losses alike within 1%; a step with page-
    locked memory at most 1.2 × as long."""
    recorded = run(plans.PINNING)
    pageable, page_locked = (f"one-process-{variant}" for variant in plans.PINNING.vary)
    expect(*judging.trained_alike(recorded), judging.costs_at_most(recorded, pageable, page_locked, MOST_FOR_PINNING))


def test_synchronisation(probe: Probe, expect: Expect) -> None:
    """Whether anything in the training loop waits for the GPU, by torch's own check. Expected: nothing, under every
    strategy, in float32, bf16 and fp16."""
    refused = probe("synchronising")["refused"]
    waits = [f"{name}: {why}" for name, why in refused.items() if why]
    found = judging.none_of(waits, f"{count(len(refused), 'combination')} tried: nothing waited")
    expect(found._replace(ok=found.ok and bool(refused)))


def test_two_ranks_one_gpu(probe: Probe, expect: Expect) -> None:
    """An experiment: NCCL between two ranks that it takes for two hosts (NCCL_HOSTID). Expected: sums right; a wait of
    20 ± 2 ms where 20 ms were put in; isend/irecv of 64 MB right."""
    found = probe("nccl_pair")
    late_ms, wait_ms = found["late_ns"] / MS, found["wait_ns"] / MS
    how = f"{'right' if found['exchanged_right'] else 'wrong'}, in {digits(found['exchange_ns'] / MS)} ms"
    expect(
        Observed(found["sums_right"], "sums right" if found["sums_right"] else "a sum is wrong"),
        Observed(abs(late_ms - PUT_IN_MS) <= WITHIN_MS, f"rank 1 came {digits(late_ms)} ms late, of 20 put in"),
        Observed(abs(wait_ms - PUT_IN_MS) <= WITHIN_MS, f"rank 0 waited {digits(wait_ms)} ms"),
        Observed(found["exchanged_right"], f"isend/irecv of 64 MB {how}"),
    )


def test_group_of_one(run: RunPlan, expect: Expect, implementation: str) -> None:
    """Four strategies with one rank, by one of torch's classes around NCCL. Expected: losses alike within 1%, averages
    right, over nccl; this class named."""
    recorded = run(plans.GROUP_OF_ONE)
    expect(
        *judging.trained_alike(recorded), judging.over(recorded, "nccl"), *judging.nccl_named(recorded, implementation)
    )
