"""The notes that a rank sends to its relay, 64-bit numbers, and their reading: in the relay, and in the rank
itself.

A note consists of its code, the moment of the call, and the call's arguments. Moments are in ns, or clock.UNKNOWN. If
an argument may be None, -1 encodes that. A loss is encoded by its bits.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..instruments.calls import CallsBySteps
from ..instruments.clock import UNKNOWN, Clock
from ..instruments.delays import RankDelays
from ..instruments.records import Call
from .loop import FinishedStep, Loop

if TYPE_CHECKING:
    from ddptui.config.trial import Site


NONE = -1
ASIDE = 2  # the call is on another stream than the loop's
MOST_NOTES = 400_000  # numbers that may wait in a rank: there are more only if its relay does not read
MOST_OPEN = 1_000  # unfinished collectives that are tracked; the ends of older ones are not reported
# The arguments of each note. Most of these names are methods of watch.loop.Loop.
ARGUMENTS = {
    "data_begins": ("trains",),
    "data_ends": ("samples", "trains", "is_first", "batch", "batches", "loader"),  # loader: an id
    "forward_begins": ("trains",),
    "forward_ends": ("trains",),
    "backward_begins": ("has_loss", "loss"),
    "backward_ends": (),
    "aggregate_begins": (),
    "aggregate_ends": (),
    "optimizer_begins": ("optimizer",),
    "optimizer_ends": ("optimizer",),
    "stepped_unseen": (),
    "held_up": ("begin",),  # the GPU's home stream waited for an event
    "step_ends": ("has_loss", "loss", "samples"),
    "scheduled": ("cpu_ns", "queued_ns"),
    "ddp_is_made": (),
    "read": ("reading",),  # a number whose name is a Reading's facts (checks.py)
    "slept": ("site", "begin_ns", "end_ns"),  # site: an index into SITES
    "numbered": (),  # the rank has accepted the number of a step that the relay has sent
    # kind, group and line: numbers whose names the relay has received. background: 0, 1 or ASIDE
    "collective": (
        "number",
        "kind",
        "size",
        "root",
        "group",
        "line",
        "background",
        "enter",
        "issued",
        "awaited",
        "notified",
        "ended",
    ),
    "collective_ended": ("number", "background", "issued", "awaited", "notified", "ended"),
    "asleep": ("is_asleep",),
    "paused": ("begin_ns", "end_ns"),
    "tied": ("error_ns",),  # accuracy from this moment on, as in wire.messages.Tied
    "memory": ("used", "reserved", "peak", "peak_reserved"),  # of a GPU, in bytes
}
NAMES = tuple(ARGUMENTS)
CODES = {name: code for code, name in enumerate(NAMES)}
LENGTHS = tuple(2 + len(arguments) for arguments in ARGUMENTS.values())
# The kinds of collectives that hooks.METHODS lists, sorted. The relay reads them, without torch.
KINDS = (
    *("all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "gather", "recv", "reduce"),
    *("reduce_scatter", "scatter", "send"),
)
SITES: "tuple[Site, ...]" = ("data", "forward", "backward", "aggregate")
VERSION = 8  # of the protocol between a rank and its relay
BITS, FLOAT = struct.Struct("=q"), struct.Struct("=d")


def bits_of(loss: float) -> int:
    """The bits of a float as an integer; `loss_of` decodes it."""
    number: int = BITS.unpack(FLOAT.pack(loss))[0]
    return number


def loss_of(noted: Any) -> Any:
    """Decode a loss: an integer holds the bits of a float; anything else is returned unchanged."""
    return FLOAT.unpack(BITS.pack(noted))[0] if isinstance(noted, int) else noted


ENDS = ("optimizer_ends", "stepped_unseen", "step_ends")


class NotedClock(Clock):
    """A clock whose time is that of the notes read so far."""

    def __init__(self, at: Any) -> None:
        self.at = at

    def now(self) -> Any:
        return self.at


class LoopReader:
    """Derives steps from the notes of a loop. Collectives are notes of their own, or Call objects among the notes."""

    def __init__(self, at: Any, ended: Callable[[FinishedStep, list[Call]], None]) -> None:
        """at: the moment at which the first step begins. ended: called with each finished step and its collectives."""
        self._noted = NotedClock(at)
        self._at = at  # the moment of the note being read, on whatever clock
        # Whether any moment is unknown: in the current step; and since the last optimizer step, which may be its end.
        self.is_untimed = self.is_untimed_since = False
        self._ended = ended
        self.ends = 0  # optimizer steps and marked step ends so far
        self.place: tuple[int, int | None] = 0, None  # batches fetched in the current pass, and batches in the pass
        self.calls = CallsBySteps(self._noted)
        self.loop = Loop(self._noted, lambda: len(self.calls.calls), self._cut)
        self.calls.timer = self.loop.timer

    def read(self, notes: Iterator[Any]) -> None:
        """Read notes, each of which must be complete."""
        for code in notes:
            if isinstance(code, Call):
                self._collective(code)
                continue
            name = NAMES[code]
            self._at, *arguments = (next(notes) for _ in range(LENGTHS[code] - 1))
            self.ends += name in ENDS
            self._take(name, arguments)

    def _collective(self, call: Call) -> None:
        call.forward_is_over = self.loop.timer.forward_is_over
        self.calls.calls.append(call)

    def _take(self, name: str, arguments: list[Any]) -> None:
        """Process the note of a call of the loop's."""
        is_unknown = self._at == UNKNOWN
        if name in ENDS:
            self.is_untimed |= self.is_untimed_since or is_unknown
            self.is_untimed_since = is_unknown  # this end also is the begin of the next step
        else:
            self.is_untimed_since |= is_unknown
        if isinstance(self._noted.at, int) and isinstance(self._at, int):  # not marks on a device
            self._noted.at = max(self._noted.at, self._at)  # on another stream, a note may be earlier than the last
        else:
            self._noted.at = self._at
        self._call(name, arguments)

    def _call(self, name: str, arguments: list[Any]) -> None:
        match name, arguments:
            case "data_ends", [samples, trains, is_first, batch, batches, loader]:
                if batch:
                    self.place = batch, None if batches == NONE else batches
                elif trains and samples == NONE:  # the pass is over
                    self.place = self.place[0], self.place[0]
                self.loop.data_ends(None if samples == NONE else samples, bool(trains), bool(is_first), loader)
            case "backward_begins", [has_loss, loss]:
                self.loop.backward_begins(loss_of(loss) if has_loss else None)
            case "step_ends", [has_loss, loss, samples]:
                self.loop.step_ends(loss_of(loss) if has_loss else None, samples)
            case (("data_begins" | "forward_begins" | "forward_ends"), [trains]):
                getattr(self.loop, name)(bool(trains))
            case _:
                if hasattr(self.loop, name):
                    getattr(self.loop, name)(*arguments)

    def _cut(self, step: FinishedStep) -> None:
        self._ended(step, self.calls.cut(step.calls, step.following))
        self.is_untimed = False  # unknown moments since the step's end concern the next step


