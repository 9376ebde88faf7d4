"""Converts times of other hosts' clocks to the console's, and says how sure that is. Pure.

Each probe says by how much a clock was ahead of the console's, within an error. Before and after, the bounds widen: two
clocks drift apart by at most DRIFT_PPM. The offset lies within the bounds of all probes (Marzullo and Owicki,
"Maintaining the time in a distributed system", 1983), which is never less sure than the best probe alone. Taken is the
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
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from ddptui.wire.messages import Hello, Step, Tied
from ddptui.wire.records import Launched, Message, Offset
from ddptui.wire.retime import clock_drift, map_times

FAR_NS = 2**62  # further than any two clocks are apart
SOON_NS = 5_000_000_000  # a Hello within this after the console's last message may be by the same clock
# Of one clock or device; of a clock some three hours of probes. Of more, every other one goes: the bounds stay true and
# are wider in between.
MOST_REPORTS = 2**15
AnyMessage = TypeVar("AnyMessage", bound=msgspec.Struct)


class Estimate(NamedTuple):
    """How far a clock is ahead of the console's, within error_ns (inf: not known)."""

    offset_ns: int
    error_ns: float


class Knot(msgspec.Struct):
    """Bounds of how far a clock was ahead at a moment by itself, in ns."""

    moment: int
    least: int
    most: int
    contradicts: bool = False  # the clock jumped before this knot, so the bounds before do not apply any more

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
    """What is known of one clock."""

    guess: int = 0  # the offset taken before its first probe
    knots: list[Knot] = []

    def add(self, offset: Offset) -> None:
        """Take the result of a probe, and narrow the bounds of all. One that is not later than the last is dropped."""
        moment, last = offset.at_ns + offset.offset_ns, len(self.knots)
        least, most = offset.offset_ns - offset.error_ns, offset.offset_ns + offset.error_ns
        # A clock only goes forward: an older moment is a late answer, and tells nothing new.
        if last and moment <= self.knots[-1].moment:
            return
        new = Knot(moment, least, most)
        if last and new.narrowed(self.knots[-1]) and new.least > new.most:
            new = Knot(moment, least, most, contradicts=True)  # its bounds count alone
        self.knots.append(new)
        # A sure probe narrows the ones before it, as far back as it tells anything new.
        while last and not self.knots[last].contradicts and self.knots[last - 1].narrowed(self.knots[last]):
            last -= 1
        if len(self.knots) > MOST_REPORTS:
            for gone, next_one in zip(self.knots[1::2], self.knots[2::2], strict=True):
                next_one.contradicts |= gone.contradicts
            self.knots = self.knots[::2]

    def at(self, moment_ns: int) -> Estimate:
        """The offset when the clock shows this moment."""
        after = bisect_right(self.knots, moment_ns, key=lambda knot: knot.moment)
        near = self.knots[max(0, after - 1) : after + 1]
        if not near:
            return Estimate(self.guess, inf)
        if len(near) == 2 and near[1].contradicts:
            # Where the clock jumped, the offset lies somewhere between; the straight line is taken.
            before, following = near
            ahead = following.middle - before.middle
            part = (moment_ns - before.moment) / (following.moment - before.moment)
            unsure = max(before.most - before.least, following.most - following.least) / 2
            return Estimate(before.middle + round(part * ahead), abs(ahead) + unsure + 1)
        here = Knot(moment_ns, near[0].least - FAR_NS, near[0].most + FAR_NS)
        for knot in near:
            here.narrowed(knot)
        return Estimate(here.middle, (here.most - here.least) / 2 + 1)  # one more for rounding

    def console_ns(self, moment_ns: int) -> int:
        """The same moment by the console's clock."""
        return moment_ns - self.at(moment_ns).offset_ns


