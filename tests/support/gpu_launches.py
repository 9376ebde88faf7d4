"""A made-up launch on GPUs: what its ranks tell of them, and heartbeats beside their steps."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from ddptui.wire.messages import Gpu, Heartbeat, Nccl, OwnGpu, Ready, Step
from ddptui.wire.records import Ended, Message
from tests.support.builders import FIRST_STEP_MS, MS, heartbeat, journal

H100 = "NVIDIA H100 80GB HBM3"
NCCL = Nccl("2.28.9", "ProcessGroupNCCL2")
MEASURED_MS = FIRST_STEP_MS + 100  # from here on, as `journal` has it
STEPS, STEP_MS = 10, 1000
Meter = Callable[[int, float], Gpu]  # of a rank, so many s after its first measured step began


def steady(rank: int, s: float, watts: float = 500.0) -> Gpu:
    """Its counter has run since long ago."""
    return Gpu(sm_mhz=1700.0, joules=1e6 + watts * s)


def gpu_launch(
    uuids: Sequence[Sequence[str]] = (("a",), ("b",)),
    *,
    name: str = H100,
    names: Mapping[str, str] = MappingProxyType({}),
    meter: Meter = steady,
    beats: Sequence[float] = range(-2, STEPS + 3),
    **facts: Any,
) -> list[Message]:
    """Ten measured steps of a second with 8 samples a rank; a heartbeat each second, before and after them, too.

    uuids: the GPUs of each rank. names: of those that are no `name`, by UUID. beats: when there are heartbeats, in s.
    facts: of their Ready.
    """
    told = {"flops": 1e12, "precision": "bf16", "nccl": NCCL} | facts
    messages = journal(ranks=len(uuids), steps=STEPS, step_ms=STEP_MS, device="cuda:0")
    for index, message in enumerate(messages):
        if isinstance(message, Ready):
            gpus = tuple(OwnGpu(names.get(uuid, name), uuid) for uuid in uuids[message.rank])
            messages[index] = msgspec.structs.replace(message, gpus=gpus, **told)
    beaten = [
        msgspec.structs.replace(heartbeat(rank), at_ns=round((MEASURED_MS + s * 1000) * MS), gpu=meter(rank, s))
        for s in beats
        for rank in range(len(uuids))
    ]
    return in_order([*messages, *beaten])


def in_order(messages: Sequence[Message]) -> list[Message]:
    """As they would come: steps when they end, heartbeats when they are read, all before the end."""
    first = next(index for index, message in enumerate(messages) if isinstance(message, Step))
    timed = [message for message in messages[first:] if isinstance(message, Step | Heartbeat)]
    rest = [message for message in messages[first:] if not isinstance(message, Step | Heartbeat | Ended)]
    timed.sort(key=lambda message: message.end_ns if isinstance(message, Step) else message.at_ns)
    return [*messages[:first], *timed, *rest, *(message for message in messages if isinstance(message, Ended))]
