"""Reads the messages of a recorded run from its journals in the order of their times, with only a window in memory."""

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from typing import NamedTuple

from ddptui.analysis.clock_sync import Clocks
from ddptui.config.preset import Preset
from ddptui.run.landmarks import Landmarks, Survey
from ddptui.store.journal import Line, read_again, read_lines
from ddptui.store.runs import Run, raising_run_error
from ddptui.wire.records import Message, Offset
from ddptui.wire.retime import Sittings, shift_times

# Bytes of a journal that are read ahead in order to sort. Ranks send in batches, five per second, and a rank that was
# stopped sends late. A message that is out of order by more than this is yielded when it is read.
AHEAD = 4 * 2**20
NOTHING = (-inf, 0)  # sorts before the first message of a journal


Work = Callable[[Callable[[], None]], None]


def at_once(work: Callable[[], None]) -> None:
    """Do some work immediately."""
    work()


class RecordedLaunch(NamedTuple):
    """The journal of a launch, with what is needed to convert the times of its messages."""

    journal: Path
    end: int  # number of bytes that could be read
    by_ns: int  # shift of its messages, so that they follow the previous launch without a long gap
    clocks: Clocks  # complete only after all messages were read

    def moment_ns(self, message: Message) -> int:
        """The time of a message in console time, in ns; 0 if it has none."""
        moment_ns = moment_of(message)
        return self.console_ns(_sender(message), moment_ns) if moment_ns else 0

    def console_ns(self, sender: int | None, moment_ns: int) -> int:
        """A time by the sender's clock, converted to console time. sender: a rank; None: the console."""
        return self.by_ns + (moment_ns if sender is None else self.clocks.console_ns(sender, moment_ns))


class Moment(NamedTuple):
    """A message with its time in console time and the byte offsets of its line. Messages sort by time, then offset."""

    at_ns: int
    begin: int
    end: int
    message: Message


class Progress(NamedTuple):
    """How much a Reader has yielded."""

    messages: int = 0
    bytes: int = 0  # bytes of journals
    until_ns: float = -inf  # the latest time of these messages


class Place(NamedTuple):
    """The position of a Reader, from which another Reader can continue."""

    launch: int = 0  # index of the launch
    begin: int = 0  # all lines before this offset were yielded
    end: int = 0  # of the lines from `begin` to this offset, those that sort up to `last` were yielded
    last: tuple[float, int] = NOTHING  # time and offset
    at_ns: int = 0  # time of the line at `begin`, if it has no time of its own
    progress: Progress = Progress()


START = Place()


class Timeline:
    """A recorded run. Only a summary of each launch is in memory; readers yield the messages."""

    def __init__(self, run: Run, preset: Preset, unread: list[str]) -> None:
        """Reads all journals once. Notes on damaged ones are added to `unread`. Raises RunError."""
        self.begin_ns = self.end_ns = 0  # beginning of the first launch, end of the last one
        self.launches: list[RecordedLaunch] = []
        self.landmarks: list[Landmarks] = []  # landmarks of each launch
        self.yielded_before: list[Progress] = []  # how much a Reader has yielded before each launch
        self._read = Progress()
        sittings = Sittings()
        for journal in run.journals(preset):
            with raising_run_error(journal):
                self._add(journal, sittings, unread)

    def reader(self, place: Place = START, work: Work = at_once) -> "Reader":
        """A reader that continues from a place. work: executes the reading of journals."""
        return Reader(self.launches, place, work)

    def _add(self, journal: Path, sittings: Sittings, unread: list[str]) -> None:
        clocks, end, messages = Clocks(), 0, 0
        survey = Survey(clocks)
        spans: dict[int | None, tuple[int, int]] = {}  # the first and last time of each sender by its own clock
        for line in read_lines(journal, unread):
            clocks.add(line.message)
            sittings.add(line.message)
            survey.add(line.message)
            messages += 1
            end, sender = line.end, _sender(line.message)
            if moment_ns := moment_of(line.message):
                first_ns, last_ns = spans.get(sender, (moment_ns, moment_ns))
                spans[sender] = min(first_ns, moment_ns), max(last_ns, moment_ns)
        launch = RecordedLaunch(journal, end, sittings.by_ns, clocks)
        if moments := [launch.console_ns(sender, ns) for sender, span in spans.items() for ns in span]:
            self.begin_ns = self.begin_ns if self.launches else min(moments)
            self.end_ns = max(moments)
            self.launches.append(launch)
            self.landmarks.append(survey.landmarks(self.end_ns, launch.by_ns, launch.console_ns))
            self.yielded_before.append(self._read)
            before = self._read
            self._read = Progress(before.messages + messages, before.bytes + end, max(before.until_ns, self.end_ns))


