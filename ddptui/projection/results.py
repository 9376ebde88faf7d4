"""The results of a projection, with the keys of `--format json`. Times in ms; None where nothing was measured."""

from typing import Literal

import msgspec

Scaling = Literal["weak", "strong"]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One strategy on so many ranks.

    step_ms          work, wait and exposed communication together
    low_ms, high_ms  its band, 10 to 90 %, by bootstrap over steps (None: too few steps)
    work_ms          a rank's own work, mean; wait_ms: until the slowest rank has done its own
    transfer_ms      communication; exposed_ms: the part that backward does not hide
    efficiency       the part of the step that is measured work; under strong scaling, a rank's share of that work
    calibrated       on the strategy's own measured transfers; rough: not calibrated, and the fit is poor
    measured_ms      of a trial of the same run with this strategy and number of ranks; error: step_ms over that, less 1
    """

    strategy: str
    ranks: int
    step_ms: float
    low_ms: float | None
    high_ms: float | None
    work_ms: float
    wait_ms: float
    transfer_ms: float
    exposed_ms: float
    efficiency: float
    calibrated: bool = False
    rough: bool = False
    measured_ms: float | None = None
    error: float | None = None


class NetworkUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The network's costs.

    alpha_us     a message; call_us: a call, however many messages it makes
    outliers_us  mean time of a call beyond its typical time
    gb_s         bandwidth, 1e9 bytes a second (None: a byte takes no time)
    gamma_gb_s   bytes added a second (None: no time, or part of gb_s)
    worst        largest relative error of the fit (None: no fit)
    """

    source: str
    alpha_us: float
    call_us: float
    outliers_us: float
    gb_s: float | None
    gamma_gb_s: float | None
    worst: float | None


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """One trial on other numbers of ranks.

    points  strategy by strategy, the measured one first, by ranks; on as many ranks as were measured, too
    said    the findings, a sentence each; notes: the assumptions
    """

    run: str
    trial: str
    strategy: str
    measured_ranks: int
    scaling: Scaling
    cores: int | None
    network: NetworkUsed
    points: list[Point]
    said: list[str] = []
    notes: list[str] = []