MOST_KEPT = 1_000  # past steps that are kept to match the relay's numbers; the relay is less than a second behind


class OwnSteps:
    """Counts the steps of a watched loop within the rank, by the same rules as the relay process, and passes the number
    of each new step to the injected delays."""

    def __init__(self, delays: RankDelays, at: Any, ends: int, first: int | None, last: int | None) -> None:
        """at: the present moment, at which a step begins. ends: LoopReader.ends so far. first: the number of that step;
        None if the relay will send the number of a later one. last: the number of steps after which the delays end;
        None: never."""
        self.notes: deque[Any] = deque()
        self._delays, self._first, self._last = delays, first, last
        self._reader = LoopReader(at, self._ended)
        self._reader.ends = ends
        self._made: dict[int, int] = {}  # steps, counted from 0 here, by the reader's `ends` when they finished
        self._count = 0
        self._begin()

    def read(self) -> None:
        """Read the notes that have come so far."""
        notes, self.notes = self.notes, deque()
        self._reader.read(iter(notes))

    def depth(self, phase: str) -> int:
        """How many nested calls of a phase are in progress."""
        self.read()
        return self._reader.loop.depth(phase)

    def learn(self, step: int, ends: int) -> bool:
        """The relay has finished a step after `ends` optimizer steps and marks, and has numbered it `step`. Returns
        whether the numbers of the steps are known now."""
        self.read()
        if self._first is None and ends in self._made:
            self._first = step - self._made[ends]
            self._begin()
        return self._first is not None

    def _ended(self, step: FinishedStep, calls: list[Call]) -> None:
        self._made[self._reader.ends] = self._count
        if len(self._made) > MOST_KEPT:
            del self._made[next(iter(self._made))]
        self._count += 1
        self._begin()

    def _begin(self) -> None:
        if self._last is not None and self._count >= self._last:
            self._delays.end()
        elif self._first is not None:
            self._delays.begin(self._first + self._count)
