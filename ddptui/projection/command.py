"""`ddptui project`: a measured trial on more ranks, read from its run's folder, printed."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ddptui.outcome import Heard
from ddptui.preset import Preset, Trial
from ddptui.projection import ProjectionError, asked, kin, report, words
from ddptui.projection.model import Asked, Model, NetworkOf, Projected, ranks_of
from ddptui.projection.network import US, Network, Taken, fitted, with_outliers
from ddptui.projection.reading import heard_of, network_of_primitives, trial_of, why_not
from ddptui.projection.results import NetworkUsed, Point, Projection, Scaling
from ddptui.projection.seen import Launch, Seen, deceptive, seen, step_s
from ddptui.projection.traffic import taken, traffic
from ddptui.record import Run, RunError, find_run

PIPED_WIDTH = 80
MS, GB = 1e3, 1e9  # ms a second; bytes


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
    """network_of: what calls cost; slowed_from: with how many ranks on one host that was measured, 0: it was stated."""

    network_of: NetworkOf
    slowed_from: int


def run(runs: Path, name: str, question: Question, form: str = "table") -> int:
    """Print what a run says of more ranks, in one of the formats; the exit code. Raises ProjectionError."""
    from ddptui.headless import show

    found = projection(runs, name, question)
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    show(report.text(found, width) if form == "table" else report.FORMATS[form](found))
    return 0


def projection(runs: Path, name: str, question: Question) -> Projection:
    """`runs`: the folder of runs; `name`: as find_run takes it. Raises ProjectionError."""
    stated = asked.check(question.strategies, question.cores, question.alpha, question.gbps)
    if stated and question.network:
        raise ProjectionError("--network measures what --alpha and --gbps state: leave the one or the others out")
    numbers = asked.numbers_of_ranks(question.ranks)
    try:
        run = find_run(runs, name)
        primitives = find_run(runs, question.network) if question.network else None
        return _projection(run, run.preset(), question, numbers, stated, primitives)
    except RunError as error:
        raise ProjectionError(str(error)) from None


def _projection(
    run: Run, preset: Preset, question: Question, numbers: Sequence[int], stated: Network | None, primitives: Run | None
) -> Projection:
    trial, heard = trial_of(run, preset, question.trial)
    found, strong = _seen(trial, heard), question.scaling == "strong"
    wanted = Asked(
        ranks=sorted({*numbers, found.ranks}),
        strategies=asked.with_its_own(question.strategies, str(trial.strategy)),
        strong=strong,
        cores=question.cores,
        threads=max(words.threads for words in heard[0].hellos.values()),
    )
    wire = _wire(run, preset, trial, found, stated, primitives)
    model = Model(found, traffic(trial, found), wire.network_of, wanted, wire.slowed_from)
    alike = {other: heard_of(run, preset, other) for other in kin.foretold(trial, preset.trials, strong=strong)}
    measured = {
        (str(other.strategy), other.world_size): fmean(map(step_s, told)) for other, told in alike.items() if told
    }
    points = [_point(each, measured.get((each.strategy, each.ranks))) for each in model.projected()]
    network = wire.network_of(found.launches)
    return Projection(
        run=run.name,
        trial=trial.name,
        strategy=str(trial.strategy),
        measured_ranks=found.ranks,
        scaling=question.scaling,
        cores=question.cores,
        network=_network_used(network),
        points=points,
        said=words.said(points, str(trial.strategy), found.ranks, other_network=bool(stated or primitives)),
        notes=[
            *words.notes(found.ranks, trial.batch_size, ranks_of(found), network, question.scaling, question.cores),
            *words.cautions({other.name: deceptive(told) for other, told in alike.items()}),
        ],
    )


def _seen(trial: Trial, heard: Sequence[Heard]) -> Seen:
    try:
        return seen(heard)
    except ProjectionError as error:
        raise ProjectionError(f"{trial.name}: {error}") from None


def _wire(run: Run, preset: Preset, trial: Trial, found: Seen, stated: Network | None, primitives: Run | None) -> Wire:
    """As stated, as a run of primitives has it, or as this run's own transfers were: those of other trials on as many
    ranks count, too, since other collectives tell what one alone cannot."""
    if stated:
        return Wire(lambda _: stated, 0)
    if primitives:
        measured, ranks = network_of_primitives(primitives)
        return Wire(lambda _: measured, ranks)
    others = list(_taken_by_others(run, preset, trial))

    def as_it_was(launches: Sequence[Launch]) -> Network:
        own = taken(found, launches)
        return with_outliers(fitted([*own, *others], f"{trial.name}'s transfers"), own)

    return Wire(as_it_was, found.ranks)


def _taken_by_others(run: Run, preset: Preset, trial: Trial) -> Iterator[Taken]:
    for other in kin.on_the_same_wire(trial, preset.trials):
        heard = heard_of(run, preset, other)
        if not why_not(other, heard):
            found = _seen(other, heard)
            yield from taken(found, found.launches)


def _point(each: Projected, measured_s: float | None) -> Point:
    figures = each.figures
    return Point(
        strategy=each.strategy,
        ranks=each.ranks,
        step_ms=figures.step * MS,
        low_ms=each.low * MS,
        high_ms=each.high * MS,
        work_ms=figures.work * MS,
        wait_ms=figures.wait * MS,
        transfer_ms=figures.transfer * MS,
        exposed_ms=figures.exposed * MS,
        efficiency=figures.work / figures.step,
        measured_ms=None if measured_s is None else measured_s * MS,
        error=None if measured_s is None else figures.step / measured_s - 1,
    )


def _network_used(network: Network) -> NetworkUsed:
    return NetworkUsed(
        source=network.source,
        alpha_us=network.alpha / US,
        call_us=network.call / US,
        outliers_us=network.outliers / US,
        gb_s=1 / network.beta / GB if network.beta else None,
        gamma_gb_s=1 / network.gamma / GB if network.gamma else None,
        worst=network.worst,
    )
