"""What a projection comes to, and what it assumes, in words. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from ddptui.analysis.cautions import Caution
from ddptui.projection import Point, Scaling
from ddptui.projection.costs import CallCosts
from ddptui.projection.model import FEWEST_STEPS, Extrapolation
from ddptui.projection.slowest_rank import RankSpread
from ddptui.store.overview import UNDER_WAY
from ddptui.text.units import MS_PER_S, bandwidth, digits, duration
from ddptui.text.words import count

SIGNIFICANCE = 0.05  # of a rank that is slower than the others
STANDARD_ERRORS = 2.0  # of a correlation
LEAST_CORRELATION = 0.2  # a smaller one changes the wait too little to be worth a note
CLEARLY = 0.10  # faster: smaller differences are within the error of a projection
HALF = 0.5
BAND = "chance between steps only, without the network's error"
LONG_MS = 1e5  # from here on separators of thousands help


class ProjectionContext(NamedTuple):
    """What the figures rest on."""

    ranks: int  # of the measured trial
    batch: int  # of the measured trial: the global one
    spread: RankSpread
    network: CallCosts
    scaling: Scaling
    cores: int | None = None
    factor: float | None = None  # the trial's own transfers, relative to the fit; None: on another network
    wait_factor: float | None = None  # its wait, relative to the slowest rank's alone; None: not calibrated
    extrapolation: Extrapolation | None = None
    longest_wait_ms: float = 0.0  # on the most ranks


def findings(points: Sequence[Point], strategy: str, measured_ranks: int, *, other_network: bool) -> list[str]:
    """The sentences that matter: how far predictions are off where there are measurements; what costs most under the
    measured strategy, its efficiency, the fastest strategy; and how the model fits what it was made from.
    other_network: than the one the trial was measured on."""
    measured = [point for point in points if point.strategy == strategy]
    several = [point for point in measured if point.ranks > 1]
    # What was measured on another network is no test of the prediction.
    tests = [point for point in points if point.ranks != measured_ranks and not other_network]
    others = [point for point in points if point not in tests]
    sentences = [
        predicted_and_measured(tests, strategy, measured_ranks, other_network),
        what_costs_more(several),
        efficiency_limit(measured),
        fastest(points, measured),
        predicted_and_measured(others, strategy, measured_ranks, other_network),
    ]
    return [sentence for sentence in sentences if sentence]


def reservations(trial: str, launches: int, repeats: int, *, disturbed: int, status: str) -> list[str]:
    """What to know before the figures: that they rest on less than the run was to measure, or on disturbed launches.
    launches: of the trial, that are used; disturbed: so many of them, by other programs. status: of the run."""
    rests = f"the projection rests on {launches} of {count(repeats, 'repeat')} of {trial}"
    sentences = []
    if status in ("interrupted", UNDER_WAY):
        sentences.append(f"the run {'is' if status == UNDER_WAY else 'was'} {status}: {rests}")
    elif launches < repeats:
        sentences.append(f"{rests}: the others did not end well, or were changed by hand")
    if disturbed:
        which = f"{disturbed} of the {count(launches, 'repeat')} that they rest on"
        sentences.append(f"do not rely on these figures: other programs disturbed {which}")
    return sentences


def what_costs_more(points: Sequence[Point]) -> str | None:
    """Whether waiting or exposed communication costs more, and from how many ranks on; None without points."""
    if not points:
        return None
    first, last = points[0].ranks, points[-1].ranks
    waits = [point.wait_ms > point.exposed_ms for point in points]
    costs = ("waiting for the slowest rank", "exposed communication")
    more, less = costs if waits[-1] else costs[::-1]
    where = f"on {first} ranks" if first == last else "on any number of ranks"
    changes = [at for at in range(1, len(waits)) if waits[at] != waits[at - 1]]
    if changes:
        where = f"past {points[changes[-1] - 1].ranks} ranks"
    least_ms, most_ms = sorted((points[-1].wait_ms, points[-1].exposed_ms))
    on_the_last = f"on {last} ranks, " if len(points) > 1 else ""
    return f"{where} {more} costs more than {less}: {on_the_last}{with_unit(most_ms)} against {with_unit(least_ms)}"


def efficiency_limit(points: Sequence[Point]) -> str:
    """How many ranks are more than half efficient, and the efficiency on the most ranks."""
    last = points[-1]
    efficient = [point.ranks for point in points if round(point.efficiency, 2) >= HALF]  # as it is printed
    lowest = percent(last.efficiency)
    if not efficient or efficient[-1] == last.ranks:
        return f"efficiency on {last.ranks} ranks: {lowest}"
    return f"past {efficient[-1]} ranks efficiency falls below {HALF:.0%}: on {last.ranks} ranks it is {lowest}"


def fastest(points: Sequence[Point], measured: Sequence[Point]) -> str | None:
    """The fastest strategy on the most ranks, or those that cannot be told apart; None where a figure is rough.
    measured: the points of the measured strategy."""
    known = measured[-1]
    on_most = sorted((point for point in points if point.ranks == known.ranks), key=lambda point: point.step_ms)
    if len(on_most) < 2 or any(point.rough for point in on_most):
        return None
    best, second = on_most[:2]
    near = [point.strategy for point in on_most if point.step_ms <= (1 + CLEARLY) * best.step_ms]
    against = "" if known.strategy in near else f", against {with_unit(known.step_ms)} with {known.strategy}"
    if len(near) == 1:
        against = against or f", against {with_unit(second.step_ms)} with {second.strategy}"
        return f"on {best.ranks} ranks {best.strategy} is fastest: {with_unit(best.step_ms)} a step{against}"
    tie = f"too close to call, within {CLEARLY:.0%}: {', '.join(near)}"
    return f"on {best.ranks} ranks the fastest take {with_unit(best.step_ms)} a step{against}; {tie}"


def predicted_and_measured(points: Iterable[Point], strategy: str, measured_ranks: int, other_network: bool) -> str:
    """Predictions beside measurements, if there are any; the trial that the projection is made from is marked."""
    pairs = []
    for point in points:
        if point.measured_ms is not None and point.error is not None:
            mark = ""
            if point.ranks == measured_ranks:
                mark = " (fitted to it)" if point.strategy == strategy else " (its own transfers)" * point.calibrated
            figures = f"{with_unit(point.step_ms)} against {with_unit(point.measured_ms)} ({point.error:+.1%})"
            pairs.append(f"{point.strategy} on {point.ranks} ranks{mark} {figures}")
    what = (
        "predicted for that network against measured on the run's own"
        if other_network
        else "predicted against measured"
    )
    return f"{what}, a step: {'; '.join(pairs)}" if pairs else ""


def ms(value: float | None) -> str:
    """A figure of a table: three digits, and a separator of thousands from 100,000 on."""
    return digits(value) if value is None or value < LONG_MS else f"{value:,.0f}"


def with_unit(value_ms: float) -> str:
    """A time with its unit, from µs to hours."""
    return duration(value_ms / MS_PER_S)


def percent(part: float, decimals: int = 0) -> str:
    """A part in percent; one above 0 never reads 0."""
    least = 10 ** -(decimals + 2)
    return f"< {least:.{decimals}%}" if 0 < part < least else f"{part:.{decimals}%}"


def notes(context: ProjectionContext) -> list[str]:
    """What the figures assume."""
    scaling = "weak scaling: each rank keeps its batch, and works as long as a measured rank"
    if context.scaling == "strong":
        shrinks = f"data, forward and backward shrink by {context.ranks} / ranks; the rest of the work stays"
        scaling = f"strong scaling: {shrinks}; past {context.batch} ranks there is less than a sample for each"
    cores = "every rank has the cores and the network of a measured rank"
    if context.cores is not None:
        shared = count(context.cores, "core")
        cores = f"all ranks share {shared}: computing and copying take longer there, delays that sleep do not"
    lines = [
        scaling,
        _network_note(context.network, context.factor),
        cores,
        "each rank is slow by chance, independently of the others; beyond the measured steps by a generalized Pareto "
        "tail",
    ]
    if context.spread.steps < FEWEST_STEPS:
        lines.append(f"no band: {context.spread.steps} steps were measured, and it takes {FEWEST_STEPS}")
    if beyond := context.extrapolation:
        seen = f"{with_unit(beyond.longest_seen_wait * MS_PER_S)} if no step were longer than the longest measured one"
        rests = f"their wait of {with_unit(context.longest_wait_ms)} rests on the tail ({seen})"
        lines.append(f"{beyond.ranks} ranks are more than the {beyond.steps} measured steps: {rests}")
    if context.wait_factor is not None:
        factor = f"{digits(context.wait_factor)} times what the slowest rank alone would cause"
        lines.append(f"with overlap, the measured wait was {factor}; the same holds on more ranks")
    return [*lines, *_spread_notes(context.spread, context.ranks, calibrated=context.wait_factor is not None)]


def efficiency_note(scaling: Scaling, measured: int) -> str:
    """What efficiency means under this scaling."""
    if scaling == "weak":
        return "efficiency: the measured work of a step, over the step"
    return f"efficiency: the measured work of {measured} ranks, over the step of all ranks"


def rough_notes(points: Sequence[Point], network: CallCosts) -> list[str]:
    """Which strategies rest on a poor fit of the network alone."""
    rough = list(dict.fromkeys(point.strategy for point in points if point.rough))
    if not rough or network.worst is None:
        return []
    error = f"the fit of the network is off by up to {network.worst:.0%}"
    return [
        f"rough (~), since {error} and they rest on it alone: {', '.join(rough)}. So no strategy is called fastest; "
        "measure the network (--network), or state it (--alpha and --gbps)"
    ]


def caution_notes(by_trial: Mapping[str, Collection[Caution]]) -> list[str]:
    """A line for each caution, with the trials it is true of."""
    return [
        f"caution, {', '.join(names)}: {caution.advice}"
        for caution in Caution
        if (names := [name for name, raised in by_trial.items() if caution in raised])
    ]


def _network_note(network: CallCosts, factor: float | None) -> str:
    parts = [f"a message {duration(network.alpha)}"]
    parts += [f"a call {duration(network.call)}"] if network.call else []
    parts += [f"outliers add {duration(network.excess)} a call on average"] if network.excess > 0 else []
    parts.append(f"{bandwidth(network.beta)} GB/s")
    parts += [f"sums {bandwidth(network.gamma)} GB/s"] if network.gamma else []
    worst = f" (worst error of the fit {network.worst:.0%})" if network.worst is not None else ""
    calibrated = f"; the trial's own transfers took {digits(factor)} times that" if factor is not None else ""
    return f"network: {network.source}: {', '.join(parts)}{worst}{calibrated}"


def _spread_notes(spread: RankSpread, measured: int, *, calibrated: bool) -> list[str]:
    """Where ranks differ by more than chance would explain."""
    if spread.steps < FEWEST_STEPS:
        return []
    lines = []
    # One of several ranks is always the slowest, so the level of significance is divided by their number (Bonferroni).
    if spread.excess_s > NormalDist().inv_cdf(1 - SIGNIFICANCE / 2 / measured) * spread.uncertainty:
        slower = f"rank {spread.slowest} worked {with_unit(spread.excess_s * MS_PER_S)} longer than the mean"
        lines.append(f"{slower}, more than chance explains: the projection makes one in {measured} ranks as slow")
    if abs(spread.correlation) > max(LEAST_CORRELATION, STANDARD_ERRORS / spread.steps**0.5):
        steps, bias = ("the same", "shorter") if spread.correlation > 0 else ("different", "longer")
        together = f"ranks were slow in {steps} steps (correlation {spread.correlation:.2f}), more than chance explains"
        lines.append(together if calibrated else f"{together}: on as many ranks, the wait is {bias} than predicted")
    return lines
