"""The options of `ddptui project`: checked and parsed before a run is read. Pure."""

import math
from typing import NamedTuple

from ddptui.config.strategies import STRATEGIES
from ddptui.projection import ProjectionError, Scaling
from ddptui.projection.costs import CallCosts, sends_of, stated_costs
from ddptui.text.words import did_you_mean

MOST_RANKS = 2**20  # far above any cluster; a number with a digit too many would otherwise be computed for hours
PROJECTED = tuple(name for name, facts in STRATEGIES.items() if facts.sends)


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
