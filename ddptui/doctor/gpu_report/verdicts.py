"""How each check of the GPU report judges the run of its preset. Pure."""

from collections.abc import Callable

from ddptui.analysis.results import TrialResult
from ddptui.doctor.gpu_report import figures, training
from ddptui.doctor.gpu_report.check import Observed, Recorded, together
from ddptui.doctor.gpu_report.primitives import primitives_right
from ddptui.doctor.gpu_report.training import LOSS_TOLERANCE, Site, repeats

Evaluate = Callable[[Recorded], Observed]
SHORT_TYPES_TOLERANCE = 0.1  # relative: a step in fp16 may be skipped until its loss is scaled as it should be
MOST_FOR_LOOKING = 2.0  # × a step without instruments
MOST_FOR_PINNING = 1.2  # × a step with pageable memory
MOST_HIDDEN_BY_FLAT = 0.1  # which sends when backward is over
HALVES = 2  # replicas of dp


def trained(recorded: Recorded, *more: Observed) -> Observed:
    """All trials ended well on GPUs, in sync, with the right mean; and more."""
    results = recorded.results
    if not any(repeats(results)):
        return training.ended_well(results)
    parts = (training.ended_well, training.on_gpus, training.in_sync, training.averages_right)
    return together([*(part(results) for part in parts), *more])


def trained_alike(recorded: Recorded, *more: Observed, tolerance: float = LOSS_TOLERANCE) -> Observed:
    """As `trained`; and all trials learned the same."""
    return trained(recorded, training.losses_alike(recorded.results, tolerance), *more)


def quickstart(recorded: Recorded) -> Observed:
    """gpu-quickstart: four ways to use one GPU."""
    return trained_alike(
        recorded,
        training.backends_are(recorded.results, {"group-of-one": "nccl", "two-share-it": "gloo"}),
        training.every_step_told(recorded),
        training.clocks_tied(recorded),
    )


def delays(recorded: Recorded) -> Observed:
    """bottleneck-where: who was named, and for how long."""
    sites = {"none": None, "aggregate": Site(1, "aggregate"), "backward": Site(1, "backward")}
    return trained(recorded, *training.delays_found(recorded.results, sites))


def over(backend: str, implementation: str | None = None) -> Evaluate:
    """All trials learned the same, over this backend; and, if that is asked for, NCCL by this class of torch."""

    def evaluate(recorded: Recorded) -> Observed:
        others = {name: repeat.backend for name, repeat in repeats(recorded.results) if repeat.backend != backend}
        text = ", ".join(f"{name} over {other}" for name, other in others.items())
        named = figures.nccl_named(recorded.results, implementation) if implementation else []
        return trained_alike(recorded, Observed(not others, text or f"over {backend}"), *named)

    return evaluate


def primitives(recorded: Recorded) -> Observed:
    """primitives-measure: each value, and a time for each size."""
    return together([training.ended_well(recorded.results), primitives_right(recorded.results)])


def gpu_figures(recorded: Recorded) -> Observed:
    """What the GPU did, in figures."""
    return together([training.ended_well(recorded.results), *figures.figures_told(recorded)])


def short_types(recorded: Recorded) -> Observed:
    """gpu-amp: nearly the same loss in each precision; and how long a step took."""
    return trained_alike(recorded, training.step_times(recorded.results), tolerance=SHORT_TYPES_TOLERANCE)


def looking(recorded: Recorded) -> Observed:
    """cost-of-looking: what instruments cost."""
    return trained(recorded, training.costs_at_most(recorded.results, "unseen", "seen", MOST_FOR_LOOKING))


def pair(most: float) -> Evaluate:
    """Two trials that learned the same. A step of the second takes at most so many times as long as of the first."""

    def evaluate(recorded: Recorded) -> Observed:
        first, second = (trial.name for trial in recorded.results.trials)
        return trained_alike(recorded, training.costs_at_most(recorded.results, first, second, most))

    return evaluate


def backends(implementation: str) -> Evaluate:
    """gpu-backends: each trial over the backend that it asks for, and NCCL by this class of torch."""

    def evaluate(recorded: Recorded) -> Observed:
        expected = {trial.name: str(trial.config["backend"]) for trial in recorded.results.trials}
        return trained_alike(
            recorded,
            training.backends_are(recorded.results, expected),
            *figures.nccl_named(recorded.results, implementation),
        )

    return evaluate


def overlap(recorded: Recorded) -> Observed:
    """overlap, with instruments and without: what backward hides, and that looking takes nothing of it."""
    pairs = [name.removesuffix("-seen") for name, _ in repeats(recorded.results) if name.endswith("-seen")]
    costs = [
        training.costs_at_most(recorded.results, f"{name}-unseen", f"{name}-seen", MOST_FOR_LOOKING) for name in pairs
    ]
    hides = {name: name != "flat" for name in pairs}
    return trained(recorded, *training.overlaps(recorded.results, hides, MOST_HIDDEN_BY_FLAT), *costs)


FAULTY_RANK = "rank 1"  # of the preset `faults`
UNNAMED = {"mismatch"}  # NCCL compares no sizes: which rank is behind may stay unknown
STALLED = {"stop", "hang", "skip"}
FLIGHT_RECORDS = ".flight.json"  # in the reason of a launch that stalled


def faults(recorded: Recorded) -> Observed:
    """faults: each faulty trial is stopped and names its rank; a stalled one leaves torch's flight record."""
    return together(map(_fault, recorded.results.trials))


def _fault(trial: TrialResult) -> Observed:
    if trial.name == "sound":
        return Observed(trial.status == "ok", f"sound: {trial.status}")
    why = training.reason(trial)
    named = FAULTY_RANK in why or trial.name in UNNAMED
    kept = FLIGHT_RECORDS in (trial.error or "") or trial.name not in STALLED
    text = f"{trial.name} {trial.status}: {why}" + ("" if kept else " (no flight record)")
    return Observed(trial.status == "failed" and named and kept, text)


def split(recorded: Recorded) -> Observed:
    """dp-vs-ddp: DataParallel cuts each batch into halves."""
    sizes = {
        name: [rank.sub_batch for rank in repeat.ranks]
        for name, repeat in repeats(recorded.results)
        if name.endswith("-dp")
    }
    batches = {trial.name: trial.config["batch_size"] for trial in recorded.results.trials}
    right = bool(sizes) and all(cut == [batches[name] // HALVES] * HALVES for name, cut in sizes.items())
    text = "; ".join(f"{name}: sub-batches {' and '.join(map(str, cut))}" for name, cut in sizes.items())
    return trained(recorded, Observed(right, text or "no DataParallel"), training.step_times(recorded.results))
