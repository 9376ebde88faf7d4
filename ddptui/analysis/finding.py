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
    # Of a trial over its repeats.
    INJECTED = "injected"  # the lab delayed this rank; what was measured of it
    SLOW_STEPS = "slow_steps"  # some steps took more than twice the median
    # Of a run: its trials beside each other. place: the trial beside which they are looked at.
    SLOWER, FASTER, ALIKE = "slower", "faster", "alike"
    UNCLEAR = "unclear"  # the repeats differ too much to tell
    ROUGHLY = "roughly"  # repeats were disturbed or changed by hand
    FASTEST, SLOWEST = "fastest", "slowest"  # the first trial; the others are too close to it to tell
    SAME_LOSS, OTHER_LOSS = "same_loss", "other_loss"  # trials: the one with the least, and with the largest
    LOSSY = "lossy"  # averages are off, since the strategies round
    TRAINED = "trained"  # how long the only trial trained
    FOUND_FROM = "found_from"  # from which delay on the delayed rank was named
    DELAY_FOUND, DELAY_MISSED = "delay_found", "delay_missed"  # the rank that all trials delay
    CHAIN = "chain"  # a rank waits for a late rank by way of another one
    MISTAKES = "mistakes"  # how many of those made on purpose the checks found; trials: those with the others
    CHECK_FAILS = "check_fails"  # place: the check
    FAULTS_NAMED, FAULT_SURVIVED, FAULT_UNNAMED = "faults_named", "fault_survived", "fault_unnamed"
    SPLIT = "split"  # place: the parts into which DataParallel cut a batch
    OVERLAP = "overlap"  # the part of its communication that a trial hid; no number: none
    START = "start"  # how long it took to the first step
    SPEEDUP, WEAK_SPEEDUP = "speedup", "weak_speedup"  # weak: the batch grows with the ranks
    PREDICTABLE = "predictable"  # place: the command that predicts more ranks
    SHOWN, WRONG_VALUES, CALLS, CALL_COSTS = "shown", "wrong_values", "calls", "call_costs"  # primitives
    FASTEST_WAY, WAYS_ALIKE = "fastest_way", "ways_alike"  # to average
    PUBLISHED_HOLDS, PUBLISHED_SWAPPED = "published_holds", "published_swapped"
    PUBLISHED_UNCLEAR = "published_unclear"
    DIVERGED, FAILED, INTERRUPTED, TOO_FEW_STEPS = "diverged", "failed", "interrupted", "too_few_steps"
    CELLS = "cells"  # of primitives in two runs: the ratio of their times; place: the cell that differs most
    NO_PAIR = "no_pair"  # place: what two runs do not have in common: a trial, or a timed call
    NO_BASELINE = "no_baseline"  # nothing can be compared with it
    NOTHING_YET = "nothing_yet"  # interrupted before a trial had figures; place: the run


PAUSES = (Kind.BY_TURNS, Kind.RARE_WAITS, Kind.BURSTS, Kind.LONG_STEPS)
ABOUT_LATE_RANK = (Kind.LATE_RANK, Kind.NO_CORE, Kind.UNCERTAIN)
IDLE = (Kind.NETWORK, Kind.WAITING)
EXPLAIN_IDLE = (Kind.BY_TURNS, Kind.RARE_WAITS, Kind.BURSTS, Kind.UNEVEN_WORK, Kind.TREND, Kind.SMALL_CALLS)


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding. Numbers are by name, which ends in the unit (_s, _ms, _share, _times, _bytes); the others count."""

    kind: Kind
    severity: Severity = "note"
    trials: tuple[str, ...] = ()
    rank: int | None = None
    phase: str | None = None  # one of PARTS
    place: str | None = None  # a line of code, an operation's name, or what the kind says
    steps: tuple[int, ...] = ()  # their numbers, where it is about a few
    numbers: dict[str, float] = {}
    doubt: str | None = None  # why it is not certain: the end of a sentence
    action: str | None = None  # what to try
