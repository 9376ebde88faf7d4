"""What the figures of primitives mean for training, in a few sentences. Pure."""

from collections.abc import Mapping, Sequence

from ddptui.analysis.primitives.combine import PrimitiveKey
from ddptui.analysis.primitives.crossover import CLEAR, rivals
from ddptui.analysis.primitives.fit import Fit, Times, predicted_time
from ddptui.text.units import digits, duration, size

ALL_REDUCE = "all_reduce"


def findings(fits: Sequence[Fit], times: Mapping[PrimitiveKey, Times]) -> list[str]:
    """From which size on bytes cost more than the call itself, and what the best way to a mean is at the ends."""
    return [*_latency_finding(fits), *_fastest_finding(times)]


def half_performance_size(fit: Fit) -> float | None:
    """The size, in bytes, from which on a call takes twice what it takes with next to nothing in it: Hockney's n½, on
    the bent line. None: not within the sizes that were measured."""
    sizes = sorted(fit.residuals)
    if fit.curve is None or len(sizes) < 2:
        return None
    low, high = float(sizes[0]), float(sizes[-1])
    twice = 2 * fit.curve.start_s
    if not (predicted_time(fit, low) or 0.0) < twice < (predicted_time(fit, high) or 0.0):
        return None
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if (predicted_time(fit, middle) or 0.0) < twice else (low, middle)
    return high


def _latency_finding(fits: Sequence[Fit]) -> list[str]:
    for fit in fits:
        half = half_performance_size(fit) if fit.which.operation == ALL_REDUCE else None
        if half is not None and fit.curve is not None:
            return [
                f"On {fit.ranks} ranks an {ALL_REDUCE} takes {duration(fit.curve.start_s)} however small its tensor is,"
                f" and twice that from {size(half)} on: gradients smaller than that are better sent together, in a"
                " bucket."
            ]
    return []


def _fastest_finding(times: Mapping[PrimitiveKey, Times]) -> list[str]:
    ways = rivals(times)
    common = sorted(set.intersection(*(set(times[way]) for way in ways))) if len(ways) > 1 else []
    if not common:
        return []
    said = [
        _fastest_at(bytes, {way: times[way][bytes] for way in ways}) for bytes in dict.fromkeys((common[0], common[-1]))
    ]
    return ["Of the ways to a mean, " + "; ".join(said) + "."]


def _fastest_at(bytes: int, seconds: Mapping[PrimitiveKey, float]) -> str:
    """Which is fastest, with those that cannot be told from it; and the slowest."""
    order = sorted(seconds, key=lambda way: seconds[way])
    least, most = seconds[order[0]], seconds[order[-1]]
    best = [str(way) for way in order if seconds[way] <= least * (1 + CLEAR)]
    if len(best) == len(order):
        return f"at {size(bytes)} none is clearly faster"
    return (
        f"at {size(bytes)} the fastest is {' or '.join(best)} ({duration(least)}), and {order[-1]} takes"
        f" {digits(most / least, 2)} times as long"
    )
