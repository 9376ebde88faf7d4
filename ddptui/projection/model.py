"""A measured trial on more ranks: work, the wait for the slowest, transfers, and how sure that is. Pure.

A step is the mean of a rank's own work, the wait until the slowest of all ranks has done its own (slowest.py), and what
nothing hides of the transfers (costs.py). Ranks are taken to be slow independently of each other. Launches differ among
themselves; that is common to all ranks of one, so nobody waits for it, and it is taken out first.

Weak scaling: a rank keeps its batch. Strong scaling: the ranks share out the measured global batch, so that data,
forward and backward shrink by N0/N, and the optimizer and what is between steps stay.

With `cores` all ranks share one host. Transfers are copies there, which all ranks make at once: they take max(1,
ranks/cores) times as long. A rank that computes competes with those that compute at the same time, and those are fewer,
where delays are slept: a fixed point, as in mean-value analysis of a closed queue (Reiser and Lavenberg, "Mean-value
analysis of closed multichain queuing networks", 1980). Where nothing is slept, it is ranks/cores again.

The band, 10 to 90 %: steps drawn anew with replacement, and everything worked out again (Efron, "Bootstrap methods:
another look at the jackknife", 1979).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import fmean, quantiles
from typing import NamedTuple

from ddptui.projection.costs import Backward, Traffic, sent
from ddptui.projection.network import Network
from ddptui.projection.seen import Launch, Seen, Work
from ddptui.projection.slowest import expected, slowest

DRAWN = 100  # times
SEED = 0
FIXED_POINT = 50  # rounds, far more than it takes

NetworkOf = Callable[[Sequence[Launch]], Network]  # of the trial's launches, as they were or as they were drawn
Picks = Sequence[Sequence[int]]  # by launch, which steps


class Asked(NamedTuple):
    """threads: that a rank computes with."""

    ranks: Sequence[int]
    strategies: Sequence[str]
    strong: bool = False
    cores: int | None = None
    threads: int = 1


class Scale(NamedTuple):
    """How many times as large a rank's batch is, and how many times as long what it computes takes."""

    batch: float = 1.0
    compute: float = 1.0


class Figures(NamedTuple):
    """In s. step: work, wait and exposed together."""

    work: float
    wait: float
    transfer: float
    exposed: float

    @property
    def step(self) -> float:
        return self.work + self.wait + self.exposed


class Projected(NamedTuple):
    """One strategy on so many ranks; low and high of its step, s."""

    strategy: str
    ranks: int
    figures: Figures
    low: float
    high: float


Key = tuple[str, int]


