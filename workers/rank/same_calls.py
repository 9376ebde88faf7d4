"""Compares all ranks' collectives until the user's own strategy has averaged once, each before it is carried out.

If ranks call different collectives, gloo ends a process without saying which line called what, and NCCL hangs. So each
rank first writes what it is about to call into the store by which the ranks have met, and reads what the others wrote.
"""

import os
import sys
from collections import Counter
from datetime import timedelta

import torch.distributed as dist

from ddptui.wire.messages import POINT_TO_POINT, SAME_SIZE
from workers.instruments.records import Call
from workers.watch.ending import stack_of

PATIENCE_S = 3.0  # a rank that comes no sooner is late for another reason, which the console finds
NO_CALL = "none"
REMEDY = "all ranks must call the same collectives in the same order"


class CallsDiffer(RuntimeError):
    """A rank calls another collective than most ranks."""


class SameCalls:
    """Checks each call of a rank until it has averaged once."""

    def __init__(self, rank: int, ranks: int, steps: int) -> None:
        """steps: the number of steps up to the first average."""
        self._rank, self._ranks, self._steps = rank, ranks, steps
        self._store = dist.distributed_c10d._get_default_store()
        self._number = 0
        self._is_over = ranks == 1

    def check(self, call: Call | None, step: int) -> None:
        """Compare a call with the other ranks' before it is made. Raises CallsDiffer on the ranks that differ from
        most; if there are as many, from those that call one, or from rank 0. call: None at the end of a step."""
        if self._is_over or (call.group or call.kind in POINT_TO_POINT if call else step < self._steps - 1):
            return
        self._is_over = call is None
        self._number += 1
        keys = [f"ddptui/calls/{self._number}/{rank}" for rank in range(self._ranks)]
        self._store.set(keys[self._rank], f"{_as_text(call)}\n{_own_line()}")
        try:
            self._store.wait(keys, timedelta(seconds=PATIENCE_S))
        except dist.DistStoreError:
            return
        calls, lines = zip(*(self._store.get(key).decode().split("\n") for key in keys), strict=True)
        most_common = max(calls, key=lambda each: (Counter(calls)[each], each != NO_CALL, each == calls[0]))
        if calls[self._rank] != most_common:
            self._is_over = True
            other = calls.index(most_common)
            at = f" at {lines[other]}" if lines[other] else ""
            who = f"rank {self._rank} calls {calls[self._rank]}, and rank {other} {most_common}{at}"
            first = "the first step" if self._steps == 1 else f"the first {self._steps} steps"
            raise CallsDiffer(f"as collective {self._number} of {first}, {who}; {REMEDY}")


def _as_text(call: Call | None) -> str:
    if call is None:
        return NO_CALL
    size = f" ({call.size:,} bytes)" if call.kind in SAME_SIZE else ""
    return f"{call.kind}{size}" + (f" of root {call.root}" if call.root is not None else "")


def _own_line() -> str:
    """The line of the user's code that makes the call, e.g. mine.py:8. Empty outside of it."""
    places = stack_of(sys._getframe(1))
    return next((f"{os.path.basename(file)}:{line}" for file, line, _, is_own in places if is_own), "")
