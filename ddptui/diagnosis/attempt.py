"""What is known of the ranks of a watched training, from what they and the processes around them say."""

from collections import deque
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from ddptui.diagnosis.cause import ProcessEnd, thread_failure
from ddptui.diagnosis.positions import RankProgress, named, verb
from ddptui.diagnosis.stall import CallCounts
from ddptui.text.words import S
from ddptui.wire.messages import POINT_TO_POINT, Failed, Heartbeat, Hello, RankMessage, Step
from ddptui.wire.relay_file import Event

LAST_STEPS = 8  # of all ranks
MOST_EVENTS = 10_000  # kept of an attempt, so that no process can fill the console's memory


class Attempt:
    """The ranks of a training from their start to their end, or until their launcher starts them again."""

    def __init__(self, now_s: float, number: int = 0) -> None:
        """now_s: by the console's clock, as everywhere here. number: how many attempts torchrun says there were before;
        0 if it says nothing."""
        self.number = number
        self.ranks: dict[int, RankProgress] = {}
        self.failed: dict[int, Failed] = {}  # last messages of ranks, with an error
        self.events: list[Event] = []  # of processes that no relay knows
        self.calls = CallCounts()
        self.moved_at = now_s  # when a rank has made a step last
        self.told_at = 0.0  # `moved_at` of the standstill that was reported last
        self.world_size = 0  # as joining ranks asked for; 0: not known
        self.pids: dict[int, int] = {}  # the known ranks, by process id
        self._at_first_end: dict[int, RankProgress] = {}
        self.steps_s: deque[float] = deque(maxlen=LAST_STEPS)  # their lengths

    def add(self, message: RankMessage, now_s: float) -> None:
        """Process a message of a rank. Times must be those of the console's clock."""
        rank, before = message.rank, self.ranks.get(message.rank)
        if isinstance(message, Hello):
            self.pids[message.pid], self.ranks[rank] = rank, RankProgress()
            self.moved_at = now_s
        if before is None:
            return
        match message:
            case Step():
                self.steps_s.append((message.end_ns - message.begin_ns) / S)
                calls = sum(not call.group and call.kind not in POINT_TO_POINT for call in message.collectives)
                self.calls.add(message, calls, len(self.ranks))
                if rank not in self.failed:  # else it is only now known that the last step was over
                    self.moved_at = now_s
            case Heartbeat() if message.position.step != before.position.step:
                self.moved_at = now_s
            case Failed():
                self._at_first_end = self._at_first_end or {**self.ranks}
                self.failed[rank] = message
        self.ranks[rank] = self.ranks[rank].after(message)

    def add_event(self, event: Event, now_s: float) -> None:
        """Process an event of a process that no relay knows."""
        if len(self.events) < MOST_EVENTS:
            self.events.append(event)
        if event.what == "joins":
            self.moved_at = now_s
        self.world_size = max(self.world_size, event.world or 0)
        if event.rank is not None and event.what in ("joins", "joined"):
            self.pids[event.pid] = event.rank
        self.pids = {pid: rank for rank, pid, _ in event.failures if pid} | self.pids

    @property
    def is_told(self) -> bool:
        """Whether the present standstill was reported."""
        return self.told_at == self.moved_at

    def joining(self, what: str = "joins") -> set[int]:
        """The ranks that have called init_process_group; with "joined", those that have returned from it."""
        return {event.rank for event in self.events if event.what == what and event.rank is not None}

    def waiting_for_group(self) -> str:
        """A sentence about ranks that wait in init_process_group; empty if there are none."""
        waiting = sorted(self.joining() - self.joining("joined"))
        missing = sorted({*range(self.world_size)} - self.joining())
        if not waiting:
            return ""
        others = f"; {named(missing)} {verb(missing, 'has')} not called it" if missing else ""
        return f"{named(waiting)} {verb(waiting, 'waits')} in init_process_group{others}"

    def threads(self) -> dict[int, str]:
        """For each rank of which a thread has failed, the first exception that ended one, in words."""
        failed = [event for event in reversed(self.events) if event.what == "thread"]
        ranks = [(self.pids.get(event.pid, event.rank), event) for event in failed]
        return {rank: thread_failure(event.error, event.stack) for rank, event in ranks if rank is not None}

    def ends(self, codes: Mapping[int, int], now_s: float) -> list[ProcessEnd]:
        """How processes have ended, in order of time. codes: exit codes of ranks."""
        ends = [self._end(failed, rank, codes.get(rank)) for rank, failed in self.failed.items()]
        for event in self.events:
            if event.what == "failed" and not event.failures:  # else a launcher says that ranks have failed
                own = None if event.rank in self.pids.values() else event.rank  # a child of a rank is not the rank
                ends.append(self._end(event, self.pids.get(event.pid, own), event.exit))
        known = {end.rank for end in ends}
        silent = [rank for rank, code in codes.items() if code and rank not in known]
        ends += [self._end(Failed(rank=rank, at_ns=int(now_s * S), error=""), rank, codes[rank]) for rank in silent]
        return sorted(ends, key=lambda end: end.at_ns)

    def _end(self, last: Failed | Event, rank: int | None, code: int | None) -> ProcessEnd:
        """The end of a process with these last words, which have the names of its fields. rank: None if it is none."""
        progress = None if rank is None else self.ranks.get(rank)
        end = msgspec.convert(last, ProcessEnd, from_attributes=True)
        is_coded = not last.error or isinstance(last, Event)  # an exception says more than the code 1 that follows
        return replace(end, rank=rank, exit_code=code if is_coded else None, progress=progress)

    def positions(self) -> dict[int, RankProgress]:
        """Where the ranks were when the first of them ended. A rank that stood still then was where its last heartbeat
        says; of another one, its own end is a better witness than a heartbeat of up to a second before."""
        return self.ranks | {rank: still for rank, still in self._at_first_end.items() if still.stack}
