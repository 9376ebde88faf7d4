"""Rules about idle time, spent on transfers or waiting for late ranks, and about the calls that were sent. Pure.

The sum of both is judged first, then the larger part: if ranks are hardly idle, the reason does not matter.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median, mode
from typing import NamedTuple

from ddptui.analysis.finding import Finding, Kind, Where
from ddptui.analysis.late import Window
from ddptui.analysis.operations import Piece, operation_keys, phase_spans
from ddptui.analysis.policy import FEWEST_STEPS, MATTERS, MOST_OF_TRANSFER, MUCH, SMALL_BYTES, SMALL_CALLS
from ddptui.text.words import MS
from ddptui.wire.messages import GATHER_OUTPUTS
from ddptui.wire.phases import BETWEEN as BETWEEN_STEPS
from ddptui.wire.phases import PARTS

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
        return None  # the rule small_calls gives its own advice
    return OF_FSDP if most.kind.startswith(SHARDED) else OF_COMMAND


def small_calls(window: Window) -> Iterator[Finding]:
    """Finds that most of the transfer time is many small calls without gradients, or barriers."""
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
            made[sent].append((call.bytes, exposed_ns, _phase(spans, call.called_ns), call.line))
    number = len(window.steps) * len(window.ranks)
    costs = {}
    for sent, calls in made.items():
        sizes, exposed, phases, lines = zip(*calls, strict=True)
        line = mode([line for line in lines if line is not None] or [None])
        costs[sent] = Cost(len(calls) / number, median(sizes), mode(phases), sum(exposed) / number, line)
    return costs


def _phase(spans: Sequence[Piece], moment_ns: int) -> str:
    return next((PARTS[part] for part, begin, end in spans if begin <= moment_ns < end), BETWEEN_STEPS)
