"""What a projection needs of a run's folder."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ddptui.analysis.launch_log import LaunchLog, launch_logs
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection import ProjectionError
from ddptui.projection.network import US, CallCosts, Taken, fitted, gamma_of
from ddptui.store.runs import Run

ALONE = "local_sum"  # a sum without a wire


TELLING = (
    "all_reduce",
    "broadcast",
    ALONE,
)  # which together tell a call, a message, a byte sent and a byte added apart


class OfPrimitives(NamedTuple):
    """A network as a run of primitives has it; on how many ranks; what is to be said of it."""

    costs: CallCosts
    ranks: int
    notes: list[str]


def trial_of(run: Run, preset: Preset, name: str | None) -> tuple[Trial, list[LaunchLog]]:
    """The trial that is named, or else the baseline, or else the first that can be projected; and its launches that
    ended well. Raises ProjectionError."""
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
        heard = heard_of(run, preset, trial)
        why = why_not(trial, heard)
        if why is None:
            return trial, heard
        refusals.append(f"{trial.name}: {why}")
    raise ProjectionError(refusals[0])


def why_not(trial: Trial, heard: Sequence[LaunchLog]) -> str | None:
    """What keeps a trial from being projected; None: nothing does."""
    if trial.launch == "dp":
        return "its replicas are threads of one process: there is no network to project"
    if trial.world_size == 1:
        return "one rank waits for nobody and sends nothing: measure two at least"
    facts = STRATEGIES[trial.strategy or "none"]
    if facts.sends is None:
        return f"strategy {trial.strategy}: {facts.unprojected}"
    if trial.mistake:
        return f"it was made with a mistake ({trial.mistake}): what it does is not what its strategy would do"
    if trial.instruments == "off":
        return "without instruments only its times are known: measure it with instruments = 'on'"
    if trial.every > 1:
        return "it averages in some steps only, and ranks wait for each other in these alone: measure it with every = 1"
    if not heard:
        return "no launch of it has ended well"
    return None


def heard_of(run: Run, preset: Preset, trial: Trial) -> list[LaunchLog]:
    """Of each launch that ended well."""
    return [
        heard
        for number in range(1, preset.repeats + 1)
        for heard in launch_logs(run.messages(trial.name, number))
        if heard.ended and heard.ended.status == "ok" and heard.hellos and len(heard.done) == len(heard.hellos)
    ]


def network_of_primitives(run: Run) -> OfPrimitives:
    """Raises ProjectionError."""
    try:
        results = run.results_outline()
    except (OSError, ValueError) as error:
        raise ProjectionError(f"--network {run.name}: its results cannot be read: {error}") from None
    measured = [each for trial in results.trials for each in trial.primitives if each.cells]
    if not measured:
        raise ProjectionError(f"--network {run.name}: no primitives were measured in it")
    ranks = min(each.ranks for each in measured)
    taken = [found for each in measured if each.ranks == ranks for found in _taken(each)]
    sums = [each for each in taken if each.operation == ALONE]
    wire = [each for each in taken if each.operation != ALONE]
    costs = fitted(wire, f"{run.name}, on {ranks} ranks", gamma_of(sums))
    return OfPrimitives(costs, ranks, list(_lacking(run.name, results.status, {each.operation for each in taken})))


def _lacking(name: str, status: str, operations: set[str]) -> Iterator[str]:
    if status != "ok":
        yield f"{name} {'was interrupted' if status == 'interrupted' else 'failed'}: only what it had measured counts"
    if missing := [each for each in TELLING if each not in operations]:
        yield f"{name} lacks {', '.join(missing)}: calls, messages, bytes and sums cannot all be told apart without"


def _taken(result: PrimitivesResult) -> list[Taken]:
    """Its medians; composites are several operations, and are left out."""
    return [
        Taken(cell.operation, result.ranks, cell.bytes, cell.time_us.median * US, cell.time_us.mean * US, cell.calls)
        for cell in result.cells
        if cell.time_us and not cell.composite and cell.time_us.median > 0
    ]
