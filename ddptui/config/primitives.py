"""What the console knows of each primitive, and which fields of a trial go with primitives.

How each one is called is in workers/primitives/."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from ddptui.config.strategies import COMPOSITES

ReduceOpName = Literal["sum", "product", "max", "min", "avg"]
REDUCE_OPS: tuple[ReduceOpName, ...] = ("sum", "product", "max", "min", "avg")
Factor = Callable[[int], float]


def _all_of_it(ranks: int) -> float:
    return 1.0


def _but_ones_own(ranks: int) -> float:
    return (ranks - 1) / ranks


def _there_and_back(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


class PrimitiveFacts(NamedTuple):
    """moves     what it does, in a line
    factor    bus bandwidth over algorithm bandwidth, by the number of ranks (nccl-tests, doc/PERFORMANCE.md)
    reduces   takes a reduction operator
    rooted    one rank gives to all, or gets from all
    in_parts  its bytes are those of all ranks' parts together, again as in nccl-tests: each rank gives or gets one part
    has_bytes something moves, so that there are sizes; shown: it can be looked at
    """

    moves: str
    factor: Factor = _all_of_it
    reduces: bool = False
    rooted: bool = False
    in_parts: bool = False
    has_bytes: bool = True
    shown: bool = True


OPERATIONS: dict[str, PrimitiveFacts] = {
    "send_recv": PrimitiveFacts("one rank sends, one receives; both wait until it is done"),
    "isend_irecv": PrimitiveFacts("every rank sends to its right and receives from its left, at once"),
    "broadcast": PrimitiveFacts("the root's tensor to all", rooted=True),
    "reduce": PrimitiveFacts("all tensors as one to the root", reduces=True, rooted=True),
    "all_reduce": PrimitiveFacts("all tensors as one to all", _there_and_back, reduces=True),
    "gather": PrimitiveFacts("everybody's part to the root", _but_ones_own, rooted=True, in_parts=True),
    "all_gather": PrimitiveFacts("everybody's part to all", _but_ones_own, in_parts=True),
    "scatter": PrimitiveFacts("of the root's parts, one to each", _but_ones_own, rooted=True, in_parts=True),
    "reduce_scatter": PrimitiveFacts("all tensors as one, of which each rank gets a part", _but_ones_own, reduces=True,
                            in_parts=True),
    "all_to_all": PrimitiveFacts("of everybody's parts, one to each", _but_ones_own, in_parts=True),
    "barrier": PrimitiveFacts("nothing moves: nobody goes on before all have come", has_bytes=False),
    "local_sum": PrimitiveFacts("a rank adds one tensor to another, alone: no wire", shown=False),
}  # fmt: skip


def primitive_facts(operation: str, *, composite: bool = False) -> PrimitiveFacts:
    """Of a composite: those of what it stands for, an all_reduce."""
    return OPERATIONS["all_reduce" if composite else operation]


def primitive_title(operation: str, *, composite: bool = False) -> str:
    """As it is shown: torch.distributed's name, or what a composite is made of."""
    return COMPOSITES[operation] if composite else operation.replace("_", "/", 1) if "recv" in operation else operation


def operations_tried(named: tuple[str, ...], *, shown: bool) -> list[str]:
    """The operations that are meant: as named, or else all, in their order."""
    return list(named) or [name for name, facts in OPERATIONS.items() if facts.shown or not shown]


def message_sizes(min_bytes: int, max_bytes: int, step_factor: int) -> list[int]:
    """From the smallest to the largest, each `step_factor` times the one before: as nccl-tests' -b, -e and -f."""
    found = [min_bytes]
    while found[-1] * step_factor <= max_bytes:
        found.append(found[-1] * step_factor)
    return found
