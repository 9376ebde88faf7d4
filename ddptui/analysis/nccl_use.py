"""The NCCL of a launch, as results.json has it: what ranks report of it, with what its log says."""

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ddptui.wire.limits import Count, Name, Word
from ddptui.wire.records import NcclLog

Words = Annotated[list[Word], Meta(max_length=16)]


class NcclUse(msgspec.Struct, frozen=True, kw_only=True):
    """The NCCL of a launch. From channels on, what its log says, with NCCL_DEBUG=INFO; None or empty: it does not."""

    version: Name
    implementation: Word  # torch's class around it
    channels: Count | None = None  # of collectives
    transports: Words = []  # P2P/CUMEM, SHM/direct/direct, NET/IB/GDRDMA: what connects ranks, most pairs first
    algorithms: Words = []  # RING/SIMPLE, TREE/LL: what it chose for some call, the most frequent first


def with_log(use: NcclUse | None, log: NcclLog | None) -> NcclUse | None:
    """What ranks told of their NCCL, with what its log says. A log alone is not enough: it may be of another group."""
    if use is None or log is None:
        return use
    return replace(use, channels=log.channels, transports=[*log.transports], algorithms=[*log.algorithms])
