"""Where the time of all ranks goes: data, the first batch of each epoch, work between steps, restarts; and all findings
that are not about which rank is late. Pure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median

from msgspec.structs import replace

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.intervals import overlapping, total_ns
from ddptui.analysis.own_work import BETWEEN, phase_spans
from ddptui.analysis.policy import (
    AT_ITS_LIMIT,
    FEWEST_STEPS,
    FIRST_OF_EPOCH,
    LARGE,
    LONG_FETCHES,
    STEADY,
)
from ddptui.analysis.results import RepeatResult
from ddptui.analysis.window import Window
from ddptui.findings.network import idle_time, nothing, small_calls
from ddptui.findings.patterns import CALMER, every_so_many, pauses, trends, uneven_work
from ddptui.text.units import MS, S
from ddptui.wire.phases import PARTS, PHASES

DATA = PHASES.index("data")
SUMS = ("waited_s", "saved_s", "times", "longer_s")
PAUSES = (Kind.BY_TURNS, Kind.RARE_WAITS, Kind.BURSTS, Kind.LONG_STEPS)
ABOUT_LATE_RANK = (Kind.LATE_RANK, Kind.NO_CORE, Kind.UNCERTAIN)
IDLE = (Kind.NETWORK, Kind.WAITING)
EXPLAIN_IDLE = (Kind.BY_TURNS, Kind.RARE_WAITS, Kind.BURSTS, Kind.UNEVEN_WORK, Kind.TREND, Kind.SMALL_CALLS)
MORE_WORKERS = "To try: more workers in its DataLoader (`num_workers`), or less work for each sample"
PERSISTENT = "To try: `persistent_workers=True` in its DataLoader, so that workers are started only once"


def all_findings(window: Window, late: Sequence[Finding]) -> list[Finding]:
    """All findings about a window: of the late rank first, then where else its time goes. late: those
    about the rank that most of the waiting was for."""
    others = of_time(window)
    kinds = {finding.kind for finding in others}
    if kinds & {*EXPLAIN_IDLE, Kind.DATA, Kind.FIRST_BATCH}:  # it is known why ranks waited
        late = [finding for finding in late if finding.kind is not Kind.UNCERTAIN]
    if kinds & {Kind.BY_TURNS, Kind.UNEVEN_WORK, Kind.DATA, Kind.FIRST_BATCH}:  # and it was no lack of a core
        late = [finding for finding in late if finding.kind is not Kind.NO_CORE]
    if kinds & {Kind.DATA, Kind.FIRST_BATCH}:  # all ranks meet this limit, whichever fetches last
        late = [finding for finding in late if finding.phase != PHASES[DATA]]
    return [*late, *others] or [*nothing(window)]


def of_time(window: Window) -> list[Finding]:
    """All findings but which rank is late, the most costly first. Kind.NOTHING is not among them: whether there is
    nothing else depends on the late rank, too."""
    rules = (restarts, data, between_steps, pauses, uneven_work, trends, small_calls, idle_time)
    found = [finding for rule in rules for finding in rule(window)] if window.steps else []
    kinds = {finding.kind for finding in found}
    if kinds & {Kind.DATA, Kind.FIRST_BATCH}:  # one cause is said once
        found = [finding for finding in found if finding.phase != "data" or finding.kind not in PAUSES]
        found = [finding for finding in found if finding.kind is not Kind.TREND]
    if Kind.UNEVEN_WORK in kinds:
        found = [
            finding for finding in found if finding.phase not in ("forward", "backward") or finding.kind not in PAUSES
        ]
    if kinds - {*IDLE}:
        found = [replace(finding, action=None) if finding.kind is Kind.WAITING else finding for finding in found]
    return _most_costly_first(found)


def _most_costly_first(found: Sequence[Finding]) -> list[Finding]:
    """What is about the late rank comes first. Idle time counts as far as no other finding explains it."""
    explained = sum(finding.numbers["share"] for finding in found if finding.kind in EXPLAIN_IDLE)

    def cost(finding: Finding) -> float:
        return finding.numbers["share"] - (explained if finding.kind in IDLE else 0.0)

    return sorted(found, key=lambda finding: (finding.kind not in ABOUT_LATE_RANK, -cost(finding)))


def of_repeats(repeats: Sequence[RepeatResult]) -> list[Finding]:
    """The findings of more than half of the repeats, with the medians of their numbers; and the steps that are in more
    than half of them."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in (finding for repeat in repeats for finding in repeat.findings):
        kind = Kind.NETWORK if finding.kind in IDLE else finding.kind
        alike.setdefault((kind, finding.rank, finding.phase, finding.place), []).append(finding)
    many = [found for found in alike.values() if len(found) > len(repeats) / 2]
    return _most_costly_first([*map(_middle, many)])


