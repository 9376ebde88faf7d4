"""What heartbeats say over time: GPU readings, and what the workers of a rank's DataLoader do. Pure."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import msgspec

from ddptui.text.words import S
from ddptui.wire.messages import Gpu, Heartbeat

Figure = TypeVar("Figure", int, float)


class GpuReading(NamedTuple):
    """One reading of a GPU."""

    at_ns: int
    gpu: Gpu


def of_known(combine: Callable[[list[Figure]], Figure], figures: Iterable[Figure | None]) -> Figure | None:
    """Combines the figures that are not None, e.g. by their median. None if all are None."""
    known = [figure for figure in figures if figure is not None]
    return combine(known) if known else None


def part_held_back(readings: Sequence[GpuReading]) -> float | None:
    """The part of the readings in which heat or power limits lowered the clock. None: no reading says."""
    known = [reading.gpu.held_back for reading in readings if isinstance(reading.gpu.held_back, bool)]
    return sum(known) / len(known) if known else None


def watts(readings: Sequence[GpuReading]) -> float | None:
    """The mean power between the first and the last reading, in W, from the energy counter. None: fewer than two
    readings, or the counter went back, e.g. because the driver was reloaded."""
    counted = [(reading.at_ns, joules) for reading in readings if (joules := reading.gpu.joules) is not None]
    if not counted or any(after < before for (_, before), (_, after) in pairwise(counted)):
        return None
    (begin_ns, first), (end_ns, last) = counted[0], counted[-1]
    return (last - first) / ((end_ns - begin_ns) / S) if end_ns > begin_ns else None


class Loaders(msgspec.Struct):
    """The workers of one rank, while it trained."""

    workers: int = 0  # in the last heartbeat that saw any
    seen: int = 0  # workers over all heartbeats
    busy: float = 0.0  # of these: their share of a core, or 1 if they were ready to run, summed
    disk: int = 0  # of these: how many waited for a disk

    def add(self, heartbeat: Heartbeat) -> None:
        """Take a heartbeat; one without workers changes nothing."""
        if heartbeat.loaders:
            self.workers = len(heartbeat.loaders)
        for worker in heartbeat.loaders:
            self.seen += 1
            self.busy += max((worker.cpu_percent or 0.0) / 100, worker.state == "running")
            self.disk += worker.state == "disk"

    @property
    def numbers(self) -> dict[str, float]:
        """Numbers of a finding about data; empty if the rank has no workers."""
        if not self.seen:
            return {}
        shares = {"busy_share": min(1.0, self.busy / self.seen), "disk_share": self.disk / self.seen}
        return {"workers": float(self.workers)} | {f"workers_{name}": share for name, share in shares.items()}
