"""What heartbeats told of the ranks' GPUs while they trained. Pure."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import msgspec

from ddptui.text.units import S
from ddptui.wire.messages import Gpu, Heartbeat, Trained

Figure = TypeVar("Figure", int, float)

MOST_READINGS = 50_000  # of all ranks together: some 20 MB, and half a day of one rank


class GpuReading(NamedTuple):
    """A moment of a GPU."""

    at_ns: int
    gpu: Gpu


class GpuReadings(msgspec.Struct):
    """The readings of one launch. Once they are too many, every other one of each rank goes."""

    kept: dict[int, list[GpuReading]] = {}  # by rank, in the order received
    received: dict[int, int] = {}  # by rank: how many
    stride: int = 1
    number: int = 0  # that are kept

    def add(self, message: Heartbeat) -> None:
        """Take a heartbeat; one without a GPU is dropped."""
        if message.gpu is None:
            return
        before = self.received.get(message.rank, 0)
        self.received[message.rank] = before + 1
        if before % self.stride == 0:
            self.kept.setdefault(message.rank, []).append(GpuReading(message.at_ns, message.gpu))
            self.number += 1
            if self.number > MOST_READINGS:
                self._thin()

    def _thin(self) -> None:
        self.stride *= 2
        self.kept = {rank: readings[::2] for rank, readings in self.kept.items()}
        self.number = sum(map(len, self.kept.values()))

    def move(self, console_ns: Callable[[int, int], int]) -> None:
        """Convert all times. console_ns: from a rank and a time by its clock."""
        for rank, readings in self.kept.items():
            readings[:] = [reading._replace(at_ns=console_ns(rank, reading.at_ns)) for reading in readings]

    def within(self, span: Trained) -> list[GpuReading]:
        """The readings of a rank in the measured part of its training."""
        return [reading for reading in self.kept.get(span.rank, ()) if span.begin_ns <= reading.at_ns <= span.end_ns]


def of_known(combine: Callable[[list[Figure]], Figure], figures: Iterable[Figure | None]) -> Figure | None:
    """One figure for those that the readings have, as their median. None: they have none."""
    known = [figure for figure in figures if figure is not None]
    return combine(known) if known else None


def part_held_back(readings: Sequence[GpuReading]) -> float | None:
    """The part of the readings in which heat or the power supply lowered the clock. None: no reading says."""
    known = [reading.gpu.held_back for reading in readings if isinstance(reading.gpu.held_back, bool)]
    return sum(known) / len(known) if known else None


def watts(readings: Sequence[GpuReading]) -> float | None:
    """The mean power from the first reading to the last one, by the counter of energy. None: there are not two, or the
    counter went back, as when the driver is loaded again."""
    counted = [(reading.at_ns, joules) for reading in readings if (joules := reading.gpu.joules) is not None]
    if not counted or any(after < before for (_, before), (_, after) in pairwise(counted)):
        return None
    (begin_ns, first), (end_ns, last) = counted[0], counted[-1]
    return (last - first) / ((end_ns - begin_ns) / S) if end_ns > begin_ns else None
