"""What was measured as a model: α, β and γ by least squares, and a bent line where a straight one does not hold.

Times are the medians over calls. Residuals are relative, so that 1 KB counts as much as 64 MB; and relative to what was
measured, so that a size which the scheduler's tick made 30 times slower counts as one wholly wrong, not as 30. One that
took half as long again as a larger one, or more, met something that is not the network, and is not fitted at all; its
residual is told with the others. Nothing may be negative: neither latency, nor the time for more bytes.

For one operation β and γ are collinear: both are paid by the byte, and no sizes could tell them apart. So γ is what
`local_sum` measured, a rank that adds with nothing to send, and is held where others are fitted; without `local_sum`
what adding costs is in β.

On one host a straight line seldom holds from 1 KB to 64 MB: a socket's buffer, then each cache is too small from some
size on. So there is a continuous line with at most three knots, too, as SMPI has for the same reason (Clauss and
others, "Single node on-line simulation of MPI applications with SMPI", 2011; that a byte's time depends on the size is
in Kielmann and others, "Fast measurement of LogP parameters for message passing platforms", 2000). Knots are at
measured sizes, taken one by one where they help most; as many as make the Bayesian information criterion (Schwarz 1978)
least, each knot being two unknowns (where it is, and the slope after it).
"""

from collections.abc import Mapping, Sequence
from math import inf, log
from typing import NamedTuple

from ddptui.analysis.primitives.cells import PrimitiveKey, by_operation
from ddptui.analysis.primitives.least_squares import nonnegative_least_squares
from ddptui.analysis.primitives.results import Cell, PrimitivesResult
from ddptui.analysis.primitives.theory import Cost, Network, seconds, theory
from ddptui.text.units import US_IN_S

MOST_KNOTS = 3
REPEATABLE = 0.02  # a median comes out again within this: to be nearer to it is worth nothing
TOO_LONG = 1.5  # × the time of a larger size: what took longer met something else
LONE = Cost(1, 1)  # a call, and so much a byte

Times = Mapping[int, float]  # s by bytes


class Curve(NamedTuple):
    """A continuous line: start_s at 0 bytes; slopes, in s/byte, up to the first knot (in bytes), up to the next, …"""

    start_s: float
    knots: tuple[int, ...]
    slopes: tuple[float, ...]


class Fit(NamedTuple):
    """What was fitted to one operation on so many ranks. None: there were too few sizes, or there is no such term.

    times        what was measured, in s by bytes
    alpha, beta  of the straight line: of one message, as in `theory`; s, and s/byte
    gamma        s/byte: of local_sum its own, else what was held
    line_worst   the straight line's largest residual, as a part of what was measured
    curve        the bent line
    residuals    by size, of the bent line: predicted over measured, less one
    left_out     the largest such residual at a size between the ends, when just this one is left out and the rest is
                 fitted afresh, knots and all
    """

    key: PrimitiveKey
    ranks: int
    times: Times
    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
    line_worst: float | None = None
    curve: Curve | None = None
    residuals: Mapping[int, float] = {}
    left_out: float | None = None

    @property
    def worst(self) -> float | None:
        """Of the bent line; None where there are no more sizes than unknowns."""
        unknowns = 2 * len(self.curve.slopes) if self.curve else 0
        return max(map(abs, self.residuals.values())) if len(self.residuals) > unknowns else None


def fit_all(result: PrimitivesResult) -> list[Fit]:
    """Of each operation that was measured, in their order."""
    times = {key: times_of(cells) for key, cells in by_operation(result.cells).items()}
    gamma = next((_by_byte(found) for key, found in times.items() if key.operation == "local_sum"), None)
    return [fit_operation(key, result.ranks, found, gamma) for key, found in times.items() if found]


def times_of(cells: Sequence[Cell]) -> dict[int, float]:
    """The medians that can be fitted, in s."""
    return {cell.bytes: cell.time_us.median * US_IN_S for cell in cells if cell.time_us and cell.time_us.median > 0}


def fit_operation(which: PrimitiveKey, ranks: int, times: Times, gamma: float | None) -> Fit:
    cost = theory(which.operation, composite=which.composite).cost(ranks)
    believed = without_outliers(times)
    line = curve_of(times)
    off = residuals(line, times) if line else {}
    found = Fit(which, ranks, times, curve=line, residuals=off, left_out=leave_one_out_error(believed))
    if not cost.transfer and not cost.reduction:
        return found._replace(alpha=next(iter(times.values())) / cost.latency)
    if len(times) < 2:
        return found
    if which.operation == "local_sum":
        network = fit_line(believed, LONE, 0.0)
        return found._replace(alpha=network.alpha, gamma=network.beta, line_worst=_worst(times, LONE, network))
    network = fit_line(believed, cost, gamma or 0.0)
    return found._replace(
        alpha=network.alpha,
        beta=network.beta,
        gamma=gamma if cost.reduction else None,
        line_worst=_worst(times, cost, network) if len(times) > 2 else None,
    )


