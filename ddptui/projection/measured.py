"""Reads from a run's folder what a projection needs: the trial to project, trials to compare it with, and a network.

A rank's own work is the step without waits and exposed transfers, as in analysis/waits.py. An injected delay stands for
computation, so it is part of the work.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from math import ceil
from statistics import fmean

from msgspec.structs import replace

from ddptui.analysis.culprit import exceeds_waits, wait_uncertainty
from ddptui.analysis.figures import other_load
from ddptui.analysis.launch_data import LaunchData, launch_logs
from ddptui.analysis.operations import operation_keys
from ddptui.analysis.repeats import ResultsOutline, takes_cores
from ddptui.analysis.waits import AlignedStep, RankStep
from ddptui.config.catalog import facts_of
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.projection import ProjectionError
from ddptui.projection.model import Costs, MeasuredCall, MeasuredTrial, Work, fit_costs
from ddptui.store.runs import Run, RunError
from ddptui.text.tables import grouped
from ddptui.text.words import MB, MS, US_IN_S, S
from ddptui.wire.messages import POINT_TO_POINT, Trained
from ddptui.wire.phases import PHASES

BATCH_PHASES = ("data", "forward", "backward")  # phases whose work grows with a rank's batch
BACKWARD = PHASES.index("backward")
BUCKET_MB = 25.0  # default of torch's DDP
ITEMSIZES = {"float32": 4, "float64": 8}
PARTS = ("gather", "all_gather", "scatter")  # for these, a rank records its part; the formulas count all parts together
CLEAN = ("all_reduce", "reduce", "broadcast")  # gloo makes no copies for these, so the formulas are complete
MEASURE, STATE = "measure the network (--network RUN)", "state the network (--alpha, --gbps)"  # remedies


def choose_trial(run: Run, preset: Preset, name: str | None) -> tuple[Trial, list[LaunchData]]:
    """The trial to project, with its completed launches: the named trial, or else the baseline, or else the first that
    can be projected. Raises ProjectionError."""
    if preset.kind == "primitives":
        raise ProjectionError(f"{run.name}: it has no training: name another run (use this one with --network)")
    baseline_first = sorted(preset.trials, key=lambda trial: trial.name != preset.baseline)
    candidates = [trial for trial in baseline_first if name in (None, trial.name)]
    if not candidates:
        names = ", ".join(trial.name for trial in preset.trials)
        raise ProjectionError(f"--trial {name}: not in {run.name}, which has {names}")
    refusals = []
    for trial in candidates:
        logs = completed_launches(run, preset, trial)
        if not (why := obstacle(trial, logs)):
            return trial, logs
        refusals.append(f"{trial.name}: {why}")
    raise ProjectionError(refusals[0])


def obstacle(trial: Trial, logs: Sequence[LaunchData]) -> str:
    """Why a trial cannot be projected; empty if it can. logs: its completed launches."""
    facts = facts_of(trial.strategy)
    obstacles = {
        "its replicas are threads of one process, so it has no network to project": trial.launch == "dp",
        "a single rank does not communicate: measure at least two ranks": trial.world_size == 1,
        f"strategy {trial.strategy}: {facts.unprojected}": facts.sends is None,
        f"it has a deliberate mistake ({trial.mistake}), so it does not do what its strategy should": trial.mistake,
        "without instruments only its times are known: measure it with instruments = 'on'": trial.instruments == "off",
        "it averages in some steps only, and ranks wait only there: measure it with every = 1": trial.every > 1,
        "no launch ended well with unchanged delays": not logs,
    }
    return next((why for why, applies in obstacles.items() if applies), "")


def completed_launches(run: Run, preset: Preset, trial: Trial) -> list[LaunchData]:
    """The logs of the trial's launches that ended well and whose delays the user did not change."""
    numbers = range(1, preset.repeats + 1)
    logs = [log for number in numbers for log in launch_logs(run.messages(trial.name, number)) if log.ended]
    ended = [log for log in logs if log.ended and log.ended.status == "ok" and log.hellos]
    return [log for log in ended if len(log.done) == len(log.hellos) and not log.first_step_after]


