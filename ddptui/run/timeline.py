"""The messages of a recorded run in the order of their moments, read back from its journals a window at a time."""

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

# Bytes of a journal that are read ahead. Ranks send in batches, five a second, and a rank that was stopped sends late:
# a message that stands farther from its moment than this comes when it is read.
AHEAD = 4 * 2**20
NOTHING = (-inf, 0)  # before the first message of a journal


Work = Callable[[Callable[[], None]], None]


def at_once(work: Callable[[], None]) -> None:
    """Do some work."""
    work()


class RecordedLaunch(NamedTuple):
    """The journal of a launch, and what its messages' moments depend on."""

    journal: Path
    end: int  # bytes that could be read
    by_ns: int  # its messages come so much later, to follow the launch before as in one sitting
    clocks: Clocks  # known only after all messages

    def moment_ns(self, message: Message) -> int:
        """The message's moment in console time; 0 if it has none."""
        moment_ns = moment_of(message)
        return self.console_ns(_sender(message), moment_ns) if moment_ns else 0

    def console_ns(self, sender: int | None, moment_ns: int) -> int:
        """A moment by the sender's clock in console time."""
        return self.by_ns + (moment_ns if sender is None else self.clocks.console_ns(sender, moment_ns))


class Moment(NamedTuple):
    """A message with its moment in console time, and the bytes of its journal that it lies between. In this order."""

    at_ns: int
    begin: int
    end: int
    message: Message


class Progress(NamedTuple):
    """What a Reader has yielded."""

    messages: int = 0
    bytes: int = 0  # of journals
    until_ns: float = -inf  # the latest of their moments


class Place(NamedTuple):
    """Where a Reader stands, to go on from there later."""

    launch: int = 0
    begin: int = 0  # all lines before were yielded
    end: int = 0  # of the lines from there to here, those up to `last` were
    last: tuple[float, int] = NOTHING
    at_ns: int = 0  # of the first line, if it has no moment of its own
    progress: Progress = Progress()


START = Place()


class Timeline:
    """A recorded run, of which only figures of each launch are in memory. A reader yields its messages."""

    def __init__(self, run: Run, preset: Preset, unread: list[str]) -> None:
        """Reads all journals once. Notes on damaged ones are added to `unread`. Raises RunError."""
        self.begin_ns = self.end_ns = 0  # of the first launch, and of the last one
        self.launches: list[RecordedLaunch] = []
        self.landmarks: list[Landmarks] = []  # of these
        self.yielded_before: list[Progress] = []  # what a Reader has yielded before each of these
        self._read = Progress()
        sittings = Sittings()
        for journal in run.journals(preset):
            with raising_run_error(journal):
                self._add(journal, sittings, unread)

    def reader(self, place: Place = START, work: Work = at_once) -> "Reader":
        """A reader that goes on from there. `work` reads the journals."""
        return Reader(self.launches, place, work)

    def _add(self, journal: Path, sittings: Sittings, unread: list[str]) -> None:
        clocks, end, messages = Clocks(), 0, 0
        survey = Survey(clocks)
        spans: dict[int | None, tuple[int, int]] = {}  # by sender, its first and its last moment by its own clock
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
    """Add the lines between two ends of lines to what was read: up to AHEAD bytes of them."""
    lines, at = list[Line](), begin
    while at < min(begin + AHEAD, end) and (more := read_again(journal, at, end)):
        lines += more
        at = lines[-1].end
    read.append(lines)


class Reader:
    """Goes through a timeline once, with a window of it in memory."""

    def __init__(self, launches: Sequence[RecordedLaunch], place: Place, work: Work) -> None:
        self.launch = place.launch  # of the next message
        self.progress = place.progress
        self._launches = launches
        self._work = work
        self._start, self._last = place, place.last
        self._read, self._at_ns = place.begin, place.at_ns
        self._held: list[Moment] = []  # read, and not yielded; a heap
        self._bytes = 0  # of these
        self._ahead: list[list[Line]] | None = None  # lines that `work` reads: empty until it has; None: it reads none
        self.go_on()

    @property
    def is_over(self) -> bool:
        """Whether all messages were yielded."""
        return self.launch == len(self._launches)

    @property
    def is_waiting(self) -> bool:
        """Whether more must be read before the next message is known: until then, call `go_on`, and not `take`."""
        return self._ahead is not None and (self._bytes < AHEAD or self._read < self._start.end)

    @property
    def next_ns(self) -> int:
        """The moment of the next message."""
        return self._held[0].at_ns

    def take(self) -> Message:
        """The next message."""
        at_ns, begin, end, message = heappop(self._held)
        by_ns = self._launches[self.launch].by_ns
        messages, read, until_ns = self.progress
        self.progress = Progress(messages + 1, read + end - begin, max(until_ns, at_ns))
        self._last = max(self._last, (at_ns, begin))
        self._bytes -= end - begin
        self.go_on()
        return shift_times(message, by_ns) if by_ns else message

    def place(self) -> Place | None:
        """Where it stands. None: the next message is not known yet, or comes late, and could not be told from one that
        was yielded."""
        if self.is_over:
            return Place(self.launch, progress=self.progress)
        if self.is_waiting or self._held[0][:2] < self._last:
            return None
        first = min(self._held, key=lambda moment: moment.begin)
        return Place(self.launch, first.begin, self._read, self._last, first.at_ns, self.progress)

    def go_on(self) -> None:
        """Hold enough that the first one is next, as far as it has been read."""
        while not self.is_over:
            launch = self._launches[self.launch]
            while self._ahead is not None or self._wants_more(launch):
                if self._ahead is None:
                    # first up to where the place is: then it goes on as the reader did that stood there
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
            self._at_ns = launch.moment_ns(message) or self._at_ns  # without a moment: that of the message before
            # Those before the place's end were yielded up to its last.
            if begin >= self._start.end or (self._at_ns, begin) > self._start.last:
                heappush(self._held, Moment(self._at_ns, begin, line_end, message))
                self._bytes += line_end - begin
        self._read = lines[-1].end if lines else launch.end  # the rest has changed since it was read first


def moment_of(message: Message) -> int:
    """When what a message reports was over, ns on its sender's clock; 0 if it does not say."""
    return getattr(message, "at_ns", 0) or getattr(message, "end_ns", 0)


def _sender(message: Message) -> int | None:
    """The rank whose clock gave the message its times; None: the console's did."""
    return None if isinstance(message, Offset) else getattr(message, "rank", None)
