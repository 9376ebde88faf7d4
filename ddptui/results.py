"""results.json, schema version 1, as types. The keys are a promise; None where a figure could not be taken.

Times are in seconds or milliseconds as the key says. Warm-up steps are in no figure; a delay at `start` is counted.
"""

from typing import Any, Literal

import msgspec

from ddptui.wire import Audit

SCHEMA = 1


class _Part(msgspec.Struct, frozen=True):
    pass


class StepMs(_Part, frozen=True, kw_only=True):
    """Over all measured steps of all ranks."""

    median: float
    p10: float
    p90: float


class PhasesMs(_Part, frozen=True, kw_only=True):
    """Medians per step, mean over ranks."""

    data: float
    forward: float
    backward: float
    aggregate: float
    optimizer: float


class Loss(_Part, frozen=True, kw_only=True):
    """Mean over the first and the last tenth of the measured steps, by sample. None: it was no finite number."""

    first: float | None
    last: float | None


class Check(_Part, frozen=True, kw_only=True):
    """Whether all ranks had the same bits after a step (`hash_every` asks for it)."""

    step: int
    parameters: bool
    buffers: bool
    differing: list[str]


class InSync(_Part, frozen=True, kw_only=True):
    """Whether all ranks ended with the same bits; None with one copy of the model. `differing`: the tensors' names."""

    parameters: bool | None
    buffers: bool | None
    differing: list[str]


class Averaging(Audit, frozen=True, kw_only=True):
    """The audits of all ranks as one, each error on the rank where it is largest; and the verdict."""

    right: bool | None = None  # None: no bound is known, or something was not finite
    why: str | None = None  # it is not


class RankResult(_Part, frozen=True, kw_only=True):
    """One rank. What the collectives tell (wait_s to bytes) is None until it is measured."""

    rank: int
    host: str
    pid: int
    device: str
    wait_s: float | None = None
    transfer_s: float | None = None
    exposed_s: float | None = None
    last_arrivals: int | None = None
    collectives: int | None = None
    bytes: int | None = None
    bottleneck_fired: int
    bottleneck_s: float
    sub_batch: int | None = None  # dp: the most samples that this replica saw in a step
    dropped: int = 0  # messages that found the rank's queue full: figures lack what they said


class RepeatResult(_Part, frozen=True, kw_only=True):
    """One launch. train_time_s: from the first measured step to the last optimizer step, of the slowest rank;
    startup_s: from the launch to the first step, of the slowest rank; steps: those measured."""

    train_time_s: float
    startup_s: float
    steps: int
    samples_per_s: float
    step_ms: StepMs
    phases_ms: PhasesMs
    wait_ms: float | None = None
    transfer_ms: float | None = None
    loss: Loss
    accuracy: float | None
    in_sync: InSync
    sync_checks: list[Check] = []
    averaging: Averaging | None = None  # None: there is no group
    reshuffled: bool | None = None  # every epoch had an order of its own; None: there was only one
    ranks: list[RankResult]


class Spread(_Part, frozen=True, kw_only=True):
    median: float
    min: float
    max: float


class Ratio(_Part, frozen=True, kw_only=True):
    """Train time over the baseline's, repeat by repeat."""

    median: float
    low: float
    high: float


class Summary(_Part, frozen=True, kw_only=True):
    """Over a trial's repeats. speedup: samples/s over the baseline's."""

    train_time_s: Spread
    samples_per_s: float
    speedup: float | None
    ratio: Ratio | None
    verdict: Literal["transfer", "skew", "mixed", "inconclusive"] = "inconclusive"
    culprit: None = None
    what_if_s: None = None


class TrialResult(_Part, frozen=True, kw_only=True):
    name: str
    status: Literal["ok", "failed", "skipped"]
    error: str | None
    config: dict[str, Any]
    command: list[str]
    repeats: list[RepeatResult]
    summary: Summary | None


class Results(_Part, frozen=True, kw_only=True):
    schema: int = SCHEMA
    run: str
    preset: str
    baseline: str
    environment: dict[str, Any]
    status: Literal["ok", "failed", "interrupted"]
    trials: list[TrialResult]
