"""Predicts a measured trial on more ranks, from their own work, the wait for the slowest rank, and a network model.

This module defines the result of a projection, whose fields are the keys of `--format json`. Times are in ms; None
means that nothing was measured.
"""

from typing import Literal

import msgspec

Scaling = Literal["weak", "strong"]


class ProjectionError(ValueError):
    """A projection is impossible, or an option is invalid. The message is one line."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction for one strategy on a number of ranks."""

    strategy: str
    ranks: int
    step_ms: float  # work + wait + exposed communication
    work_ms: float  # a rank's own work, mean over ranks
    wait_ms: float  # wait for the slowest rank
    transfer_ms: float  # communication
    exposed_ms: float  # exposed communication: the part that backward does not hide
    efficiency: float  # measured work / step; under strong scaling, a rank's share of that work / step
    measured_ms: float | None = None  # step of a trial of the same run with this strategy and number of ranks
    error: float | None = None  # step_ms / measured_ms - 1
    disturbed: bool | None = None  # whether other programs disturbed that trial; None if measured_ms is None


class NetworkUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The costs of the network, as the projection used them."""

    source: str  # where the costs come from, in words
    alpha_us: float | None  # latency of a message; None: it cannot be determined from the transfers
    gb_s: float | None  # bandwidth in 1e9 bytes/s; None: it cannot be determined from the transfers
    worst: float | None  # largest relative error of the fit; None: no fit


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """The projection of one trial to other numbers of ranks."""

    run: str
    trial: str
    strategy: str
    measured_ranks: int
    scaling: Scaling
    cores: int | None
    network: NetworkUsed
    points: list[Point]  # by strategy (the measured one first), then by ranks; includes the measured number of ranks
    said: list[str] = []  # the findings, one sentence each
    notes: list[str] = []  # the assumptions
