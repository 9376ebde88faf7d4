"""`ddptui project`: reads a run's folder, predicts one of its trials on other numbers of ranks, prints that."""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.launch_log import LaunchLog
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection import ProjectionError, recorded, report, sentences
from ddptui.projection.arguments import ProjectOptions, check, rank_counts, stated_network, strategies_to_project
from ddptui.projection.calibration import Calibration, calibrate, measured_calls
from ddptui.projection.measured import LaunchSteps, MeasuredTrial, cautions_of, measured_trial, step_s
from ddptui.projection.model import CostsOf, Extrapolation, Model, Projected, ProjectionRequest
from ddptui.projection.network import CallCosts, MeasuredCall, fit_costs, mean_excess
from ddptui.projection.results import NetworkUsed, Point, Projection
from ddptui.projection.slowest_rank import rank_spread
from ddptui.store.runs import Run, RunError, find_run
from ddptui.text.units import MS_PER_S, US_IN_S

PIPED_WIDTH = 80
FAR_OFF = 0.5  # a fit with a larger relative error is too poor to rest a figure on it alone


class Network(NamedTuple):
    """The network of a projection.

    costs_of     what calls cost, from the trial's launches
    is_measured  it is the network on which the trial was measured
    ranks        on one host, with which it was measured; 0: it was stated
    notes        what it lacks
    """

    costs_of: CostsOf
    is_measured: bool
    ranks: int
    notes: Sequence[str] = ()


class ProjectionInputs(NamedTuple):
    """What a projection is made from. costs: the network's, from the launches as measured; predicted: the measured
    trials that it predicts, with the logs of their completed launches."""

    run: Run
    trial: Trial
    logs: Sequence[LaunchLog]
    measured: MeasuredTrial
    network: Network
    costs: CallCosts
    predicted: Mapping[Trial, Sequence[LaunchLog]]
    options: ProjectOptions


def run(runs: Path, name: str, options: ProjectOptions, form: str = "table") -> int:
    """Print the projection of a run in one of the formats; returns the exit code. Raises ProjectionError."""
    from ddptui.run.output import show

    result = projection(runs, name, options)
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    show(report.text(result, width) if form == "table" else report.FORMATS[form](result))
    return 0


def projection(runs: Path, name: str, options: ProjectOptions) -> Projection:
    """The projection of a run in the folder `runs`; `name` as find_run takes it. Raises ProjectionError."""
    check(options)
    stated = stated_network(options)
    numbers = rank_counts(options.ranks)
    try:
        run = find_run(runs, name)
        primitives = find_run(runs, options.network) if options.network else None
        return _projection(_inputs(run, run.preset(), options, stated, primitives), numbers)
    except RunError as error:
        raise ProjectionError(str(error)) from None


def _inputs(
    run: Run, preset: Preset, options: ProjectOptions, stated: CallCosts | None, primitives: Run | None
) -> ProjectionInputs:
    trial, logs = recorded.choose_trial(run, preset, options.trial)
    measured = _measured(trial, logs)
    network = _network(run, preset, trial, measured, stated, primitives)
    related = recorded.predicted_trials(trial, preset.trials, strong=options.scaling == "strong")
    predicted = {other: recorded.completed_launches(run, preset, other) for other in related}
    return ProjectionInputs(
        run, trial, logs, measured, network, network.costs_of(measured.launches), predicted, options
    )


def _projection(inputs: ProjectionInputs, numbers: Sequence[int]) -> Projection:
    strategy, measured, options = str(inputs.trial.strategy), inputs.measured, inputs.options
    calibrations = _calibrations(inputs)
    model = _model(inputs, calibrations, numbers)
    points = _points(inputs, model.projected(), calibrations)
    return Projection(
        run=inputs.run.name,
        trial=inputs.trial.name,
        strategy=strategy,
        measured_ranks=measured.ranks,
        scaling=options.scaling,
        cores=options.cores,
        network=_network_used(inputs.costs),
        points=points,
        said=sentences.findings(points, strategy, measured.ranks, other_network=not inputs.network.is_measured),
        notes=_notes(inputs, points, model.extrapolation(), calibrations[strategy]),
    )


def _calibrations(inputs: ProjectionInputs) -> dict[str, Calibration]:
    """Calibrations of the trial's strategy, and of the others that were measured on as many ranks."""
    fit = inputs.costs if inputs.network.is_measured else None
    by_strategy = {str(inputs.trial.strategy): calibrate(inputs.trial, inputs.measured, fit)}
    for other, logs in inputs.predicted.items():
        same_ranks = other.world_size == inputs.measured.ranks
        if same_ranks and other.strategy not in by_strategy and not recorded.obstacle(other, logs):
            by_strategy[str(other.strategy)] = calibrate(other, _measured(other, logs), fit)
    return by_strategy


def _model(inputs: ProjectionInputs, calibrations: Mapping[str, Calibration], numbers: Sequence[int]) -> Model:
    measured, options, network = inputs.measured, inputs.options, inputs.network
    calibration = calibrations[str(inputs.trial.strategy)]
    request = ProjectionRequest(
        ranks=sorted({*numbers, measured.ranks}),
        strong=options.scaling == "strong",
        cores=options.cores,
        threads=max(hello.threads for hello in inputs.logs[0].hellos.values()),
    )
    strategies = strategies_to_project(options.strategies, calibration.strategy)
    by_strategy = [calibrations.get(strategy) or calibration.for_strategy(strategy) for strategy in strategies]
    return Model(measured, by_strategy, network.costs_of, request, network.ranks)


