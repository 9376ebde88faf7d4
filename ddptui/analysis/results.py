"""The types of results.json. Its keys are a promise, and name the unit of times. None: a figure could not be taken."""

from typing import Any, Literal

import msgspec

from ddptui.analysis.cautions import Caution
from ddptui.analysis.finding import Finding
from ddptui.analysis.primitives.results import NcclUse, PrimitivesResult, Ratio
from ddptui.config.trial import StartKind, TrialKind
from ddptui.wire.messages import Audit

SCHEMA = 1  # its version
Verdict = Literal["transfer", "skew", "mixed", "inconclusive"]


class StepMs(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of all measured steps of all ranks, in ms."""

    median: float
    p10: float
    p90: float


class LongStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took more than twice the median."""

    step: int
    ms: float


class TimeParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the train time in s, means over ranks. All together make this time."""

    median_s: float  # all steps, had each taken the median
    long_s: float  # by how much the long steps exceeded it
    between_steps_s: float  # within an epoch
    between_epochs_s: float
    others_s: float  # what is left: by how much the other steps exceeded the median, or stayed below
    long_steps: int
    longest: list[LongStep]  # at most three, the longest first, each on the rank where it took longest


class PhasesMs(msgspec.Struct, frozen=True, kw_only=True):
    """The median of each phase over a rank's steps, mean over ranks, in ms."""

    data: float
    forward: float
    backward: float
    aggregate: float
    optimizer: float


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The mean loss over the first and the last tenth of the measured steps, by sample. None: not finite; or, in a
    training of the user's own, perhaps none that can be read."""

    first: float | None
    last: float | None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all ranks had the same bits after a step, checked if `hash_every` is set."""

    step: int
    parameters: bool
    buffers: bool
    differing: list[str]  # names of tensors


class InSync(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all ranks ended with the same bits. None: there is one copy of the model."""

    parameters: bool | None
    buffers: bool | None
    differing: list[str]  # names of tensors


class Averaging(Audit, frozen=True, kw_only=True):
    """The audits of all ranks as one, each error as on the rank where it is largest, with the verdict."""

    right: bool | None = None  # None: no bound is known, or a value was not finite
    why: str | None = None  # it is not right


class ConfidenceInterval(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with its interval of 95 % confidence."""

    estimate: float
    low: float
    high: float


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """The rank that the others waited for."""

    rank: int
    phase: str  # in which it lost most
    phases: dict[str, float] = {}  # parts of its loss by phase, summing to 1, largest first
    share: float  # the part of all waiting that its own work caused
    wait_caused_s: float  # this waiting, summed over ranks
    excess_s: ConfidenceInterval  # how much longer than the others it worked, over all measured steps
    slower: float | None = None  # by what factor, if it was slower in every phase
    steps: tuple[int, int] | None = None  # first and last of those that it was judged on, if not on all measured ones


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated train time in s, had ranks worked in another way: a rough estimate."""

    without_culprit: float | None  # had the culprit worked as the others; None: no culprit
    without_skew: float  # and had besides all ranks worked alike


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """The delays injected at one site of one rank: how often they fired, and how long they took."""

    rank: int
    at: str
    fired: int
    s: float


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Delays that the user injected or removed while the repeat ran."""

    s: float  # since the first step began
    step: int | None  # the first with the new delays, if there was one
    steps: int | None = None  # measured ones from then on until the next change; None: without instruments
    bottleneck: list[dict[str, Any]]  # all delays from then on
    culprit: Culprit | None = None  # judged on these steps alone


class OtherLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What else this host did while all ranks trained."""

    cores: float  # that were busy with it, mean
    stolen: float  # of these, those that a hypervisor gave to other machines
    by: str = ""  # the process that was the busiest for longest; empty: none was found
    idle: float = 0.0  # cores that no program used


class RankResult(msgspec.Struct, frozen=True, kw_only=True):
    """One rank. From wait_s to bytes, None: no collectives; for waits also that the clock error exceeds them."""

    rank: int
    host: str
    pid: int
    device: str
    wait_s: float | None = None  # idle, while a rank that it needed had not come
    transfer_s: float | None = None  # operations were under way, and no needed rank was missing
    exposed_s: float | None = None  # idle, while operations were under way
    work_s: dict[
        str, float
    ] = {}  # own work by phase and "between steps"; what was injected is in it; {}: no step known
    overlap: float | None = None  # the part of the time with operations under way in which it did something else
    waited_for_s: dict[int, float] = {}  # how much of wait_s was for which rank
    wait_caused_s: float | None = None  # how long the others waited for its own work, summed over ranks
    last_arrivals: int | None = None  # number of operations to which it came last
    collectives: int | None = None
    bytes: int | None = None
    bottleneck_fired: int
    bottleneck_s: float
    queued_s: float = 0.0  # its training was ready to go on, but had no core; 0.0 where the system does not count it
    start_s: float = 0.0  # from its first message until it joined the others
    device_why: str = ""  # why this device, if the trial did not choose one
    peak_gpu_bytes: int | None = None  # the most GPU memory that its tensors took
    peak_gpu_reserved_bytes: int | None = None  # the most that torch held for them, used or not
    # Down to joules_a_step: of a rank on a GPU. What its GPU did includes other programs' use.
    samples_per_s: float | None = None  # over all measured steps; None: nobody counted them
    tflops: float | None = None  # 10^12 floating-point operations a second, over all measured steps; None: not counted
    mfu: float | None = None  # the part of what its GPUs can do in that precision; None: their peak is not known
    gpu_busy: float | None = None  # the part of the time in which some kernel ran on its GPU
    peak_gpu_used_bytes: int | None = None  # the most that was in use of its GPU's memory
    gpu_total_bytes: int | None = None  # all that its GPU has
    watts: float | None = None  # the mean power of its GPU
    sm_mhz: float | None = None  # the median clock of its GPU's processors
    held_back_part: float | None = None  # the part of the time in which heat or the power supply lowered that
    joules_a_step: float | None = None  # of its GPU
    sub_batch: int | None = None  # dp: the most samples that this replica got in a step
    dropped: int = 0  # messages lost because the rank's queue was full; figures lack what they reported


class RepeatResult(msgspec.Struct, frozen=True, kw_only=True):
    """One launch."""

    backend: str | None = None  # of the process group, if there is one
    backend_why: str = ""  # why this one
    nccl: NcclUse | None = None  # None: another backend
    train_time_s: float  # from the first measured step to the last optimizer step, of the slowest rank
    startup_s: float  # from the launch to the first step, of the slowest rank
    start: StartKind = "cold"  # warm: ranks were forked from a process that had imported torch
    start_why: str = ""  # why it was cold, where the trial did not ask for it
    steps: int  # made and measured: warm-up steps are in no figure, but a delay at `start` is
    # Of a long launch, or where not all were reported: phases, waits and loss are of so many; sums are scaled to all.
    looked_at: int | None = None
    samples_per_s: float | None  # None: how many samples a watched training has is not known
    step_ms: StepMs | None  # None without instruments, as phases_ms
    phases_ms: PhasesMs | None
    time_parts: TimeParts | None = None  # None without instruments
    wait_ms: float | None = None  # as transfer_ms: median per step, mean over ranks; None where less than its error
    transfer_ms: float | None = None
    clock_error_ms: float | None = None  # how far clocks of two hosts, or GPUs, may be apart; None: there is one clock
    wait_error_ms: float | None = None  # by how much this may put off wait_ms and transfer_ms
    overlap: float | None = None  # mean over ranks
    wait_share: float | None = None  # of the train time, mean over ranks
    transfer_share: float | None = None  # likewise, for exposed transfers
    verdict: Verdict = "inconclusive"
    findings: list[Finding] = []  # where the time went, the most costly first
    culprit: Culprit | None = None
    rank_without_core: int | None = None  # late since other programs had its core
    what_if_s: WhatIf | None = None
    mismatches: list[str] = []  # steps in which ranks made different operations; no figure of waiting contains them
    injected: list[Injected] = []
    changes: list[Change] = []  # of delays, made by hand while it ran
    other_load: OtherLoad | None = None  # None: it was not read, as of a short training, or of ranks on other hosts
    refused: int = 0  # frames and messages from senders that are no rank of this launch
    warnings: list[Caution] = []
    loss: Loss
    accuracy: float | None
    in_sync: InSync
    sync_checks: list[Check] = []
    averaging: Averaging | None = None  # None: there is no process group
    tflops: float | None = None  # as of a rank, their mean
    mfu: float | None = None  # of all GPUs together, each once
    joules_a_step: float | None = None  # likewise
    reshuffled: bool | None = None  # every epoch had an order of its own; None: there was one epoch
    ranks: list[RankResult]

    @property
    def compared(self) -> int:
        """On how many steps the ranks were compared."""
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
    """One trial."""

    name: str
    kind: TrialKind = "training"  # command: a training of the user's own; primitives: collectives alone
    status: Literal["ok", "failed", "skipped"]
    error: str | None
    config: dict[str, Any]
    command: list[str]
    repeats: list[RepeatResult]
    summary: Summary | None  # None: no repeat has figures
    findings: list[Finding] = []  # those of most repeats: the late rank first, then the most costly
    primitives: list[PrimitivesResult] = []  # one a launch, if the ranks run primitives instead of training


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of results.json."""

    schema: int = SCHEMA
    run: str
    preset: str
    baseline: str
    environment: dict[str, Any]
    status: Literal["ok", "failed", "interrupted"]
    repeats: int | None = None  # of each trial, as its preset asks for; a trial has fewer if one was skipped or failed
    trials: list[TrialResult]
    findings: list[Finding] = []  # the answer to the preset's question: its trials beside each other
    unread: list[str] | msgspec.UnsetType = msgspec.UNSET  # notes on damaged journals; absent if none is damaged
    # Two runs in one (`ddptui compare`) have these two, a run of its own neither.
    baselines: dict[str, str] | msgspec.UnsetType = msgspec.UNSET  # by trial: that of run A with which it is compared
    differences: list[str] | msgspec.UnsetType = msgspec.UNSET  # in settings, machine, versions and load of the runs

    @property
    def base(self) -> TrialResult:
        """The baseline's result."""
        return next(trial for trial in self.trials if trial.name == self.baseline)

    @property
    def of_two_runs(self) -> bool:
        """Whether these are trials of two runs, A:name and B:name."""
        return self.baselines is not msgspec.UNSET

    def base_of(self, trial: TrialResult) -> TrialResult | None:
        """The trial that this one is compared with, which may be itself; None: of two runs, only one has it."""
        name = self.baselines.get(trial.name) if self.baselines is not msgspec.UNSET else self.baseline
        return next((other for other in self.trials if other.name == name), None)
