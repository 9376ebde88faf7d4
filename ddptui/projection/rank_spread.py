"""How long ranks worked, launch by launch and step by step, and how they differ. Pure.

Launches differ among themselves; that is common to all ranks of one, so nobody waits for it, and it is taken out.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from ddptui.projection.measured import Launch, MeasuredTrial, Work

Picks = Sequence[Sequence[int]]  # by launch, which steps


class Scale(NamedTuple):
    """How many times as large a rank's batch is, and how many times as long what it computes takes."""

    batch: float = 1.0
    compute: float = 1.0


def length(work: Work, scale: Scale) -> float:
    """Of a rank's own work in a step, s."""
    computed = work.batch * scale.batch + work.rest
    return computed * scale.compute + work.batch_slept * scale.batch + work.rest_slept


def lengths(seen: MeasuredTrial, scale: Scale) -> list[list[list[float]]]:
    """By launch and rank, step by step; what a launch differs by from all others, taken out."""
    found = [[[length(work, scale) for work in own] for own in _by_rank(launch)] for launch in seen.launches]
    means = [fmean(map(fmean, ranks)) for ranks in found]
    usual = fmean(means)
    return [[[s - mean + usual for s in own] for own in ranks] for ranks, mean in zip(found, means, strict=True)]


def _by_rank(launch: Launch) -> Iterable[Sequence[Work]]:
    return zip(*(moment.work for moment in launch), strict=True)


def picked(lengths: Sequence[Sequence[Sequence[float]]], picks: Picks) -> list[list[float]]:
    """By rank, of all launches."""
    ranks = range(len(lengths[0]))
    return [
        [launch[rank][at] for launch, chosen in zip(lengths, picks, strict=True) for at in chosen] for rank in ranks
    ]


class Ranks(NamedTuple):
    """How the measured ranks differ. longest: the rank whose own work took longest on average; longer: by how much, s;
    doubt: its standard error; alike: the correlation of two ranks' work, step by step; steps: in how many."""

    longest: int
    longer: float
    uncertainty: float
    alike: float
    steps: int


def ranks_of(seen: MeasuredTrial) -> Ranks:
    """A difference that stays, and slowness that comes to all at once."""
    samples = picked(lengths(seen, Scale()), [range(len(launch)) for launch in seen.launches])
    means = [fmean(own) for own in samples]
    longest = max(range(len(means)), key=lambda rank: means[rank])
    variances = [_variance(own) for own in samples]
    together = _variance([fmean(step) for step in zip(*samples, strict=True)])
    count, within = len(samples), fmean(variances)
    alike = (count * together / within - 1) / (count - 1) if within else 0.0
    uncertainty = (variances[longest] / len(samples[longest])) ** 0.5
    return Ranks(longest, means[longest] - fmean(means), uncertainty, alike, len(samples[0]))


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean((value - mean) ** 2 for value in values)
