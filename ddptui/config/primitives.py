"""The primitives, one entry each. The classes that call them are in workers/primitives/."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from ddptui.config.strategies import COMPOSITES

Cadence = Literal["back_to_back", "barrier", "pipelined"]  # how timed calls follow each other
ReduceOpName = Literal["sum", "product", "max", "min", "avg"]
REDUCE_OPS: tuple[ReduceOpName, ...] = ("sum", "product", "max", "min", "avg")
Factor = Callable[[int], float]


def _all_but_own(ranks: int) -> float:
    return (ranks - 1) / ranks


def _there_and_back(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


class PrimitiveFacts(NamedTuple):
    """The properties of a primitive."""

    moves: str  # what it does, in one line
    factor: Factor = lambda ranks: 1.0  # busbw / algbw, by the number of ranks (nccl-tests, doc/PERFORMANCE.md)
    reduces: bool = False  # takes a reduction operator
    rooted: bool = False  # has a root: a rank that sends to all, or receives from all
    in_parts: bool = False  # its size is that of all ranks' parts together, as in nccl-tests
    has_bytes: bool = True  # it moves data, so it can be measured over sizes
    shown: bool = True  # `see` can show it
    pipelines: bool = True  # several calls can be in flight


OPERATIONS: dict[str, PrimitiveFacts] = {
    "send_recv": PrimitiveFacts("one rank sends, another receives; both block until it is done", pipelines=False),
    "isend_irecv": PrimitiveFacts("every rank sends to its right and receives from its left, at once"),
    "broadcast": PrimitiveFacts("every rank gets the root's tensor", rooted=True),
    "reduce": PrimitiveFacts("the root gets the reduced tensor", reduces=True, rooted=True),
    "all_reduce": PrimitiveFacts("every rank gets the reduced tensor", _there_and_back, reduces=True),
    "gather": PrimitiveFacts("the root gets every rank's part", _all_but_own, rooted=True, in_parts=True),
    "all_gather": PrimitiveFacts("every rank gets every rank's part", _all_but_own, in_parts=True),
    "scatter": PrimitiveFacts("every rank gets one of the root's parts", _all_but_own, rooted=True, in_parts=True),
    "reduce_scatter": PrimitiveFacts(
        "every rank gets its part of the reduced tensor", _all_but_own, reduces=True, in_parts=True),
    "all_to_all": PrimitiveFacts("every rank gets one part from every rank", _all_but_own, in_parts=True),
    "barrier": PrimitiveFacts("every rank waits until all ranks have arrived; no data moves", has_bytes=False),
    "local_sum": PrimitiveFacts(
        "each rank adds one tensor to another by itself; nothing is sent", shown=False, pipelines=False),
}  # fmt: skip


def primitive_facts(operation: str, *, composite: bool = False) -> PrimitiveFacts:
    """The properties of an operation. A composite computes what an all_reduce does, so it has those of all_reduce."""
    return OPERATIONS["all_reduce" if composite else operation]


def primitive_title(operation: str, *, composite: bool = False) -> str:
    """The name on screens: that of torch.distributed or, for a composite, the primitives that it consists of."""
    return COMPOSITES[operation] if composite else operation.replace("_", "/", 1) if "recv" in operation else operation


def operations_tried(named: tuple[str, ...], *, shown: bool, pipelined: bool = False) -> list[str]:
    """The operations that a trial lists. If it lists none: those in OPERATIONS that can be shown, or pipelined, if the
    trial does so."""
    possible = [name for name, facts in OPERATIONS.items() if facts.shown or not shown]
    return list(named) or [name for name in possible if OPERATIONS[name].pipelines or not pipelined]


def message_sizes(min_bytes: int, max_bytes: int, step_factor: int) -> list[int]:
    """The sizes in bytes, each step_factor times the one before, as with -b, -e and -f of nccl-tests."""
    sizes = [min_bytes]
    while sizes[-1] * step_factor <= max_bytes:
        sizes.append(sizes[-1] * step_factor)
    return sizes
