"""What a projection reads from a run's folder: the trial to project, those to compare it with, and a network."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ddptui.analysis.launch_log import LaunchLog, launch_logs
from ddptui.analysis.outline import ResultsOutline
from ddptui.config.fields import FIELDS
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection import ProjectionError
from ddptui.projection.calibration import measured_calls
from ddptui.projection.costs import CallCosts, MeasuredCall, fit_costs, fit_gamma, mean_excess
from ddptui.projection.measured import LaunchSteps, MeasuredTrial, measured_trial
from ddptui.projection.model import Network
from ddptui.store.runs import Run, RunError
from ddptui.text.units import US_IN_S

LOCAL_SUM = "local_sum"  # adds without sending
SEPARATING = ("all_reduce", "broadcast", LOCAL_SUM)  # together they separate calls, messages, bytes sent, bytes added
NETWORK_FIELDS = [name for name, field in FIELDS.items() if field.affects_wire]  # what changes the cost of a call


def choose_trial(run: Run, preset: Preset, name: str | None) -> tuple[Trial, list[LaunchLog]]:
    """The named trial, else the baseline, else the first that can be projected; and its completed launches. Raises
    ProjectionError."""
    if preset.kind == "primitives":
        raise ProjectionError(
            f"{run.name}: its ranks trained nothing: name a run that trained (primitives go with --network)"
        )
    by_name = {trial.name: trial for trial in preset.trials}
    if name is not None and name not in by_name:
        raise ProjectionError(f"--trial {name}: not in {run.name}, which has {', '.join(by_name)}")
    first = by_name[name or preset.baseline]
    refusals = []
    for trial in [first] if name else [first, *(trial for trial in preset.trials if trial != first)]:
        logs = completed_launches(run, preset, trial)
        why = obstacle(trial, logs)
        if why is None:
            return trial, logs
        refusals.append(f"{trial.name}: {why}")
    raise ProjectionError(refusals[0])


def obstacle(trial: Trial, logs: Sequence[LaunchLog]) -> str | None:
    """Why a trial with these completed launches cannot be projected; None if it can."""
    if trial.launch == "dp":
        return "its replicas are threads of one process, so it has no network to project"
    if trial.world_size == 1:
        return "one rank sends nothing and waits for no other: measure two at least"
    facts = STRATEGIES[trial.strategy or "none"]
    if facts.sends is None:
        return f"strategy {trial.strategy}: {facts.unprojected}"
    if trial.mistake:
        return f"it was made with a mistake ({trial.mistake}), so it does not do what its strategy would"
    if trial.instruments == "off":
        return "without instruments only its times are known: measure it with instruments = 'on'"
    if trial.every > 1:
        return "it averages in some steps only, and ranks wait for each other in these alone: measure it with every = 1"
    return None if logs else "none of its launches ended well with the delays that it began with"


def completed_launches(run: Run, preset: Preset, trial: Trial) -> list[LaunchLog]:
    """The log of each launch of the trial that ended well; not if delays were changed by hand before some step."""
    return [
        log
        for number in range(1, preset.repeats + 1)
        for log in launch_logs(run.messages(trial.name, number))
        if log.ended
        and log.ended.status == "ok"
        and log.hellos
        and len(log.done) == len(log.hellos)
        and not log.first_step_after
    ]


def same_network_trials(trial: Trial, others: Iterable[Trial]) -> Iterator[Trial]:
    """The trials in which a call took as long as in this one: as many ranks, under the same conditions."""
    for other in others:
        alike = all(getattr(other, key) == getattr(trial, key) for key in NETWORK_FIELDS)
        if alike and other != trial and not other.mistake:  # with a mistake, its calls may never reach the wire
            yield other


def predicted_trials(trial: Trial, others: Iterable[Trial], *, strong: bool) -> Iterator[Trial]:
    """The trials that a projection of this one predicts: they differ in the number of ranks and the strategy only, with
    the same batch a rank (or, with strong scaling, the same global batch)."""
    for other in others:
        ranks, other_ranks = (1, 1) if strong else (trial.world_size, other.world_size)
        same_batch = trial.batch_size * other_ranks == other.batch_size * ranks
        if same_batch and _without_scale(other) == _without_scale(trial):
            yield other


def _without_scale(trial: Trial) -> Trial:
    """The trial without what may differ."""
    all_ranks = tuple(range(trial.world_size))
    delays = tuple(  # a delay on all ranks is the same on any number of them
        replace(delay, ranks=()) if tuple(sorted(delay.ranks)) == all_ranks else delay for delay in trial.bottleneck
    )
    length = {"steps": None, "epochs": 1, "warmup_steps": 0}
    return replace(trial, name="", world_size=1, batch_size=1, strategy=None, seed=0, bottleneck=delays, **length)


def own_network(run: Run, preset: Preset, trial: Trial, own: MeasuredTrial) -> Network:
    """The network fitted to the trial's own transfers, and those of other trials on as many ranks."""
    others: list[MeasuredCall] = []  # other collectives separate costs that one alone cannot
    for other in same_network_trials(trial, preset.trials):
        logs = completed_launches(run, preset, other)
        if not obstacle(other, logs):
            beside = measured_trial(other.name, logs)
            others += measured_calls(beside, beside.launches)

    def fit(launches: Sequence[LaunchSteps]) -> CallCosts:
        calls = measured_calls(own, launches)
        return fit_costs([*calls, *others], f"{trial.name}'s transfers")._replace(excess=mean_excess(calls))

    return Network(fit, True, own.ranks)


