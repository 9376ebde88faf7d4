"""Schedules probes of other hosts' clocks, and computes how far these are ahead of the console's. Pure: the caller
sends the probes and passes the time.

The method is Cristian's ("Probabilistic clock synchronization", 1989) and NTP's (RFC 5905, section 8): the rank
answered between question and answer, so the offset is known within half of the round trip. A shorter round trip gives
a smaller error, so each clock first gets a burst of probes.
"""

import msgspec

from ddptui.wire.messages import Done, Echo, Failed, Hello, RankMessage
from ddptui.wire.records import Offset, Probe

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
