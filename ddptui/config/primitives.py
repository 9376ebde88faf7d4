"""The primitives, one entry each. The class that calls one is in workers/primitives/."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from ddptui.config.strategies import COMPOSITES

Cadence = Literal["back_to_back", "barrier", "pipelined"]  # how calls that are timed follow each other
ReduceOpName = Literal["sum", "product", "max", "min", "avg"]
REDUCE_OPS: tuple[ReduceOpName, ...] = ("sum", "product", "max", "min", "avg")
Factor = Callable[[int], float]


def _all_but_own(ranks: int) -> float:
    return (ranks - 1) / ranks


def _there_and_back(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


class PrimitiveFacts(NamedTuple):
    """What the console knows of a primitive."""

    moves: str  # what it does, in one line
    factor: Factor = lambda ranks: 1.0  # bus over algorithm bandwidth, by the ranks (nccl-tests, doc/PERFORMANCE.md)
    reduces: bool = False  # takes a reduction operator
    rooted: bool = False  # one rank gives to all, or receives from all
    in_parts: bool = False  # its bytes are those of all ranks' parts together, as in nccl-tests
    has_bytes: bool = True  # it moves data, so that there are sizes
    shown: bool = True  # `see` can show it
    pipelines: bool = True  # several calls can be in flight


OPERATIONS: dict[str, PrimitiveFacts] = {
    "send_recv": PrimitiveFacts("one rank sends, one receives; both wait until it is done", pipelines=False),
    "isend_irecv": PrimitiveFacts("every rank sends to its right and receives from its left, at once"),
    "broadcast": PrimitiveFacts("the root's tensor to all", rooted=True),
    "reduce": PrimitiveFacts("all tensors as one to the root", reduces=True, rooted=True),
    "all_reduce": PrimitiveFacts("all tensors as one to all", _there_and_back, reduces=True),
    "gather": PrimitiveFacts("every rank's part to the root", _all_but_own, rooted=True, in_parts=True),
    "all_gather": PrimitiveFacts("every rank's part to all", _all_but_own, in_parts=True),
    "scatter": PrimitiveFacts("of the root's parts, one to each", _all_but_own, rooted=True, in_parts=True),
    "reduce_scatter": PrimitiveFacts(
        "all tensors as one, of which each rank gets a part", _all_but_own, reduces=True, in_parts=True),
    "all_to_all": PrimitiveFacts("of every rank's parts, one to each", _all_but_own, in_parts=True),
    "barrier": PrimitiveFacts("nothing moves: no rank goes on before all have arrived", has_bytes=False),
    "local_sum": PrimitiveFacts(
        "a rank adds one tensor to another, alone: no wire", shown=False, pipelines=False),
}  # fmt: skip


def primitive_facts(operation: str, *, composite: bool = False) -> PrimitiveFacts:
    """The facts of an operation; those of an all_reduce for a composite, which stands for one."""
    return OPERATIONS["all_reduce" if composite else operation]


def primitive_title(operation: str, *, composite: bool = False) -> str:
    """The name on screens: as in torch.distributed, or the primitives that a composite is made of."""
    return COMPOSITES[operation] if composite else operation.replace("_", "/", 1) if "recv" in operation else operation


def operations_tried(named: tuple[str, ...], *, shown: bool, pipelined: bool = False) -> list[str]:
    """The operations that a trial names, or else all that can be shown, or pipelined, in the order of the table."""
    possible = [name for name, facts in OPERATIONS.items() if facts.shown or not shown]
    return list(named) or [name for name in possible if OPERATIONS[name].pipelines or not pipelined]


def message_sizes(min_bytes: int, max_bytes: int, step_factor: int) -> list[int]:
    """The sizes in bytes, each step_factor times the one before, as -b, -e and -f of nccl-tests give them."""
    sizes = [min_bytes]
    while sizes[-1] * step_factor <= max_bytes:
        sizes.append(sizes[-1] * step_factor)
    return sizes
