"""The types of the part of results.json that lists of runs and projections read."""

import msgspec

from ddptui.analysis.primitives.results import PrimitivesResult


class MedianOnly(msgspec.Struct, frozen=True):
    """A spread of which only the median is read."""

    median: float


class TrainTime(msgspec.Struct, frozen=True):
    """A trial's summary of which only the train time, in s, is read."""

    train_time_s: MedianOnly


class RepeatOutline(msgspec.Struct, frozen=True):
    """A repeat that is only counted."""


class TrialOutline(msgspec.Struct, frozen=True):
    """What lists of runs and projections need of a trial's result."""

    name: str
    status: str
    summary: TrainTime | None = None
    repeats: list[RepeatOutline] = []
    primitives: list[PrimitivesResult] = []


class ResultsOutline(msgspec.Struct, frozen=True):
    """The part of results.json that lists of runs and projections need; every version of ddptui has written it,
    but `repeats`."""

    status: str
    trials: list[TrialOutline]
    repeats: int | None = None
