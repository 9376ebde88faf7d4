"""results.json, schema version 1, as types. The keys are a promise; None where a figure could not be taken.

Times are in seconds or milliseconds as the key says. Warm-up steps are in no figure; a delay at `start` is counted.
"""

from typing import Any, Literal

import msgspec

from ddptui.analysis.cautions import Caution
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.wire.messages import Audit

SCHEMA = 1

Verdict = Literal["transfer", "skew", "mixed", "inconclusive"]


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


class ConfidenceInterval(_Part, frozen=True, kw_only=True):
    """95 %."""

    estimate: float
    low: float
    high: float


class Culprit(_Part, frozen=True, kw_only=True):
    """The rank that the others waited for. phase: where it lost most; share: of all waiting, what its own work caused;
    phases: how much of the loss was where, as parts of 1, largest first;
    excess_s: how much longer than the others it worked before it arrived (over all measured steps); slower: the factor,
    if it was slower in every phase; step: the one in which it lost more than half of that, if there is one."""

    rank: int
    phase: str
    phases: dict[str, float] = {}
    share: float
    wait_caused_s: float
    excess_s: ConfidenceInterval
    slower: float | None = None
    step: int | None = None


class WhatIf(_Part, frozen=True, kw_only=True):
    """The train time, in s, with the culprit's work as the others' (none: no culprit), and without any skew besides."""

    without_culprit: float | None
    without_skew: float


class Injected(_Part, frozen=True, kw_only=True):
    """The delays that were put in at one site of one rank: how often, and what they really took."""

    rank: int
    at: str
    fired: int
    s: float


class Change(_Part, frozen=True, kw_only=True):
    """Delays that somebody put in, or took out, while the repeat ran, in place of those that were there. s: after the
    first step began; step: the first one with them, if there was one; bottleneck: what is delayed from then on."""

    s: float
    step: int | None
    bottleneck: list[dict[str, Any]]


class RankResult(_Part, frozen=True, kw_only=True):
    """One rank. What collectives tell (wait_s to bytes) is None where there are none; who waited for whom also where
    the clocks may be further apart than the ranks waited.

    wait_s         it did nothing else, and a rank that it needed had not come
    transfer_s     operations were under way, and nobody was lacking
    exposed_s      it did nothing else while operations were under way
    overlap        the share of the time with operations under way in which it did something else
    waited_for_s   how much of wait_s was for which rank
    wait_caused_s  the others waited for its own work, all together; last_arrivals: in how many operations it came last
    start_s        from its first word until it was about to meet the others
    device_why     where the trial left the device open, and one might have expected another
    peak_gpu_bytes the most that its tensors took of its GPU's memory
    """

    rank: int
    host: str
    pid: int
    device: str
    wait_s: float | None = None
    transfer_s: float | None = None
    exposed_s: float | None = None
    overlap: float | None = None
    waited_for_s: dict[int, float] = {}
    wait_caused_s: float | None = None
    last_arrivals: int | None = None
    collectives: int | None = None
    bytes: int | None = None
    bottleneck_fired: int
    bottleneck_s: float
    start_s: float = 0.0
    device_why: str = ""
    peak_gpu_bytes: int | None = None
    sub_batch: int | None = None  # dp: the most samples that this replica saw in a step
    dropped: int = 0  # messages that found the rank's queue full: figures lack what they said


class RepeatResult(_Part, frozen=True, kw_only=True):
    """One launch. train_time_s: from the first measured step to the last optimizer step, of the slowest rank;
    startup_s: from the launch to the first step, of the slowest rank; steps: those measured. clock_error_ms: how far
    apart the clocks of two hosts may be (None: all ranks have one clock), and wait_error_ms, by how much that may put
    wait_ms off, and transfer_ms; what would be put off by more than it is, is withheld: None. (On GPUs, each rank's has
    a clock of its own.) backend: of the process group, if there is one, and why it is that."""

    backend: str | None = None
    backend_why: str = ""
    train_time_s: float
    startup_s: float
    steps: int
    looked_at: int | None = None  # of a long launch, so many of the steps: phases, waiting, loss are of these
    samples_per_s: float
    step_ms: StepMs | None  # None, as phases_ms, without instruments
    phases_ms: PhasesMs | None
    wait_ms: float | None = None  # medians per step, mean over ranks
    transfer_ms: float | None = None
    clock_error_ms: float | None = None
    wait_error_ms: float | None = None
    overlap: float | None = None  # mean over ranks
    wait_share: float | None = None  # of the train time, mean over ranks; transfer_share: while nothing else was done
    transfer_share: float | None = None
    verdict: Verdict = "inconclusive"
    culprit: Culprit | None = None
    what_if_s: WhatIf | None = None
    mismatches: list[str] = []  # steps in which ranks made different operations: they are in no figure of these
    injected: list[Injected] = []
    changes: list[Change] = []  # made by hand, while it ran
    refused: int = 0  # frames and messages of whoever is no rank of this launch
    warnings: list[Caution] = []
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
    verdict: Verdict = "inconclusive"
    culprit: Culprit | None = None
    what_if_s: WhatIf | None = None
    warnings: list[Caution] = []


class TrialResult(_Part, frozen=True, kw_only=True):
    name: str
    status: Literal["ok", "failed", "skipped"]
    error: str | None
    config: dict[str, Any]
    command: list[str]
    repeats: list[RepeatResult]
    summary: Summary | None
    primitives: list[PrimitivesResult] = []  # one a launch, where the ranks try primitives in place of training


class Results(_Part, frozen=True, kw_only=True):
    """The whole of results.json. unread: notes on damaged journals, whose figures lack messages; absent if none is."""

    schema: int = SCHEMA
    run: str
    preset: str
    baseline: str
    environment: dict[str, Any]
    status: Literal["ok", "failed", "interrupted"]
    trials: list[TrialResult]
    unread: list[str] | msgspec.UnsetType = msgspec.UNSET


class MedianOnly(_Part, frozen=True):
    """A spread of which only the median is read."""

    median: float


class TrainTime(_Part, frozen=True):
    """A trial's summary of which only the train time, in s, is read."""

    train_time_s: MedianOnly


class TrialOutline(_Part, frozen=True):
    """What lists of runs and projections need of a trial's result."""

    name: str
    status: str
    summary: TrainTime | None = None
    primitives: list[PrimitivesResult] = []


class ResultsOutline(_Part, frozen=True):
    """The part of results.json that lists of runs and projections need; every version of ddptui has written it."""

    status: str
    trials: list[TrialOutline]