def _middle(found: Sequence[Finding]) -> Finding:
    names = set.intersection(*({*finding.numbers} for finding in found))
    numbers = {name: median(finding.numbers[name] for finding in found) for name in sorted(names)}
    times = Counter(step for finding in found for step in finding.steps)
    steps = tuple(step for step in sorted(times) if times[step] > len(found) / 2)
    first = found[0]
    if first.kind in IDLE:  # in some repeats more for the network, in others for late ranks
        kind = Kind.NETWORK if numbers["transfer_share"] > numbers["wait_share"] else Kind.WAITING
        first = next((finding for finding in found if finding.kind is kind), replace(first, kind=kind, action=None))
    return replace(first, steps=steps, numbers=numbers)


def scaled(finding: Finding, factor: float) -> Finding:
    """The finding with its sums as of so many times as many steps, where not all steps were looked at."""
    sums = {name: finding.numbers[name] * factor for name in finding.numbers if name.endswith(SUMS)}
    return replace(finding, numbers=finding.numbers | sums)


def restarts(window: Window) -> Iterator[Finding]:
    """How long it took until all ranks trained again, warm-up included: no statistic, so few steps are enough."""
    for before, after in pairwise(window.steps):
        if any(before.number <= last < after.number for last in window.restarts):
            ends = [of_rank.step.end_ns for of_rank in before.ranks.values()]
            begins = [of_rank.step.begin_ns for of_rank in after.ranks.values()]
            lost_ns = max(begins) - max(ends)
            numbers = {"lost_s": lost_ns / S, "share": lost_ns / (window.covered_ns + lost_ns)}
            yield Finding(kind=Kind.RESTART, severity="warning", steps=(after.number,), numbers=numbers)


def data(window: Window) -> Iterator[Finding]:
    """Data takes a large part of the time on all ranks, or would if they did not wait for each other's: a rank whose
    loader is at its limit, too, would take as long if the others were faster."""
    if len(window.steps) < FEWEST_STEPS:
        return
    fetches = {rank: [step[DATA] for step in steps] for rank, steps in window.work.items()}
    whole_ns, waits = window.covered_ns, window.waits_are_known
    own = {rank: sum(of_rank) / whole_ns for rank, of_rank in fetches.items()}
    share = fmean(own[rank] + (_waited_for_data(window, rank) / whole_ns if waits else 0.0) for rank in own)
    if share < LARGE or min(own.values()) < AT_ITS_LIMIT:
        return
    begins = [at for at in range(1, len(window.steps)) if _epoch(window, at) != _epoch(window, at - 1)]
    firsts = [of_rank[at] for of_rank in fetches.values() for at in begins]
    in_first = sum(firsts) / sum(map(sum, fetches.values()))
    numbers = {"share": share, "low_share": min(own.values()), "high_share": max(own.values())}
    if in_first >= FIRST_OF_EPOCH:
        epochs = len({_epoch(window, at) for at in range(len(window.steps))})
        numbers |= {"first_s": median(firsts) / S, "epochs": float(epochs), "in_first_share": in_first}
        yield Finding(kind=Kind.FIRST_BATCH, severity="warning", phase="data", numbers=numbers, action=PERSISTENT)
        return
    later = {rank: [ns for at, ns in enumerate(of_rank) if at not in begins] for rank, of_rank in fetches.items()}
    slowest = sorted(later[max(own, key=lambda rank: own[rank])])
    long_ns = median(slowest[len(slowest) // 2 :]) / 2  # half of what its slower batches take
    if min(sum(ns >= long_ns for ns in of_rank) for of_rank in later.values()) < LONG_FETCHES:
        return
    numbers["step_ms"] = share * whole_ns / len(window.steps) / MS
    if every := every_so_many(
        [at for at, of_ranks in enumerate(zip(*fetches.values(), strict=True)) if max(of_ranks) >= long_ns]
    ):
        numbers["every_steps"] = float(every)
    yield Finding(kind=Kind.DATA, severity="warning", phase="data", numbers=numbers, action=MORE_WORKERS)


def _epoch(window: Window, at: int) -> int:
    return next(iter(window.steps[at].ranks.values())).step.epoch


def _waited_for_data(window: Window, rank: int) -> int:
    """How long a rank waited while the rank that it waited for fetched data, ns."""
    waited = 0
    for aligned in window.steps:
        for wait in aligned.ranks[rank].waits:
            spans = phase_spans(aligned.ranks[wait.late_rank].step)
            fetching = sorted((begin, end) for part, begin, end in spans if part == DATA)
            waited += total_ns(overlapping(fetching, wait.begin, wait.end))
    return waited


def between_steps(window: Window) -> Iterator[Finding]:
    """Work between steps takes a large part of the time on all ranks, step by step."""
    if len(window.steps) < FEWEST_STEPS:
        return
    shares = []
    for steps in window.work.values():
        between = [step[BETWEEN] for step in steps]
        usual_ns = median(between)
        shares.append(sum(min(ns, STEADY * usual_ns) for ns in between) / window.covered_ns)
    if fmean(shares) >= LARGE and min(shares) >= LARGE / 2:
        share = fmean(shares)
        numbers = {"share": share, "step_ms": share * window.covered_ns / len(window.steps) / MS}
        yield Finding(kind=Kind.BETWEEN_STEPS, phase=PARTS[BETWEEN], numbers=numbers, action=CALMER)
