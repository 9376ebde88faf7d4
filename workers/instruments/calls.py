"""A rank's calls of collectives as the tap saw them; and what is told of them, once the device has got there."""

from collections.abc import Sequence
from typing import Any

import msgspec
import torch

from ddptui.wire.messages import Collective

KINDS = {  # torch's word in a hook, where it is not the function's name in capitals
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "ALLGATHER_BASE": "all_gather_into_tensor",
    "REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all_single",
}
POINT_TO_POINT = ("send", "recv")
IN_FORWARD = 1  # phases are over


class Call(msgspec.Struct, gc=False):
    """One call, its moments as the clock has them: see wire.Collective. Made while the others wait: so it is plain."""

    kind: str
    size: int  # bytes
    root: int | None
    group: tuple[int, ...]
    lap: int  # how many phases of the step were over
    called: Any
    enter: Any
    background: bool = False  # the rank goes on meanwhile
    issued: Any = None
    thread: int = 0  # in which it was issued, if in the background
    awaited: Any = None
    told: Any = None  # when torch said that it was over, if it was asked; perhaps late
    over: Any = None  # when it was over at the latest

    def moments(self) -> list[Any]:
        if self.over is None:  # nobody has waited for it
            self.awaited = self.over = self.issued or self.enter
        return [self.called, self.enter, self.awaited, self.told or self.over, self.over]


def carries(call: Call) -> bool:
    """Whether it is one of those that carry gradients while the rank goes on."""
    return call.background and call.lap > IN_FORWARD


def collectives(calls: Sequence[Call], times: Sequence[int], *, buckets: bool) -> tuple[Collective, ...]:
    """What is told of a step's calls, in the order in which they were entered; times: their moments in ns, five each;
    buckets: each that carries gradients carries a bucket of them."""
    told = []
    numbers: dict[tuple[int, ...], int] = {}  # of the next one, by group
    bucket = 0
    by_call = zip(*[iter(times)] * 5, strict=True)
    for call, (called_ns, enter_ns, awaited_ns, told_ns, over_ns) in zip(calls, by_call, strict=True):
        number = 0
        if call.kind not in POINT_TO_POINT:
            number = numbers.get(call.group, 0)
            numbers[call.group] = number + 1
        told.append(
            Collective(
                kind=call.kind,
                seq=number,
                bytes=call.size,
                called_ns=called_ns,
                enter_ns=enter_ns,
                awaited_ns=max(awaited_ns, enter_ns),  # torch's own threads may call it when the rank waits already
                exit_ns=min(told_ns, over_ns),
                root=call.root,
                group=call.group,
                bucket=bucket if buckets and carries(call) else None,
            )
        )
        bucket += carries(call)
    return tuple(told)


def kinds() -> dict[int, str]:
    """By torch's number of an operation, as its hooks have it, what torch.distributed calls it."""
    names = torch._C._distributed_c10d.HookOpName.__members__
    return {member.value: KINDS.get(name, name.lower()) for name, member in names.items()}