def _read_ahead(read: list[list[Line]], journal: Path, begin: int, end: int) -> None:
    """Append to `read` the list of lines between two byte offsets, at most about AHEAD bytes of them."""
    lines, at = list[Line](), begin
    while at < min(begin + AHEAD, end) and (more := read_again(journal, at, end)):
        lines += more
        at = lines[-1].end
    read.append(lines)


class Reader:
    """Goes through a timeline once, with only a window of it in memory."""

    def __init__(self, launches: Sequence[RecordedLaunch], place: Place, work: Work) -> None:
        self.launch = place.launch  # index of the launch of the next message
        self.progress = place.progress
        self._launches = launches
        self._work = work
        self._start, self._last = place, place.last
        self._read, self._at_ns = place.begin, place.at_ns
        self._held: list[Moment] = []  # messages that were read but not yielded; a heap
        self._bytes = 0  # bytes of these messages
        self._ahead: list[list[Line]] | None = None  # filled by `work` when it has read lines; None: it is not reading
        self.go_on()

    @property
    def is_over(self) -> bool:
        """Whether all messages were yielded."""
        return self.launch == len(self._launches)

    @property
    def is_waiting(self) -> bool:
        """Whether more must be read before the next message is known. Until then, call `go_on`, but not `take`."""
        return self._ahead is not None and (self._bytes < AHEAD or self._read < self._start.end)

    @property
    def next_ns(self) -> int:
        """The time of the next message, in console time."""
        return self._held[0].at_ns

    def take(self) -> Message:
        """Return the next message, with shifted times, and move on."""
        at_ns, begin, end, message = heappop(self._held)
        by_ns = self._launches[self.launch].by_ns
        messages, read, until_ns = self.progress
        self.progress = Progress(messages + 1, read + end - begin, max(until_ns, at_ns))
        self._last = max(self._last, (at_ns, begin))
        self._bytes -= end - begin
        self.go_on()
        return shift_times(message, by_ns) if by_ns else message

    def place(self) -> Place | None:
        """The position of the reader. None if the next message is not known yet, or if it is late, and so could not be
        distinguished from messages that were already yielded."""
        if self.is_over:
            return Place(self.launch, progress=self.progress)
        if self.is_waiting or self._held[0][:2] < self._last:
            return None
        first = min(self._held, key=lambda moment: moment.begin)
        return Place(self.launch, first.begin, self._read, self._last, first.at_ns, self.progress)

    def go_on(self) -> None:
        """Read ahead until the next message is known, as far as `work` has delivered lines."""
        while not self.is_over:
            launch = self._launches[self.launch]
            while self._ahead is not None or self._wants_more(launch):
                if self._ahead is None:
                    # first up to the end of the start, to continue exactly like the reader that was there
                    end = self._start.end if self._read < self._start.end else launch.end
                    self._ahead = []
                    self._work(partial(_read_ahead, self._ahead, launch.journal, self._read, end))
                if not self._ahead:
                    return
                [lines], self._ahead = self._ahead, None
                self._hold(launch, lines)
            if self._held:
                return
            self.launch += 1
            self._start = START
            self._read, self._at_ns, self._last = 0, 0, NOTHING

    def _wants_more(self, launch: RecordedLaunch) -> bool:
        return self._read < launch.end and (self._bytes < 2 * AHEAD or self._read < self._start.end)

    def _hold(self, launch: RecordedLaunch, lines: Sequence[Line]) -> None:
        for begin, line_end, message in lines:
            self._at_ns = launch.moment_ns(message) or self._at_ns  # without a time, use that of the previous message
            # Skip messages that were already yielded at the start.
            if begin >= self._start.end or (self._at_ns, begin) > self._start.last:
                heappush(self._held, Moment(self._at_ns, begin, line_end, message))
                self._bytes += line_end - begin
        self._read = lines[-1].end if lines else launch.end  # no lines: the journal has changed since it was first read


def moment_of(message: Message) -> int:
    """When the event that a message reports was over, in ns on the sender's clock; 0 if the message has no time."""
    return getattr(message, "at_ns", 0) or getattr(message, "end_ns", 0)


def _sender(message: Message) -> int | None:
    """The rank whose clock determined the times of a message; None: the console's clock did."""
    return None if isinstance(message, Offset) else getattr(message, "rank", None)
