"""Compares the collectives of all ranks in the first step of the user's own strategy, before each is carried out.

If ranks call different collectives, gloo ends a process without saying which line called what, and NCCL hangs. So each
rank first writes what it is about to call into the store by which the ranks have met, and reads what the others wrote.
"""

from collections import Counter
from datetime import timedelta

import torch.distributed as dist

from ddptui.wire.messages import POINT_TO_POINT, SAME_SIZE
from workers.instruments.records import Call

PATIENCE_S = 3.0  # a rank that comes no sooner is late for another reason, which the console finds
NO_CALL = "none"
REMEDY = "all ranks must call the same collectives in the same order"


class CallsDiffer(RuntimeError):
    """A rank calls another collective than most ranks."""


class SameCalls:
    """Checks each call of a rank in step 0."""

    def __init__(self, rank: int, ranks: int) -> None:
        self._rank, self._ranks = rank, ranks
        self._store = dist.distributed_c10d._get_default_store()
        self._number = 0
        self._is_over = ranks == 1

    def check(self, call: Call, step: int) -> None:
        """Compare a call with the other ranks' before it is made. Raises CallsDiffer on the ranks that differ from
        most, or, if there are as many, from rank 0."""
        if self._is_over or call.group or call.kind in POINT_TO_POINT:
            return
        self._is_over = step > 0
        self._number += 1
        keys = [f"ddptui/calls/{self._number}/{rank}" for rank in range(self._ranks)]
        self._store.set(keys[self._rank], NO_CALL if self._is_over else _as_text(call))
        try:
            self._store.wait(keys, timedelta(seconds=PATIENCE_S))
        except dist.DistStoreError:
            return
        calls = [self._store.get(key).decode() for key in keys]
        usual = max(calls, key=lambda each: (Counter(calls)[each], each == calls[0]))
        if calls[self._rank] != usual:
            self._is_over = True
            who = f"rank {self._rank} calls {calls[self._rank]}, and rank {calls.index(usual)} {usual}"
            raise CallsDiffer(f"as collective {self._number} of the first step, {who}; {REMEDY}")


def _as_text(call: Call) -> str:
    size = f" ({call.size:,} bytes)" if call.kind in SAME_SIZE else ""
    return f"{call.kind}{size}" + (f" of root {call.root}" if call.root is not None else "")
