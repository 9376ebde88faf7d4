"""The columns of a trial's ranks, in one repeat: who waited, for whom, and what was sent. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddptui.analysis.results import RankResult
from ddptui.text.printable import printable
from ddptui.text.units import NOTHING, seconds, size

UNITS = ("B", "kB", "MB", "GB", "TB")
LEFT = {"host", "device", "waits for"}


class RankColumn(NamedTuple):
    header: str
    cell: Callable[[RankResult], str]
    always: bool = True  # else: only where a rank has something to say in it


def _seconds(value: float | None) -> str:
    return seconds(value) if value is not None else NOTHING


def _number(value: int | None) -> str:
    return str(value) if value is not None else NOTHING


def amount(value: float | None) -> str:
    """Bytes, three digits that count."""
    if value is None:
        return NOTHING
    size = 0
    while value >= 1000 and size < len(UNITS) - 1:
        value, size = value / 1000, size + 1
    return f"{value:.3g} {UNITS[size]}"


def _waited_for(rank: RankResult) -> str:
    """The rank that it waited for longest, and how long."""
    if not rank.waited_for_s:
        return NOTHING
    whom = max(rank.waited_for_s, key=lambda other: rank.waited_for_s[other])
    return f"rank {whom}: {seconds(rank.waited_for_s[whom])}"


def _delays(rank: RankResult) -> str:
    return f"{rank.bottleneck_fired}× {seconds(rank.bottleneck_s)}" if rank.bottleneck_fired else NOTHING


def _peak(rank: RankResult) -> str:
    return size(rank.peak_gpu_bytes) if rank.peak_gpu_bytes is not None else NOTHING


def telling(ranks: Sequence[RankResult]) -> list[RankColumn]:
    """The columns of these ranks."""
    return [column for column in COLUMNS if column.always or any(column.cell(rank) != NOTHING for rank in ranks)]


COLUMNS = (
    RankColumn("rank", lambda rank: str(rank.rank)),
    RankColumn("wait", lambda rank: _seconds(rank.wait_s)),
    RankColumn("waits for", _waited_for),
    RankColumn("wait caused", lambda rank: _seconds(rank.wait_caused_s)),
    RankColumn("last in", lambda rank: _number(rank.last_arrivals)),
    RankColumn("operations", lambda rank: _number(rank.collectives)),
    RankColumn("transfer", lambda rank: _seconds(rank.transfer_s)),
    RankColumn("exposed", lambda rank: _seconds(rank.exposed_s)),
    RankColumn("overlap", lambda rank: f"{rank.overlap:.0%}" if rank.overlap is not None else NOTHING),
    RankColumn("sent", lambda rank: amount(rank.bytes)),
    RankColumn("delays", _delays),
    RankColumn("gpu mem.", _peak, always=False),
    RankColumn("device", lambda rank: printable(rank.device)),
    RankColumn("pid", lambda rank: str(rank.pid)),
    RankColumn("host", lambda rank: printable(rank.host)),
)
