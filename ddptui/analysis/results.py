"""The types of results.json, schema version 1. Its keys are a promise. None: a figure could not be taken.

Keys name the unit of times. Warm-up steps are in no figure, but a delay at `start` is.
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
    """The lengths of all measured steps of all ranks, in ms."""

    median: float
    p10: float
    p90: float


class PhasesMs(_Part, frozen=True, kw_only=True):
    """The median of each phase over a rank's steps, mean over ranks, in ms."""

    data: float
    forward: float
    backward: float
    aggregate: float
    optimizer: float


class Loss(_Part, frozen=True, kw_only=True):
    """The mean loss over the first and the last tenth of the measured steps, by sample. None: not finite."""

    first: float | None
    last: float | None


class Check(_Part, frozen=True, kw_only=True):
    """Whether all ranks had the same bits after a step, checked if `hash_every` is set. differing: tensors' names."""

    step: int
    parameters: bool
    buffers: bool
    differing: list[str]


class InSync(_Part, frozen=True, kw_only=True):
    """Whether all ranks ended with the same bits. None: there is one copy of the model. differing: tensors' names."""

    parameters: bool | None
    buffers: bool | None
    differing: list[str]


class Averaging(Audit, frozen=True, kw_only=True):
    """The audits of all ranks as one, each error as on the rank where it is largest, with the verdict.

    right  None: no bound is known, or a value was not finite
    why    it is not right
    """

    right: bool | None = None
    why: str | None = None


class ConfidenceInterval(_Part, frozen=True, kw_only=True):
    """An estimate with its interval of 95 % confidence."""

    estimate: float
    low: float
    high: float


class Culprit(_Part, frozen=True, kw_only=True):
    """The rank that the others waited for.

    phase          in which it lost most
    phases         parts of its loss by phase, summing to 1, largest first
    share          the part of all waiting that its own work caused
    wait_caused_s  this waiting, summed over ranks
    excess_s       how much longer than the others it worked, over all measured steps
    slower         by what factor, if it was slower in every phase
    step           in which it lost more than half of the excess, if there is one
    """

    rank: int
    phase: str
    phases: dict[str, float] = {}
    share: float
    wait_caused_s: float
    excess_s: ConfidenceInterval
    slower: float | None = None
    step: int | None = None


class WhatIf(_Part, frozen=True, kw_only=True):
    """The estimated train time in s if the culprit had worked as the others (None: no culprit), and if also all ranks
    had worked alike."""

    without_culprit: float | None
    without_skew: float


class Injected(_Part, frozen=True, kw_only=True):
    """The delays injected at one site of one rank: how often they fired, and how long they took."""

    rank: int
    at: str
    fired: int
    s: float


class Change(_Part, frozen=True, kw_only=True):
    """Delays that the user injected or removed while the repeat ran.

    s           since the first step began
    step        the first with the new delays, if there was one
    bottleneck  all delays from then on
    """

    s: float
    step: int | None
    bottleneck: list[dict[str, Any]]


class RankResult(_Part, frozen=True, kw_only=True):
    """One rank. The figures from wait_s to bytes are None without collectives; those of waiting also where the clock
    error exceeds the waits.

    wait_s         idle, while a rank that it needed had not come
    transfer_s     operations were under way, and no needed rank was missing
    exposed_s      idle, while operations were under way
    overlap        the part of the time with operations under way in which it did something else
    waited_for_s   how much of wait_s was for which rank
    wait_caused_s  how long the others waited for its own work, summed over ranks
    last_arrivals  number of operations to which it came last
    start_s        from its first message until it joined the others
    device_why     why this device, if the trial did not choose one
    peak_gpu_bytes the most GPU memory that its tensors took
    sub_batch      dp: the most samples that this replica got in a step
    dropped        messages lost because the rank's queue was full; figures lack what they reported
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
    sub_batch: int | None = None
    dropped: int = 0


class RepeatResult(_Part, frozen=True, kw_only=True):
    """One launch.

    backend, backend_why   of the process group if there is one, and why this one
    train_time_s           from the first measured step to the last optimizer step, of the slowest rank
    startup_s              from the launch to the first step, of the slowest rank
    steps                  measured
    looked_at              of a long launch, so many of the steps: phases, waits and loss are of these
    step_ms, phases_ms     None without instruments
    wait_ms, transfer_ms   medians per step, mean over ranks; None where the clock error exceeds them
    clock_error_ms         how far the clocks of two hosts, or GPUs, may be apart; None: all ranks have one clock
    wait_error_ms          by how much this may put off wait_ms and transfer_ms
    overlap                mean over ranks
    wait_share             of the train time, mean over ranks
    transfer_share         likewise, for exposed transfers
    mismatches             steps in which ranks made different operations; no figure of waiting contains them
    changes                of delays, made by hand while it ran
    refused                frames and messages from senders that are no rank of this launch
    averaging              None: there is no process group
    reshuffled             every epoch had an order of its own; None: there was one epoch
    """

    backend: str | None = None
    backend_why: str = ""
    train_time_s: float
    startup_s: float
    steps: int
    looked_at: int | None = None
    samples_per_s: float
    step_ms: StepMs | None
    phases_ms: PhasesMs | None
    wait_ms: float | None = None
    transfer_ms: float | None = None
    clock_error_ms: float | None = None
    wait_error_ms: float | None = None
    overlap: float | None = None
    wait_share: float | None = None
    transfer_share: float | None = None
    verdict: Verdict = "inconclusive"
    culprit: Culprit | None = None
    what_if_s: WhatIf | None = None
    mismatches: list[str] = []
    injected: list[Injected] = []
    changes: list[Change] = []
    refused: int = 0
    warnings: list[Caution] = []
    loss: Loss
    accuracy: float | None
    in_sync: InSync
    sync_checks: list[Check] = []
    averaging: Averaging | None = None
    reshuffled: bool | None = None
    ranks: list[RankResult]


class Spread(_Part, frozen=True, kw_only=True):
    """A figure over the repeats of a trial."""

    median: float
    min: float
    max: float


class Ratio(_Part, frozen=True, kw_only=True):
    """The train time over the baseline's of the same repeat."""

    median: float
    low: float
    high: float


class Summary(_Part, frozen=True, kw_only=True):
    """A trial over its repeats. samples_per_s: median; speedup: samples/s over the baseline's."""

    train_time_s: Spread
    samples_per_s: float
    speedup: float | None
    ratio: Ratio | None
    verdict: Verdict = "inconclusive"
    culprit: Culprit | None = None
    what_if_s: WhatIf | None = None
    warnings: list[Caution] = []


class TrialResult(_Part, frozen=True, kw_only=True):
    """One trial. primitives: one a launch, if the ranks run primitives instead of training."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    error: str | None
    config: dict[str, Any]
    command: list[str]
    repeats: list[RepeatResult]
    summary: Summary | None
    primitives: list[PrimitivesResult] = []


class Results(_Part, frozen=True, kw_only=True):
    """A whole run, as results.json has it."""

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