def predicted_trials(trial: Trial, others: Iterable[Trial], *, strong: bool) -> list[Trial]:
    """The trials that a projection of this one predicts. They differ only in the number of ranks and the strategy, and
    have the same batch per rank (with strong scaling, the same global batch)."""
    return [other for other in others if _without_scale(other, strong) == _without_scale(trial, strong)]


def _without_scale(trial: Trial, strong: bool) -> tuple[Trial, Fraction]:
    """The trial with all fields that may differ set to the same value, and the batch size that must not differ."""
    batch = Fraction(trial.batch_size, 1 if strong else trial.world_size)
    all_ranks = tuple(range(trial.world_size))
    delays = tuple(  # a delay on all ranks is the same for any number of ranks
        replace(delay, ranks=()) if tuple(sorted(delay.ranks)) == all_ranks else delay for delay in trial.bottleneck
    )
    same = {"name": "", "world_size": 1, "batch_size": 1, "strategy": None, "seed": 0}
    length = {"steps": None, "epochs": 1, "warmup_steps": 0}
    return replace(trial, bottleneck=delays, **same, **length), batch


def step_ms(logs: Iterable[LaunchData]) -> float:
    """The train time per step in ms, mean over the launches, with or without instruments."""
    return fmean(max((span.end_ns - span.begin_ns) / span.steps for span in _train_spans(log)) for log in logs) / MS


def is_disturbed(log: LaunchData) -> bool:
    """Whether other programs took cores from the ranks."""
    return takes_cores(other_load(log.loads, _train_spans(log)))


def _train_spans(log: LaunchData) -> list[Trained]:
    return [span for rank in log.hellos if (span := log.span(rank))]


def measured_trial(trial: Trial, logs: Sequence[LaunchData]) -> MeasuredTrial:
    """The measurements of a trial's launches, all of which must have ended well. Raises ProjectionError."""
    launches = [steps for log in logs if (steps := log.align_measured().steps)]
    if not launches:
        raise ProjectionError(f"{trial.name}: there is no step in which all ranks made the same operations")
    if any((error := wait_uncertainty(steps)) and exceeds_waits(steps, error) for steps in launches):
        raise ProjectionError(f"{trial.name}: its transfers are unknown: the clock error exceeds the measured waits")
    steps = [step for launch in launches for step in launch]
    by_size = grouped(((kind, size), s) for step in steps for kind, size, s in _calls(step))
    overlaps = facts_of(trial.strategy).overlaps
    ranks = [rank for step in steps for rank in step.ranks.values()]
    backward_ns = fmean(max(0, rank.work_ns[BACKWARD] - _slept_ns(rank)["backward"]) for rank in ranks)
    exposed_ns = fmean(rank.exposed_ns - rank.wait_ns for rank in ranks)
    hidden = sum(map(sum, by_size.values())) / len(steps) - exposed_ns / S if overlaps else None
    size = max(ready.parameters for ready in logs[0].ready.values()) * ITEMSIZES[trial.dtype]
    reduced = sum(len(times) for (kind, _), times in by_size.items() if kind == "all_reduce")
    return MeasuredTrial(
        strategy=str(trial.strategy),
        ranks=trial.world_size,
        work=[[[_work(step.ranks[at]) for step in launch] for at in sorted(launch[0].ranks)] for launch in launches],
        calls=[
            MeasuredCall(kind, size * (trial.world_size if kind in PARTS else 1), fmean(times), sum(times))
            for (kind, size), times in sorted(by_size.items())
        ],
        tensors=max(len(done.parameters) for done in logs[0].done.values()),
        bytes=size,
        itemsize=ITEMSIZES[trial.dtype],
        threads=max(hello.threads for hello in logs[0].hellos.values()),
        buckets=max(1, round(reduced / len(steps)) if overlaps else ceil(size / MB / (trial.bucket_mb or BUCKET_MB))),
        hidden=hidden,
        backward=max(backward_ns / S, hidden or 0.0),  # an injected delay may hide more than backward computes
        batch_size=trial.batch_size,
    )


