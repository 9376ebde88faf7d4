"""Time that ranks stand idle: for transfers or for late ranks, and what was sent. Pure.

First the sum of both, then the larger part: where ranks hardly stand idle, it does not matter for what.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median, mode
from typing import NamedTuple

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.operations import operation_keys
from ddptui.analysis.own_work import Piece, phase_spans
from ddptui.analysis.policy import FEWEST_STEPS, MATTERS, MOST_OF_TRANSFER, MUCH, SMALL_BYTES, SMALL_CALLS
from ddptui.analysis.window import Window
from ddptui.wire.messages import GATHER_OUTPUTS
from ddptui.wire.phases import BETWEEN as BETWEEN_STEPS
from ddptui.wire.phases import PARTS

AVERAGING = ("aggregate", "backward")  # phases in which gradients are sent
BARRIER = "barrier"
SHARDED = ("all_gather", "reduce_scatter")  # FSDP's
CALLS = "To try: fewer calls, as one buffer (flat) or buckets (ddp) make"
BYTES = "To try: a larger batch, fewer bytes (ddp_bf16), or averaging less often (`every`)"
OF_COMMAND = "To try: a larger batch, gradients in fewer bytes (DDP's bf16_compress_hook), or fewer averages (no_sync)"
OF_FSDP = (
    "To try: a larger batch, `reshard_after_forward=False` (parameters are gathered once a step), or prefetching "
    "(`set_modules_to_forward_prefetch`)"
)
RARER = "To try: gather metrics less often, or in one call"
NO_BARRIERS = "To try: fewer barriers: a collective waits for all ranks by itself"
CORES = "To try: a core for each rank, or larger batches"


class Sent(NamedTuple):
    """Calls of one kind."""

    kind: str  # its name in torch.distributed
    has_bucket: bool  # of gradients
    is_small: bool


class Cost(NamedTuple):
    """What such calls cost, per step and rank."""

    calls: float
    bytes: float  # of each, the median
    phase: str  # one of PARTS, in which most of them are
    exposed_ns: float  # ranks stood idle, though all had come


def idle_shares(window: Window) -> tuple[float, float]:
    """The shares of the time that a rank stood idle for late ranks, and for transfers."""
    whole_ns = window.covered_ns * len(window.ranks)
    own = [of_rank for step in window.steps for of_rank in step.ranks.values()]
    wait = sum(of_rank.wait_ns for of_rank in own) / whole_ns
    return wait, sum(of_rank.exposed_ns for of_rank in own) / whole_ns - wait


def nothing(window: Window) -> Iterator[Finding]:
    """That there is nothing to worry about; asked only where no other rule found anything."""
    own = [of_rank for step in window.steps for of_rank in step.ranks.values()]
    if len(window.steps) >= FEWEST_STEPS and not window.withheld and any(of_rank.step.collectives for of_rank in own):
        yield Finding(kind=Kind.NOTHING, numbers={"share": sum(idle_shares(window))})


def idle_time(window: Window) -> Iterator[Finding]:
    """How long ranks stood idle: for transfers, or for late ranks."""
    if not window.waits_are_known:
        return
    wait, transfer = idle_shares(window)
    if wait + transfer < MATTERS:
        return
    kind = Kind.NETWORK if transfer > wait else Kind.WAITING
    numbers = {"share": wait + transfer, "wait_share": wait, "transfer_share": transfer}
    is_much = wait + transfer >= MUCH
    threads = any(
        call.kind == GATHER_OUTPUTS for own in window.steps[0].ranks.values() for call in own.step.collectives
    )
    yield Finding(
        kind=kind,
        severity="warning" if is_much else "note",
        place=GATHER_OUTPUTS if threads else None,
        numbers=numbers,
        action=_action(window, kind) if is_much and len(window.steps) >= FEWEST_STEPS and not threads else None,
    )


def _action(window: Window, kind: Kind) -> str | None:
    if kind is Kind.WAITING:
        return CORES
    costs = _costs(window)
    most = max(costs, key=lambda sent: costs[sent].exposed_ns)
    if not window.watched:
        return CALLS if sum(costs[sent].calls for sent in costs if not sent.has_bucket) >= SMALL_CALLS else BYTES
    if costs[most].phase not in AVERAGING and most.is_small:
        return None  # what small_calls finds has its own
    return OF_FSDP if most.kind.startswith(SHARDED) else OF_COMMAND


def small_calls(window: Window) -> Iterator[Finding]:
    """Most of the transfers are many calls of few bytes that carry no gradients, or barriers."""
    if len(window.steps) < FEWEST_STEPS or not window.waits_are_known:
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
            yield Finding(
                kind=Kind.SMALL_CALLS,
                severity="warning",
                phase=cost.phase,
                place=sent.kind,
                numbers=numbers,
                action=action,
            )


def _costs(window: Window) -> dict[Sent, Cost]:
    made: dict[Sent, list[tuple[int, int, str]]] = defaultdict(list)  # bytes, ns exposed, phase
    for of_rank in (of_rank for step in window.steps for of_rank in step.ranks.values()):
        spans = phase_spans(of_rank.step)
        for key, call in zip(operation_keys(of_rank.step), of_rank.step.collectives, strict=True):
            exposed_ns = max(0, min(of_rank.transfers[key], call.exit_ns - call.awaited_ns))
            sent = Sent(call.kind, call.bucket is not None, call.bytes <= SMALL_BYTES)
            made[sent].append((call.bytes, exposed_ns, _phase(spans, call.called_ns)))
    number = len(window.steps) * len(window.ranks)
    costs = {}
    for sent, calls in made.items():
        sizes, exposed, phases = zip(*calls, strict=True)
        costs[sent] = Cost(len(calls) / number, median(sizes), mode(phases), sum(exposed) / number)
    return costs


def _phase(spans: Sequence[Piece], moment_ns: int) -> str:
    return next((PARTS[part] for part, begin, end in spans if begin <= moment_ns < end), BETWEEN_STEPS)
