"""`ddptui project`: a measured trial on more ranks, read from its run's folder, printed."""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ddptui.analysis.launch_log import LaunchLog
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection import ProjectionError, arguments, related_trials, report
from ddptui.projection import sentences as words
from ddptui.projection.calibration import Calibration, calibrated
from ddptui.projection.measured import Launch, MeasuredTrial, deceptive, seen, step_s
from ddptui.projection.model import Beyond, CostsOf, Model, Projected, ProjectionRequest
from ddptui.projection.network import US, CallCosts, Taken, fitted, outliers
from ddptui.projection.rank_spread import ranks_of
from ddptui.projection.reading import heard_of, network_of_primitives, trial_of, why_not
from ddptui.projection.results import NetworkUsed, Point, Projection, Scaling
from ddptui.projection.traffic import taken
from ddptui.store.runs import Run, RunError, find_run

PIPED_WIDTH = 80
MS, GB = 1e3, 1e9  # ms a second; bytes
FAR_OFF = 0.5  # of what was measured: a fit that figures should not rest on alone


class Question(NamedTuple):
    """The options, as they are typed. alpha in µs a message, gbps in 1e9 bit/s."""

    trial: str | None = None
    ranks: str = "2..4096"
    network: str | None = None
    alpha: float | None = None
    gbps: float | None = None
    scaling: Scaling = "weak"
    cores: int | None = None
    strategies: tuple[str, ...] = ()


class Wire(NamedTuple):
    """costs_of: what calls cost; own: it is that of the measured trial; slowed_from: with how many ranks on one host
    that was measured, 0: it was stated; notes: what is to be said of it."""

    costs_of: CostsOf
    own: bool
    slowed_from: int
    notes: Sequence[str] = ()


class Basis(NamedTuple):
    """What a projection is made from. costs: of the trial's launches as they were; alike: the trials that it foretells,
    and what their ranks told."""

    run: Run
    trial: Trial
    heard: Sequence[LaunchLog]
    found: MeasuredTrial
    wire: Wire
    costs: CallCosts
    alike: Mapping[Trial, Sequence[LaunchLog]]
    question: Question


def run(runs: Path, name: str, question: Question, form: str = "table") -> int:
    """Print what a run says of more ranks, in one of the formats; the exit code. Raises ProjectionError."""
    from ddptui.run.output import show

    found = projection(runs, name, question)
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    show(report.text(found, width) if form == "table" else report.FORMATS[form](found))
    return 0


def projection(runs: Path, name: str, question: Question) -> Projection:
    """`runs`: the folder of runs; `name`: as find_run takes it. Raises ProjectionError."""
    stated = arguments.check(question.strategies, question.cores, question.alpha, question.gbps)
    if stated and question.network:
        raise ProjectionError("--network measures what --alpha and --gbps state: leave the one or the others out")
    numbers = arguments.numbers_of_ranks(question.ranks)
    try:
        run = find_run(runs, name)
        primitives = find_run(runs, question.network) if question.network else None
        return _projection(run, run.preset(), question, numbers, stated, primitives)
    except RunError as error:
        raise ProjectionError(str(error)) from None


def _projection(
    run: Run,
    preset: Preset,
    question: Question,
    numbers: Sequence[int],
    stated: CallCosts | None,
    primitives: Run | None,
) -> Projection:
    trial, heard = trial_of(run, preset, question.trial)
    found = _seen(trial, heard)
    wire = _wire(run, preset, trial, found, stated, primitives)
    related = related_trials.foretold(trial, preset.trials, strong=question.scaling == "strong")
    alike = {other: heard_of(run, preset, other) for other in related}
    basis = Basis(run, trial, heard, found, wire, wire.costs_of(found.launches), alike, question)
    calibrations = _calibrations(basis)
    model = _model(basis, calibrations, numbers)
    points = _points(basis, model.projected(), calibrations)
    return Projection(
        run=run.name,
        trial=trial.name,
        strategy=str(trial.strategy),
        measured_ranks=found.ranks,
        scaling=question.scaling,
        cores=question.cores,
        network=_network_used(basis.costs),
        points=points,
        said=words.said(points, str(trial.strategy), found.ranks, other_network=not wire.own),
        notes=_notes(basis, points, model.beyond(), calibrations[str(trial.strategy)]),
    )


def _calibrations(basis: Basis) -> dict[str, Calibration]:
    """Of the trial's strategy, and of the others that were measured on as many ranks."""
    fit = basis.costs if basis.wire.own else None
    found = {str(basis.trial.strategy): calibrated(basis.trial, basis.found, fit)}
    for other, told in basis.alike.items():
        if other.world_size == basis.found.ranks and other.strategy not in found and not why_not(other, told):
            found[str(other.strategy)] = calibrated(other, _seen(other, told), fit)
    return found


