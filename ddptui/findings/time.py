"""Rules about where the time of all ranks goes: data, the first batch of each epoch, work between steps, restarts. Also
collects the findings of all rules about a window. Pure.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np
from msgspec.structs import replace

from ddptui.analysis.finding import EXPLAIN_IDLE, IDLE, PAUSES, Finding, Kind
from ddptui.analysis.late import Window
from ddptui.analysis.operations import BETWEEN, overlapping, phase_spans, total_ns
from ddptui.analysis.places import lines_on_all_ranks
from ddptui.analysis.policy import (
    AT_ITS_LIMIT,
    FEWEST_STEPS,
    FIRST_OF_EPOCH,
    LARGE,
    LONG_FETCHES,
    STEADY,
)
from ddptui.findings.network import idle_time, nothing, small_calls
from ddptui.findings.patterns import CALMER, every_so_many, pauses, trends, uneven_work
from ddptui.findings.trial import most_costly_first
from ddptui.text.words import MS, S
from ddptui.wire.phases import PARTS, PHASES

DATA = PHASES.index("data")
MORE_WORKERS = "Try more workers in the DataLoader (`num_workers`), or less work per sample"
PERSISTENT = "Try `persistent_workers=True` in the DataLoader, so that workers are started only once"


def all_findings(window: Window, late: Sequence[Finding]) -> list[Finding]:
    """All findings about a window: first those about a late rank, then where else the time goes. late: findings about
    the rank that caused most of the waiting."""
    others = of_time(window)
    kinds = {finding.kind for finding in others}
    if kinds & {*EXPLAIN_IDLE, Kind.DATA, Kind.FIRST_BATCH}:  # these explain the waiting
        late = [finding for finding in late if finding.kind is not Kind.UNCERTAIN]
    if kinds & {Kind.BY_TURNS, Kind.UNEVEN_WORK, Kind.DATA, Kind.FIRST_BATCH}:  # and the reason is not a lack of cores
        late = [finding for finding in late if finding.kind is not Kind.NO_CORE]
    if kinds & {Kind.DATA, Kind.FIRST_BATCH}:  # all ranks meet this limit, no matter which one fetches last
        late = [finding for finding in late if finding.phase != PHASES[DATA]]
    return [*late, *others] or [*nothing(window)]


def of_time(window: Window) -> list[Finding]:
    """All findings except those about a late rank, the most costly first. Kind.NOTHING is not among them, since it
    depends on the late rank, too."""
    rules = (restarts, data, between_steps, pauses, uneven_work, trends, small_calls, idle_time)
    found = [finding for rule in rules for finding in rule(window)] if window.steps else []
    kinds = {finding.kind for finding in found}
    if kinds & {Kind.DATA, Kind.FIRST_BATCH}:  # report each cause only once
        found = [finding for finding in found if finding.phase != "data" or finding.kind not in PAUSES]
        found = [finding for finding in found if finding.kind is not Kind.TREND]
    if Kind.UNEVEN_WORK in kinds:
        found = [
            finding for finding in found if finding.phase not in ("forward", "backward") or finding.kind not in PAUSES
        ]
    if kinds - {*IDLE}:
        found = [replace(finding, action=None) if finding.kind is Kind.WAITING else finding for finding in found]
    return most_costly_first(found)


def restarts(window: Window) -> Iterator[Finding]:
    """Finds restarts, and the time until all ranks trained again, warm-up included. Needs no minimum of steps."""
    for before, after in pairwise(window.steps):
        whys = [why for last, why in window.restarts.items() if before.number <= last < after.number]
        if whys:
            ends = [of_rank.step.end_ns for of_rank in before.ranks.values()]
            begins = [of_rank.step.begin_ns for of_rank in after.ranks.values()]
            lost_ns = max(begins) - max(ends)
            numbers = {"lost_s": lost_ns / S, "share": lost_ns / (window.covered_ns + lost_ns)}
            place = whys[-1] or None
            yield Finding(kind=Kind.RESTART, severity="warning", steps=(after.number,), numbers=numbers, place=place)


def data(window: Window) -> Iterator[Finding]:
    """Finds that data takes a large part of the time on all ranks. Waiting for another rank's data counts as well: with
    a loader at its limit, a rank would take just as long if the others were faster."""
    if len(window.steps) < FEWEST_STEPS:
        return
    fetches, whole_ns = window.work[:, :, DATA], window.covered_ns  # steps × ranks
    own = fetches.sum(axis=0) / whole_ns
    waited = [_waited_for_data(window, rank) for rank in window.ranks] if window.waits_are_known else [0]
    share = float(own.mean()) + fmean(waited) / whole_ns
    if share < LARGE or own.min() < AT_ITS_LIMIT:
        return
    epochs = np.array([next(iter(step.ranks.values())).step.epoch for step in window.steps])
    is_first = np.diff(epochs, prepend=epochs[0]) != 0
    in_first = float(fetches[is_first].sum() / fetches.sum())
    numbers = {"share": share, "low_share": float(own.min()), "high_share": float(own.max())}
    if in_first >= FIRST_OF_EPOCH:
        numbers |= {"first_s": float(np.median(fetches[is_first])) / S, "in_first_share": in_first}
        numbers["epochs"] = float(len({*epochs.tolist()}))
        yield Finding(kind=Kind.FIRST_BATCH, severity="warning", phase="data", numbers=numbers, action=PERSISTENT)
        return
    later = fetches[~is_first]
    slowest = np.sort(later[:, own.argmax()])
    long_ns = float(np.median(slowest[len(slowest) // 2 :])) / 2  # half the median of the slower half of its batches
    if (later >= long_ns).sum(axis=0).min() < LONG_FETCHES:
        return
    numbers["step_ms"] = share * whole_ns / len(window.steps) / MS
    if every := every_so_many(np.flatnonzero(fetches.max(axis=1) >= long_ns).tolist()):
        numbers["every_steps"] = float(every)
    numbers |= next((loaders.numbers for loaders in window.loaders.values()), {})
    lines = lines_on_all_ranks(window.spots, DATA, len(window.steps))
    yield Finding(kind=Kind.DATA, severity="warning", phase="data", lines=lines, numbers=numbers, action=MORE_WORKERS)


def _waited_for_data(window: Window, rank: int) -> int:
    """How long a rank waited for a rank that was fetching data, in ns."""
    waited = 0
    for aligned in window.steps:
        for wait in aligned.ranks[rank].waits:
            spans = phase_spans(aligned.ranks[wait.late_rank].step)
            fetching = sorted((begin, end) for part, begin, end in spans if part == DATA)
            waited += total_ns(overlapping(fetching, wait.begin, wait.end))
    return waited


def between_steps(window: Window) -> Iterator[Finding]:
    """Finds that work between steps takes a large part of the time on all ranks, in most steps."""
    if len(window.steps) < FEWEST_STEPS:
        return
    between = window.work[:, :, BETWEEN]
    shares = np.minimum(between, STEADY * np.median(between, axis=0)).sum(axis=0) / window.covered_ns
    if (share := float(shares.mean())) >= LARGE and shares.min() >= LARGE / 2:
        numbers = {"share": share, "step_ms": share * window.covered_ns / len(window.steps) / MS}
        lines = lines_on_all_ranks(window.spots, BETWEEN, len(window.steps))
        yield Finding(kind=Kind.BETWEEN_STEPS, phase=PARTS[BETWEEN], lines=lines, numbers=numbers, action=CALMER)
