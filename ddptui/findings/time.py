"""Rules about where the time of all ranks goes: data, epochs, work, transfers, and waiting for late ranks. Pure.

The sum of both is judged first, then the larger part: if ranks are hardly idle, the reason does not matter.

Also collects the findings of all rules about a window.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median, mode
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from ddptui.analysis.finding import ABOUT_LATE_RANK, EXPLAIN_IDLE, IDLE, PAUSES, Finding, Kind, Where
from ddptui.analysis.late import Window
from ddptui.analysis.operations import BETWEEN, operation_keys, overlapping, part_at, phase_spans, total_ns
from ddptui.analysis.places import lines_on_all_ranks
from ddptui.analysis.policy import (
    AT_ITS_LIMIT,
    FEWEST_STEPS,
    FIRST_OF_EPOCH,
    LARGE,
    LONG_FETCHES,
    MATTERS,
    MOST_OF_TRANSFER,
    MUCH,
    SMALL_BYTES,
    SMALL_CALLS,
    STEADY,
)
from ddptui.findings.patterns import CALMER, every_so_many, pauses, trends, uneven_work
from ddptui.findings.trial import most_costly_first
from ddptui.text.words import MS, S
from ddptui.wire.messages import GATHER_OUTPUTS
from ddptui.wire.phases import PARTS, PHASES

AVERAGING = ("aggregate", "backward")  # phases in which gradients are sent
BARRIER = "barrier"
SHARDED = ("all_gather", "reduce_scatter")  # the collectives of FSDP
CALLS = "Try a strategy with fewer collectives: flat (one buffer) or ddp (buckets)"
BYTES = "Try a larger batch, fewer bytes (ddp_bf16), or averaging less often (`--set every=4`)"
OF_COMMAND = "Try a larger batch, gradients in fewer bytes (DDP's bf16_compress_hook), or fewer averages (no_sync)"
OF_FSDP = (
    "Try a larger batch, `reshard_after_forward=False` (parameters are gathered once a step), or prefetching "
    "(`set_modules_to_forward_prefetch`)"
)
RARER = "Gather metrics less often, or in one call"
NO_BARRIERS = "Try fewer barriers, since every collective waits for all ranks anyway"
CORES = "Give each rank a core, or try larger batches"


class Sent(NamedTuple):
    """Calls of one kind."""

    kind: str  # name in torch.distributed
    has_bucket: bool  # the call carries a bucket of gradients
    is_small: bool


class Cost(NamedTuple):
    """The cost of calls of one kind, per step and rank."""

    calls: float
    bytes: float  # median size of a call
    phase: str  # the phase of most calls, one of PARTS
    exposed_ns: float  # idle time after all ranks had arrived
    line: int | None = None  # number of the line that called most of those whose line is known


def idle_shares(window: Window) -> tuple[float, float]:
    """The shares of the time that ranks stood idle: (for late ranks, for transfers)."""
    whole_ns = window.covered_ns * len(window.ranks)
    own = [of_rank for step in window.steps for of_rank in step.ranks.values()]
    wait = sum(of_rank.wait_ns for of_rank in own) / whole_ns
    return wait, sum(of_rank.exposed_ns for of_rank in own) / whole_ns - wait


def nothing(window: Window) -> Iterator[Finding]:
    """Finds that there is nothing to worry about. Only used if no other rule found anything."""
    own = [of_rank for step in window.steps for of_rank in step.ranks.values()]
    if len(window.steps) >= FEWEST_STEPS and not window.withheld and any(of_rank.step.collectives for of_rank in own):
        yield Finding(kind=Kind.NOTHING, numbers={"share": sum(idle_shares(window))})


def idle_time(window: Window) -> Iterator[Finding]:
    """Finds idle time, mostly for transfers or mostly for late ranks."""
    if not window.waits_are_known:
        return
    wait, transfer = idle_shares(window)
    if wait + transfer < MATTERS:
        return
    kind = Kind.NETWORK if transfer > wait else Kind.WAITING
    numbers = {"share": wait + transfer, "wait_share": wait, "transfer_share": transfer}
    is_much = wait + transfer >= MUCH
    is_advised = is_much and len(window.steps) >= FEWEST_STEPS and not window.are_replicas
    yield Finding(
        kind=kind,
        severity="warning" if is_much else "note",
        place=GATHER_OUTPUTS if window.are_replicas else None,
        numbers=numbers,
        action=_action(window, kind) if is_advised else None,
    )


def _action(window: Window, kind: Kind) -> str | None:
    if kind is Kind.WAITING:
        return CORES
    costs = _costs(window)
    most = max(costs, key=lambda sent: costs[sent].exposed_ns)
    if not window.watched:
        return CALLS if sum(costs[sent].calls for sent in costs if not sent.has_bucket) >= SMALL_CALLS else BYTES
    if costs[most].phase not in AVERAGING and most.is_small:
        return None  # the rule small_calls gives its own advice
    return OF_FSDP if most.kind.startswith(SHARDED) else OF_COMMAND


def small_calls(window: Window) -> Iterator[Finding]:
    """Finds that most of the transfer time is many small calls without gradients, or barriers."""
    if not window.waits_are_known:
        return
    costs = _costs(window)
    exposed_ns = sum(cost.exposed_ns for cost in costs.values())
    step_ns = window.covered_ns / len(window.steps)
    if exposed_ns < MATTERS * step_ns:
        return
    for sent, cost in costs.items():
        of_gradients = sent.has_bucket or cost.phase == "aggregate" or (cost.phase in AVERAGING and not window.watched)
        is_many = cost.calls >= SMALL_CALLS or sent.kind == BARRIER
        if sent.is_small and is_many and not of_gradients and cost.exposed_ns >= MOST_OF_TRANSFER * exposed_ns:
            numbers = {"share": cost.exposed_ns / step_ns, "of_transfer_share": cost.exposed_ns / exposed_ns}
            numbers |= {"calls": cost.calls, "bytes": cost.bytes}
            action = NO_BARRIERS if sent.kind == BARRIER else RARER
            line = window.lines.get(cost.line) if cost.line is not None else None
            yield Finding(
                kind=Kind.SMALL_CALLS,
                severity="warning",
                phase=cost.phase,
                place=sent.kind,
                lines=(Where(place=line.stack[0].full_text, ms=cost.exposed_ns / MS),) if line else (),
                numbers=numbers,
                action=action,
            )


def _costs(window: Window) -> dict[Sent, Cost]:
    made: dict[Sent, list[tuple[int, int, str, int | None]]] = defaultdict(list)  # bytes, exposed ns, phase, line
    for of_rank in (of_rank for step in window.steps for of_rank in step.ranks.values()):
        spans = phase_spans(of_rank.step)
        for key, call in zip(operation_keys(of_rank.step), of_rank.step.collectives, strict=True):
            exposed_ns = max(0, min(of_rank.transfers[key], call.exit_ns - call.awaited_ns))
            sent = Sent(call.kind, call.bucket is not None, call.bytes <= SMALL_BYTES)
            made[sent].append((call.bytes, exposed_ns, PARTS[part_at(spans, call.called_ns)], call.line))
    number = len(window.steps) * len(window.ranks)
    costs = {}
    for sent, calls in made.items():
        sizes, exposed, phases, lines = zip(*calls, strict=True)
        line = mode([line for line in lines if line is not None] or [None])
        costs[sent] = Cost(len(calls) / number, median(sizes), mode(phases), sum(exposed) / number, line)
    return costs


DATA = PHASES.index("data")
MORE_WORKERS = "Try more workers in the DataLoader (`num_workers`), or less work per sample"
PERSISTENT = "Try `persistent_workers=True` in the DataLoader, so that workers are started only once"


OF_DATA = (Kind.DATA, Kind.FIRST_BATCH)
EXPLAINED = (  # a finding of the first kinds explains those of the second kinds, in these phases (None: in any)
    (OF_DATA, PAUSES, ("data",)),
    (OF_DATA, (Kind.TREND,), None),
    (OF_DATA, ABOUT_LATE_RANK, ("data",)),  # all ranks meet this limit, no matter which one fetches last
    ((Kind.UNEVEN_WORK,), PAUSES, ("forward", "backward")),
    ((*EXPLAIN_IDLE, *OF_DATA), (Kind.UNCERTAIN,), None),
    ((Kind.BY_TURNS, Kind.UNEVEN_WORK, *OF_DATA), (Kind.NO_CORE,), None),  # so the reason is not a lack of cores
)


def all_findings(window: Window, late: Sequence[Finding]) -> list[Finding]:
    """All findings about a window: first those about a late rank, then where else the time goes. late: findings about
    the rank that caused most of the waiting."""
    others = of_time(window)
    return [*_unexplained(late, by=others), *others] or [*nothing(window)]


def of_time(window: Window) -> list[Finding]:
    """All findings except those about a late rank, the most costly first. Kind.NOTHING is not among them, since it
    depends on the late rank, too."""
    enough = (data, between_steps, pauses, uneven_work, trends, small_calls) * (len(window.steps) >= FEWEST_STEPS)
    rules = (restarts, *enough, idle_time)
    found = [finding for rule in rules for finding in rule(window)] if window.steps else []
    if {finding.kind for finding in found} - {*IDLE}:
        found = [replace(finding, action=None) if finding.kind is Kind.WAITING else finding for finding in found]
    return most_costly_first(_unexplained(found, by=found))


def _unexplained(found: Sequence[Finding], by: Sequence[Finding]) -> list[Finding]:
    """The findings that no other one explains: each cause is reported once."""
    kinds = {finding.kind for finding in by}
    explained = [(kinds_of, phases) for causes, kinds_of, phases in EXPLAINED if kinds & {*causes}]
    return [
        finding
        for finding in found
        if not any(
            finding.kind in kinds_of and (not phases or finding.phase in phases) for kinds_of, phases in explained
        )
    ]


def restarts(window: Window) -> Iterator[Finding]:
    """Finds restarts, and the time until all ranks trained again, warm-up included. Needs no minimum of steps."""
    for before, after in pairwise(window.steps):
        whys = [why for last, why in window.restarts.items() if before.number <= last < after.number]
        if whys:
            ends = [of_rank.step.end_ns for of_rank in before.ranks.values()]
            begins = [of_rank.step.begin_ns for of_rank in after.ranks.values()]
            lost_ns = max(begins) - max(ends)
            numbers = {"lost_s": lost_ns / S, "share": lost_ns / (window.covered_ns + lost_ns)}
            place = whys[-1] or None
            yield Finding(kind=Kind.RESTART, severity="warning", steps=(after.number,), numbers=numbers, place=place)


def data(window: Window) -> Iterator[Finding]:
    """Finds that data takes a large part of the time on all ranks. Waiting for another rank's data counts as well: with
    a loader at its limit, a rank would take just as long if the others were faster."""
    fetches, whole_ns = window.work[:, :, DATA], window.covered_ns  # steps × ranks
    own = fetches.sum(axis=0) / whole_ns
    waited = [_waited_for_data(window, rank) for rank in window.ranks] if window.waits_are_known else [0]
    share = float(own.mean()) + fmean(waited) / whole_ns
    if share < LARGE or own.min() < AT_ITS_LIMIT:
        return
    epochs = np.array([next(iter(step.ranks.values())).step.epoch for step in window.steps])
    is_first = np.diff(epochs, prepend=epochs[0]) != 0
    in_first = float(fetches[is_first].sum() / fetches.sum())
    numbers = {"share": share, "low_share": float(own.min()), "high_share": float(own.max())}
    if in_first >= FIRST_OF_EPOCH:
        numbers |= {"first_s": float(np.median(fetches[is_first])) / S, "in_first_share": in_first}
        numbers["epochs"] = float(len({*epochs.tolist()}))
        yield Finding(kind=Kind.FIRST_BATCH, severity="warning", phase="data", numbers=numbers, action=PERSISTENT)
        return
    later = fetches[~is_first]
    slowest = np.sort(later[:, own.argmax()])
    long_ns = float(np.median(slowest[len(slowest) // 2 :])) / 2  # half the median of the slower half of its batches
    if (later >= long_ns).sum(axis=0).min() < LONG_FETCHES:
        return
    numbers["step_ms"] = share * whole_ns / len(window.steps) / MS
    if every := every_so_many(np.flatnonzero(fetches.max(axis=1) >= long_ns).tolist()):
        numbers["every_steps"] = float(every)
    numbers |= next((loaders.numbers for loaders in window.loaders.values()), {})
    lines = lines_on_all_ranks(window.spots, DATA, len(window.steps))
    yield Finding(kind=Kind.DATA, severity="warning", phase="data", lines=lines, numbers=numbers, action=MORE_WORKERS)


def _waited_for_data(window: Window, rank: int) -> int:
    """How long a rank waited for a rank that was fetching data, in ns."""
    waited = 0
    for aligned in window.steps:
        for wait in aligned.ranks[rank].waits:
            spans = phase_spans(aligned.ranks[wait.late_rank].step)
            fetching = sorted((begin, end) for part, begin, end in spans if part == DATA)
            waited += total_ns(overlapping(fetching, wait.begin, wait.end))
    return waited


def between_steps(window: Window) -> Iterator[Finding]:
    """Finds that work between steps takes a large part of the time on all ranks, in most steps."""
    between = window.work[:, :, BETWEEN]
    shares = np.minimum(between, STEADY * np.median(between, axis=0)).sum(axis=0) / window.covered_ns
    if (share := float(shares.mean())) >= LARGE and shares.min() >= LARGE / 2:
        numbers = {"share": share, "step_ms": share * window.covered_ns / len(window.steps) / MS}
        lines = lines_on_all_ranks(window.spots, BETWEEN, len(window.steps))
        yield Finding(kind=Kind.BETWEEN_STEPS, phase=PARTS[BETWEEN], lines=lines, numbers=numbers, action=CALMER)