def _model(basis: Basis, calibrations: Mapping[str, Calibration], numbers: Sequence[int]) -> Model:
    found, question, own = basis.found, basis.question, calibrations[str(basis.trial.strategy)]
    wanted = ProjectionRequest(
        ranks=sorted({*numbers, found.ranks}),
        strong=question.scaling == "strong",
        cores=question.cores,
        threads=max(words.threads for words in basis.heard[0].hellos.values()),
    )
    strategies = arguments.with_its_own(question.strategies, own.strategy)
    each = [calibrations.get(strategy) or own.of_another(strategy) for strategy in strategies]
    return Model(found, each, basis.wire.costs_of, wanted, basis.wire.slowed_from)


def _points(basis: Basis, projected: Iterable[Projected], calibrations: Collection[str]) -> list[Point]:
    told_by = basis.alike.items()
    measured = {(str(other.strategy), other.world_size): fmean(map(step_s, told)) for other, told in told_by if told}
    known = calibrations if basis.wire.own else ()
    far_off = (basis.costs.worst or 0.0) > FAR_OFF
    return [
        _point(each, measured.get((each.strategy, each.ranks)), each.strategy in known, far_off) for each in projected
    ]


def _notes(basis: Basis, points: Sequence[Point], beyond: Beyond | None, own: Calibration) -> list[str]:
    grounds = words.ProjectionContext(
        ranks=basis.found.ranks,
        batch=basis.trial.batch_size,
        differ=ranks_of(basis.found),
        network=basis.costs,
        scaling=basis.question.scaling,
        cores=basis.question.cores,
        factor=own.factor if basis.wire.own else None,
        wait=own.wait if STRATEGIES[own.strategy].overlaps else None,
        beyond=beyond,
        longest_wait=next(point.wait_ms for point in reversed(points) if point.strategy == basis.trial.strategy),
    )
    return [
        *words.of_rough(points, basis.costs),
        *words.notes(grounds),
        *basis.wire.notes,
        *_shared(basis, points),
        *words.cautions({other.name: deceptive(told) for other, told in basis.alike.items()}),
    ]


def _shared(basis: Basis, points: Iterable[Point]) -> Iterator[str]:
    """Where predictions stand beside other numbers of ranks that were measured on one host, and that was not asked."""
    hosts = {words.host for told in basis.alike.values() for each in told for words in each.hellos.values()}
    cores = basis.run.environment().get("cores")
    beside = any(point.measured_ms is not None and point.ranks != basis.found.ranks for point in points)
    if basis.question.cores is None and beside and cores and len(hosts) == 1:
        yield words.of_shared(cores)


def _seen(trial: Trial, heard: Sequence[LaunchLog]) -> MeasuredTrial:
    try:
        return seen(heard)
    except ProjectionError as error:
        raise ProjectionError(f"{trial.name}: {error}") from None


def _wire(
    run: Run, preset: Preset, trial: Trial, found: MeasuredTrial, stated: CallCosts | None, primitives: Run | None
) -> Wire:
    """As stated, as a run of primitives has it, or as this run's own transfers were: those of other trials on as many
    ranks count, too, since other collectives tell what one alone cannot."""
    if stated:
        return Wire(lambda _: stated, False, 0)
    if primitives:
        measured = network_of_primitives(primitives)
        return Wire(lambda _: measured.costs, False, measured.ranks, measured.notes)
    others = list(_taken_by_others(run, preset, trial))

    def as_it_was(launches: Sequence[Launch]) -> CallCosts:
        own = taken(found, launches)
        return fitted([*own, *others], f"{trial.name}'s transfers")._replace(outliers=outliers(own))

    return Wire(as_it_was, True, found.ranks)


def _taken_by_others(run: Run, preset: Preset, trial: Trial) -> Iterator[Taken]:
    for other in related_trials.on_the_same_wire(trial, preset.trials):
        heard = heard_of(run, preset, other)
        if not why_not(other, heard):
            found = _seen(other, heard)
            yield from taken(found, found.launches)


def _point(each: Projected, measured_s: float | None, calibrated: bool, far_off: bool) -> Point:
    figures = each.figures
    return Point(
        strategy=each.strategy,
        ranks=each.ranks,
        step_ms=figures.step * MS,
        low_ms=None if each.low is None else each.low * MS,
        high_ms=None if each.high is None else each.high * MS,
        work_ms=figures.work * MS,
        wait_ms=figures.wait * MS,
        transfer_ms=figures.transfer * MS,
        exposed_ms=figures.exposed * MS,
        efficiency=each.efficiency,
        calibrated=calibrated,
        rough=far_off and not calibrated and each.ranks > 1,
        measured_ms=None if measured_s is None else measured_s * MS,
        error=None if measured_s is None else figures.step / measured_s - 1,
    )


def _network_used(network: CallCosts) -> NetworkUsed:
    return NetworkUsed(
        source=network.source,
        alpha_us=network.alpha / US,
        call_us=network.call / US,
        outliers_us=network.outliers / US,
        gb_s=1 / network.beta / GB if network.beta else None,
        gamma_gb_s=1 / network.gamma / GB if network.gamma else None,
        worst=network.worst,
    )
