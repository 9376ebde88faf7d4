"""Delays that the user injects while a trial runs: each delays one rank at one site. Pure."""

from collections.abc import Sequence
from typing import get_args

import msgspec

from ddptui.config.checks import check_bottleneck
from ddptui.config.trial import LINK, Bottleneck, Site, Trial, TrialError

TOO_LATE = "start"  # a running rank has already started
LENGTHS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)  # at most 5 s: a sleep cannot be interrupted
USUAL_MS = 20

Delays = tuple[Bottleneck, ...]


def sites(trial: Trial) -> list[Site]:
    """The sites at which the running ranks of a trial can be delayed."""
    return [at for at in get_args(Site) if at != TOO_LATE and _is_possible(trial, at)]


def _is_possible(trial: Trial, at: str) -> bool:
    try:
        check_bottleneck(trial, Bottleneck(at=at, ranks=(0,), sleep_ms=USUAL_MS), "")
    except TrialError:
        return False
    return True


def still_to_come(bottlenecks: Sequence[Bottleneck]) -> Delays:
    """The delays that can still affect a running rank: all but those at its start, and without slow links."""
    return tuple(delay for delay in bottlenecks if delay.at not in (TOO_LATE, LINK))


def delay_of(delays: Sequence[Bottleneck], rank: int, at: str) -> Bottleneck | None:
    """The delay of a rank at a site, or None."""
    return next((delay for delay in delays if delay.at == at and rank in delay.ranks), None)


def without(delays: Sequence[Bottleneck], rank: int, at: str) -> Delays:
    """The delays without any of this rank at this site. Other ranks keep their delays."""
    left = [(delay, tuple(each for each in delay.ranks if (delay.at, each) != (at, rank))) for delay in delays]
    return tuple(msgspec.structs.replace(delay, ranks=ranks) for delay, ranks in left if ranks)


def with_delay(delays: Sequence[Bottleneck], rank: int, at: Site, sleep_ms: float) -> Delays:
    """The delays with this one added. It replaces the rank's delay at the same site."""
    return (*without(delays, rank, at), Bottleneck(at=at, ranks=(rank,), sleep_ms=sleep_ms))


def next_length(sleep_ms: float, by: int) -> float:
    """The next longer (by = 1) or shorter (-1) of LENGTHS_MS; the same length if there is none."""
    others = [ms for ms in LENGTHS_MS if (ms > sleep_ms if by > 0 else ms < sleep_ms)]
    return min(others, key=lambda ms: abs(ms - sleep_ms), default=sleep_ms)
