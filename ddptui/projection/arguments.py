"""The options of `ddptui project`: checked and parsed before a run is read. Pure."""

import math
from typing import NamedTuple

from ddptui.config.strategies import STRATEGIES
from ddptui.projection import ProjectionError
from ddptui.projection.costs import sends_of
from ddptui.projection.network import CallCosts, stated_costs
from ddptui.projection.results import Scaling
from ddptui.text.words import did_you_mean

MOST_RANKS = 2**20
PROJECTED = tuple(name for name, facts in STRATEGIES.items() if facts.sends)


class ProjectOptions(NamedTuple):
    """The options as they are typed. alpha: µs a message; gbps: 1e9 bit/s; network: a run of primitives."""

    trial: str | None = None
    ranks: str = "2..4096"
    network: str | None = None
    alpha: float | None = None
    gbps: float | None = None
    scaling: Scaling = "weak"
    cores: int | None = None
    strategies: tuple[str, ...] = ()


def check(options: ProjectOptions) -> None:
    """Raises ProjectionError for an option that no run can satisfy."""
    for name in options.strategies:
        _check_strategy(name)
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
    return stated_costs(options.alpha or 0.0, options.gbps or 0.0)


def rank_counts(text: str) -> list[int]:
    """Numbers of ranks, ascending: `2..4096` doubles, `2,4,8` is a list, `64` is one. Raises ProjectionError."""
    wrong = ProjectionError(f"--ranks {text}: neither a range (2..4096), nor a list (2,4,8), nor a number (64)")
    try:
        if ".." in text:
            low, high = (int(end) for end in text.split(".."))
            if low > high:
                raise ProjectionError(f"--ranks {text}: from {low} down to {high}: the smaller number comes first")
            return _within_limits(text, _doubling(low, high) if low > 0 else [low])
        return _within_limits(text, sorted({int(number) for number in text.split(",")}))
    except ProjectionError:
        raise
    except ValueError:
        raise wrong from None


def _doubling(low: int, high: int) -> list[int]:
    """low, twice that, and so on; `high` is always the last."""
    if high > MOST_RANKS:
        return [high]
    numbers = [low]
    while numbers[-1] * 2 < high:
        numbers.append(numbers[-1] * 2)
    return sorted({*numbers, high})


def _within_limits(text: str, ranks: list[int]) -> list[int]:
    if ranks[0] < 1:
        raise ProjectionError(f"--ranks {text}: must be 1 at least")
    if ranks[-1] > MOST_RANKS:
        raise ProjectionError(f"--ranks {text}: at most {MOST_RANKS:,}")
    return ranks


def _check_strategy(name: str) -> None:
    if name in STRATEGIES:
        sends_of(name)
    else:
        hint = did_you_mean(name, PROJECTED, f"it is one of {', '.join(PROJECTED)}")
        raise ProjectionError(f"--strategy {name}: no such strategy; {hint}")


def strategies_to_project(wanted: tuple[str, ...], measured: str) -> list[str]:
    """The measured strategy first, whose error is known; then the wanted ones, or else all that can be projected."""
    return list(dict.fromkeys((measured, *(wanted or PROJECTED))))
