"""What `ddptui project` is asked for, as it is typed. Pure."""

import math

from ddptui.config.strategies import STRATEGIES
from ddptui.projection import ProjectionError
from ddptui.projection.costs import sends_of
from ddptui.projection.network import CallCosts, stated
from ddptui.text.words import did_you_mean

MOST_RANKS = 2**20
PROJECTED = tuple(name for name, facts in STRATEGIES.items() if facts.sends)


def numbers_of_ranks(text: str) -> list[int]:
    """`2..4096` doubles from the one to the other, `2,4,8` is a list, `64` is one. Raises ProjectionError."""
    wrong = ProjectionError(f"--ranks {text}: neither a range (2..4096), nor a list (2,4,8), nor a number (64)")
    try:
        if ".." in text:
            low, high = (int(end) for end in text.split(".."))
            if low > high:
                raise ProjectionError(f"--ranks {text}: from {low} down to {high}: the smaller number comes first")
            return _within(text, _doubling(low, high) if low > 0 else [low])
        return _within(text, sorted({int(number) for number in text.split(",")}))
    except ProjectionError:
        raise
    except ValueError:
        raise wrong from None


def _doubling(low: int, high: int) -> list[int]:
    """The last one is there in any case."""
    if high > MOST_RANKS:
        return [high]
    found = [low]
    while found[-1] * 2 < high:
        found.append(found[-1] * 2)
    return sorted({*found, high})


def _within(text: str, ranks: list[int]) -> list[int]:
    if ranks[0] < 1:
        raise ProjectionError(f"--ranks {text}: must be 1 at least")
    if ranks[-1] > MOST_RANKS:
        raise ProjectionError(f"--ranks {text}: at most {MOST_RANKS:,}")
    return ranks


def check(strategies: tuple[str, ...], cores: int | None, alpha: float | None, gbps: float | None) -> CallCosts | None:
    """What can be said before a run is read. The network as stated; None: it was not. Raises ProjectionError."""
    for name in strategies:
        _check_strategy(name)
    if cores is not None and cores < 1:
        raise ProjectionError(f"--cores {cores}: must be 1 at least")
    if alpha is None and gbps is None:
        return None
    for option, value in (("--alpha", alpha), ("--gbps", gbps)):
        if value is None:
            raise ProjectionError(f"{option} is missing: --alpha (µs a message) and --gbps (1e9 bit/s) go together")
        if not (math.isfinite(value) and value > 0):
            raise ProjectionError(f"{option} {value:g}: must be a finite number above 0")
    return stated(alpha or 0.0, gbps or 0.0)


def _check_strategy(name: str) -> None:
    if name in STRATEGIES:
        sends_of(name)
    else:
        hint = did_you_mean(name, PROJECTED, f"it is one of {', '.join(PROJECTED)}")
        raise ProjectionError(f"--strategy {name}: no such strategy; {hint}")


def with_its_own(strategies: tuple[str, ...], own: str) -> list[str]:
    """Those that are asked for, or else all that can be projected; first the trial's own, whose error is known."""
    return list(dict.fromkeys((own, *(strategies or PROJECTED))))
