"""Ranges of NVTX, by which Nsight Systems shows what in a rank's training a kernel belongs to: a range for each step,
in it one for each phase, in that one for each call of a collective. A range is open while the host is there; Nsight
Systems projects it onto the kernels that were launched meanwhile.

Ranges of a thread nest. A collective in the background ends in another phase than the one it was called in, and perhaps
in another thread. So besides its call, which is over at once, it has a range of its own that does not nest, until the
host waits for it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch.distributed as dist
from torch.cuda import nvtx

from ddptui.text.units import size
from ddptui.text.words import WITH_CUDA

from .clock import Clock
from .records import Call, PhaseTimer
from .tap import Tap


class RangedTimer(PhaseTimer):
    """A timer that opens these ranges for its step and its phases. phases: of this step, in order, since a range has to
    have its name from the start."""

    def __init__(self, clock: Clock, step: int, phases: Sequence[str]) -> None:
        self._planned = phases
        nvtx.range_push(f"step {step}")
        nvtx.range_push(phases[0])
        super().__init__(clock, step)

    def end(self, phase: str) -> None:
        super().end(phase)
        nvtx.range_pop()
        ended = len(self.phases)
        if ended < len(self._planned):
            nvtx.range_push(self._planned[ended])
        else:
            nvtx.range_pop()  # the step's


class RangedTap(Tap):
    """A tap that opens these ranges for collectives."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Takes the arguments of Tap. Raises RuntimeError if this torch has no NVTX."""
        check_nvtx()
        self._in_flight: dict[int, tuple[Call, int]] = {}  # by id: the call, which is kept alive, and its range
        super().__init__(*arguments, **options)

    def before(self, kind: str, size: int, root: int | None, group: tuple[int, ...], by: str = "") -> Call | None:
        call = super().before(kind, size, root, group, by)  # with the injected delay, which is no part of the range
        if call is not None:
            nvtx.range_push(range_name(kind, size))
        return call

    def issued(self, call: Call, work: dist.Work | None, *, background: bool) -> None:
        super().issued(call, work, background=background)
        nvtx.range_pop()
        if background and work is not None:
            name = f"{range_name(call.kind, call.size)} in the background"
            self._in_flight[id(call)] = call, nvtx.range_start(name)

    def waited(self, call: Call) -> None:
        super().waited(call)
        self._close_ended()

    def settle(self) -> None:
        super().settle()
        self._close_ended()

    def end(self) -> list[Call]:
        calls = super().end()
        self._close_all()
        return calls

    def close(self) -> None:
        super().close()
        self._close_all()

    def _close_ended(self) -> None:
        for key, (call, opened) in list(self._in_flight.items()):  # torch's threads may add to it meanwhile
            if call.ended is not None:
                del self._in_flight[key]
                nvtx.range_end(opened)

    def _close_all(self) -> None:
        """Close the ranges of what the step has not waited for."""
        while self._in_flight:
            _, (_, opened) = self._in_flight.popitem()
            nvtx.range_end(opened)


@lru_cache(maxsize=1024)
def range_name(kind: str, nbytes: int) -> str:
    """What the range of a collective is called: all_reduce 4 MB."""
    return f"{kind} {size(nbytes)}" if nbytes else kind


def phases_of_step(*, average: str, averages: bool, updates: bool) -> tuple[str, ...]:
    """The phases of a step of the lab's loop, in order. average: what is averaged, the trial's field; averages: in this
    step; updates: whether the optimizer makes a step."""
    last = [("aggregate", averages), ("optimizer", updates)]
    if average == "parameters":  # after each rank's own step
        last.reverse()
    return "data", "forward", "backward", *(phase for phase, happens in last if happens)


def check_nvtx() -> None:
    """Raises RuntimeError if this torch has no NVTX."""
    try:
        nvtx.mark("ddptui")
    except RuntimeError:
        raise RuntimeError(
            f"nvtx = true: this torch has no NVTX, which comes with CUDA: {WITH_CUDA}, or nvtx = false"
        ) from None
