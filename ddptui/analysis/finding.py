"""The struct for what a rule finds in a window of steps, or in the trials of a run. results.json contains it;
findings/words.py turns it into sentences.
"""

import enum
from typing import Literal

import msgspec

Severity = Literal["note", "warning", "critical"]


class Kind(enum.Enum):
    """The kind of a finding. The value is the key in results.json."""

    LATE_RANK = "late_rank"  # the others wait for this rank's work in this phase
    NO_CORE = "no_core"  # this rank is late because other programs use its core
    UNCERTAIN = "uncertain"  # most of the waiting is for this rank, but this may be chance
    BY_TURNS = "by_turns"  # ranks pause by turns: none is later than the others
    UNEVEN_WORK = "uneven_work"  # ranks are late by turns, because their batches differ
    RARE_WAITS = "rare_waits"  # in a few steps, the others wait long for this rank
    BURSTS = "bursts"  # this rank is late in every n-th step
    TREND = "trend"  # this rank becomes later during the run, or is late from some step on
    DATA = "data"  # fetching data takes a large part of the time on all ranks
    FIRST_BATCH = "first_batch"  # most of the data time is the first batch of each epoch: workers are restarted
    BETWEEN_STEPS = "between_steps"  # a large part of the time passes between steps
    LONG_STEPS = "long_steps"  # a few steps take much longer than the others, on all ranks
    RESTART = "restart"  # the ranks were restarted during the launch; place: why
    NETWORK = "network"  # ranks stand idle for transfers
    WAITING = "waiting"  # ranks stand idle for late ranks, and no rank stands out
    SMALL_CALLS = "small_calls"  # most of the transfer time is many calls of few bytes
    # The checks of a watched training.
    FEWER_PROCESSES = "fewer_processes"  # than the command asks for
    NOT_AVERAGED = "not_averaged"  # each rank trains for itself
    STARTED_APART = "started_apart"  # gradients are averaged, but the first parameters differed; place: tensors
    MOVED_APART = "moved_apart"  # parameters differ although gradients do not; place: tensors
    SOME_AVERAGED = "some_averaged"  # place: the tensors whose gradients are not averaged
    SELDOM_AVERAGED = "seldom_averaged"  # gradients are averaged in some steps only
    AVERAGE_DIFFERS = "average_differs"  # gradients differ between ranks in spite of collectives; place: tensors
    NO_DIVISION, DIVIDED_TWICE = "no_division", "divided_twice"
    NO_SYNC_LATE = "no_sync_late"  # the last micro-batches are not averaged
    NO_SYNC_SAVES = "no_sync_saves"  # each micro-batch is averaged
    SAME_BATCHES = "same_batches"  # place: the ranks that train on the same batches
    OVERLAP_OF_SAMPLES = "overlap_of_samples"
    SAME_ORDER = "same_order"  # each epoch has the same order
    SETTINGS_DIFFER = "settings_differ"  # place: what differs, between which ranks
    NOT_FINITE, NEVER_FINITE = "not_finite", "never_finite"  # the loss
    APART_AT_END = "apart_at_end"  # parameters differ after the last step, though not while training
    NOTHING = "nothing"  # no rule found anything
    # About a trial over its repeats.
    INJECTED = "injected"  # the trial delayed this rank; how much of it was measured
    SLOW_STEPS = "slow_steps"  # some steps took more than twice the median
    # About a run: its trials compared. place: the trial that they are compared with.
    SLOWER, FASTER, ALIKE = "slower", "faster", "alike"
    UNCLEAR = "unclear"  # the repeats vary too much to tell
    ROUGHLY = "roughly"  # repeats were disturbed, or the user changed their delays
    FASTEST, SLOWEST = "fastest", "slowest"  # the first trial; the others are too close to it to tell
    SAME_LOSS, OTHER_LOSS = "same_loss", "other_loss"  # trials: the one with the smallest loss, and with the largest
    LOSSY = "lossy"  # averages are inexact because the strategies round
    TRAINED = "trained"  # how long the only trial trained
    FOUND_FROM = "found_from"  # the smallest delay at which the delayed rank was named
    DELAY_FOUND, DELAY_MISSED = "delay_found", "delay_missed"  # rank: the one that all trials delay
    CHAIN = "chain"  # a rank waits for a late rank through another rank
    MISTAKES = "mistakes"  # how many deliberate mistakes the checks found; trials: those that were missed
    CHECK_FAILS = "check_fails"  # place: the check
    OWN_RIGHT, OWN_WRONG = "own_right", "own_wrong"  # the user's own strategy; place: its code; doubt: what is wrong
    OWN_BYTES = "own_bytes"  # what it hands to collectives in a step, and the least that a rank must send
    FAULTS_NAMED, FAULT_SURVIVED, FAULT_UNNAMED = "faults_named", "fault_survived", "fault_unnamed"
    SPLIT = "split"  # place: the parts into which DataParallel splits a batch
    OVERLAP = "overlap"  # the part of its communication that a trial overlapped; no number: none
    START = "start"  # the time until the first step
    SPEEDUP, WEAK_SPEEDUP = "speedup", "weak_speedup"  # weak: the batch grows with the ranks
    PREDICTABLE = "predictable"  # place: the command that predicts more ranks
    SHOWN, WRONG_VALUES, CALLS, CALL_COSTS = "shown", "wrong_values", "calls", "call_costs"  # primitives
    FASTEST_WAY, WAYS_ALIKE = "fastest_way", "ways_alike"  # the fastest of several ways to average
    PUBLISHED_HOLDS, PUBLISHED_SWAPPED = "published_holds", "published_swapped"
    PUBLISHED_UNCLEAR = "published_unclear"
    DIVERGED, INTERRUPTED, TOO_FEW_STEPS = "diverged", "interrupted", "too_few_steps"
    FAILED = "failed"  # place: the first cause, if the only trial is a command
    CELLS = "cells"  # of primitives in two runs: the ratio of their times; place: the cell that differs most
    NO_PAIR = "no_pair"  # place: what two runs do not have in common: a trial, or a timed call
    NO_BASELINE = "no_baseline"  # nothing can be compared with it
    NOTHING_YET = "nothing_yet"  # interrupted before a trial had figures; place: the run


