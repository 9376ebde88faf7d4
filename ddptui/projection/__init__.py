"""Predicts a measured trial on more ranks: their own work, the wait for the slowest of many, and a network.

Here: what a projection results in, with the keys of `--format json`. Times in ms; None where nothing was measured.
"""

from typing import Literal

import msgspec

Scaling = Literal["weak", "strong"]


class ProjectionError(ValueError):
    """A projection that cannot be made, or an option that makes no sense; its text is one line."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One strategy on so many ranks."""

    strategy: str
    ranks: int
    step_ms: float  # work, wait and exposed communication together
    work_ms: float  # a rank's own work, mean
    wait_ms: float  # until the slowest rank has done its own
    transfer_ms: float  # communication
    exposed_ms: float  # the part of it that backward does not hide
    efficiency: float  # part of the step that is measured work; under strong scaling, a rank's share of that work
    measured_ms: float | None = None  # of a trial of the same run with this strategy and number of ranks
    error: float | None = None  # step_ms over measured_ms, less 1
    disturbed: bool | None = None  # whether other programs disturbed that trial; None: as measured_ms


class NetworkUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The network's costs."""

    source: str
    alpha_us: float | None  # a message; None: the transfers do not tell it
    gb_s: float | None  # bandwidth, 1e9 bytes a second; None: the transfers do not tell it
    worst: float | None  # largest relative error of the fit; None: no fit


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One trial on other numbers of ranks."""

    run: str
    trial: str
    strategy: str
    measured_ranks: int
    scaling: Scaling
    cores: int | None
    network: NetworkUsed
    points: list[Point]  # strategy by strategy, the measured one first, by ranks; on as many as were measured, too
    said: list[str] = []  # the findings, a sentence each
    notes: list[str] = []  # the assumptions
