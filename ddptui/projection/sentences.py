"""What a projection comes to, and what it takes for granted, in words. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from ddptui.analysis.cautions import Caution
from ddptui.projection.model import FEWEST_STEPS, Beyond
from ddptui.projection.network import CallCosts
from ddptui.projection.rank_spread import Ranks
from ddptui.projection.results import Point, Scaling
from ddptui.text.units import bandwidth, digits, duration

UNLIKELY = 0.05  # so often chance alone makes as much of it, or more
SURE = 2.0  # standard errors
ALIKE = 0.2  # correlation from which on it is said
CLEARLY = 0.10  # faster
HALF = 0.5
MS = 1e3  # s
BAND = "chance between steps only: the network's error is not in it"
LONG_MS, AN_HOUR_S = 1e5, 3600.0


class ProjectionContext(NamedTuple):
    """What figures rest upon. ranks: as many were measured; batch: the global one, of these; differ: how ranks did;
    factor: times the fit of the network, the trial's own transfers (None: they are not counted); wait: times what the
    slowest makes it, the trial's own (None: it is not calibrated); beyond: what the wait on the most ranks rests on,
    and longest_wait that, ms."""

    ranks: int
    batch: int
    differ: Ranks
    network: CallCosts
    scaling: Scaling
    cores: int | None = None
    factor: float | None = None
    wait: float | None = None
    beyond: Beyond | None = None
    longest_wait: float = 0.0


def said(points: Sequence[Point], strategy: str, measured_ranks: int, *, other_network: bool) -> list[str]:
    """The sentences that matter, of the measured strategy: what costs most, what is left for work, which is fastest,
    and how far off it is where it was measured. other_network: than the one on which it was measured."""
    own = [point for point in points if point.strategy == strategy]
    sentences = [what_costs_more([point for point in own if point.ranks > 1]), half_is_work(own), fastest(points, own)]
    return [sentence for sentence in sentences if sentence] + [
        in_truth(points, strategy, measured_ranks, other_network)
    ]


def what_costs_more(points: Sequence[Point]) -> str | None:
    """The wait for the slowest, or the transfers; and from where on."""
    if not points:
        return None
    last = points[-1]
    waits = [point.wait_ms > point.exposed_ms for point in points]
    words = ("the wait for the slowest costs", "the transfers that nothing hides cost")
    more, less = words if waits[-1] else words[::-1]
    less = less.removesuffix(" costs").removesuffix(" cost")
    changes = [at for at in range(1, len(waits)) if waits[at] != waits[at - 1]]
    where = f"past {points[changes[-1] - 1].ranks} ranks" if changes else _everywhere(points)
    most, least = max(last.wait_ms, last.exposed_ms), min(last.wait_ms, last.exposed_ms)
    on_the_last = f"on {last.ranks} ranks, " if len(points) > 1 else ""
    return f"{where} {more} more than {less}: {on_the_last}{spelled(most)} against {spelled(least)}"


def _everywhere(points: Sequence[Point]) -> str:
    first, last = points[0].ranks, points[-1].ranks
    return f"on {first} ranks" if first == last else "everywhere"


def half_is_work(points: Sequence[Point]) -> str | None:
    last = points[-1]
    before = [point.ranks for point in points if round(point.efficiency, 2) >= HALF]
    if not before or before[-1] == last.ranks:
        return f"efficiency on {last.ranks} ranks: {percent(last.efficiency)}"
    less = percent(last.efficiency)
    return f"past {before[-1]} ranks efficiency falls below {HALF:.0%}: on {last.ranks} ranks it is {less}"


def fastest(points: Sequence[Point], own: Sequence[Point]) -> str | None:
    """On the most ranks, if it is clearly so; nothing where a figure is rough."""
    there = sorted((point for point in points if point.ranks == own[-1].ranks), key=lambda point: point.step_ms)
    if len(there) < 2 or any(point.rough for point in there):
        return None
    best = there[0]
    near = [point.strategy for point in there if point.step_ms <= (1 + CLEARLY) * best.step_ms]
    against = "" if own[-1].strategy in near else f", against {spelled(own[-1].step_ms)} with {own[-1].strategy}"
    if len(near) == 1:
        against = against or f", against {spelled(there[1].step_ms)} with {there[1].strategy}"
        return f"on {best.ranks} ranks {best.strategy} is fastest: {spelled(best.step_ms)} a step{against}"
    told = f"within {CLEARLY:.0%}, and cannot be told apart: {', '.join(near)}"
    return f"on {best.ranks} ranks the fastest take {spelled(best.step_ms)} a step{against}; {told}"


def ms(value: float | None) -> str:
    """A figure of a table: three digits; thousands apart where there are many."""
    return digits(value) if value is None or value < LONG_MS else f"{value:,.0f}"


def spelled(value_ms: float) -> str:
    """With its unit: hours and minutes for what takes so long."""
    s = value_ms / MS
    if s >= AN_HOUR_S:
        return f"{s / AN_HOUR_S:,.1f} h"
    return f"{s / 60:.0f} min" if s >= LONG_MS / MS else duration(s)


def percent(part: float, decimals: int = 0) -> str:
    """What is above 0 is never said to be 0."""
    least = 10 ** -(decimals + 2)
    return f"< {least:.{decimals}%}" if 0 < part < least else f"{part:.{decimals}%}"


def in_truth(points: Iterable[Point], strategy: str, measured_ranks: int, other_network: bool) -> str:
    """Predictions beside what was measured: first of all that of the trial that all is made from."""
    told = []
    for point in points:
        if point.measured_ms is not None and point.error is not None:
            its_own = ""
            if point.ranks == measured_ranks:
                its_own = " (its own)" if point.strategy == strategy else " (its own transfers)" * point.calibrated
            figures = f"{spelled(point.step_ms)}, measured {spelled(point.measured_ms)} ({point.error:+.1%})"
            told.append(f"{point.strategy} on {point.ranks} ranks{its_own} {figures}")
    what = "predicted for that network, and measured on its own" if other_network else "predicted, and measured"
    return f"{what}: {'; '.join(told)}"


def notes(facts: ProjectionContext) -> list[str]:
    """What the figures rest upon."""
    found = [
        _of_scaling(facts.scaling, facts.ranks, facts.batch),
        _of_network(facts.network, facts.factor),
        _of_cores(facts.cores),
        "who is slow in a step is chance, each rank for itself; beyond what was seen, by a generalised Pareto tail",
    ]
    if facts.differ.steps < FEWEST_STEPS:
        found.append(f"no band: {facts.differ.steps} steps were measured, and it takes {FEWEST_STEPS}")
    if facts.beyond:
        found.append(_of_beyond(facts.beyond, facts.longest_wait))
    if facts.wait is not None:
        times = f"{digits(facts.wait)} times what the slowest rank alone makes it"
        found.append(f"with overlap, the wait was {times}: so it is on more ranks")
    return [*found, *_of_ranks(facts.differ, facts.ranks, calibrated=facts.wait is not None)]


def of_efficiency(scaling: Scaling, measured: int) -> str:
    if scaling == "weak":
        return "efficiency: a step's work as it was measured, over the step"
    return f"efficiency: {measured} ranks' work as it was measured, over the step of all ranks"


def of_rough(points: Sequence[Point], network: CallCosts) -> list[str]:
    """Where the fit is far off, and who rests on it alone."""
    rough = list(dict.fromkeys(point.strategy for point in points if point.rough))
    if not rough or network.worst is None:
        return []
    off = f"the fit of the network is off by up to {network.worst:.0%}"
    remedy = "so none is said to be fastest; better: --network, or --alpha and --gbps"
    return [f"{off}: rough (~), since they rest on it alone: {', '.join(rough)}; {remedy}"]


def of_shared(cores: int) -> str:
    return f"the measured trials shared {cores} cores, what is predicted does not: for that, --cores {cores}"


def cautions(found: Mapping[str, Collection[Caution]]) -> list[str]:
    """What may make measured figures deceive, a line each, with the trials that it is true of."""
    return [
        f"caution, {', '.join(names)}: {caution.advice}"
        for caution in Caution
        if (names := [name for name, raised in found.items() if caution in raised])
    ]


def _of_scaling(scaling: Scaling, measured: int, batch: int) -> str:
    if scaling == "weak":
        return "weak scaling: each rank keeps its batch, and works as long as one of the measured ranks"
    shrinks = f"data, forward and backward shrink by {measured} / ranks, and the rest of the work stays"
    return f"strong scaling: {shrinks}; past {batch} ranks there is less than a sample for each"


def _of_network(network: CallCosts, factor: float | None) -> str:
    call = f", a call {duration(network.call)}" if network.call else ""
    call += f", beyond that on average {duration(network.outliers)} a call" if network.outliers > 0 else ""
    gamma = f", sums {bandwidth(network.gamma)} GB/s" if network.gamma else ""
    worst = f" (worst error of the fit {network.worst:.0%})" if network.worst is not None else ""
    figures = f"a message {duration(network.alpha)}{call}, {bandwidth(network.beta)} GB/s{gamma}{worst}"
    figures += f"; the trial's own took {digits(factor)} times that" if factor is not None else ""
    return f"network: {network.source}: {figures}"


def _of_cores(cores: int | None) -> str:
    if cores is None:
        return "every rank has what a rank of the measured run had, cores and wire"
    shared = f"{cores} core{'s' * (cores > 1)}"
    return f"all ranks share {shared}: what they compute and copy takes longer there, what they sleep does not"


def _of_beyond(beyond: Beyond, wait_ms: float) -> str:
    there = f"on {beyond.ranks} ranks the slowest is sought beyond the {beyond.steps} steps that were seen"
    seen = f"if no step were longer than the longest of them, {spelled(beyond.longest * MS)}"
    return f"{there}: a wait of {spelled(wait_ms)} rests on the tail; {seen}"


def _of_ranks(ranks: Ranks, measured: int, *, calibrated: bool) -> list[str]:
    """Where chance alone would hardly make as much of it: of several ranks, one is the longest in any case."""
    if ranks.steps < FEWEST_STEPS:
        return []
    found = []
    if ranks.longer > NormalDist().inv_cdf(1 - UNLIKELY / 2 / measured) * ranks.uncertainty:
        longer = f"rank {ranks.longest} worked {spelled(ranks.longer * MS)} longer than the mean"
        found.append(f"{longer}, more than chance would make it: one in {measured} of all ranks counts as such a one")
    if abs(ranks.alike) > max(ALIKE, SURE / ranks.steps**0.5):
        steps, than = ("the same", "less") if ranks.alike > 0 else ("different", "more")
        alike = f"ranks were slow in {steps} steps (correlation {ranks.alike:.2f}), more than chance would make it"
        found.append(alike if calibrated else f"{alike}: on as many ranks, the wait is {than} than is said here")
    return found
