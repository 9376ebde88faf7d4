"""What a projection shows, as `--format json` has it. Times in ms; None where nothing was measured."""

from typing import Literal

import msgspec

Scaling = Literal["weak", "strong"]


class _Part(msgspec.Struct, frozen=True):
    pass


class Point(_Part, frozen=True, kw_only=True):
    """One strategy on so many ranks.

    step_ms      work, wait and exposed together; low_ms, high_ms: its 10 to 90 % band, of steps drawn anew (None: there
                 are too few to tell)
    work_ms      of a rank, on average; wait_ms: until the slowest of all ranks has done its own
    transfer_ms  operations are under way; exposed_ms: and nothing hides it
    efficiency   how much of the step is the work that was measured: under strong scaling, a rank's share of that
    calibrated   on the strategy's own transfers, on the measured ranks; rough: it is not, and the fit is far off
    measured_ms  a trial of the same run that was such a one; error: step_ms over that, less 1
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


class NetworkUsed(_Part, frozen=True, kw_only=True):
    """alpha_us: a message; call_us: a call, however many messages it makes; outliers_us: what a call takes on average
    beyond what is typical; gb_s: 1e9 bytes a second (None: a byte takes no time); gamma_gb_s: bytes added (None: that
    takes no time, or is in gb_s); worst: the largest error of the fit."""

    source: str
    alpha_us: float
    call_us: float
    outliers_us: float
    gb_s: float | None
    gamma_gb_s: float | None
    worst: float | None


class Projection(_Part, frozen=True, kw_only=True):
    """points: strategy by strategy, the measured one first if it is among them, by ranks; on as many ranks as were
    measured, too. said: what matters, a sentence each; notes: what was taken for granted."""

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
