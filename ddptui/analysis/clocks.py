"""Probes other hosts' clocks, and converts times to the console's clock, with error bounds. Pure.

Each probe gives bounds for how far a clock was ahead of the console's. Before and after the probe the bounds widen,
since two clocks drift apart by up to DRIFT_PPM. The true offset lies within the bounds of all probes (Marzullo and
Owicki, "Maintaining the time in a distributed system", 1983), which are never wider than those of the best probe. The
middle of the bounds is used. It moves no faster than the drift, so the order of a clock's moments is kept.

The drift is that of two undisciplined crystals, each off by 50 ppm; NTP expects 15 ppm of disciplined clocks (RFC 5905,
PHI). If a clock jumps by more, e.g. because its machine was suspended, its probes contradict each other; there the
error is as large as the contradiction.

A GPU has its own clock. Its rank compares ("ties") it to the host's clock, and reports the error. Times need no
conversion for this, but two such ranks can be compared only within this error, even on one host.

The method is Cristian's ("Probabilistic clock synchronization", 1989) and NTP's (RFC 5905, section 8): the rank
answered between question and answer, so the offset is known within half of the round trip. A shorter round trip gives
a smaller error, so each clock first gets a burst of probes.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from math import inf
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from ddptui.text.tables import grouped
from ddptui.wire.messages import Done, Echo, Failed, Hello, RankMessage, Step, Tied
from ddptui.wire.records import Launched, Message, Offset, Probe, clock_drift, map_times

FAR_NS = 2**62  # larger than any offset between two clocks
SOON_NS = 5_000_000_000  # a Hello stamped within this after the console's last message may share its clock
# Reports kept per clock or device; for a clock, some three hours of probes. Beyond that every other one is dropped: the
# bounds stay valid, but are wider in between.
MOST_REPORTS = 2**15
AnyMessage = TypeVar("AnyMessage", bound=msgspec.Struct)


class Estimate(NamedTuple):
    """How far a clock is ahead of the console's, within error_ns (inf: unknown)."""

    offset_ns: int
    error_ns: float


class OffsetBounds(msgspec.Struct):
    """Bounds of a clock's offset at one moment, in ns. The moment is in the clock's own time."""

    moment: int
    least: int
    most: int
    contradicts: bool = False  # the clock jumped before this moment: earlier bounds no longer apply

    @property
    def middle(self) -> int:
        """The middle of the bounds."""
        return (self.least + self.most) // 2

    def narrowed(self, other: "OffsetBounds") -> bool:
        """Narrow the bounds by another knot's, widened by the drift in between. Returns whether they changed."""
        drift = clock_drift(self.moment - other.moment)
        least, most = max(self.least, other.least - drift), min(self.most, other.most + drift)
        changed = (least, most) != (self.least, self.most)
        self.least, self.most = least, most
        return changed


class Track(msgspec.Struct):
    """The known bounds of one clock's offset."""

    guess: int = 0  # the offset assumed before the first probe
    knots: list[OffsetBounds] = []

    def add(self, offset: Offset) -> None:
        """Add a probe's result, and narrow the bounds around it. A result no later than the last one is dropped."""
        moment, last = offset.at_ns + offset.offset_ns, len(self.knots)
        least, most = offset.offset_ns - offset.error_ns, offset.offset_ns + offset.error_ns
        # A clock only moves forward: an older moment is a late answer with nothing new.
        if last and moment <= self.knots[-1].moment:
            return
        new = OffsetBounds(moment, least, most)
        if last and new.narrowed(self.knots[-1]) and new.least > new.most:
            new = OffsetBounds(moment, least, most, contradicts=True)  # keep its own bounds, unnarrowed
        self.knots.append(new)
        # Narrow earlier knots by the new one, back to the first that does not change.
        while last and not self.knots[last].contradicts and self.knots[last - 1].narrowed(self.knots[last]):
            last -= 1
        if len(self.knots) > MOST_REPORTS:
            for gone, next_one in zip(self.knots[1::2], self.knots[2::2], strict=True):
                next_one.contradicts |= gone.contradicts
            self.knots = self.knots[::2]

    def at(self, moment_ns: int) -> Estimate:
        """Estimates the offset at the moment when the clock shows this time."""
        after = bisect_right(self.knots, moment_ns, key=lambda knot: knot.moment)
        near = self.knots[max(0, after - 1) : after + 1]
        if not near:
            return Estimate(self.guess, inf)
        if len(near) == 2 and near[1].contradicts:
            # The clock jumped between these two knots: interpolate linearly, with an error as large as the jump.
            before, following = near
            ahead = following.middle - before.middle
            part = (moment_ns - before.moment) / (following.moment - before.moment)
            unsure = max(before.most - before.least, following.most - following.least) / 2
            return Estimate(before.middle + round(part * ahead), abs(ahead) + unsure + 1)
        here = OffsetBounds(moment_ns, near[0].least - FAR_NS, near[0].most + FAR_NS)
        for knot in near:
            here.narrowed(knot)
        return Estimate(here.middle, (here.most - here.least) / 2 + 1)  # + 1 for rounding

    def console_ns(self, moment_ns: int) -> int:
        """Converts a time of this clock to the console's."""
        return moment_ns - self.at(moment_ns).offset_ns


