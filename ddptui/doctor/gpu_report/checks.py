"""The checks of the GPU report, in their order: first what one GPU shows, then what takes two."""

import os
from collections.abc import Callable

from ddptui.doctor import findings, groups
from ddptui.doctor.gpu_report import plans, probes, verdicts
from ddptui.doctor.gpu_report.bench import of_preset, of_probe
from ddptui.doctor.gpu_report.check import Bench, Check, Impossible, Observed
from ddptui.doctor.gpu_report.plans import Plan
from ddptui.engines.preflight_machine import no_compiler
from ddptui.text.words import count

STOCK, NEWER = "ProcessGroupNCCL", "ProcessGroupNCCL2"  # torch's classes around NCCL


def doctor(_: Bench, __: float) -> Observed:
    """What `ddptui doctor` finds."""
    found = [finding for checks in groups(None).values() for finding in findings(checks)]
    short = [f"{finding.name}: {finding.text}" for finding in found if finding.remedy]
    fatal = any(finding.fatal for finding in found)
    return Observed(not fatal, "; ".join([count(len(found), "finding"), f"{len(short)} to mend", *short]))


def compiled(bench: Bench, within_s: float) -> Observed:
    """gpu-amp's last trial, where there is a compiler for it."""
    if missing := no_compiler(os.environ):
        raise Impossible(missing)
    return of_preset(plans.COMPILED, verdicts.short_types)(bench, within_s)


def with_nccl(implementation: str, plan: Plan, evaluate: verdicts.Evaluate) -> Callable[[Bench, float], Observed]:
    """What runs a plan with one of torch's implementations of NCCL, where torch has it."""

    def run(bench: Bench, within_s: float) -> Observed:
        if implementation not in bench.facts["nccl_implementations"]:
            raise Impossible(f"this torch has no {implementation}")
        return of_preset(plan, evaluate)(bench, within_s)

    return run


def by_nccl(implementation: str) -> list[Check]:
    """The checks of one of torch's implementations of NCCL."""
    newer = implementation == NEWER
    return [
        Check(
            name=f"group of one, {implementation}",
            question="four strategies with one rank, by this class of torch",
            expected="losses alike within 1%, averages right, over nccl; this class named",
            run=with_nccl(implementation, plans.alone(newer), verdicts.over("nccl", implementation)),
        ),
        Check(
            name=f"gpu-backends, {implementation}",
            question="gloo and NCCL between two GPUs",
            expected="losses alike within 1%, in sync, averages right, over the backends asked for; NCCL named",
            run=with_nccl(implementation, plans.backends(newer), verdicts.backends(implementation)),
            gpus=2,
        ),
        Check(
            name=f"overlap, {implementation}",
            question="how much of the transfer backward hides, and whether looking takes that away",
            expected="flat hides at most 10%, buckets and ddp more; at most twice as long a step with instruments",
            run=with_nccl(implementation, plans.overlap(newer), verdicts.overlap),
            gpus=2,
        ),
    ]