class Clocks(msgspec.Struct):
    """The clocks of a launch, from its messages."""

    console_clock: str = ""
    of_rank: dict[int, str] = {}  # the clock of each rank that has another one than the console
    tracks: dict[str, Track] = {}  # what is known of each clock
    ties: dict[int, list[Tied]] = {}  # by rank whose device has its own clock, reports on that, in the order of time
    last_console_ns: int = 0  # when the console's last message was sent

    def add(self, message: Message) -> None:
        """Take any message; most tell nothing about clocks."""
        match message:
            case Launched():
                self.console_clock, self.of_rank, self.tracks, self.ties = message.clock, {}, {}, {}
            case Hello() if message.clock in ("", self.console_clock):
                self.of_rank.pop(message.rank, None)
            case Hello():
                self.of_rank[message.rank] = message.clock
                ahead_ns = message.at_ns - self.last_console_ns
                # Hosts booted at different times, so a similar reading most likely means a similar clock.
                self.tracks.setdefault(message.clock, Track(0 if 0 <= ahead_ns <= SOON_NS else ahead_ns))
            case Offset() if message.clock in self.tracks:
                self.tracks[message.clock].add(message)
            case Tied():
                ties = self.ties.setdefault(message.rank, [])
                insort(ties, message, key=attrgetter("at_ns"))
                if len(ties) > MOST_REPORTS:
                    pairs = zip(ties[::2], [*ties[1::2], ties[-1]], strict=True)
                    ties[:] = [replace(one, error_ns=max(one.error_ns, other.error_ns)) for one, other in pairs]
        if not hasattr(message, "rank"):  # all others have the time of their rank's clock
            self.last_console_ns = message.at_ns

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
        begin, end = (bisect_right(ties, moment_ns, key=attrgetter("at_ns")) for moment_ns in (first_ns, last_ns))
        return max(tied.error_ns for tied in ties[max(0, begin - 1) : max(1, end)])  # a report holds until the next


def in_console_time(message: AnyMessage, clocks: Clocks) -> AnyMessage:
    """The message with all its times by the console's clock; the same one if they are already."""
    # An Offset names a rank, but its time is the console's.
    rank = None if isinstance(message, Offset) else getattr(message, "rank", None)
    track = None if rank is None else clocks.track(rank)
    return message if track is None else map_times(message, track.console_ns)


class ClockSpread(NamedTuple):
    """How far the converted clocks of ranks may be apart at most, in ns. The console's own clock is ""."""

    clock_of: Mapping[int, str]  # as Clocks.of_rank
    error_ns: Mapping[str, float]  # by clock; inf: not known
    tie_ns: Mapping[int, float] = MappingProxyType({})  # by rank, the error of its device's clock against its host's

    def errors_ns(self, ranks: Collection[int]) -> dict[int, float]:
        """By rank, how far its clock may be from that of another of these ranks: both errors together."""
        ties: dict[str, list[float]] = {}  # by clock, the worst first
        for rank in ranks:
            ties.setdefault(self.clock_of.get(rank, ""), []).append(self.tie_ns.get(rank, 0.0))
        for of_clock in ties.values():
            of_clock.sort(reverse=True)
        return {rank: self._error_ns(rank, ties) for rank in ranks}

    def _error_ns(self, rank: int, ties: Mapping[str, Sequence[float]]) -> float:
        own_clock, tie = self.clock_of.get(rank, ""), self.tie_ns.get(rank, 0.0)
        same = ties[own_clock][:2]  # the worst tie of this clock, unless it is the rank's own: then the second
        others = [same[1] if tie == same[0] else same[0]] if len(same) > 1 else []
        own_error = self.error_ns.get(own_clock, 0.0)
        for clock, (worst, *_) in ties.items():
            if clock != own_clock:
                others.append(own_error + self.error_ns.get(clock, 0.0) + worst)
        return tie + max(others) if others else 0.0

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
        compared = [call.enter_ns for step in of_rank for call in step.collectives]  # no other times meet
        if compared:
            ties[rank] = clocks.tie_error(rank, min(compared), max(compared))
        track = clocks.track(rank)
        if track is not None:
            clock = clocks.of_rank[rank]
            clock_errors = (track.at(moment).error_ns for moment in compared)
            errors[clock] = max(errors.get(clock, 0.0 if track.knots else inf), max(clock_errors, default=0.0))
    return ClockSpread(clocks.of_rank, errors, ties)