class Clocks(msgspec.Struct):
    """The clocks of a launch, as known from its messages."""

    console_clock: str = ""
    of_rank: dict[int, str] = {}  # rank -> clock, for ranks that do not share the console's clock
    tracks: dict[str, Track] = {}  # clock -> its known offsets
    ties: dict[int, list[Tied]] = {}  # rank -> reports on the clock of its device, in order of time
    last_console_ns: int = 0  # when the console sent its last message

    def add(self, message: Message) -> None:
        """Take a message of any kind; most say nothing about clocks."""
        match message:
            case Launched():
                self.console_clock, self.of_rank, self.tracks, self.ties = message.clock, {}, {}, {}
            case Hello() if message.clock in ("", self.console_clock):
                self.of_rank.pop(message.rank, None)
            case Hello():
                self.of_rank[message.rank] = message.clock
                ahead_ns = message.at_ns - self.last_console_ns
                # Hosts boot at different times: if this clock shows nearly the console's time, assume offset 0.
                self.tracks.setdefault(message.clock, Track(0 if 0 <= ahead_ns <= SOON_NS else ahead_ns))
            case Offset() if message.clock in self.tracks:
                self.tracks[message.clock].add(message)
            case Tied():
                ties = self.ties.setdefault(message.rank, [])
                insort(ties, message, key=attrgetter("at_ns"))
                if len(ties) > MOST_REPORTS:
                    pairs = zip(ties[::2], [*ties[1::2], ties[-1]], strict=True)
                    ties[:] = [replace(one, error_ns=max(one.error_ns, other.error_ns)) for one, other in pairs]
        if not hasattr(message, "rank"):  # messages of a rank are stamped by the rank's clock instead
            self.last_console_ns = message.at_ns

    def is_first(self, offset: Offset) -> bool:
        """Whether this offset is the first known one of its clock."""
        return offset.clock in self.tracks and len(self.tracks[offset.clock].knots) == 1

    def track(self, rank: int) -> Track | None:
        """The track of a rank's clock. None: the rank shares the console's clock."""
        clock = self.of_rank.get(rank)
        return None if clock is None else self.tracks[clock]

    def console_ns(self, rank: int, moment_ns: int) -> int:
        """Converts a time of a rank's clock to the console's."""
        track = self.track(rank)
        return moment_ns if track is None else track.console_ns(moment_ns)

    def tie_error(self, rank: int, first_ns: int, last_ns: int) -> int:
        """The largest error of a rank's device clock between two times, in ns. 0: the times are by its host's clock."""
        ties = self.ties.get(rank)
        if not ties:
            return 0
        begin, end = (bisect_right(ties, moment_ns, key=attrgetter("at_ns")) for moment_ns in (first_ns, last_ns))
        return max(tied.error_ns for tied in ties[max(0, begin - 1) : max(1, end)])  # a report is valid until the next


def in_console_time(message: AnyMessage, clocks: Clocks) -> AnyMessage:
    """The message with all its times converted to the console's clock; the same object if that changes nothing."""
    # An Offset names a rank, but the console has stamped it.
    rank = None if isinstance(message, Offset) else getattr(message, "rank", None)
    track = None if rank is None else clocks.track(rank)
    return message if track is None else map_times(message, track.console_ns)


class ClockSpread(NamedTuple):
    """The error bounds between the converted clocks of ranks, in ns. The console's own clock is ""."""

    clock_of: Mapping[int, str]  # like Clocks.of_rank
    error_ns: Mapping[str, float]  # clock -> error; inf: unknown
    tie_ns: Mapping[int, float] = MappingProxyType({})  # rank -> error of its device's clock against its host's

    def errors_ns(self, ranks: Collection[int]) -> dict[int, float]:
        """For each of these ranks, the largest error between its clock and another one's: both errors added."""
        ties = grouped((self.clock_of.get(rank, ""), self.tie_ns.get(rank, 0.0)) for rank in ranks)
        for of_clock in ties.values():
            of_clock.sort(reverse=True)  # the errors of its devices, the worst first
        return {rank: self._error_ns(rank, ties) for rank in ranks}

    def _error_ns(self, rank: int, ties: Mapping[str, Sequence[float]]) -> float:
        own_clock, tie = self.clock_of.get(rank, ""), self.tie_ns.get(rank, 0.0)
        same = ties[own_clock][:2]  # the worst device of another rank on this clock: the second, if the first is ours
        others = [same[1] if tie == same[0] else same[0]] if len(same) > 1 else []
        own_error = self.error_ns.get(own_clock, 0.0)
        for clock, (worst, *_) in ties.items():
            if clock != own_clock:
                others.append(own_error + self.error_ns.get(clock, 0.0) + worst)
        return tie + max(others) if others else 0.0

    def largest_ns(self, ranks: Collection[int]) -> float:
        """The largest clock error between any two of these ranks."""
        return max(self.errors_ns(ranks).values(), default=0.0)


