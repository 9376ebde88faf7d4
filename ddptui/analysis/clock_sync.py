"""Converts times of other hosts' clocks to the console's, and says how sure that is. Pure.

Each probe says by how much a clock was ahead of the console's, within an error. Before and after, the bounds widen: two
clocks drift apart by at most DRIFT_PPM. The offset lies within the bounds of all probes (Marzullo and Owicki,
«Maintaining the time in a distributed system», 1983), which is never less sure than the best probe alone. Taken is the
middle of these bounds. It moves no faster than the drift, so no two moments of one clock change their order.

The drift is that of two undisciplined crystals, each off by 50 ppm; NTP expects 15 ppm of disciplined clocks (RFC 5905,
PHI). If a clock jumps by more (its machine was suspended, say), its probes contradict each other: there the error is as
large as the contradiction.

A GPU has a clock, too. Its rank ties that to its host's clock, and reports how well. Nothing is converted for it, but
two such ranks are compared no better than this, even on one host.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ddptui.wire.messages import Hello, Step, Tied
from ddptui.wire.records import Launched, Message, Offset
from ddptui.wire.retime import clock_drift, map_times

FAR_NS = 2**62  # further than any two clocks are apart
SOON_NS = 5_000_000_000  # a Hello within this after the console's last message may be by the same clock


class Estimate(NamedTuple):
    """How far a clock is ahead of the console's, within error_ns (inf: not known)."""

    offset_ns: int
    error_ns: float


class Knot(msgspec.Struct):
    """Bounds of how far a clock was ahead at a moment by itself, in ns. contradicts: the clock jumped before this knot,
    so the bounds before do not apply any more."""

    moment: int
    least: int
    most: int
    contradicts: bool = False

    @property
    def middle(self) -> int:
        """Of the bounds."""
        return (self.least + self.most) // 2

    def narrowed(self, other: "Knot") -> bool:
        """Narrow the bounds by those of another knot, widened by the drift in between. Returns whether they changed."""
        drift = clock_drift(self.moment - other.moment)
        least, most = max(self.least, other.least - drift), min(self.most, other.most + drift)
        changed = (least, most) != (self.least, self.most)
        self.least, self.most = least, most
        return changed


class Track(msgspec.Struct):
    """What is known of one clock. guess: the offset taken before its first probe."""

    guess: int = 0
    knots: list[Knot] = []

    def add(self, offset: Offset) -> None:
        """Take the result of a probe, and narrow the bounds of all. One that is not later than the last is dropped."""
        moment = offset.at_ns + offset.offset_ns
        new = Knot(moment, offset.offset_ns - offset.error_ns, offset.offset_ns + offset.error_ns)
        # A clock only goes forward: an older moment is a late answer, and tells nothing new.
        if not self.knots or moment > self.knots[-1].moment:
            self.knots.append(new)
            self._narrow(len(self.knots) - 1)

    def _narrow(self, last: int) -> None:
        new = self.knots[last]
        least, most = new.least, new.most
        if last and new.narrowed(self.knots[last - 1]) and new.least > new.most:
            new.least, new.most, new.contradicts = least, most, True
        while last and not self.knots[last].contradicts and self.knots[last - 1].narrowed(self.knots[last]):
            last -= 1

    def at(self, moment_ns: int) -> Estimate:
        """The offset when the clock shows this moment."""
        after = bisect_right(self.knots, moment_ns, key=lambda knot: knot.moment)
        near = self.knots[max(0, after - 1) : after + 1]
        if not near:
            return Estimate(self.guess, inf)
        if len(near) == 2 and near[1].contradicts:
            return _between(near[0], near[1], moment_ns)
        here = Knot(moment_ns, near[0].least - FAR_NS, near[0].most + FAR_NS)
        for knot in near:
            here.narrowed(knot)
        return Estimate(here.middle, (here.most - here.least) / 2 + 1)

    def console_ns(self, moment_ns: int) -> int:
        """The same moment by the console's clock."""
        return moment_ns - self.at(moment_ns).offset_ns


def _between(before: Knot, after: Knot, moment_ns: int) -> Estimate:
    """Where a clock jumped, the offset lies somewhere between; the straight line is taken."""
    ahead = after.middle - before.middle
    part = (moment_ns - before.moment) / (after.moment - before.moment)
    unsure = max(before.most - before.least, after.most - after.least) / 2
    return Estimate(before.middle + round(part * ahead), abs(ahead) + unsure + 1)


