"""Asks ranks elsewhere what time it is there, and works out how far their clocks are ahead of the console's. No I/O, no
clock of its own: the caller sends the probes, and says when an answer came.

As Cristian («Probabilistic clock synchronization», 1989) and NTP (RFC 5905, section 8) have it: the answer was given
somewhere between question and answer, so half of what the way there and back took is how far this may be off. A way
that is shorter tells more; hence several at first, one right after the other.
"""

import msgspec

from ddptui.wire.messages import Done, Echo, Failed, Hello, Probe, RankMessage
from ddptui.wire.records import Offset

AT_FIRST = 8  # probes, as NTP's burst
A_ROUND = 3
ROUND_EVERY_NS = 1_000_000_000
PATIENCE_NS = 5_000_000_000  # after so long without an answer, another rank is asked


class Probes:
    """For one launch. One rank of each other clock is asked; once that has ended, or does not answer, another one."""

    def __init__(self, own: str) -> None:
        """`own`: the console's clock, of which there is nothing to ask."""
        self._own = own
        self._asked: dict[str, _Asked] = {}  # by clock
        self._number = 0

    def add(self, message: RankMessage, came_ns: int) -> list[Offset]:
        """What a message tells of its sender's clock: something, if it answers a probe that is under way."""
        match message:
            case Hello() if message.clock not in ("", self._own):
                self._asked.setdefault(message.clock, _Asked(message.clock)).ranks.append(message.rank)
            case Done() | Failed():
                for asked in self._asked.values():
                    asked.leave(message.rank)
            case Echo():
                found = (asked.add(message, came_ns) for asked in self._asked.values())
                return [offset for offset in found if offset]
        return []

    def due(self, now_ns: int) -> list[tuple[int, Probe]]:
        """What is to be sent now, and to which rank."""
        found = []
        for asked in self._asked.values():
            if asked.is_due(now_ns):
                self._number += 1
                found.append((asked.ask(self._number, now_ns), Probe(number=self._number)))
        return found


class _Asked(msgspec.Struct):
    """One clock: the ranks that have it, the one that is asked first; the probe under way, and what comes next."""

    clock: str
    ranks: list[int] = []
    number: int | None = None  # of the probe that is under way; none: no one is
    sent_ns: int = 0
    left: int = AT_FIRST  # of this round
    next_ns: int = 0  # when the next round begins

    def is_due(self, now_ns: int) -> bool:
        if self.number is not None and now_ns - self.sent_ns >= PATIENCE_NS:
            self.number = None
            self.ranks.append(self.ranks.pop(0))
        return bool(self.ranks) and self.number is None and (self.left > 0 or now_ns >= self.next_ns)

    def ask(self, number: int, now_ns: int) -> int:
        """Whom."""
        if not self.left:
            self.left = A_ROUND
        self.left -= 1
        self.number, self.sent_ns, self.next_ns = number, now_ns, now_ns + ROUND_EVERY_NS
        return self.ranks[0]

    def leave(self, rank: int) -> None:
        """A rank has ended: what it was asked, it will not answer."""
        if rank in self.ranks:
            if rank == self.ranks[0]:
                self.number = None
            self.ranks.remove(rank)

    def add(self, echo: Echo, came_ns: int) -> Offset | None:
        """None: nobody has asked for this, or it cannot be."""
        if echo.number != self.number or echo.rank not in self.ranks[:1]:
            return None
        there_and_back_ns = came_ns - self.sent_ns - (echo.said_ns - echo.heard_ns)
        if echo.said_ns < echo.heard_ns or there_and_back_ns < 0:
            return None
        self.number = None
        return Offset(
            rank=echo.rank,
            clock=self.clock,
            at_ns=(self.sent_ns + came_ns) // 2,
            offset_ns=_middle(echo.heard_ns, echo.said_ns) - _middle(self.sent_ns, came_ns),
            error_ns=there_and_back_ns // 2 + 1,  # and what was rounded
        )


def _middle(begin_ns: int, end_ns: int) -> int:
    return (begin_ns + end_ns) // 2
