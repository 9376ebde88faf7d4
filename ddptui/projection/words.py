"""What a projection comes to, and what it takes for granted, in words. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ddptui.cautions import ADVICE
from ddptui.primitives.units import bandwidth, digits, duration
from ddptui.projection.model import Ranks
from ddptui.projection.network import Network
from ddptui.projection.results import Point, Scaling
from ddptui.results import Caution

SURE = 2.0  # standard errors
ALIKE = 0.2  # correlation from which on it is said
HALF = 0.5
MS = 1e3  # s


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
    figures = f"{digits(most)} ms against {digits(least)} ms"
    return f"{where} {more} more than {less}: on {last.ranks} ranks, {figures}"


def _everywhere(points: Sequence[Point]) -> str:
    first, last = points[0].ranks, points[-1].ranks
    return f"on {first} ranks" if first == last else f"from {first} to {last} ranks, everywhere,"


def half_is_work(points: Sequence[Point]) -> str | None:
    if points[-1].efficiency >= HALF:
        return f"on {points[-1].ranks} ranks {points[-1].efficiency:.0%} of a step is work"
    before = [point.ranks for point in points if point.efficiency >= HALF]
    less = f"{points[-1].efficiency:.0%} on {points[-1].ranks}"
    if not before:
        return f"of a step, {less} is work"
    return f"past {before[-1]} ranks less than half of a step is work: {less}"


def fastest(points: Sequence[Point], own: Sequence[Point]) -> str | None:
    """On the most ranks."""
    there = [point for point in points if point.ranks == own[-1].ranks]
    if len(there) < 2:
        return None
    best = min(there, key=lambda point: point.step_ms)
    if best.strategy == own[-1].strategy:
        return f"on {best.ranks} ranks no other strategy is faster than {best.strategy}"
    against = f"{digits(best.step_ms)} ms a step, against {digits(own[-1].step_ms)} ms with {own[-1].strategy}"
    return f"on {best.ranks} ranks {best.strategy} is fastest: {against}"


def in_truth(points: Iterable[Point], strategy: str, measured_ranks: int, other_network: bool) -> str:
    """Predictions beside what was measured: first of all that of the trial that all is made from."""
    told = []
    for point in points:
        if point.measured_ms is not None and point.error is not None:
            its_own = " (its own)" if (point.strategy, point.ranks) == (strategy, measured_ranks) else ""
            figures = f"{digits(point.step_ms)} ms, measured {digits(point.measured_ms)} ms ({point.error:+.1%})"
            told.append(f"{point.strategy} on {point.ranks} ranks{its_own} {figures}")
    what = "predicted for that network, and measured on its own" if other_network else "predicted, and measured"
    return f"{what}: {'; '.join(told)}"


def notes(measured: int, batch: int, ranks: Ranks, network: Network, scaling: Scaling, cores: int | None) -> list[str]:
    """What the figures rest upon. measured: the number of ranks; batch: the global one, of these."""
    return [
        _of_scaling(scaling, measured, batch),
        _of_network(network),
        _of_cores(cores),
        "who is slow in a step is chance, each rank for itself; beyond what was seen, by a generalised Pareto tail",
        *_of_ranks(ranks, measured),
    ]


def cautions(found: Mapping[str, Collection[Caution]]) -> list[str]:
    """What may make measured figures deceive, a line each, with the trials that it is true of."""
    return [
        f"caution, {', '.join(names)}: {ADVICE[caution]}"
        for caution in Caution
        if (names := [name for name, raised in found.items() if caution in raised])
    ]


def _of_scaling(scaling: Scaling, measured: int, batch: int) -> str:
    if scaling == "weak":
        return "weak scaling: each rank keeps its batch, and works as long as one of the measured ranks"
    shrinks = f"data, forward and backward shrink by {measured} / ranks, and the rest of the work stays"
    return f"strong scaling: {shrinks}; past {batch} ranks there is less than a sample for each"


def _of_network(network: Network) -> str:
    call = f", a call {duration(network.call)}" if network.call else ""
    call += f", beyond that on average {duration(network.outliers)} a call" if network.outliers > 0 else ""
    gamma = f", sums {bandwidth(network.gamma)} GB/s" if network.gamma else ""
    worst = f" (worst error of the fit {network.worst:.0%})" if network.worst is not None else ""
    figures = f"a message {duration(network.alpha)}{call}, {bandwidth(network.beta)} GB/s{gamma}{worst}"
    return f"network: {network.source}: {figures}"


def _of_cores(cores: int | None) -> str:
    if cores is None:
        return "every rank has what a rank of the measured run had, cores and wire"
    return f"all ranks share {cores} cores: what they compute and copy takes longer there, what they sleep does not"


def _of_ranks(ranks: Ranks, measured: int) -> list[str]:
    found = []
    if ranks.longer > SURE * ranks.doubt:
        longer = f"rank {ranks.longest} worked {digits(ranks.longer * MS)} ms longer than the mean"
        found.append(f"{longer}, which is no chance: one in {measured} of all ranks counts as such a one")
    if abs(ranks.alike) > ALIKE:
        steps, than = ("the same", "less") if ranks.alike > 0 else ("different", "more")
        alike = f"ranks were slow in {steps} steps (correlation {ranks.alike:.2f}), which is no chance"
        found.append(f"{alike}: on as many ranks, the wait is {than} than is said here")
    return found
