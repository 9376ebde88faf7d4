"""Fits a model to measured times: α, β and γ by least squares, and a piecewise linear curve. Pure.

Times are the medians over calls. Residuals are relative to the measured times, so that 1 KB counts as much as 64 MB,
and a size that the scheduler's tick made 30 times slower counts as one error of 100 %, not as 30. A size that took half
as long again as a larger one met something other than the network. It is not fitted, but its residual is reported.
Neither latency nor the time for more bytes may be negative.

For one operation β and γ are collinear: both are paid by the byte, and no choice of sizes could separate them. So γ is
what `local_sum` measured, where a rank adds and sends nothing; it is held constant in the other fits. Without
`local_sum`, β contains the cost of additions.

On one host a straight line seldom holds from 1 KB to 64 MB: beyond some size, a socket buffer or a cache is too small.
Hence the curve, a continuous line with at most three knots, as SMPI has for the same reason (Clauss and others, "Single
node on-line simulation of MPI applications with SMPI", 2011; that a byte's time depends on the size is in Kielmann and
others, "Fast measurement of LogP parameters for message passing platforms", 2000). Knots are at measured sizes, added
one by one where they help most, until the Bayesian information criterion (Schwarz 1978) is least. Each knot counts as
two unknowns: its place, and the slope after it.
"""

from collections.abc import Mapping, Sequence
from math import inf, log
from typing import NamedTuple

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation
from ddptui.analysis.primitives.least_squares import nonnegative_least_squares
from ddptui.analysis.primitives.results import Cell, PrimitivesResult
from ddptui.analysis.primitives.theory import Cost, Network, seconds, theory
from ddptui.config.primitives import Cadence
from ddptui.text.units import US_IN_S

MOST_KNOTS = 3
REPEATABLE = 0.02  # relative: a median repeats within this, so a closer fit is worth nothing
TOO_LONG = 1.5  # × the time of a larger size: a size that took longer is not fitted
LONE = Cost(1, 1)  # of local_sum: one call, and each byte once

Times = Mapping[int, float]  # s by bytes


class Curve(NamedTuple):
    """A continuous, piecewise linear time by size."""

    start_s: float  # at 0 bytes
    knots: tuple[int, ...]  # in bytes
    slopes: tuple[float, ...]  # in s/byte: up to the first knot, up to the next, …


class Fit(NamedTuple):
    """The fit of one operation. None: there were too few sizes, or its formula has no such term."""

    key: PrimitiveKey
    ranks: int  # how many
    times: Times  # as measured
    alpha: float | None = None  # of the straight line, in s: of one message, as in `theory`
    beta: float | None = None  # likewise, in s/byte
    gamma: float | None = None  # in s/byte: fitted for local_sum, held constant for others
    line_worst: float | None = None  # the straight line's largest relative residual
    curve: Curve | None = None
    residuals: Mapping[int, float] = {}  # of the curve by size: predicted over measured, less one
    left_out: float | None = None  # the largest such residual at an inner size without which the curve was fitted

    @property
    def worst(self) -> float | None:
        """The curve's largest residual. None: there are no more sizes than unknowns."""
        unknowns = 2 * len(self.curve.slopes) if self.curve else 0
        return max(map(abs, self.residuals.values())) if len(self.residuals) > unknowns else None


def fit_all(result: PrimitivesResult) -> list[Fit]:
    """The fits of all measured operations, in their order."""
    times = {key: times_of(cells) for key, cells in by_operation(result.cells).items()}
    local: Times = next((of_key for key, of_key in times.items() if key.operation == "local_sum"), {})
    gamma = fit_line(without_outliers(local), LONE, 0.0).beta if len(local) > 1 else None
    return [fit_operation(key, result.ranks, of_key, gamma) for key, of_key in times.items() if of_key]


def times_of(cells: Sequence[Cell]) -> dict[int, float]:
    """The medians of an operation's cells, in s by bytes."""
    return {cell.bytes: cell.time_us.median * US_IN_S for cell in cells if cell.time_us and cell.time_us.median > 0}


def fit_operation(key: PrimitiveKey, ranks: int, times: Times, gamma: float | None) -> Fit:
    """The fit of one operation. times: at least one; gamma: as local_sum measured it, if it did."""
    cost = theory(key.operation, composite=key.composite).cost(ranks)
    kept = without_outliers(times)
    curve = curve_of(times)
    errors = residuals(curve, times) if curve else {}
    fit = Fit(key, ranks, times, curve=curve, residuals=errors, left_out=leave_one_out_error(kept))
    if not cost.transfer and not cost.reduction:  # a barrier, which has one size
        return fit._replace(alpha=next(iter(times.values())) / cost.latency)
    if len(times) < 2:
        return fit
    if key.operation == "local_sum":
        network = fit_line(kept, LONE, 0.0)
        return fit._replace(alpha=network.alpha, gamma=network.beta, line_worst=_worst(times, LONE, network))
    network = fit_line(kept, cost, gamma or 0.0)
    return fit._replace(
        alpha=network.alpha,
        beta=network.beta,
        gamma=gamma if cost.reduction else None,
        line_worst=_worst(times, cost, network) if len(times) > 2 else None,
    )


def curve_of(times: Times) -> Curve | None:
    """The curve through times without outliers. None: there is one size only, and this is not a barrier."""
    return fit_curve(without_outliers(times))


