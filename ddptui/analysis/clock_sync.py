"""What time it was by the console's clock when a rank elsewhere said what it said, and how sure that is. Pure.

Each probe says that a clock was ahead of the console's by so much, give or take an error. Before and after, by more or
less: two clocks drift apart by DRIFT at most. All probes are true, so what all of them allow is, too, and nothing else
(Marzullo and Owicki, «Maintaining the time in a distributed system», 1983): that is never less sure than what the best
probe says alone. Taken is the middle of it, which moves no faster than DRIFT: so no two moments of ranks with one clock
change places.

DRIFT is two crystals that nobody disciplines, each off by 50 ppm; of disciplined clocks NTP expects 15 ppm (RFC 5905,
PHI). Where a clock does what is beyond that (its machine was suspended, say), its probes contradict each other: there
the error is as large as the contradiction.

A GPU has a clock, too. Its rank has tied that to its host's already, and says how well: nothing is moved for it, but no
two such ranks are compared any better, even of one host.
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
SOON_NS = 5_000_000_000  # a rank whose Hello is so much later than what the console said last, may have its clock


class Estimate(NamedTuple):
    """How far a clock is ahead of the console's; within error_ns (inf: nobody knows)."""

    offset_ns: int
    error_ns: float


class Knot(msgspec.Struct):
    """By how much a clock was ahead, at least and at most, at some moment of its own. contradicts: what was known
    before, so that nothing follows from that any more."""

    moment: int
    least: int
    most: int
    contradicts: bool = False

    @property
    def middle(self) -> int:
        return (self.least + self.most) // 2

    def narrowed(self, other: "Knot") -> bool:
        """Whether the other one leaves less of it; it takes that over."""
        apart = clock_drift(self.moment - other.moment)
        least, most = max(self.least, other.least - apart), min(self.most, other.most + apart)
        less = (least, most) != (self.least, self.most)
        self.least, self.most = least, most
        return less


class Track(msgspec.Struct):
    """What is known of one clock. guess: while nothing is; so that nothing seems later than it was."""

    guess: int = 0
    knots: list[Knot] = []

    def add(self, offset: Offset) -> None:
        """What one probe allows, the others allow, too. (On a clock that goes forward, one comes after another.)"""
        moment = offset.at_ns + offset.offset_ns
        new = Knot(moment, offset.offset_ns - offset.error_ns, offset.offset_ns + offset.error_ns)
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
        """When it says so."""
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
    """Where the clock did what no clock does: on the straight line, and somewhere between."""
    ahead = after.middle - before.middle
    part = (moment_ns - before.moment) / (after.moment - before.moment)
    unsure = max(before.most - before.least, after.most - after.least) / 2
    return Estimate(before.middle + round(part * ahead), abs(ahead) + unsure + 1)


class Clocks(msgspec.Struct):
    """The clocks of a launch, from its messages. of_rank: of those ranks that have another one than the console; ties:
    what those have said whose device has one of its own, in the order of their moments."""

    console_clock: str = ""
    of_rank: dict[int, str] = {}
    tracks: dict[str, Track] = {}
    ties: dict[int, list[Tied]] = {}
    last_console_ns: int = 0  # when the console said something last

    def add(self, message: Message) -> None:
        """Any message; most say nothing of clocks."""
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
            looks_alike = 0 <= hello.at_ns - self.last_console_ns <= SOON_NS
            self.tracks[hello.clock] = Track(0 if looks_alike else hello.at_ns - self.last_console_ns)

    def is_first(self, offset: Offset) -> bool:
        """Whether nothing was known of this clock before."""
        return offset.clock in self.tracks and len(self.tracks[offset.clock].knots) == 1

    def track(self, rank: int) -> Track | None:
        """None: the console's own."""
        clock = self.of_rank.get(rank)
        return None if clock is None else self.tracks[clock]

    def console_ns(self, rank: int, moment_ns: int) -> int:
        """What the console's clock said when the rank's said so."""
        track = self.track(rank)
        return moment_ns if track is None else track.console_ns(moment_ns)

    def tie_error(self, rank: int, first_ns: int, last_ns: int) -> int:
        """How far off its device's times between two moments may be at the worst, ns; 0: they are its host's."""
        ties = self.ties.get(rank)
        if not ties:
            return 0
        begin, end = (bisect_right(ties, moment_ns, key=_moment) for moment_ns in (first_ns, last_ns))
        return max(tied.error_ns for tied in ties[max(0, begin - 1) : max(1, end)])


def _moment(tied: Tied) -> int:
    return tied.at_ns


def in_console_time(message: Message, clocks: Clocks) -> Message:
    """The message with all its times by the console's clock."""
    rank = None if isinstance(message, Offset) else getattr(message, "rank", None)
    track = None if rank is None else clocks.track(rank)
    return message if track is None else map_times(message, track.console_ns)


class ClockSpread(NamedTuple):
    """How far the clocks of ranks may be apart, once they are aligned: each the most in all that is compared, ns.
    clock_of: as in Clocks; error_ns: by clock (inf: nobody knows); tie_ns: by rank, of its device's to its host's."""

    clock_of: Mapping[int, str]
    error_ns: Mapping[str, float]
    tie_ns: Mapping[int, float] = MappingProxyType({})

    def errors_ns(self, ranks: Collection[int]) -> dict[int, float]:
        """By rank, how far its clock may be from another's of these: its own error, and the worst of the others'."""
        ties: dict[str, list[float]] = {}  # by clock, the worst first
        for rank in ranks:
            ties.setdefault(self._clock(rank), []).append(self.tie_ns.get(rank, 0.0))
        for of_clock in ties.values():
            of_clock.sort(reverse=True)
        return {rank: self._of_one(rank, ties) for rank in ranks}

    def _of_one(self, rank: int, ties: Mapping[str, Sequence[float]]) -> float:
        own, tie = self._clock(rank), self.tie_ns.get(rank, 0.0)
        same = ties[own][:2]
        others = [same[1] if tie == same[0] else same[0]] if len(same) > 1 else []
        others += [self._error(own) + self._error(clock) + worst for clock, (worst, *_) in ties.items() if clock != own]
        return tie + max(others) if others else 0.0

    def _clock(self, rank: int) -> str:
        return self.clock_of.get(rank, "")  # the console's own

    def _error(self, clock: str) -> float:
        return self.error_ns.get(clock, 0.0)

    def largest_ns(self, ranks: Collection[int]) -> float:
        """Any two of these."""
        return max(self.errors_ns(ranks).values(), default=0.0)


def clock_spread(clocks: Clocks, steps: Mapping[int, Sequence[Step]]) -> ClockSpread | None:
    """As ranks told them, not aligned yet. None: all have one clock."""
    are_tied = len(steps) > 1 and not clocks.ties.keys().isdisjoint(steps)
    if len({clocks.of_rank.get(rank, "") for rank in steps}) < 2 and not are_tied:
        return None
    errors: dict[str, float] = {}
    ties: dict[int, float] = {}
    for rank, own in steps.items():
        compared = [call.enter_ns for step in own for call in step.collectives]
        if compared:
            ties[rank] = clocks.tie_error(rank, min(compared), max(compared))
        track = clocks.track(rank)
        if track is not None:
            clock = clocks.of_rank[rank]
            found = (track.at(moment).error_ns for moment in compared)
            errors[clock] = max(errors.get(clock, 0.0 if track.knots else inf), max(found, default=0.0))
    return ClockSpread(clocks.of_rank, errors, ties)
