"""What a rule finds in a window of steps, or in the trials of a run: a struct, never a sentence (findings/words.py has
those). results.json holds it.
"""

import enum
from typing import Literal

import msgspec

Severity = Literal["note", "warning", "critical"]


class Kind(enum.Enum):
    """What was found. The value is the key in results.json."""

    LATE_RANK = "late_rank"  # the others wait for this rank, for its work in this phase
    NO_CORE = "no_core"  # this rank is late since other programs have its core
    UNCERTAIN = "uncertain"  # most of the waiting is for this rank, but that may be chance
    BY_TURNS = "by_turns"  # ranks pause by turns: none is later than the others
    UNEVEN_WORK = "uneven_work"  # ranks are late by turns, since their batches differ
    RARE_WAITS = "rare_waits"  # in a few steps, the others wait long for this rank
    BURSTS = "bursts"  # this rank is late in every so manieth step
    TREND = "trend"  # this rank grows late over the run, or is late from some step on
    DATA = "data"  # fetching data takes a large part of the time, on all ranks alike
    FIRST_BATCH = "first_batch"  # of it, the first batch of each epoch: workers are started anew
    BETWEEN_STEPS = "between_steps"  # a large part of the time lies between steps
    LONG_STEPS = "long_steps"  # a few steps take much longer than the others, on all ranks
    RESTART = "restart"  # the ranks were started anew meanwhile
    NETWORK = "network"  # ranks stand idle for transfers
    WAITING = "waiting"  # ranks stand idle for late ranks, and none stands out
    SMALL_CALLS = "small_calls"  # most of the transfers are many calls of few bytes
    NOTHING = "nothing"  # no rule found anything


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding. Numbers are by name, which ends in the unit: _s, _ms, _share, _steps."""

    kind: Kind
    severity: Severity = "note"
    trials: tuple[str, ...] = ()
    rank: int | None = None
    phase: str | None = None  # one of PARTS
    place: str | None = None  # a line of code, or an operation's name
    steps: tuple[int, ...] = ()  # their numbers, where it is about a few
    numbers: dict[str, float] = {}
    doubt: str | None = None  # why it is not certain: the end of a sentence
    action: str | None = None  # what to try