CHECKS = (
    Check(
        name="doctor",
        question="what `ddptui doctor` finds",
        expected="nothing that keeps a run from starting",
        run=doctor,
    ),
    Check(
        name="versions",
        question="what torch, CUDA and NCCL there are, and how collectives are observed",
        expected="a GPU and NCCL",
        run=lambda bench, _: probes.versions_known(bench.facts),
    ),
    Check(
        name="gpu-quickstart",
        question="one GPU: alone, in a group over NCCL, shared over gloo, under DataParallel",
        expected="losses alike within 1%, in sync, averages right, over nccl and gloo; a message for each step; "
        "times of the GPU known to ±60 µs after a second",
        run=of_preset(plans.QUICKSTART, verdicts.quickstart),
    ),
    Check(
        name="clock",
        question="times of marks on the GPU, against host times just before and after; its queue idle, then busy",
        expected="none outside the error reported for it, which is ±60 µs at most",
        run=of_probe("clock", probes.marks_inside),
    ),
    Check(
        name="bottleneck-where",
        question="two ranks share the GPU, and rank 1 is delayed",
        expected="rank 1 named in aggregate and in backward, its delay within 5%; no rank without a delay",
        run=of_preset(plans.DELAYS, verdicts.delays),
    ),
    Check(
        name="strategies",
        question="every exact strategy, with one rank over NCCL",
        expected="losses alike within 1%, averages right, over nccl",
        run=of_preset(plans.STRATEGIES, verdicts.over("nccl")),
    ),
    Check(
        name="strategies, shared",
        question="the same, without ring, with two ranks that share the GPU",
        expected="losses alike within 1%, in sync, averages right, over gloo",
        run=of_preset(plans.STRATEGIES_SHARED, verdicts.over("gloo")),
    ),
    Check(
        name="primitives-measure, shared",
        question="what a call costs between two ranks that share the GPU, from 1 KB to 64 MB",
        expected="every value right, a time for every size",
        run=of_preset(plans.PRIMITIVES_SHARED, verdicts.primitives),
    ),
    Check(
        name="gpu-amp",
        question="ResNet-50 in float32, bf16 and fp16",
        expected="losses within 10%",
        run=of_preset(plans.AMP, verdicts.short_types),
        minutes=6,
    ),
    Check(
        name="figures",
        question="TFLOP/s, MFU, joules, clocks and memory of the same run",
        expected="all reported, MFU where the peak is known, and at most 100%; memory taken at most that reserved",
        run=of_preset(plans.AMP, verdicts.gpu_figures),
    ),
    Check(
        name="compile",
        question="the same through torch.compile",
        expected="ends well",
        run=compiled,
        minutes=5,
    ),
    Check(
        name="cost-of-looking",
        question="ResNet-50 on small images, with instruments and without",
        expected="at most twice as long a step with instruments",
        run=of_preset(plans.LOOKING, verdicts.looking),
    ),
    Check(
        name="pin_memory",
        question="the same training with pageable and with page-locked memory",
        expected="losses alike within 1%; a step with page-locked memory at most 1.2 × as long",
        run=of_preset(plans.PINNING, verdicts.pair(verdicts.MOST_FOR_PINNING)),
    ),
    Check(
        name="synchronisation",
        question="whether anything in the training loop waits for the GPU, by torch's own check",
        expected="nothing, under every strategy, in float32, bf16 and fp16",
        run=of_probe("synchronising", probes.nothing_waits),
    ),
    Check(
        name="two ranks, one GPU",
        question="an experiment: NCCL between two ranks that it takes for two hosts (NCCL_HOSTID)",
        expected="sums right; a wait of 20 ± 2 ms where 20 ms were put in; isend/irecv of 64 MB right",
        run=of_probe("nccl_pair", probes.pair_right),
    ),
    *by_nccl(STOCK),
    *by_nccl(NEWER),
    Check(
        name="primitives-measure",
        question="what a call costs between two GPUs over NCCL, from 1 KB to 64 MB, isend/irecv as well",
        expected="every value right, a time for every size",
        run=of_preset(plans.PRIMITIVES, verdicts.primitives),
        gpus=2,
    ),
    Check(
        name="strategies, two GPUs",
        question="every exact strategy between two GPUs over NCCL, ring as well",
        expected="losses alike within 1%, in sync, averages right, over nccl",
        run=of_preset(plans.STRATEGIES_OF_TWO, verdicts.over("nccl")),
        gpus=2,
    ),
    Check(
        name="batchnorm",
        question="SyncBatchNorm between two GPUs",
        expected="losses alike within 1%, in sync, averages right, over nccl",
        run=of_preset(plans.BATCHNORM, verdicts.over("nccl")),
        gpus=2,
    ),
    Check(
        name="faults",
        question="a rank of two that dies, stops, hangs or is out of step, over NCCL",
        expected="each is stopped and named (rank 1), but for a mismatch; a stalled one leaves torch's flight record",
        run=of_preset(plans.FAULTS, verdicts.faults),
        gpus=2,
        minutes=5,
    ),
    Check(
        name="dp-vs-ddp",
        question="DataParallel and DistributedDataParallel on two GPUs",
        expected="all end well, in sync; DataParallel cuts each batch into halves",
        run=of_preset(plans.SPLIT, verdicts.split),
        gpus=2,
    ),
)
