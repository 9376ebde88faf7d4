"""Detects a launch that makes no progress. Pure: the caller passes the time.

Each rank sends a heartbeat with its position once a second. A rank makes no progress while its position stays the same
or its heartbeats are missing, unless it sleeps in an injected delay. A launch has stalled when no rank has made
progress for the trial's `stall_s`, or when one rank has sent nothing for that long. A rank that works outside
collectives may just be slow, and gets PATIENCE times as long. It counts as working if it uses half a core, or waits for
a disk or for a busy process that it started. An uninstrumented rank sends no heartbeats: then only a stopped process
is detected.
"""

from collections.abc import Mapping
from math import inf

import msgspec
from msgspec.structs import replace

from ddptui.config.trial import PATIENCE
from ddptui.diagnosis.positions import STOPPED, CallCountMismatch, RankProgress, Stall, explain_stall
from ddptui.text.words import S
from ddptui.wire.messages import Done, Failed, Heartbeat, Position, RankMessage, Ready, Shown, Step, Timed

IN_TIME_S = 2.0  # subtracted from `stall_s`, to allow for the heartbeat interval, the delivery and the next check
SILENT_S = 3.0  # three missing heartbeats
COMPUTES_PERCENT = 50.0  # of a core: a rank that only polls uses less
MOST_STEPS_APART = 10_000  # between the fastest and the slowest rank: beyond that, steps are not compared
WORKING = ("running", "disk-sleep")  # states of a process, as psutil names them


class _Rank(msgspec.Struct):
    """The known state of a rank. Times are in ns of the console's clock."""

    moved_ns: int  # last progress
    received_ns: int  # last message
    progress: RankProgress = RankProgress()
    worked_ns: int = 0  # when the rank was last seen working
    stopped_ns: int | None = None  # when its process was first seen stopped; None: it is not


class CallCounts:
    """Compares how many collectives the ranks call in each step."""

    # If a rank leaves out a collective, all its later ones are paired with the wrong calls of the other ranks, possibly
    # for a long time before anything stalls.

    def __init__(self) -> None:
        self.mismatch: CallCountMismatch | None = None  # the first one, which causes the later ones
        self._calls: dict[int, dict[int, int]] = {}  # by step and rank, of steps that not all ranks have reported

    def add(self, step: Step, calls: int, world_size: int) -> None:
        """Note how many collectives a rank has called in a step."""
        of_step = self._calls.setdefault(step.step, {})
        of_step[step.rank] = calls
        if len(of_step) == world_size:
            del self._calls[step.step]
            if len({*of_step.values()}) > 1 and self.mismatch is None:
                self.mismatch = CallCountMismatch(step.step, of_step)
        elif len(self._calls) > MOST_STEPS_APART:
            del self._calls[next(iter(self._calls))]  # the oldest: dicts keep their order


class StallDetector:
    """Follows the ranks of one launch by their messages, and detects when they make no progress."""

    def __init__(self, world_size: int, stall_s: float, *, start_s: float = inf, beats: bool = True) -> None:
        """stall_s: the time without progress that counts as a stall. start_s: the same for ranks that are starting.
        beats: whether ranks send heartbeats."""
        self._world_size = world_size
        self._stall_s = stall_s
        self._start_s = start_s
        self._beats = beats
        self._ranks: dict[int, _Rank] = {}
        self._ended: set[int] = set()
        self._calls = CallCounts()

    def add(self, message: RankMessage, now_ns: int) -> None:
        """Process a rank's message, received at now_ns."""
        rank = self._ranks.setdefault(message.rank, _Rank(now_ns, now_ns))
        rank.received_ns = now_ns
        match message:
            case Ready() | Step() | Shown() | Timed():
                rank.moved_ns = now_ns
                if isinstance(message, Step) and message.samples:  # else a replica without a part of the batch
                    self._calls.add(message, len(message.collectives), self._world_size)
            case Heartbeat():
                if is_free(message.position) and (message.cpu_percent or 0.0) >= COMPUTES_PERCENT:
                    rank.worked_ns = now_ns
                # A rank that sleeps in an injected delay is slow on purpose.
                if message.position != rank.progress.position or message.position.asleep:
                    rank.moved_ns = now_ns
            case Done() | Failed():
                self._ended.add(message.rank)
        rank.progress = rank.progress.after(message)

    def restart_timers(self, now_ns: int) -> None:
        """Restart all timers: the console itself stood still, so missing messages prove nothing."""
        for rank in self._ranks.values():
            rank.received_ns = rank.moved_ns = now_ns

    def check(self, now_ns: int, states: Mapping[int, str]) -> Stall | None:
        """The stall, if there is one. states: the states of the ranks' processes, as psutil names them, keyed by
        rank."""
        running = {number: rank for number, rank in self._ranks.items() if number not in self._ended}
        for number, rank in running.items():
            stopped = states.get(number) in STOPPED
            rank.stopped_ns = (now_ns if rank.stopped_ns is None else rank.stopped_ns) if stopped else None
            if states.get(number) in WORKING and is_free(rank.progress.position):
                rank.worked_ns = now_ns
        still = [number for number, rank in running.items() if self._stands_still(rank, now_ns)]
        silent = [number for number in still if self._silent_s(running[number], now_ns)]
        all_still = len(self._ranks) == self._world_size and bool(running) and len(still) == len(running)
        if not silent and not all_still:  # while one rank makes progress, the others may just wait for it
            return None
        stood_s = self._stall_s if silent or all(rank.progress.trains for rank in running.values()) else self._start_s
        silent += [number for number, rank in running.items() if rank.stopped_ns is not None]
        progress = {
            number: replace(rank.progress, state=states.get(number), silent=number in silent)
            for number, rank in running.items()
        }
        return explain_stall(progress, self._world_size, stood_s, self._calls.mismatch)

    def _stands_still(self, rank: _Rank, now_ns: int) -> bool:
        """Whether the rank has made no progress for too long. A rank that works has PATIENCE times as long."""
        enough_s = self._stall_s - IN_TIME_S if rank.progress.trains or self._silent_s(rank, now_ns) else self._start_s
        since_s = self._silent_s(rank, now_ns) or ((now_ns - rank.moved_ns) / S if self._beats else 0.0)
        idle_s = min(since_s, (now_ns - rank.worked_ns) / S)
        return idle_s >= enough_s or since_s >= PATIENCE * enough_s

    def _silent_s(self, rank: _Rank, now_ns: int) -> float:
        """For how long the rank has sent nothing, in s; 0 if its heartbeats are not overdue. Without heartbeats, for
        how long its process has been stopped."""
        if rank.stopped_ns is not None and not self._beats:
            return (now_ns - rank.stopped_ns) / S
        silent_s = (now_ns - rank.received_ns) / S if self._beats else 0.0
        return silent_s if silent_s > SILENT_S else 0.0


def is_free(position: Position) -> bool:
    """Whether the rank waits for no other rank: it is in no collective, or only has one running in the background."""
    return position.number is None or position.ahead
