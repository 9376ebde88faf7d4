"""Types of results.json. Its keys are a public format and end in the unit. None: the figure is not available."""

from typing import Any, Literal

import msgspec

from ddptui.analysis.finding import Finding
from ddptui.analysis.policy import Caution
from ddptui.analysis.primitive_results import NcclUse, PrimitivesResult, Ratio
from ddptui.config.trial import StartKind, TrialKind
from ddptui.wire.messages import Audit
from ddptui.wire.records import Failure

SCHEMA = 1  # version of the format
Verdict = Literal["transfer", "skew", "mixed", "inconclusive"]


class StepMs(msgspec.Struct, frozen=True, kw_only=True):
    """The times of all measured steps of all ranks, in ms."""

    median: float
    p10: float
    p90: float


class LongStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took more than twice the median time."""

    step: int
    ms: float


class TimeParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the train time, in s, means over ranks. They add up to the train time."""

    median_s: float  # the median step time, times the number of steps
    long_s: float  # how much the long steps exceed the median
    between_steps_s: float  # time between steps within an epoch
    between_epochs_s: float
    others_s: float  # the rest: how much the other steps exceed the median, or fall below it
    long_steps: int  # number of long steps
    longest: list[LongStep]  # at most three, longest first, each with its time on the slowest rank


class PhasesMs(msgspec.Struct, frozen=True, kw_only=True):
    """The median time of each phase over a rank's steps, as a mean over ranks, in ms."""

    data: float
    forward: float
    backward: float
    aggregate: float
    optimizer: float


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The mean loss per sample over the first and the last tenth of the measured steps. None: not finite, or not
    readable in a watched training."""

    first: float | None
    last: float | None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all ranks had bitwise equal models after a step; checked if `hash_every` is set."""

    step: int
    parameters: bool
    buffers: bool
    differing: list[str]  # names of tensors