class Model:
    """What a projection is worked out with."""

    def __init__(self, seen: Seen, traffic: Traffic, network_of: NetworkOf, asked: Asked, slowed_from: int = 0) -> None:
        """slowed_from: the number of ranks on one host with which the network was measured; 0: it was stated."""
        self._seen = seen
        self._traffic = traffic
        self._network_of = network_of
        self._asked = asked
        self._slowed_from = slowed_from
        self._works = [work for launch in seen.launches for moment in launch for work in moment.work]
        self._backward = fmean(work.backward for work in self._works)
        self._slept_after = fmean(work.slept_after for work in self._works)
        self._scales = {ranks: self._scale(ranks) for ranks in asked.ranks}
        self._lengths = {scale: _lengths(seen, scale) for scale in set(self._scales.values())}

    def projected(self) -> list[Projected]:
        """Strategy by strategy."""
        as_seen = self._figures([range(len(launch)) for launch in self._seen.launches])
        draw = Random(SEED)
        drawn = [self._figures(self._picks(draw)) for _ in range(DRAWN)]
        return [
            Projected(strategy, ranks, figures, *_band(again[strategy, ranks].step for again in drawn))
            for (strategy, ranks), figures in as_seen.items()
        ]

    def _picks(self, draw: Random) -> Picks:
        return [draw.choices(range(len(launch)), k=len(launch)) for launch in self._seen.launches]

    def _figures(self, picks: Picks) -> Mapping[Key, Figures]:
        network = self._network_of(
            [[launch[at] for at in chosen] for launch, chosen in zip(self._seen.launches, picks, strict=True)]
        )
        samples = {scale: _picked(lengths, picks) for scale, lengths in self._lengths.items()}
        laws = {scale: slowest(ranks) for scale, ranks in samples.items()}
        means = {scale: fmean(map(fmean, ranks)) for scale, ranks in samples.items()}
        longest = {ranks: expected(laws[scale], ranks) for ranks, scale in self._scales.items()}
        return {
            (strategy, ranks): self._of(strategy, ranks, means[scale], longest[ranks], network)
            for strategy in self._asked.strategies
            for ranks, scale in self._scales.items()
        }

    def _of(self, strategy: str, ranks: int, mean: float, longest: float, network: Network) -> Figures:
        scale, slowed = self._scales[ranks], network.slowed(self._crowding(ranks))
        backward = Backward(self._backward * scale.batch * scale.compute, self._slept_after * scale.batch)
        found = sent(strategy, self._traffic, ranks, slowed, backward)
        return Figures(mean, max(0.0, longest - mean), found.transfer, found.exposed)

    def _crowding(self, ranks: int) -> float:
        """How many times as long as when they were measured transfers take."""
        if self._asked.cores is None:
            return 1.0
        return max(1.0, ranks / self._asked.cores) / max(1.0, self._slowed_from / self._asked.cores)

    def _scale(self, ranks: int) -> Scale:
        batch = self._seen.ranks / ranks if self._asked.strong else 1.0
        return Scale(batch, self._taking_turns(ranks, batch) if self._asked.cores else 1.0)

    def _taking_turns(self, ranks: int, batch: float) -> float:
        """How many times as long as measured computing takes."""
        computed = fmean(work.batch + work.rest for work in self._works)
        slept = fmean(work.batch_slept + work.rest_slept for work in self._works)
        measured = self._slowdown(self._seen.ranks, computed, slept)
        alone = fmean(work.batch * batch + work.rest for work in self._works) / measured
        asleep = fmean(work.batch_slept * batch + work.rest_slept for work in self._works)
        slowdown = 1.0
        for _ in range(FIXED_POINT):
            slowdown = self._slowdown(ranks, alone * slowdown, asleep)
        return slowdown / measured

    def _slowdown(self, ranks: int, computed: float, slept: float) -> float:
        """Of a rank that competes with those others that compute at the same time."""
        at_work = computed / (computed + slept) if computed else 0.0
        return max(1.0, (1 + (ranks - 1) * at_work) * self._asked.threads / (self._asked.cores or 1))


def length(work: Work, scale: Scale) -> float:
    """Of a rank's own work in a step, s."""
    computed = work.batch * scale.batch + work.rest
    return computed * scale.compute + work.batch_slept * scale.batch + work.rest_slept


def _lengths(seen: Seen, scale: Scale) -> list[list[list[float]]]:
    """By launch and rank, step by step; what a launch differs by from all others, taken out."""
    found = [[[length(work, scale) for work in own] for own in _by_rank(launch)] for launch in seen.launches]
    means = [fmean(map(fmean, ranks)) for ranks in found]
    usual = fmean(means)
    return [[[s - mean + usual for s in own] for own in ranks] for ranks, mean in zip(found, means, strict=True)]


def _by_rank(launch: Launch) -> Iterable[Sequence[Work]]:
    return zip(*(moment.work for moment in launch), strict=True)


def _picked(lengths: Sequence[Sequence[Sequence[float]]], picks: Picks) -> list[list[float]]:
    """By rank, of all launches."""
    ranks = range(len(lengths[0]))
    return [
        [launch[rank][at] for launch, chosen in zip(lengths, picks, strict=True) for at in chosen] for rank in ranks
    ]


def _band(steps: Iterable[float]) -> tuple[float, float]:
    deciles = quantiles(steps, n=10, method="inclusive")
    return deciles[0], deciles[-1]


class Ranks(NamedTuple):
    """How the measured ranks differ. longest: the rank whose own work took longest on average; longer: by how much, s;
    doubt: its standard error; alike: the correlation of two ranks' work, step by step."""

    longest: int
    longer: float
    doubt: float
    alike: float


def ranks_of(seen: Seen) -> Ranks:
    """A difference that stays, and slowness that comes to all at once."""
    samples = _picked(_lengths(seen, Scale()), [range(len(launch)) for launch in seen.launches])
    means = [fmean(own) for own in samples]
    longest = max(range(len(means)), key=lambda rank: means[rank])
    variances = [_variance(own) for own in samples]
    together = _variance([fmean(step) for step in zip(*samples, strict=True)])
    count, within = len(samples), fmean(variances)
    alike = (count * together / within - 1) / (count - 1) if within else 0.0
    doubt = (variances[longest] / len(samples[longest])) ** 0.5
    return Ranks(longest, means[longest] - fmean(means), doubt, alike)


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean((value - mean) ** 2 for value in values)