def network_of_primitives(run: Run) -> Network:
    """The network of a run, fitted to its primitives on the fewest ranks. Raises ProjectionError."""
    try:
        results = run.results(ResultsOutline)
    except (FileNotFoundError, RunError) as error:
        raise ProjectionError(f"--network {run.name}: its results cannot be read: {error}") from None
    measured = [result for trial in results.trials for result in trial.primitives if result.cells]
    if not measured:
        raise ProjectionError(f"--network {run.name}: no primitives were measured in it")
    # The latencies of pipelined calls overlap. Of the others, back to back comes first.
    alone = sorted({result.cadence for result in measured} - {"pipelined"})
    if not alone:
        raise ProjectionError(
            f"--network {run.name}: its calls were pipelined, so their latency is hidden: measure with"
            " cadence = 'back_to_back'"
        )
    chosen = [result for result in measured if result.cadence == alone[0]]
    ranks = min(result.ranks for result in chosen)
    calls = [
        MeasuredCall(
            operation=cell.operation,
            ranks=ranks,
            bytes=cell.bytes,
            s=cell.time_us.median * US_IN_S,
            mean_s=cell.time_us.mean * US_IN_S,
            number=cell.calls,
        )
        for result in chosen
        if result.ranks == ranks
        for cell in result.cells
        if cell.time_us and not cell.composite and cell.time_us.median > 0  # a composite is several operations
    ]
    sums = [call for call in calls if call.operation == LOCAL_SUM]
    sent = [call for call in calls if call.operation != LOCAL_SUM]
    costs = fit_costs(sent, f"{run.name}, on {ranks} ranks", fit_gamma(sums))
    notes = []
    if results.status != "ok":
        how = "was interrupted" if results.status == "interrupted" else "failed"
        notes.append(f"{run.name} {how}: only what it had measured counts")
    if others := sorted({result.cadence for result in measured} - {alone[0]}):
        notes.append(f"{run.name}: only calls with cadence = {alone[0]} count, not {', '.join(others)}")
    measured_operations = {call.operation for call in calls}
    if missing := [operation for operation in SEPARATING if operation not in measured_operations]:
        lacks = f"{run.name} lacks {', '.join(missing)}"
        notes.append(f"{lacks}: calls, messages, bytes and sums cannot all be separated without")
    return Network(lambda _: costs, False, ranks, notes)