class Clocks(msgspec.Struct):
    """The clocks of a launch, from its messages.

    of_rank          the clock of each rank that has another one than the console
    tracks           what is known of each clock
    ties             by rank whose device has a clock of its own, its reports on that, in the order of time
    last_console_ns  when the console's last message was sent
    """

    console_clock: str = ""
    of_rank: dict[int, str] = {}
    tracks: dict[str, Track] = {}
    ties: dict[int, list[Tied]] = {}
    last_console_ns: int = 0

    def add(self, message: Message) -> None:
        """Take any message; most tell nothing about clocks."""
        match message:
            case Launched():
                self.console_clock, self.of_rank, self.tracks, self.ties = message.clock, {}, {}, {}
            case Hello():
                self._meet(message)
            case Offset() if message.clock in self.tracks:
                self.tracks[message.clock].add(message)
            case Tied():
                insort(self.ties.setdefault(message.rank, []), message, key=_moment)
        if not hasattr(message, "rank"):
            self.last_console_ns = message.at_ns

    def _meet(self, hello: Hello) -> None:
        if hello.clock in ("", self.console_clock):
            self.of_rank.pop(hello.rank, None)
            return
        self.of_rank[hello.rank] = hello.clock
        if hello.clock not in self.tracks:
            # Hosts booted at different times, so a similar reading most likely means a similar clock.
            looks_alike = 0 <= hello.at_ns - self.last_console_ns <= SOON_NS
            self.tracks[hello.clock] = Track(0 if looks_alike else hello.at_ns - self.last_console_ns)

    def is_first(self, offset: Offset) -> bool:
        """Whether this is the first that is known of its clock."""
        return offset.clock in self.tracks and len(self.tracks[offset.clock].knots) == 1

    def track(self, rank: int) -> Track | None:
        """The track of a rank's clock. None: it is the console's own."""
        clock = self.of_rank.get(rank)
        return None if clock is None else self.tracks[clock]

    def console_ns(self, rank: int, moment_ns: int) -> int:
        """What the console's clock showed when the rank's showed this moment."""
        track = self.track(rank)
        return moment_ns if track is None else track.console_ns(moment_ns)

    def tie_error(self, rank: int, first_ns: int, last_ns: int) -> int:
        """How far off the times of a rank's device may be between two moments, ns. 0: they are by its host's clock."""
        ties = self.ties.get(rank)
        if not ties:
            return 0
        begin, end = (bisect_right(ties, moment_ns, key=_moment) for moment_ns in (first_ns, last_ns))
        return max(tied.error_ns for tied in ties[max(0, begin - 1) : max(1, end)])


def _moment(tied: Tied) -> int:
    return tied.at_ns


def in_console_time(message: Message, clocks: Clocks) -> Message:
    """The message with all its times by the console's clock; the same one if they are already."""
    rank = None if isinstance(message, Offset) else getattr(message, "rank", None)
    track = None if rank is None else clocks.track(rank)
    return message if track is None else map_times(message, track.console_ns)


class ClockSpread(NamedTuple):
    """How far the converted clocks of ranks may be apart at most, in ns.

    clock_of  as Clocks.of_rank
    error_ns  by clock; inf: not known
    tie_ns    by rank, the error of its device's clock against its host's
    """

    clock_of: Mapping[int, str]
    error_ns: Mapping[str, float]
    tie_ns: Mapping[int, float] = MappingProxyType({})

    def errors_ns(self, ranks: Collection[int]) -> dict[int, float]:
        """By rank, how far its clock may be from that of another of these ranks: both errors together."""
        ties: dict[str, list[float]] = {}  # by clock, the worst first
        for rank in ranks:
            ties.setdefault(self._clock(rank), []).append(self.tie_ns.get(rank, 0.0))
        for of_clock in ties.values():
            of_clock.sort(reverse=True)
        return {rank: self._error_ns(rank, ties) for rank in ranks}

    def _error_ns(self, rank: int, ties: Mapping[str, Sequence[float]]) -> float:
        clock_of_rank, tie = self._clock(rank), self.tie_ns.get(rank, 0.0)
        same = ties[clock_of_rank][:2]
        others = [same[1] if tie == same[0] else same[0]] if len(same) > 1 else []
        others += [
            self._error(clock_of_rank) + self._error(clock) + worst
            for clock, (worst, *_) in ties.items()
            if clock != clock_of_rank
        ]
        return tie + max(others) if others else 0.0

    def _clock(self, rank: int) -> str:
        return self.clock_of.get(rank, "")  # the console's own

    def _error(self, clock: str) -> float:
        return self.error_ns.get(clock, 0.0)

    def largest_ns(self, ranks: Collection[int]) -> float:
        """Between any two of these ranks."""
        return max(self.errors_ns(ranks).values(), default=0.0)


def clock_spread(clocks: Clocks, steps: Mapping[int, Sequence[Step]]) -> ClockSpread | None:
    """The spread of the ranks' clocks over these steps, whose times are not converted yet. None: all have one clock."""
    are_tied = len(steps) > 1 and not clocks.ties.keys().isdisjoint(steps)
    if len({clocks.of_rank.get(rank, "") for rank in steps}) < 2 and not are_tied:
        return None
    errors: dict[str, float] = {}
    ties: dict[int, float] = {}
    for rank, of_rank in steps.items():
        compared = [call.enter_ns for step in of_rank for call in step.collectives]
        if compared:
            ties[rank] = clocks.tie_error(rank, min(compared), max(compared))
        track = clocks.track(rank)
        if track is not None:
            clock = clocks.of_rank[rank]
            clock_errors = (track.at(moment).error_ns for moment in compared)
            errors[clock] = max(errors.get(clock, 0.0 if track.knots else inf), max(clock_errors, default=0.0))
    return ClockSpread(clocks.of_rank, errors, ties)
