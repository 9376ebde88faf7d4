"""Schedules probes of the clocks of other hosts, and works out how far these are ahead of the console's. Pure: the
caller sends the probes, and passes the time.

As Cristian ("Probabilistic clock synchronization", 1989) and NTP (RFC 5905, section 8) have it: the rank answered
sometime between question and answer, so the offset is known within half of the round trip. A shorter round trip tells
more; hence several probes at first, one right after the other.
"""

import msgspec

from ddptui.wire.messages import Done, Echo, Failed, Hello, RankMessage
from ddptui.wire.records import Offset, Probe

AT_FIRST = 8  # probes, as NTP's burst
A_ROUND = 3  # probes, every second
ROUND_EVERY_NS = 1_000_000_000  # clocks drift by up to 100 µs in a second
PATIENCE_NS = 5_000_000_000  # after this long without an answer, another rank of that clock is probed


class Probes:
    """The probes of one launch. One rank of each other clock is probed; if it ends or does not answer, another one."""

    def __init__(self, console_clock: str) -> None:
        """`console_clock`: the identity of the console's own clock, which needs no probe."""
        self._console_clock = console_clock
        self._clocks: dict[str, _ProbedClock] = {}
        self._number = 0

    def add(self, message: RankMessage, came_ns: int) -> list[Offset]:
        """The offset that a message tells, if it answers a probe that is under way. came_ns: when it was received."""
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
        """The probes to send now, each with the rank to send it to."""
        probes = []
        for clock in self._clocks.values():
            if clock.is_due(now_ns):
                self._number += 1
                probes.append((clock.probe(self._number, now_ns), Probe(number=self._number)))
        return probes


class _ProbedClock(msgspec.Struct):
    """One clock and the ranks that have it, of which the first is probed."""

    clock: str
    ranks: list[int] = []
    number: int | None = None  # of the probe that is under way
    sent_ns: int = 0
    left: int = AT_FIRST  # probes of this round
    next_ns: int = 0  # when the next round begins

    def is_due(self, now_ns: int) -> bool:
        """Whether to send a probe now."""
        # A rank in native code may answer late: its probe is given up, and the next rank of this clock takes over.
        if self.number is not None and now_ns - self.sent_ns >= PATIENCE_NS:
            self.number = None
            self.ranks.append(self.ranks.pop(0))
        return bool(self.ranks) and self.number is None and (self.left > 0 or now_ns >= self.next_ns)

    def probe(self, number: int, now_ns: int) -> int:
        """Note that a probe is sent now. Returns the rank to send it to."""
        if not self.left:
            self.left = A_ROUND
        self.left -= 1  # the next one of the round leaves as soon as this one is answered
        self.number, self.sent_ns, self.next_ns = number, now_ns, now_ns + ROUND_EVERY_NS
        return self.ranks[0]

    def remove(self, rank: int) -> None:
        """A rank that has ended does not answer any more."""
        if rank in self.ranks:
            if rank == self.ranks[0]:
                self.number = None  # its probe will not be answered: the next rank need not wait for PATIENCE_NS
            self.ranks.remove(rank)

    def add(self, echo: Echo, came_ns: int) -> Offset | None:
        """The offset from an answer. None: it answers no probe that is under way, or its times are impossible."""
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