def _work(rank: RankStep) -> Work:
    worked, slept = dict(zip((*PHASES, "between"), rank.work_ns, strict=True)), _slept_ns(rank)
    batch = sum(worked[phase] for phase in BATCH_PHASES)
    rest = sum(rank.work_ns) - batch
    # waits and exposed transfers are subtracted from the work, so it may be shorter than the delays in it
    batch_slept = min(batch, sum(slept[phase] for phase in BATCH_PHASES))
    rest_slept = min(rest, slept["aggregate"])
    return Work((batch - batch_slept) / S, (rest - rest_slept) / S, batch_slept / S, rest_slept / S)


def _slept_ns(rank: RankStep) -> Counter[str]:
    slept = Counter[str]()
    for sleep in rank.step.slept:
        slept[sleep.at] += sleep.end_ns - sleep.begin_ns
    return slept


def _calls(step: AlignedStep) -> Iterator[tuple[str, int, float]]:
    """Yields kind, bytes and duration in s of a step's operations. An operation begins when all its ranks have arrived
    and the previous operation has finished."""
    by_rank = (zip(operation_keys(rank.step), rank.step.collectives, strict=True) for rank in step.ranks.values())
    by_key = grouped(chain.from_iterable(by_rank))
    ordered, over = sorted(by_key, key=lambda key: max(step.entered_ns[key].values())), 0.0
    for key in ordered:
        kind, all_came = by_key[key][0].kind, max(step.entered_ns[key].values())
        exits = [max(all_came, operation.exit_ns) for operation in by_key[key]]
        # An operation lasts until the last rank has finished it, since the next one waits for that. After the last
        # operation of a step each rank continues alone, so the mean counts.
        begin, end = float(all_came), fmean(exits) if key == ordered[-1] else max(exits)
        if kind in POINT_TO_POINT:  # these do not queue: other pairs exchange at the same time
            kind = "isend_irecv"
        else:
            begin, over = max(begin, over), max(over, end)
        yield kind, by_key[key][0].bytes, max(0.0, end - begin) / S


def own_network(run: Run, preset: Preset, trial: Trial, own: MeasuredTrial, others: Iterable[Trial]) -> Costs:
    """The network, fitted to the trial's own transfers. If these have only one size, transfers of other trials on the
    same number of ranks are used, too."""
    calls = list(own.calls)
    for other in others if len({call.bytes for call in calls}) < 2 else ():
        logs = completed_launches(run, preset, other)
        if other.world_size == own.ranks and other != trial and not obstacle(other, logs):
            calls += measured_trial(other, logs).calls
    return fit_costs(calls, own.ranks, f"{trial.name}'s transfers", MEASURE)


def network_of_primitives(run: Run) -> Costs:
    """The network, fitted to the primitives that a run measured on its smallest number of ranks. Raises
    ProjectionError."""
    try:
        trials = run.results(ResultsOutline).trials
    except (FileNotFoundError, RunError) as error:
        raise ProjectionError(f"--network {run.name}: its results cannot be read: {error}") from None
    # Pipelined calls are excluded, because their latencies overlap.
    alone = [each for trial in trials for each in trial.primitives if each.cadence != "pipelined"]
    by_ranks: defaultdict[int, list[MeasuredCall]] = defaultdict(list)
    for ranks, cell in ((each.ranks, cell) for each in alone for cell in each.cells):
        if cell.time_us and cell.operation in CLEAN and not cell.composite:
            by_ranks[ranks].append(MeasuredCall(cell.operation, cell.bytes, cell.time_us.median * US_IN_S))
    if not by_ranks:
        raise ProjectionError(f"--network {run.name}: it measured no all_reduce, reduce or broadcast, one at a time")
    ranks = min(by_ranks)
    return fit_costs(by_ranks[ranks], ranks, f"{run.name}, on {ranks} ranks", STATE)
