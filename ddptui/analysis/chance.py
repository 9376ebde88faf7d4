"""Tests whether chance explains differences: Student's t-test, and Holm's correction for several tests. Pure."""

from collections.abc import Sequence
from math import atan, cos, fsum, inf, log, pi, sin, sqrt
from statistics import fmean, variance

LEVEL = 0.05  # among runs whose trials are equal, at most this part reports a difference


def chance_of(t: float, freedom: int) -> float:
    """The two-sided p-value of Student's t. freedom: degrees of freedom, at least 1. From Abramowitz and Stegun,
    "Handbook of Mathematical Functions", 26.7.3 and 26.7.4."""
    angle, is_odd = atan(abs(t) / sqrt(freedom)), freedom % 2
    terms = [cos(angle) if is_odd else 1.0]
    for k in range(2 + is_odd, freedom, 2):
        terms.append(terms[-1] * cos(angle) ** 2 * (k - 1) / k)
    within = sin(angle) * fsum(terms if freedom > 1 else ())
    return 1 - ((angle + within) * 2 / pi if is_odd else within)


def chance_of_samples(a: Sequence[float], b: Sequence[float]) -> float:
    """The p-value of Student's two-sample test ("The probable error of a mean", 1908) on the logarithms of times, since
    noise grows with the time. Each sample has at least two times."""
    mine, its = (list(map(log, times)) for times in (a, b))
    freedom = len(a) + len(b) - 2
    pooled = (variance(mine) * (len(a) - 1) + variance(its) * (len(b) - 1)) / freedom
    return chance_of(over(fmean(mine) - fmean(its), sqrt(pooled * (1 / len(a) + 1 / len(b)))), freedom)


def over(difference: float, error: float) -> float:
    """Student's t: difference over error; 0 or infinite if the error is 0."""
    return difference / error if error else inf if difference else 0.0


def are_real(chances: Sequence[float]) -> list[bool]:
    """For each of several p-values, whether the difference is real. The probability that any of them is wrongly called
    real is at most LEVEL. Holm, "A simple sequentially rejective multiple test procedure", 1979."""
    smallest_first = sorted(range(len(chances)), key=lambda at: chances[at])
    is_real = [False] * len(chances)
    for rank, at in enumerate(smallest_first):
        if chances[at] * (len(chances) - rank) > LEVEL:
            break
        is_real[at] = True
    return is_real