class InSync(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all ranks ended with bitwise equal models. None: there is only one copy of the model."""

    parameters: bool | None
    buffers: bool | None
    differing: list[str]  # names of tensors


class Light(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check. wrong: a finding says what is. doubtful: it may be meant so. unknown: nothing has shown
    it. does not apply: this training's ranks are meant to differ, or it has nothing to check."""

    name: str
    state: Literal["right", "wrong", "doubtful", "unknown", "does not apply"]
    differs: list[str] = []  # names of tensors or settings, or ranks
    since: int | None = None  # step


class PlaceTime(msgspec.Struct, frozen=True, kw_only=True):
    """A place in the user's code, and how long each rank worked there, in one part of its steps."""

    phase: str  # one of PARTS
    place: str  # augment, train.py:28
    by: str  # the line of the user's code that called this function: collate, train.py:37; empty: not known
    file: str
    line: int  # the first one
    last: int  # the last one
    ms: dict[int, float]  # by rank: own work there, per step


class Averaging(Audit, frozen=True, kw_only=True):
    """The audits of all ranks combined, with a verdict. Each error is that of the rank where it is largest."""

    right: bool | None = None  # None: no error bound is known, or a value was not finite
    why: str | None = None  # why the averaging is wrong
    wrong_ranks: tuple[int, ...] = ()  # ranks on which a tensor is wrong; empty also in an older run


class ConfidenceInterval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with its 95 % confidence interval."""

    estimate: float
    low: float
    high: float


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """The rank that the others waited for."""

    rank: int
    phase: str  # the phase in which it lost most time
    phases: dict[str, float] = {}  # phase -> part of its loss, summing to 1, largest first
    share: float  # the part of all waiting that its own work caused
    wait_caused_s: float  # the waiting that it caused, summed over ranks
    excess_s: ConfidenceInterval  # how much longer it worked than the others, over all measured steps
    slower: float | None = None  # the factor by which it was slower, if in every phase
    steps: tuple[int, int] | None = None  # first and last judged step, if not all measured steps were judged


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Rough estimates of the train time under other conditions, in s."""

    without_culprit: float | None  # if the culprit had worked like the others; None: no culprit
    without_skew: float  # if, in addition, all ranks had worked equally long


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """The delays injected at one site of one rank."""

    rank: int
    at: str
    fired: int  # number of delays
    s: float  # their total


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Delays that the user injected or removed while the repeat ran."""

    s: float  # when, in s since the first step began
    step: int | None  # the first step with the new delays, if any
    steps: int | None = None  # number of measured steps until the next change; None: without instruments
    bottleneck: list[dict[str, Any]]  # all delays in effect after the change
    culprit: Culprit | None = None  # judged on these steps alone


class OtherLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of other programs on this host while all ranks trained; means."""

    cores: float  # cores that other programs kept busy
    stolen: float  # of these, cores that the hypervisor gave to other virtual machines (steal time)
    by: str = ""  # the process that was most often the busiest; empty: unknown
    idle: float = 0.0  # idle cores


class RankResult(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one rank. From wait_s to bytes, None: no collectives, or (waits only) too large a clock error."""

    rank: int
    host: str
    pid: int
    device: str
    wait_s: float | None = None  # idle, while a needed rank had not entered the operation
    transfer_s: float | None = None  # operations were running, and no needed rank was missing
    exposed_s: float | None = None  # idle, while operations were running (exposed communication)
    work_s: dict[str, float] = {}  # own work by phase and "between steps", injected delays included; {}: no step known
    overlap: float | None = None  # part of the time of running operations in which the rank did something else
    waited_for_s: dict[int, float] = {}  # late rank -> part of wait_s
    wait_caused_s: float | None = None  # how long the others waited for this rank's own work, summed over ranks
    last_arrivals: int | None = None  # number of operations that this rank entered last
    collectives: int | None = None
    bytes: int | None = None
    bottleneck_fired: int
    bottleneck_s: float
    queued_s: float = 0.0  # the training was runnable, but had no core; 0.0 if the system does not report it
    start_s: float = 0.0  # from the rank's first message until it joined the process group
    device_why: str = ""  # why this device was chosen, if not by the trial
    peak_gpu_bytes: int | None = None  # peak GPU memory allocated for tensors
    peak_gpu_reserved_bytes: int | None = None  # peak GPU memory reserved by torch, allocated or not
    # From here to joules_a_step: for ranks on a GPU. Readings of the GPU include other programs.
    samples_per_s: float | None = None  # over all measured steps; None: samples were not counted
    tflops: float | None = None  # 10^12 floating-point operations per second over all measured steps; None: not counted
    mfu: float | None = None  # part of the GPUs' peak in this precision; None: the peak is unknown
    gpu_busy: float | None = None  # part of the time in which a kernel ran on the GPU
    peak_gpu_used_bytes: int | None = None  # peak memory in use on the GPU
    gpu_total_bytes: int | None = None  # total memory of the GPU
    watts: float | None = None  # mean power of the GPU
    sm_mhz: float | None = None  # median SM clock of the GPU
    held_back_part: float | None = None  # part of the time in which heat or power limits lowered the clock
    joules_a_step: float | None = None  # energy of the GPU per step
    sub_batch: int | None = None  # dp: the largest number of samples that this replica got in a step
    dropped: int = 0  # messages lost because the rank's queue was full; the figures lack their content


class RepeatResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one launch."""

    backend: str | None = None  # backend of the process group, if there is one
    backend_why: str = ""  # why this backend was chosen
    nccl: NcclUse | None = None  # None: another backend
    train_time_s: float  # from the first measured step to the last optimizer step, of the slowest rank
    startup_s: float  # from the launch to the first step, of the slowest rank
    start: StartKind = "cold"  # warm: ranks were forked from a process that had imported torch
    start_why: str = ""  # why the start was cold, if the trial did not ask for it
    steps: int  # measured steps: no figure includes warm-up steps, except delays at `start`
    # Number of steps behind phases, waits and loss, if not all steps were kept or reported; sums are scaled to all.
    looked_at: int | None = None
    samples_per_s: float | None  # None: a watched training's samples are unknown
    step_ms: StepMs | None  # None without instruments
    phases_ms: PhasesMs | None  # None without instruments
    time_parts: TimeParts | None = None  # None without instruments
    batch_s: float | None = None  # mean time of a batch: train_time_s divided by steps
    epoch_s: float | None = None  # median over the complete epochs, of the slowest rank; None: unknown
    epoch_is_estimate: bool = False  # without a complete epoch, epoch_s is batch_s times the batches in an epoch
    wait_ms: float | None = None  # median per step, mean over ranks; None if less than its error
    transfer_ms: float | None = None  # likewise
    clock_error_ms: float | None = None  # error between the clocks of two hosts or GPUs; None: there is one clock
    wait_error_ms: float | None = None  # the resulting error of wait_ms and transfer_ms
    overlap: float | None = None  # mean over ranks
    wait_share: float | None = None  # part of the train time, mean over ranks
    transfer_share: float | None = None  # likewise, for exposed transfers
    verdict: Verdict = "inconclusive"
    findings: list[Finding] = []  # where the time went, the most costly first
    culprit: Culprit | None = None
    rank_without_core: int | None = None  # the rank that is late because other programs had its core
    what_if_s: WhatIf | None = None
    mismatches: list[str] = []  # steps in which ranks called different operations; waits leave these out
    injected: list[Injected] = []
    changes: list[Change] = []  # changes of delays by the user during the repeat
    other_load: OtherLoad | None = None  # None: not measured, e.g. in a short training or with ranks on other hosts
    refused: int = 0  # rejected frames and messages from senders that are no rank of this launch
    warnings: list[Caution] = []
    loss: Loss
    accuracy: float | None
    in_sync: InSync
    sync_checks: list[Check] = []
    averaging: Averaging | None = None  # None: there is no process group
    tflops: float | None = None  # mean over ranks
    mfu: float | None = None  # of all GPUs together, each counted once
    joules_a_step: float | None = None  # likewise
    checks: list[Light] = []
    places: list[PlaceTime] = []  # where in the user's code the ranks worked, the most costly first
    reshuffled: bool | None = None  # every epoch had a new order of samples; None: there was only one epoch
    ranks: list[RankResult]

    @property
    def compared(self) -> int:
        """The number of steps on which the ranks were compared."""
        return self.looked_at or self.steps


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over the repeats of a trial."""

    median: float
    min: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A trial over its repeats."""

    train_time_s: Spread
    samples_per_s: float | None  # median
    speedup: float | None  # samples/s over the baseline's
    ratio: Ratio | None  # of the train time to the baseline's
    verdict: Verdict = "inconclusive"
    culprit: Culprit | None = None
    what_if_s: WhatIf | None = None
    warnings: list[Caution] = []


class TrialResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one trial."""

    name: str
    kind: TrialKind = "training"  # command: a training of the user's own; primitives: collectives alone
    status: Literal["ok", "failed", "skipped"]
    error: str | None
    failure: Failure | None = None  # the same error in parts, if its first cause is known
    config: dict[str, Any]
    command: list[str]
    repeats: list[RepeatResult]
    summary: Summary | None  # None: no repeat has figures
    findings: list[Finding] = []  # findings of most repeats: the late rank first, then the most costly
    primitives: list[PrimitivesResult] = []  # one per launch, if the ranks run primitives instead of training

    @property
    def is_cut_short(self) -> bool:
        """Whether it is a command that failed: its figures are of fewer steps, and comparable with no other trial's."""
        return self.kind == "command" and self.status == "failed"


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of results.json."""

    schema: int = SCHEMA
    run: str
    preset: str
    baseline: str
    environment: dict[str, Any]
    status: Literal["ok", "failed", "interrupted"]
    repeats: int | None = None  # per trial, as the preset asks; a trial has fewer if a repeat failed or was skipped
    trials: list[TrialResult]
    findings: list[Finding] = []  # the answer to the preset's question: its trials compared
    unread: list[str] | msgspec.UnsetType = msgspec.UNSET  # notes on damaged journals; absent if none is damaged
    # Two runs in one (`ddptui compare`) have these two, a run of its own neither.
    baselines: dict[str, str] | msgspec.UnsetType = msgspec.UNSET  # by trial: that of run A with which it is compared
    differences: list[str] | msgspec.UnsetType = msgspec.UNSET  # in settings, machine, versions and load of the runs

    @property
    def base(self) -> TrialResult:
        """The baseline trial's result."""
        return next(trial for trial in self.trials if trial.name == self.baseline)

    @property
    def of_two_runs(self) -> bool:
        """Whether these are trials of two runs, A:name and B:name."""
        return self.baselines is not msgspec.UNSET

    def base_of(self, trial: TrialResult) -> TrialResult | None:
        """The trial that this one is compared with, which may be itself; None: of two runs, only one has it."""
        name = self.baselines.get(trial.name) if self.baselines is not msgspec.UNSET else self.baseline
        return next((other for other in self.trials if other.name == name), None)