BATCHES = "batches"  # place of UNEVEN_WORK: the batches of the ranks differ in size
OF_CHECKS = tuple(Kind)[list(Kind).index(Kind.FEWER_PROCESSES) : list(Kind).index(Kind.NOTHING)]
PAUSES = (Kind.BY_TURNS, Kind.RARE_WAITS, Kind.BURSTS, Kind.LONG_STEPS)
ABOUT_LATE_RANK = (Kind.LATE_RANK, Kind.NO_CORE, Kind.UNCERTAIN)
NAME_LINES = (Kind.LATE_RANK, Kind.RARE_WAITS, Kind.BURSTS)  # place: the line of code that takes most of the time
IDLE = (Kind.NETWORK, Kind.WAITING)
EXPLAIN_IDLE = (Kind.BY_TURNS, Kind.RARE_WAITS, Kind.BURSTS, Kind.UNEVEN_WORK, Kind.TREND, Kind.SMALL_CALLS)


class Where(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the user's code that explains a part of a finding."""

    place: str  # augment, train.py:28
    by: str = ""  # the line of the user's code that called this function: collate, train.py:37
    ms: float  # a step


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding. The names of numbers end in the unit (_s, _ms, _share, _times, _bytes); the others are counts."""

    kind: Kind
    severity: Severity = "note"
    trials: tuple[str, ...] = ()
    rank: int | None = None
    phase: str | None = None  # one of PARTS
    place: str | None = None  # a line of code, an operation's name, or what the kind says
    lines: tuple[Where, ...] = ()  # where in the user's code, the most costly first
    steps: tuple[int, ...] = ()  # numbers of the steps, if it is about a few
    numbers: dict[str, float] = {}
    doubt: str | None = None  # why the finding is uncertain: the end of a sentence
    action: str | None = None  # what to try