def clock_spread(clocks: Clocks, steps: Mapping[int, Sequence[Step]]) -> ClockSpread | None:
    """The clock errors between ranks over these steps, whose times are not converted yet. None: all share one clock."""
    are_tied = len(steps) > 1 and not clocks.ties.keys().isdisjoint(steps)
    if len({clocks.of_rank.get(rank, "") for rank in steps}) < 2 and not are_tied:
        return None
    errors: dict[str, float] = {}
    ties: dict[int, float] = {}
    for rank, of_rank in steps.items():
        compared = [call.enter_ns for step in of_rank for call in step.collectives]  # only these times are compared
        if compared:
            ties[rank] = clocks.tie_error(rank, min(compared), max(compared))
        track = clocks.track(rank)
        if track is not None:
            clock = clocks.of_rank[rank]
            clock_errors = (track.at(moment).error_ns for moment in compared)
            errors[clock] = max(errors.get(clock, 0.0 if track.knots else inf), max(clock_errors, default=0.0))
    return ClockSpread(clocks.of_rank, errors, ties)


AT_FIRST = 8  # probes in the first burst, as many as NTP's
A_ROUND = 3  # probes in each later round
ROUND_EVERY_NS = 1_000_000_000  # clocks drift by up to 100 µs per second
PATIENCE_NS = 5_000_000_000  # timeout of a probe; after it, another rank with the same clock is probed


class Probes:
    """The probes of one launch. Of each clock other than the console's, one rank is probed; if it ends or does not
    answer, another rank with this clock takes over."""

    def __init__(self, console_clock: str) -> None:
        """`console_clock`: the identity of the console's clock, which needs no probe."""
        self._console_clock = console_clock
        self._clocks: dict[str, _ProbedClock] = {}
        self._number = 0

    def add(self, message: RankMessage, came_ns: int) -> list[Offset]:
        """Take a message. Returns the clock offset if it answers a pending probe. came_ns: when it was received."""
        match message:
            case Hello() if message.clock not in ("", self._console_clock):
                self._clocks.setdefault(message.clock, _ProbedClock(message.clock)).ranks.append(message.rank)
            case Done() | Failed():
                for clock in self._clocks.values():
                    clock.remove(message.rank)
            case Echo():
                return [offset for clock in self._clocks.values() if (offset := clock.add(message, came_ns))]
        return []

    def due(self, now_ns: int) -> list[tuple[int, Probe]]:
        """The probes to send now, each with its receiving rank."""
        probes = []
        for clock in self._clocks.values():
            if clock.is_due(now_ns):
                self._number += 1
                probes.append((clock.probe(self._number, now_ns), Probe(number=self._number)))
        return probes


class _ProbedClock(msgspec.Struct):
    """A clock, and the ranks that have it; the first of these is probed."""

    clock: str
    ranks: list[int] = []
    number: int | None = None  # number of the pending probe
    sent_ns: int = 0
    left: int = AT_FIRST  # probes left in this round
    next_ns: int = 0  # when the next round begins

    def is_due(self, now_ns: int) -> bool:
        """Whether to send a probe now."""
        # A rank that is busy in native code may answer late: give up its probe, and turn to the next rank.
        if self.number is not None and now_ns - self.sent_ns >= PATIENCE_NS:
            self.number = None
            self.ranks.append(self.ranks.pop(0))
        return bool(self.ranks) and self.number is None and (self.left > 0 or now_ns >= self.next_ns)

    def probe(self, number: int, now_ns: int) -> int:
        """Record that a probe is sent now. Returns the rank to send it to."""
        if not self.left:
            self.left = A_ROUND
        self.left -= 1  # the next probe of the round is sent as soon as this one is answered
        self.number, self.sent_ns, self.next_ns = number, now_ns, now_ns + ROUND_EVERY_NS
        return self.ranks[0]

    def remove(self, rank: int) -> None:
        """Stop probing a rank that has ended."""
        if rank in self.ranks:
            if rank == self.ranks[0]:
                self.number = None  # its probe will not be answered: probe the next rank without waiting
            self.ranks.remove(rank)

    def add(self, echo: Echo, came_ns: int) -> Offset | None:
        """Computes the offset from an answer. None: it answers no pending probe, or its times are impossible."""
        if echo.number != self.number or echo.rank not in self.ranks[:1]:  # late, or forged
            return None
        round_trip_ns = came_ns - self.sent_ns - (echo.said_ns - echo.heard_ns)
        if echo.said_ns < echo.heard_ns or round_trip_ns < 0:
            return None
        self.number = None
        at_ns = (self.sent_ns + came_ns) // 2
        return Offset(
            rank=echo.rank,
            clock=self.clock,
            at_ns=at_ns,
            offset_ns=(echo.heard_ns + echo.said_ns) // 2 - at_ns,
            error_ns=round_trip_ns // 2 + 1,  # one more for rounding
        )
