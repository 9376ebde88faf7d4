"""Does a launch still come any further? Pure: no I/O, no clock.

A rank says once a second where it is. It stands still as long as it says the same, or nothing; not if it sleeps in a
delay that was put in. A launch has stalled when no rank has come any further for the trial's `stall_s`, or when one has
said nothing for so long. A rank that is in no collective and works (half a core's worth, or it waits for a disk, or for
a process that it has started and that works) may just be slow: it is given ten times as much. Without instruments ranks
do not say where they are: then only a stopped process is seen.
"""

from collections.abc import Mapping
from math import inf

import msgspec

from ddptui.config.trial import PATIENCE
from ddptui.diagnosis.positions import STOPPED, CallCountMismatch, RankProgress, Stall, explain_stall
from ddptui.text.units import S
from ddptui.wire.messages import Done, Failed, Heartbeat, Position, RankMessage, Ready, Shown, Step, Timed

IN_TIME_S = 2.0  # a beat, its way here, and another look: by so much it is seen sooner, so that it is said in time
SILENT_S = 3.0  # ranks beat once a second
COMPUTES_PERCENT = 50.0  # of a core
MOST_STEPS_APART = 10_000  # of the fastest rank and the slowest; further apart they are not compared
WORKING = ("running", "disk-sleep")  # psutil's words


class _Rank(msgspec.Struct):
    """What was heard of a rank, and when, in ns of the console's clock."""

    moved_ns: int
    heard_ns: int
    position: Position = Position()
    steps: int = 0  # made
    works_ns: int = 0  # when it did so last
    trains: bool = False  # its start is over
    stopped_ns: int | None = None  # since when its process is


class StallDetector:
    """Hears the ranks of one launch, and says when they stand still."""

    def __init__(self, world_size: int, stall_s: float, *, start_s: float = inf, beats: bool = True) -> None:
        """start_s: what a rank may take to be ready without working."""
        self._world_size = world_size
        self._stall_s = stall_s
        self._start_s = start_s
        self._beats = beats
        self._ranks: dict[int, _Rank] = {}
        self._over: set[int] = set()
        self._calls: dict[int, dict[int, int]] = {}  # of steps that not all ranks have told of: how many collectives
        self._odd: CallCountMismatch | None = None

    def add(self, message: RankMessage, now_ns: int) -> None:
        rank = self._ranks.setdefault(message.rank, _Rank(now_ns, now_ns))
        rank.heard_ns = now_ns
        match message:
            case Ready():
                rank.trains, rank.moved_ns = True, now_ns
            case Step():
                rank.steps, rank.moved_ns = message.step + 1, now_ns
                self._compare(message)
            case Shown() | Timed():
                rank.steps, rank.moved_ns = message.place + 1, now_ns
            case Heartbeat():
                if is_free(message.position) and (message.cpu_percent or 0.0) >= COMPUTES_PERCENT:
                    rank.works_ns = now_ns
                if message.position != rank.position or message.position.asleep:
                    rank.position, rank.moved_ns = message.position, now_ns
            case Done() | Failed():
                self._over.add(message.rank)

    def restart_timers(self, now_ns: int) -> None:
        """The console itself has stood still: what it has not heard meanwhile proves nothing."""
        for rank in self._ranks.values():
            rank.heard_ns = rank.moved_ns = now_ns

    def check(self, now_ns: int, states: Mapping[int, str]) -> Stall | None:
        """None: all is well. states: what each rank's process does, in psutil's words."""
        there = {number: rank for number, rank in self._ranks.items() if number not in self._over}
        for number, rank in there.items():
            stopped = states.get(number) in STOPPED
            rank.stopped_ns = (now_ns if rank.stopped_ns is None else rank.stopped_ns) if stopped else None
            if states.get(number) in WORKING and is_free(rank.position):
                rank.works_ns = now_ns
        still = [number for number, rank in there.items() if self._stands(rank, now_ns)]
        silent = [number for number in still if self._silent_s(there[number], now_ns)]
        if not silent and not (len(self._ranks) == self._world_size and self._all_stand(there, still)):
            return None
        where = {each: _progress(rank, states.get(each), silent=each in silent) for each, rank in there.items()}
        started = silent or all(rank.trains for rank in there.values())
        return explain_stall(where, self._world_size, self._stall_s if started else self._start_s, self._odd)

    def _compare(self, step: Step) -> None:
        """Has every rank made as many collectives in this step? Who leaves one out is out of step with the others from
        there on, though the operations may go on for long, each with a wrong partner."""
        if not step.samples:  # a replica without a part of the batch
            return
        calls = self._calls.setdefault(step.step, {})
        calls[step.rank] = len(step.collectives)
        if len(self._calls) > MOST_STEPS_APART:
            del self._calls[next(iter(self._calls))]
        if len(calls) == self._world_size:
            if len(set(calls.values())) > 1 and self._odd is None:
                self._odd = CallCountMismatch(step.step, calls)
            del self._calls[step.step]

    @staticmethod
    def _all_stand(there: Mapping[int, _Rank], still: list[int]) -> bool:
        return bool(there) and len(still) == len(there)

    def _stands(self, rank: _Rank, now_ns: int) -> bool:
        """Whether it has come no further for long; for very long, if it works."""
        enough_s = self._stall_s - IN_TIME_S if rank.trains or self._silent_s(rank, now_ns) else self._start_s
        since_s = self._silent_s(rank, now_ns) or ((now_ns - rank.moved_ns) / S if self._beats else 0.0)
        idle_s = min(since_s, (now_ns - rank.works_ns) / S)
        return idle_s >= enough_s or since_s >= PATIENCE * enough_s

    def _silent_s(self, rank: _Rank, now_ns: int) -> float:
        """For how long nothing was heard of it, or its process is stopped, if that is worth a word."""
        if rank.stopped_ns is not None and not self._beats:
            return (now_ns - rank.stopped_ns) / S
        silent_s = (now_ns - rank.heard_ns) / S if self._beats else 0.0
        return silent_s if silent_s > SILENT_S else 0.0


def is_free(position: Position) -> bool:
    """Whether the rank may go on, as far as the others are concerned."""
    return position.number is None or position.ahead


def _progress(rank: _Rank, state: str | None, *, silent: bool) -> RankProgress:
    return RankProgress(position=rank.position, steps=rank.steps, trains=rank.trains, silent=silent, state=state)
