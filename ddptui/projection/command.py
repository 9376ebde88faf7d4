"""`ddptui project`: checks its options, reads a run, predicts one of its trials on other ranks, and prints that."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.cautions import Caution
from ddptui.analysis.launch_log import LaunchLog
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection import NetworkUsed, Point, Projection, ProjectionError, Scaling, recorded, report, sentences
from ddptui.projection.calibration import Calibration, calibrate
from ddptui.projection.costs import CallCosts, sends_of, stated_costs
from ddptui.projection.measured import MeasuredTrial, cautions_of, measured_trial, step_s
from ddptui.projection.model import Measurements, Model, Network, ProjectionRequest
from ddptui.projection.slowest_rank import rank_spread
from ddptui.run import output
from ddptui.store.overview import UNDER_WAY
from ddptui.store.runs import Run, RunError, find_run
from ddptui.text.units import US_IN_S
from ddptui.text.words import did_you_mean

MOST_RANKS = 2**20  # more than any cluster has: a typing error
PROJECTED = tuple(name for name, facts in STRATEGIES.items() if facts.sends)
FAR_OFF = 0.5  # a fit with a larger relative error is too poor to rest a figure on it alone


class ProjectOptions(NamedTuple):
    """The options as they are typed."""

    trial: str | None = None
    ranks: str = "2..4096"
    network: str | None = None  # a run of primitives
    alpha: float | None = None  # µs a message
    gbps: float | None = None  # 1e9 bit/s, as networks are sold
    scaling: Scaling = "weak"
    cores: int | None = None
    strategies: tuple[str, ...] = ()  # empty: all that can be projected


class ProjectionInputs(NamedTuple):
    """What a projection is made from."""

    run: Run
    trial: Trial
    measured: MeasuredTrial
    network: Network
    costs: CallCosts  # of the network, from the launches as measured
    predicted: Mapping[Trial, Sequence[LaunchLog]]  # measured trials that it predicts, with their completed launches
    repeats: int  # that the preset asks for
    request: ProjectionRequest
    options: ProjectOptions


def run(runs: Path, name: str, options: ProjectOptions, form: str = "table") -> int:
    """Print the projection of a run in one of the formats; returns the exit code. Raises ProjectionError."""
    result = projection(runs, name, options)
    output.show(report.text(result, output.width()) if form == "table" else report.FORMATS[form](result))
    return 0


def projection(runs: Path, name: str, options: ProjectOptions) -> Projection:
    """The projection of a run in the folder `runs`; `name` as find_run takes it. Raises ProjectionError."""
    check(options)  # all options, before a journal is read: that may take seconds
    stated, numbers = stated_network(options), rank_counts(options.ranks)
    try:
        run = find_run(runs, name)
        primitives = find_run(runs, options.network) if options.network else None
        preset = run.preset()
        trial, logs = recorded.choose_trial(run, preset, options.trial)
        measured = measured_trial(trial.name, logs)
        if stated:
            network = Network(lambda _: stated, False, 0)
        elif primitives:
            network = recorded.network_of_primitives(primitives)
        else:
            network = recorded.own_network(run, preset, trial, measured)
        request = ProjectionRequest(
            ranks=sorted({*numbers, measured.ranks}),  # the measured number, too: it shows how well the model fits
            strong=options.scaling == "strong",
            cores=options.cores,
            threads=max(hello.threads for hello in logs[0].hellos.values()),
        )
        related = recorded.predicted_trials(trial, preset.trials, strong=request.strong)
        predicted = {other: recorded.completed_launches(run, preset, other) for other in related}
        costs = network.costs_of(measured.launches)
        return _projection(
            ProjectionInputs(run, trial, measured, network, costs, predicted, preset.repeats, request, options)
        )
    except RunError as error:
        raise ProjectionError(str(error)) from None


def _projection(inputs: ProjectionInputs) -> Projection:
    strategy, measured, options = str(inputs.trial.strategy), inputs.measured, inputs.options
    calibrations = _calibrations(inputs)
    of_measured = calibrations[strategy]
    projected = dict.fromkeys((strategy, *(options.strategies or PROJECTED)))  # the one with a known error comes first
    by_strategy = [calibrations.get(name) or of_measured.for_strategy(name) for name in projected]
    model = Model(measured, by_strategy, inputs.network, inputs.request)
    launched = ((trial, logs) for trial, logs in inputs.predicted.items() if logs)
    measurements = Measurements(
        step_s={(str(trial.strategy), trial.world_size): fmean(map(step_s, logs)) for trial, logs in launched},
        calibrated=calibrations if inputs.network.is_measured else (),
        far_off=(inputs.costs.worst or 0.0) > FAR_OFF,
    )
    points = model.points(measurements)
    context = sentences.ProjectionContext(
        ranks=measured.ranks,
        batch=inputs.trial.batch_size,
        spread=rank_spread(measured),
        network=inputs.costs,
        scaling=options.scaling,
        cores=options.cores,
        factor=of_measured.factor if inputs.network.is_measured else None,
        wait_factor=of_measured.wait_factor if STRATEGIES[strategy].overlaps else None,
        extrapolation=model.extrapolation(),
        longest_wait_ms=next(point.wait_ms for point in reversed(points) if point.strategy == strategy),
    )
    return Projection(
        run=inputs.run.name,
        trial=inputs.trial.name,
        strategy=strategy,
        measured_ranks=measured.ranks,
        scaling=options.scaling,
        cores=options.cores,
        network=_network_used(inputs.costs),
        points=points,
        said=[
            *_reservations(inputs),
            *sentences.findings(points, strategy, measured.ranks, other_network=not inputs.network.is_measured),
        ],
        notes=[
            *sentences.rough_notes(points, inputs.costs),
            *sentences.notes(context),
            *inputs.network.notes,
            *_shared_cores(inputs, points),
            *sentences.caution_notes({trial.name: cautions_of(logs) for trial, logs in inputs.predicted.items()}),
        ],
    )


def _reservations(inputs: ProjectionInputs) -> list[str]:
    launches = inputs.predicted[inputs.trial]
    disturbed = sum(Caution.OTHER_LOAD in cautions_of([log]) for log in launches)
    status = UNDER_WAY if inputs.run.is_held() else inputs.run.status()
    return sentences.reservations(inputs.trial.name, len(launches), inputs.repeats, disturbed=disturbed, status=status)


def check(options: ProjectOptions) -> None:
    """Raises ProjectionError for an option that no run can satisfy."""
    for name in options.strategies:
        if name not in STRATEGIES:
            hint = did_you_mean(name, PROJECTED, f"it is one of {', '.join(PROJECTED)}")
            raise ProjectionError(f"--strategy {name}: no such strategy; {hint}")
        sends_of(name)  # raises for a strategy whose transfers no formula describes
    if options.cores is not None and options.cores < 1:
        raise ProjectionError(f"--cores {options.cores}: must be 1 at least")
    if options.network and (options.alpha is not None or options.gbps is not None):
        raise ProjectionError("--network measures what --alpha and --gbps state: leave the one or the others out")


def stated_network(options: ProjectOptions) -> CallCosts | None:
    """The network that --alpha and --gbps state, if they are given. Raises ProjectionError."""
    if options.alpha is None and options.gbps is None:
        return None
    for option, value in (("--alpha", options.alpha), ("--gbps", options.gbps)):
        if value is None:
            raise ProjectionError(f"{option} is missing: --alpha (µs a message) and --gbps (1e9 bit/s) go together")
        if not (math.isfinite(value) and value > 0):
            raise ProjectionError(f"{option} {value:g}: must be a finite number above 0")
    return stated_costs(options.alpha or 0.0, options.gbps or 0.0)  # `or` only for mypy: neither is None here


def rank_counts(text: str) -> list[int]:
    """Numbers of ranks, ascending: `2..4096` doubles, `2,4,8` is a list, `64` is one. Raises ProjectionError."""
    low = high = 0  # the ends of a range
    try:
        if is_range := ".." in text:
            low, high = numbers = [int(end) for end in text.split("..")]
        else:
            numbers = [int(number) for number in text.split(",")]
    except ValueError:
        wrong = f"--ranks {text}: neither a range (2..4096), nor a list (2,4,8), nor a number (64)"
        raise ProjectionError(wrong) from None
    if low > high:
        raise ProjectionError(f"--ranks {text}: from {low} down to {high}: the smaller number comes first")
    if min(numbers) < 1:
        raise ProjectionError(f"--ranks {text}: must be 1 at least")
    if max(numbers) > MOST_RANKS:
        raise ProjectionError(f"--ranks {text}: at most {MOST_RANKS:,}")
    if is_range:  # whatever doubling gives, the end that was typed is the last
        numbers += [low << power for power in range(MOST_RANKS.bit_length()) if low << power < high]
    return sorted(set(numbers))


def _calibrations(inputs: ProjectionInputs) -> dict[str, Calibration]:
    """Calibrations of the trial's strategy, and of the others that were measured on as many ranks."""
    fit = inputs.costs if inputs.network.is_measured else None
    by_strategy = {str(inputs.trial.strategy): calibrate(inputs.trial, inputs.measured, fit)}
    for other, logs in inputs.predicted.items():
        same_ranks = other.world_size == inputs.measured.ranks
        if same_ranks and other.strategy not in by_strategy and not recorded.obstacle(other, logs):
            by_strategy[str(other.strategy)] = calibrate(other, measured_trial(other.name, logs), fit)
    return by_strategy


def _shared_cores(inputs: ProjectionInputs, points: Iterable[Point]) -> list[str]:
    """A note where predictions without --cores stand beside trials that shared one host's cores."""
    hosts = {hello.host for logs in inputs.predicted.values() for log in logs for hello in log.hellos.values()}
    cores = inputs.run.environment().get("cores")
    beside = any(point.measured_ms is not None and point.ranks != inputs.measured.ranks for point in points)
    if inputs.options.cores is not None or not beside or not cores or len(hosts) != 1:
        return []
    return [f"the measured trials shared {cores} cores, the predictions do not: to predict that, --cores {cores}"]


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