def _points(inputs: ProjectionInputs, projected: Iterable[Projected], calibrations: Collection[str]) -> list[Point]:
    measured_s = {
        (str(trial.strategy), trial.world_size): fmean(map(step_s, logs))
        for trial, logs in inputs.predicted.items()
        if logs
    }
    calibrated = calibrations if inputs.network.is_measured else ()
    far_off = (inputs.costs.worst or 0.0) > FAR_OFF
    return [
        _point(one, measured_s.get((one.strategy, one.ranks)), one.strategy in calibrated, far_off) for one in projected
    ]


def _notes(
    inputs: ProjectionInputs, points: Sequence[Point], extrapolation: Extrapolation | None, calibration: Calibration
) -> list[str]:
    context = sentences.ProjectionContext(
        ranks=inputs.measured.ranks,
        batch=inputs.trial.batch_size,
        spread=rank_spread(inputs.measured),
        network=inputs.costs,
        scaling=inputs.options.scaling,
        cores=inputs.options.cores,
        factor=calibration.factor if inputs.network.is_measured else None,
        wait_factor=calibration.wait_factor if STRATEGIES[calibration.strategy].overlaps else None,
        extrapolation=extrapolation,
        longest_wait_ms=next(point.wait_ms for point in reversed(points) if point.strategy == inputs.trial.strategy),
    )
    return [
        *sentences.rough_notes(points, inputs.costs),
        *sentences.notes(context),
        *inputs.network.notes,
        *_shared_cores(inputs, points),
        *sentences.caution_notes({trial.name: cautions_of(logs) for trial, logs in inputs.predicted.items()}),
    ]


def _shared_cores(inputs: ProjectionInputs, points: Iterable[Point]) -> Iterator[str]:
    """A note where predictions without --cores stand beside trials that shared one host's cores."""
    logs = (log for logs in inputs.predicted.values() for log in logs)
    hosts = {hello.host for log in logs for hello in log.hellos.values()}
    cores = inputs.run.environment().get("cores")
    beside = any(point.measured_ms is not None and point.ranks != inputs.measured.ranks for point in points)
    if inputs.options.cores is None and beside and cores and len(hosts) == 1:
        yield sentences.shared_cores_note(cores)


def _measured(trial: Trial, logs: Sequence[LaunchLog]) -> MeasuredTrial:
    try:
        return measured_trial(logs)
    except ProjectionError as error:
        raise ProjectionError(f"{trial.name}: {error}") from None


def _network(
    run: Run, preset: Preset, trial: Trial, measured: MeasuredTrial, stated: CallCosts | None, primitives: Run | None
) -> Network:
    """The stated network, or that of a run of primitives, or else a fit to this run's own transfers. Trials on as many
    ranks count there, too: other collectives separate costs that one alone cannot."""
    if stated:
        return Network(lambda _: stated, False, 0)
    if primitives:
        other = recorded.network_of_primitives(primitives)
        return Network(lambda _: other.costs, False, other.ranks, other.notes)
    others = list(_calls_of_others(run, preset, trial))

    def fit(launches: Sequence[LaunchSteps]) -> CallCosts:
        calls = measured_calls(measured, launches)
        return fit_costs([*calls, *others], f"{trial.name}'s transfers")._replace(excess=mean_excess(calls))

    return Network(fit, True, measured.ranks)


def _calls_of_others(run: Run, preset: Preset, trial: Trial) -> Iterator[MeasuredCall]:
    for other in recorded.same_network_trials(trial, preset.trials):
        logs = recorded.completed_launches(run, preset, other)
        if not recorded.obstacle(other, logs):
            measured = _measured(other, logs)
            yield from measured_calls(measured, measured.launches)


def _point(projected: Projected, measured_s: float | None, calibrated: bool, far_off: bool) -> Point:
    times = projected.times
    return Point(
        strategy=projected.strategy,
        ranks=projected.ranks,
        step_ms=times.step * MS_PER_S,
        low_ms=None if projected.low is None else projected.low * MS_PER_S,
        high_ms=None if projected.high is None else projected.high * MS_PER_S,
        work_ms=times.work * MS_PER_S,
        wait_ms=times.wait * MS_PER_S,
        transfer_ms=times.transfer * MS_PER_S,
        exposed_ms=times.exposed * MS_PER_S,
        efficiency=projected.efficiency,
        calibrated=calibrated,
        rough=far_off and not calibrated and projected.ranks > 1,
        measured_ms=None if measured_s is None else measured_s * MS_PER_S,
        error=None if measured_s is None else times.step / measured_s - 1,
    )


def _network_used(network: CallCosts) -> NetworkUsed:
    return NetworkUsed(
        source=network.source,
        alpha_us=network.alpha / US_IN_S,
        call_us=network.call / US_IN_S,
        outliers_us=network.excess / US_IN_S,
        gb_s=1 / network.beta / 1e9 if network.beta else None,
        gamma_gb_s=1 / network.gamma / 1e9 if network.gamma else None,
        worst=network.worst,
    )