def curve_of(times: Times) -> Curve | None:
    """Of what can be believed; None: one size says nothing of others, unless it is that of a barrier."""
    return fit_curve(without_outliers(times))


def without_outliers(times: Times) -> Times:
    """Without the sizes that took far longer than a larger one; all of them, if that would be less than half."""
    least, kept = inf, {}
    for size in sorted(times, reverse=True):
        if times[size] <= TOO_LONG * least:
            kept[size] = times[size]
        least = min(least, times[size])
    return kept if 2 * len(kept) >= len(times) and len(kept) > 1 else times


def predicted_time(fit: Fit, size: float) -> float | None:
    """Seconds for so many bytes, by the bent line; beyond the largest that was measured, it goes on straight."""
    return time_at(fit.curve, size) if fit.curve else None


def textbook_time(fit: Fit, size: float, network: Network) -> float:
    """Seconds for so many bytes, by the formula of its algorithm."""
    return seconds(theory(fit.key.operation, composite=fit.key.composite).cost(fit.ranks), size, network)


def time_at(curve: Curve, size: float) -> float:
    parts = _parts(size, curve.knots)
    return curve.start_s + sum(slope * part for slope, part in zip(curve.slopes, parts, strict=True))


def network_of(found: Sequence[Fit]) -> tuple[Network, PrimitiveKey] | None:
    """What the textbook's formulas are fed with, and whose α and β they are: those of one message, at best as every
    rank of a ring sends it at once."""
    gamma = next((each.gamma for each in found if each.key.operation == "local_sum"), None) or 0.0
    for source in ("isend_irecv", "send_recv"):
        for each in found:
            if each.key.operation == source and each.alpha is not None and each.beta is not None:
                return Network(each.alpha, each.beta, gamma), each.key
    return None


def fit_line(times: Times, cost: Cost, gamma: float) -> Network:
    """α and β for a held γ."""
    rows = [(cost.latency / s, size * cost.transfer / s) for size, s in times.items()]
    targets = [1 - size * cost.reduction * gamma / s for size, s in times.items()]
    alpha, beta = nonnegative_least_squares(rows, targets)
    return Network(alpha, beta, gamma)


def fit_curve(times: Times) -> Curve | None:
    """With as many knots as are worth it."""
    if len(times) < 2:
        return Curve(times[0], (), (0.0,)) if 0 in times else None
    best = found = fit_with_knots(times, ())
    for _ in range(min(MOST_KNOTS, (len(times) - 2) // 2)):
        more = [fit_with_knots(times, tuple(sorted((*found.knots, knot)))) for knot in _places(times, found.knots)]
        found = min(more, key=lambda each: _squares(each, times))
        if criterion(found, times) < criterion(best, times):
            best = found
    return best


def fit_with_knots(times: Times, knots: tuple[int, ...]) -> Curve:
    """With its knots there."""
    rows = [[part / s for part in (1, *_parts(size, knots))] for size, s in times.items()]
    start_s, *slopes = nonnegative_least_squares(rows, [1.0] * len(rows))
    return Curve(start_s, knots, tuple(slopes))


def criterion(curve: Curve, times: Times) -> float:
    """Schwarz's; the least is best."""
    unknowns = 2 * len(curve.slopes)
    return len(times) * log(_squares(curve, times) / len(times) + REPEATABLE**2) + unknowns * log(len(times))


def residuals(curve: Curve, times: Times) -> dict[int, float]:
    return {size: time_at(curve, size) / s - 1 for size, s in times.items()}


def leave_one_out_error(times: Times) -> float | None:
    between = sorted(times)[1:-1]
    if len(between) < 2:
        return None
    errors = []
    for size in between:
        found = fit_curve({other: s for other, s in times.items() if other != size})
        errors.append(abs(time_at(found, size) / times[size] - 1) if found else 0.0)
    return max(errors)


def _squares(curve: Curve, times: Times) -> float:
    return sum(residual**2 for residual in residuals(curve, times).values())


def _worst(times: Times, cost: Cost, network: Network) -> float:
    return max(abs(seconds(cost, size, network) / s - 1) for size, s in times.items())


def _by_byte(times: Times) -> float | None:
    return fit_line(without_outliers(times), LONE, 0.0).beta if len(times) > 1 else None


def _places(times: Times, taken: tuple[int, ...]) -> list[int]:
    return [size for size in sorted(times)[1:-1] if size not in taken]


def _parts(size: float, knots: Sequence[int]) -> list[float]:
    """How much of a size is before the first knot, between it and the next, …"""
    edges = zip((0, *knots), (*knots, inf), strict=True)
    return [min(max(size - low, 0), high - low) for low, high in edges]
