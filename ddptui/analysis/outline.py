"""The part of results.json that lists of runs and projections read: its types."""

import msgspec

from ddptui.analysis.primitives.results import PrimitivesResult


class MedianOnly(msgspec.Struct, frozen=True):
    """A spread, of which only the median is read."""

    median: float


class TrainTime(msgspec.Struct, frozen=True):
    """A trial's summary, of which only the train time is read, in s."""

    train_time_s: MedianOnly


class RepeatOutline(msgspec.Struct, frozen=True):
    """A repeat; only the number of repeats is read."""


class TrialOutline(msgspec.Struct, frozen=True):
    """The part of a trial's result that lists of runs and projections read."""

    name: str
    status: str
    summary: TrainTime | None = None
    repeats: list[RepeatOutline] = []
    primitives: list[PrimitivesResult] = []


class ResultsOutline(msgspec.Struct, frozen=True):
    """The part of results.json that lists of runs and projections read. All versions of ddptui write it, old ones
    without `repeats`."""

    status: str
    trials: list[TrialOutline]
    repeats: int | None = None
