"""Collects what the checks of a watched training compare between its ranks, while its messages arrive. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import msgspec

from ddptui.analysis.correctness import differing_names
from ddptui.analysis.operations import BETWEEN, part_at, phase_spans
from ddptui.wire.messages import POINT_TO_POINT, Batch, Fingerprint, Hello, Step
from ddptui.wire.phases import PHASES

FORWARD, BACKWARD, AGGREGATE, OPTIMIZER = (PHASES.index(name) for name in PHASES[1:])
AFTER = OPTIMIZER, BETWEEN  # where parameters are averaged, if they are
RANDOM = "random numbers"  # the setting that should differ; only of a model with dropout
MOST_PENDING = 500  # readings that some rank has not sent, and batches
SMALL = 64  # bytes: a collective with more in forward carries activations, not a metric
NEAR = 1e-3  # largest distance of gradients to a multiple of the mean, as a part of their length


class ComparedReads(msgspec.Struct, frozen=True, kw_only=True):
    """What ranks have read at the same moment, compared. Names are those of tensors that all these ranks have read."""

    step: int
    at_end: bool
    parameters: tuple[str, ...]  # that differ
    buffers: tuple[str, ...]
    gradients: tuple[str, ...]
    of_parameters: int  # number of those compared
    of_gradients: int
    ranks: int  # number of ranks compared
    scale: float | None  # the factor for which factor × mean of the ranks' own gradients is their gradient in the end
    mean_loss: bool  # whether these are gradients of a mean over a batch
    same_random: bool  # whether dropout takes the same random numbers on all ranks
    settings: Mapping[str, Mapping[int, str]]  # those that differ, by rank


class Losses(msgspec.Struct):
    """The losses of one rank that could be read."""

    first_finite: int | None = None  # number of the step; likewise below
    first_not: int | None = None  # the first NaN or infinite loss since the last finite one
    times: int = 0  # how often a loss was not finite


class CheckLog(msgspec.Struct):
    """What a watched launch has shown so far."""

    world_size: int = 0
    asked: int | None = None  # processes that the command asks its launcher for; None: unknown
    # By step, optimizer, at_end and whether parameters were read; then by rank.
    pending: dict[tuple[int, int, bool, bool], dict[int, Fingerprint]] = {}
    apart: set[str] = set()  # the parameters that have ever differed
    agree_again: bool = False  # whether one of them was the same later
    compared: list[ComparedReads] = []
    last: dict[int, Fingerprint] = {}  # the last reading of each rank
    batches: dict[tuple[int, int, int], dict[int, Batch]] = {}  # by loader, pass and batch; then by rank
    losses: dict[int, Losses] = {}
    # Of the steps of one rank, without warm-up:
    of_rank: int | None = None
    steps: int = 0
    averaging: int = 0  # steps in which a collective of several ranks carried gradients, or as much as parameters
    averaging_after: int = 0  # likewise, in or after the optimizer's step
    with_activations: int = 0  # steps in which a collective in forward carried activations
    kinds: Counter[str] = msgspec.field(default_factory=Counter)  # collectives of several ranks
    several_backwards: int = 0  # steps with several backward calls
    micro_batches: Counter[tuple[bool, ...]] = msgspec.field(default_factory=Counter)  # whether each was averaged
    early_ns: int = 0  # time spent on averages in all micro-batches but the last, in steps that average in each
    steps_ns: int = 0  # time of these steps

    def add(self, message: object) -> None:
        """Take a message; others than those of the checks are dropped."""
        match message:
            case Hello():
                self.world_size = message.world_size
                if message.rank in self.last:  # the ranks have been restarted
                    self.pending.clear()
            case Fingerprint() if message.settings:
                self._add_reading(message)
            case Batch() if len(self.batches) < MOST_PENDING:
                self.batches.setdefault((message.loader, message.passes, message.batch), {})[message.rank] = message
            case Step():
                self._add_loss(message)
                self.of_rank = message.rank if self.of_rank is None else self.of_rank
                if message.rank == self.of_rank and not message.warmup:
                    self._add_step(message)

    def _add_reading(self, reading: Fingerprint) -> None:
        self.last[reading.rank] = reading
        key = reading.step * (not reading.at_end), reading.optimizer, reading.at_end, bool(reading.parameters)
        of_moment = self.pending.setdefault(key, {})
        of_moment[reading.rank] = reading
        if len(of_moment) == self.world_size:
            for group in groups_of(self.pending.pop(key)):
                compared, names = compare(group)
                self.compared.append(compared)
                self.agree_again |= bool(self.apart & (names - {*compared.parameters}))
                self.apart |= {*compared.parameters}
        elif len(self.pending) > MOST_PENDING:
            del self.pending[next(iter(self.pending))]

    def _add_loss(self, step: Step) -> None:
        losses = self.losses.setdefault(step.rank, Losses())
        if not step.has_loss:
            return
        if step.loss is not None:
            losses.first_finite = step.step if losses.first_finite is None else losses.first_finite
            losses.first_not = None
        else:
            losses.first_not = step.step if losses.first_not is None else losses.first_not
            losses.times += 1

    def _add_step(self, step: Step) -> None:
        spans = phase_spans(step)
        calls = [(call, part_at(spans, call.called_ns)) for call in step.collectives if len(call.group) != 1]
        self.steps += 1
        self.kinds.update(call.kind for call, _ in calls)
        own = self.last.get(step.rank)
        parameters = int(own.settings.get("parameters", "0")) if own else 0
        carried: Counter[int] = Counter()
        for call, part in calls:
            carried[part] += call.bytes * (call.kind not in POINT_TO_POINT)
        after = sum(carried[part] for part in AFTER)
        self.averaging += any(call.bucket is not None for call, _ in calls) or carried.total() >= max(1, parameters)
        self.averaging_after += after >= max(1, parameters)
        is_ddp = own is not None and bool(own.ddp_groups)
        in_forward = (call for call, part in calls if part == FORWARD and not (is_ddp and call.kind == "broadcast"))
        self.with_activations += any(call.bytes > SMALL for call in in_forward)
        backwards = [(begin, end) for part, begin, end in spans if part == BACKWARD]
        self.several_backwards += len(backwards) > 1
        if len(backwards) > 1 and sum(part == OPTIMIZER for part, *_ in spans) == 1:
            self._add_micro_batches(step, backwards)

    def _add_micro_batches(self, step: Step, backwards: Sequence[tuple[int, int]]) -> None:
        within = [
            [call for call in step.collectives if call.bucket is not None and begin <= call.called_ns < end]
            for begin, end in backwards
        ]
        sizes = {sum(call.bytes for call in calls) for calls in within if calls}
        if len(sizes) != 1:  # not the same model each time
            return
        self.micro_batches[tuple(map(bool, within))] += 1
        if all(within):
            self.early_ns += sum(max(0, call.exit_ns - call.awaited_ns) for calls in within[:-1] for call in calls)
            self.steps_ns += step.end_ns - step.begin_ns


def processes_of(command: Sequence[str]) -> int | None:
    """The number of processes on a host that a command asks torchrun or accelerate for; None: unknown."""
    words = [
        word for part in command[: command.index("--") if "--" in command else None] for word in part.split("=", 1)
    ]
    for option, value in pairwise(words):
        if option.replace("-", "_") in ("__nproc_per_node", "__num_processes") and value.isdecimal():
            return int(value)
    return None


def groups_of(readings: Mapping[int, Fingerprint]) -> list[dict[int, Fingerprint]]:
    """The readings by the ranks that should agree: those of one torch DDP; without one, all."""
    groups: dict[tuple[int, ...], dict[int, Fingerprint]] = {}
    for rank, reading in readings.items():
        group = reading.ddp_groups[0] if len({*reading.ddp_groups}) == 1 else ()
        groups.setdefault(group, {})[rank] = reading
    return [group for group in groups.values() if len(group) > 1]


def compare(readings: Mapping[int, Fingerprint]) -> tuple[ComparedReads, set[str]]:
    """Compares the readings of several ranks. Returns the names of all compared parameters, too."""
    copies = [readings[rank] for rank in sorted(readings)]
    parameters, buffers, gradients = (
        _shared([getattr(copy, name) for copy in copies]) for name in ("parameters", "buffers", "gradients")
    )
    names = dict.fromkeys(name for copy in copies for name in copy.settings)
    texts = {name: {rank: readings[rank].settings.get(name, "") for rank in sorted(readings)} for name in names}
    compared = ComparedReads(
        step=copies[0].step,
        at_end=copies[0].at_end,
        parameters=_differing(parameters),
        buffers=_differing(buffers),
        gradients=_differing(gradients),
        of_parameters=len({*map(whole, parameters[0])}),
        of_gradients=len({*map(whole, gradients[0])}),
        ranks=len(copies),
        scale=_scale(copies),
        mean_loss=all(copy.mean_loss for copy in copies),
        same_random=len({*texts.get(RANDOM, {0: "", 1: "-"}).values()}) == 1,
        settings={name: of_rank for name, of_rank in texts.items() if len({*of_rank.values()} - {""}) > 1},
    )
    return compared, {*map(whole, parameters[0])}


def whole(name: str) -> str:
    """The name of a tensor, of a part of which this is the name."""
    return name.rpartition(" (")[0] or name


def _shared(hashes: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    names = [name for name in hashes[0] if all(name in other for other in hashes)]
    return [{name: of_rank[name] for name in names} for of_rank in hashes]


def _differing(hashes: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """The names of the tensors that differ."""
    return tuple(dict.fromkeys(map(whole, differing_names(hashes))))


def _scale(copies: Sequence[Fingerprint]) -> float | None:
    """The factor between the mean of the ranks' own gradients and the gradient that all have in the end. None: they
    were not sampled, are not finite, or are no multiple of the mean."""
    lengths = {len(copy.own) for copy in copies} | {len(copy.left) for copy in copies}
    if len(lengths) != 1 or 0 in lengths or len({copy.left for copy in copies}) > 1:
        return None
    rows = [*zip(*(copy.own for copy in copies), copies[0].left, strict=True)]
    finite = [[value for value in row if value is not None] for row in rows]
    pairs = [(fmean(own), left) for *own, left in finite if len(own) == len(copies)]
    square = sum(m * m for m, _ in pairs)
    if len(pairs) < len(rows) or not square:
        return None
    scale = sum(m * left for m, left in pairs) / square
    rest = sum((left - scale * m) ** 2 for m, left in pairs)
    return scale if rest <= NEAR**2 * scale**2 * square else None
