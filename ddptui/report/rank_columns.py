"""The columns of a trial's ranks in one repeat: waits, traffic, delays, device. Adding one is one entry in COLUMNS."""

from ddptui.analysis.results import RankResult
from ddptui.text.printable import printable
from ddptui.text.tables import Column
from ddptui.text.units import NOTHING, seconds, size


def _seconds(value: float | None) -> str:
    return seconds(value) if value is not None else NOTHING


def _number(value: int | None) -> str:
    return str(value) if value is not None else NOTHING


def _bytes(value: int | None) -> str:
    return size(value) if value is not None else NOTHING


def _waited_for(rank: RankResult) -> str:
    """The rank that this one waited for longest, and how long."""
    if not rank.waited_for_s:
        return NOTHING
    late_rank = max(rank.waited_for_s, key=lambda other: rank.waited_for_s[other])
    return f"rank {late_rank}: {seconds(rank.waited_for_s[late_rank])}"


def _delays(rank: RankResult) -> str:
    return f"{rank.bottleneck_fired}× {seconds(rank.bottleneck_s)}" if rank.bottleneck_fired else NOTHING


COLUMNS: tuple[Column[RankResult], ...] = (
    Column("rank", lambda rank: str(rank.rank)),
    Column("wait", lambda rank: _seconds(rank.wait_s)),
    Column("waits for", _waited_for, left=True),
    Column("wait caused", lambda rank: _seconds(rank.wait_caused_s)),
    Column("last in", lambda rank: _number(rank.last_arrivals)),
    Column("operations", lambda rank: _number(rank.collectives)),
    Column("transfer", lambda rank: _seconds(rank.transfer_s)),
    Column("exposed", lambda rank: _seconds(rank.exposed_s)),
    Column("overlap", lambda rank: f"{rank.overlap:.0%}" if rank.overlap is not None else NOTHING),
    Column("sent", lambda rank: _bytes(rank.bytes)),
    Column("delays", _delays),
    Column("gpu mem.", lambda rank: _bytes(rank.peak_gpu_bytes)),
    Column("device", lambda rank: printable(rank.device), left=True),
    Column("pid", lambda rank: str(rank.pid)),
    Column("host", lambda rank: printable(rank.host), left=True),
)