def without_outliers(times: Times) -> Times:
    """The times without sizes that took far longer than a larger one; all of them if fewer than half would remain."""
    least, kept = inf, {}
    for size in sorted(times, reverse=True):
        if times[size] <= TOO_LONG * least:
            kept[size] = times[size]
        least = min(least, times[size])
    return kept if 2 * len(kept) >= len(times) and len(kept) > 1 else times


def predicted_time(fit: Fit, size: float) -> float | None:
    """The time for a size by the curve, in s; beyond the largest measured size it goes on straight."""
    return time_at(fit.curve, size) if fit.curve else None


def textbook_time(fit: Fit, size: float, network: Network) -> float:
    """The time for a size by the formula of the operation's algorithm, in s."""
    return seconds(theory(fit.key.operation, composite=fit.key.composite).cost(fit.ranks), size, network)


def time_at(curve: Curve, size: float) -> float:
    """The time for a size by a curve, in s."""
    parts = _parts(size, curve.knots)
    return curve.start_s + sum(slope * part for slope, part in zip(curve.slopes, parts, strict=True))


def half_performance_size(fit: Fit) -> float | None:
    """The size in bytes from which on a call takes twice as long as an empty one: Hockney's n½, on the fitted curve.
    None: it is not within the measured sizes."""
    sizes = sorted(fit.residuals)
    if fit.curve is None or len(sizes) < 2:
        return None
    low, high = float(sizes[0]), float(sizes[-1])
    twice = 2 * fit.curve.start_s
    if not time_at(fit.curve, low) < twice < time_at(fit.curve, high):
        return None
    while high / low > 1.001:  # far more exact than the sentence, which rounds
        middle = (low * high) ** 0.5  # halfway on the logarithmic axis
        low, high = (middle, high) if time_at(fit.curve, middle) < twice else (low, middle)
    return high


def network_of(all_fits: Sequence[Fit], cadence: Cadence) -> tuple[Network, PrimitiveKey] | None:
    """The parameters for the textbook's formulas, and the operation that α and β come from: those of one message, if
    possible of all ranks in a ring that send at once. None: neither was measured, or calls were pipelined, whose
    latencies overlap: the formulas are of one call by itself."""
    if cadence == "pipelined":
        return None
    gamma = next((fit.gamma for fit in all_fits if fit.key.operation == "local_sum"), None) or 0.0
    for source in ("isend_irecv", "send_recv"):
        for fit in all_fits:
            if fit.key.operation == source and fit.alpha is not None and fit.beta is not None:
                return Network(fit.alpha, fit.beta, gamma), fit.key
    return None


def fit_line(times: Times, cost: Cost, gamma: float) -> Network:
    """α and β of a straight line, for a constant γ."""
    # Each row is divided by its time, so that the residuals are relative.
    rows = [(cost.latency / s, size * cost.transfer / s) for size, s in times.items()]
    targets = [1 - size * cost.reduction * gamma / s for size, s in times.items()]
    alpha, beta = nonnegative_least_squares(rows, targets)
    return Network(alpha, beta, gamma)


def fit_curve(times: Times) -> Curve | None:
    """The curve with as many knots as the criterion allows. None: there is one size only, and it is not 0."""
    if len(times) < 2:
        return Curve(times[0], (), (0.0,)) if 0 in times else None
    best = candidate = fit_with_knots(times, ())
    for _ in range(min(MOST_KNOTS, (len(times) - 2) // 2)):  # each knot counts as two unknowns
        free = [size for size in sorted(times)[1:-1] if size not in candidate.knots]
        more = [fit_with_knots(times, tuple(sorted((*candidate.knots, knot)))) for knot in free]
        candidate = min(more, key=lambda curve: _squares(curve, times))
        if criterion(candidate, times) < criterion(best, times):
            best = candidate
    return best


def fit_with_knots(times: Times, knots: tuple[int, ...]) -> Curve:
    """The curve with its knots at these sizes."""
    rows = [[part / s for part in (1, *_parts(size, knots))] for size, s in times.items()]
    start_s, *slopes = nonnegative_least_squares(rows, [1.0] * len(rows))
    return Curve(start_s, knots, tuple(slopes))


def criterion(curve: Curve, times: Times) -> float:
    """The Bayesian information criterion of a curve: the least is best."""
    unknowns = 2 * len(curve.slopes)
    # REPEATABLE keeps the logarithm of a perfect fit finite.
    return len(times) * log(_squares(curve, times) / len(times) + REPEATABLE**2) + unknowns * log(len(times))


def residuals(curve: Curve, times: Times) -> dict[int, float]:
    """By size, the curve's time over the measured one, less one."""
    return {size: time_at(curve, size) / s - 1 for size, s in times.items()}


def leave_one_out_error(times: Times) -> float | None:
    """See Fit.left_out. None: there are fewer than two inner sizes."""
    between = sorted(times)[1:-1]
    if len(between) < 2:
        return None
    errors = []
    for size in between:
        curve = fit_curve({other: s for other, s in times.items() if other != size})
        errors.append(abs(time_at(curve, size) / times[size] - 1) if curve else 0.0)
    return max(errors)


def _squares(curve: Curve, times: Times) -> float:
    return sum(residual**2 for residual in residuals(curve, times).values())


def _worst(times: Times, cost: Cost, network: Network) -> float:
    return max(abs(seconds(cost, size, network) / s - 1) for size, s in times.items())


def _parts(size: float, knots: Sequence[int]) -> list[float]:
    """How much of a size is before the first knot, between it and the next, …"""
    edges = zip((0, *knots), (*knots, inf), strict=True)
    return [min(max(size - low, 0), high - low) for low, high in edges]
