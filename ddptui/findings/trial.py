"""Combines the findings of a trial's repeats, and compares them with the delays that the trial injected. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import TypeVar

from msgspec.structs import replace

from ddptui.analysis.breakdown import slept_in_steps
from ddptui.analysis.finding import (
    ABOUT_LATE_RANK,
    EXPLAIN_IDLE,
    IDLE,
    NAME_LINES,
    OF_CHECKS,
    PAUSES,
    Finding,
    Kind,
    Where,
)
from ddptui.analysis.policy import FEWEST_STEPS, MATTERS, SLEPT_ALIKE
from ddptui.analysis.repeats import is_changed, valid_repeats
from ddptui.analysis.results import Culprit, RepeatResult, Summary
from ddptui.text.words import MS, S, count, listed

Item = TypeVar("Item")
SUMS = ("waited_s", "saved_s", "times", "longer_s")  # name endings of numbers that grow with the number of steps
# Findings that explain where time went besides steps of median length.
WHERE = (*PAUSES, Kind.DATA, Kind.FIRST_BATCH, Kind.RESTART, Kind.UNEVEN_WORK, Kind.BETWEEN_STEPS)


def median_over(items: Iterable[Item], figure: Callable[[Item], float | None]) -> float | None:
    """The median of a figure over the items that have it; None if none has."""
    values = [value for item in items if (value := figure(item)) is not None]
    return median(values) if values else None


def of_trial(all_repeats: Sequence[RepeatResult], summary: Summary) -> list[Finding]:
    """The findings of a trial with figures: injected delays and the late rank first, then where else its time went, the
    most costly first."""
    repeats, culprit = valid_repeats(all_repeats), summary.culprit
    others = [finding for finding in of_repeats(repeats) if finding.kind is not Kind.LATE_RANK]
    late = [late_rank(repeats, summary, culprit)] if culprit else []
    ours = [repeat for repeat in repeats if repeat.injected and not is_changed(repeat)]
    injected = [*_injected(ours, summary, others)] if ours else []
    if injected:  # injected delays need no advice, and must not be reported twice
        others = [replace(finding, action=None) for finding in others]
        if culprit:
            others = [finding for finding in others if finding.kind not in EXPLAIN_IDLE]
            late = [] if culprit.rank in slept_by_rank(ours) else late
    if not any(finding.kind in WHERE for finding in others):
        others += _slow_steps(repeats)
    of_checks = [finding for finding in others if finding.kind in OF_CHECKS]
    found = [*of_checks, *injected, *late, *(finding for finding in others if finding not in of_checks)]
    return [finding for finding in found if not _says_little(finding)] or found


def _says_little(finding: Finding) -> bool:
    """Whether it is left out beside other findings: that nothing was found, or that ranks hardly stood idle."""
    return finding.kind is Kind.NOTHING or (finding.kind in IDLE and finding.severity == "note")


def most_costly_first(found: Sequence[Finding]) -> list[Finding]:
    """Sorts findings: those about a late rank first, then by cost. Idle time counts only as far as no other finding
    explains it."""
    explained = sum(finding.numbers["share"] for finding in found if finding.kind in EXPLAIN_IDLE)

    def cost(finding: Finding) -> float:
        return finding.numbers.get("share", 0.0) - (explained if finding.kind in IDLE else 0.0)

    return sorted(found, key=lambda finding: (finding.kind not in ABOUT_LATE_RANK, -cost(finding)))


def of_repeats(repeats: Sequence[RepeatResult]) -> list[Finding]:
    """The findings that more than half of the repeats share, each combined by `middle_of`; the most costly first."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for finding in (finding for repeat in repeats for finding in repeat.findings):
        kind = Kind.NETWORK if finding.kind in IDLE else finding.kind
        place = None if finding.kind in NAME_LINES else finding.place  # repeats may name other lines
        alike.setdefault((kind, finding.rank, finding.phase, place), []).append(finding)
    many = [found for found in alike.values() if len(found) > len(repeats) / 2]
    return most_costly_first([*map(middle_of, many)])


def middle_of(found: Sequence[Finding]) -> Finding:
    """Combines findings about the same thing: medians of their numbers, and the steps that most of them name."""
    names = set.intersection(*({*finding.numbers} for finding in found))
    numbers = {name: median(finding.numbers[name] for finding in found) for name in sorted(names)}
    times = Counter(step for finding in found for step in finding.steps)
    steps = tuple(step for step in sorted(times) if times[step] > len(found) / 2)
    first = found[0]
    if first.kind in IDLE:  # in some repeats the network may dominate, in others late ranks
        kind = Kind.NETWORK if numbers["transfer_share"] > numbers["wait_share"] else Kind.WAITING
        first = next((finding for finding in found if finding.kind is kind), replace(first, kind=kind, action=None))
    lines = _middle_lines(found)
    place = first.place if first.kind not in NAME_LINES else lines[0].place if lines else None
    return replace(first, steps=steps, numbers=numbers, lines=lines, place=place)


def _middle_lines(found: Sequence[Finding]) -> tuple[Where, ...]:
    """The lines of the first finding that more than half of them name, with medians of their times."""
    times = {
        line.place: [each.ms for other in found for each in other.lines if each.place == line.place]
        for line in found[0].lines
    }
    lines = [
        replace(line, ms=median(times[line.place]))
        for line in found[0].lines
        if len(times[line.place]) > len(found) / 2
    ]
    return tuple(sorted(lines, key=lambda line: -line.ms))


def scaled(finding: Finding, factor: float) -> Finding:
    """Scales the sums of a finding to all steps, if not all steps were analyzed."""
    sums = {name: finding.numbers[name] * factor for name in finding.numbers if name.endswith(SUMS)}
    return replace(finding, numbers=finding.numbers | sums)


def late_rank(repeats: Sequence[RepeatResult], summary: Summary, culprit: Culprit) -> Finding:
    """The finding about the culprit over all repeats, with its interval, and the estimated time without it."""
    same = _late_in(repeats, culprit.rank)
    found = middle_of(same) if same else Finding(kind=Kind.LATE_RANK, rank=culprit.rank)
    steps = fmean(repeat.compared for repeat in repeats if repeat.culprit and repeat.culprit.rank == culprit.rank)
    if culprit.steps:
        steps = culprit.steps[1] - culprit.steps[0] + 1
    excess = culprit.excess_s
    numbers = {
        "late_ms": excess.estimate * S / MS / steps,
        "off_by_ms": (excess.high - excess.low) / 2 * S / MS / steps,
    }
    numbers |= {"of_waiting_share": culprit.share, "of_repeats": float(len(same)), **_without(summary)}
    numbers |= {f"in_{phase}_share": part for phase, part in culprit.phases.items()}
    if found.lines:
        numbers["unexplained_ms"] = max(0.0, numbers["late_ms"] - sum(line.ms for line in found.lines))
    return replace(found, phase=culprit.phase, steps=culprit.steps or (), numbers=found.numbers | numbers)


def _late_in(repeats: Sequence[RepeatResult], rank: int) -> list[Finding]:
    found = (finding for repeat in repeats for finding in repeat.findings)
    return [finding for finding in found if finding.kind is Kind.LATE_RANK and finding.rank == rank]


def _without(summary: Summary) -> dict[str, float]:
    """The estimated train time without the culprit, if known."""
    if summary.what_if_s is None or summary.what_if_s.without_culprit is None:
        return {}
    return {"without_s": summary.what_if_s.without_culprit, "train_s": summary.train_time_s.median}


def _injected(repeats: Sequence[RepeatResult], summary: Summary, others: Sequence[Finding]) -> Iterator[Finding]:
    """For each rank and site, the injected delays as means over repeats, with what was measured of them or why nothing
    was."""
    totals: dict[tuple[int, str], float] = {}
    for delay in (delay for repeat in repeats for delay in repeat.injected):
        totals[delay.rank, delay.at] = totals.get((delay.rank, delay.at), 0.0) + delay.s / len(repeats)
    culprit, slept = summary.culprit, slept_by_rank(repeats)
    is_seen = any(finding.rank in slept for finding in others)
    for at, ((rank, site), s) in enumerate(totals.items()):
        numbers, doubt, is_last = {"injected_s": s}, None, at == len(totals) - 1
        if culprit and culprit.rank == rank:
            excess = culprit.excess_s
            numbers |= {"measured_s": excess.estimate, "low_s": excess.low, "high_s": excess.high}
            numbers |= {"of_waiting_share": culprit.share, **_without(summary)}
            if too := [str(other) for other in slept if other != rank]:
                doubt = f"more than the others, although rank{'s' * (len(too) > 1)} {listed(too)} slept, too"
        elif not slept:
            numbers |= _at_start(repeats)
        elif is_last and not culprit and not is_seen:
            doubt = _why_unseen(repeats, slept)
        late = _late_in(repeats, rank)
        lines = middle_of(late).lines if late and "measured_s" in numbers else ()
        yield Finding(kind=Kind.INJECTED, rank=rank, phase=site, numbers=numbers, doubt=doubt, lines=lines)


def slept_by_rank(repeats: Sequence[RepeatResult]) -> dict[int, float]:
    """For each rank, the delays injected into its steps, in s, mean over repeats."""
    by_rank = [slept_in_steps(repeat) for repeat in repeats]
    ranks = dict.fromkeys(rank for slept_s in by_rank for rank in slept_s)
    return {rank: fmean(slept_s.get(rank, 0.0) for slept_s in by_rank) for rank in ranks}


def _at_start(repeats: Sequence[RepeatResult]) -> dict[str, float]:
    """How much later than the others the last rank reached the first step, which no train time includes."""
    ranks = range(len(repeats[0].ranks))
    starts = sorted(median(repeat.ranks[at].start_s for repeat in repeats) for at in ranks)
    return {"at_start_s": starts[-1] - median(starts[:-1])} if len(starts) > 1 else {}


def _why_unseen(repeats: Sequence[RepeatResult], slept_s: dict[int, float]) -> str:
    late = [str(rank) for rank, s in slept_s.items() if s > SLEPT_ALIKE * max(slept_s.values())]
    if len(late) == len(repeats[0].ranks):
        waits = [repeat.wait_share for repeat in repeats if repeat.wait_share is not None]
        by_turns = waits and median(waits) > MATTERS
        return f"all ranks slept as long, {'by turns' if by_turns else 'at once, so none waits for another'}"
    if (steps := min(repeat.compared for repeat in repeats)) < FEWEST_STEPS:
        return f"{count(steps, 'step is', 'steps are')} too few"
    return f"ranks {listed(late)} slept as long" if len(late) > 1 else "too small or too uncertain"


def _slow_steps(repeats: Sequence[RepeatResult]) -> Iterator[Finding]:
    """Finds slow steps: their number, and the worst, in the repeat in which they took the largest part of the time."""
    known = [(repeat.time_parts.long_s / repeat.train_time_s, repeat) for repeat in repeats if repeat.time_parts]
    share, repeat = max(known, key=lambda each: each[0], default=(0.0, None))
    if repeat and repeat.time_parts and repeat.time_parts.longest and share >= MATTERS:
        parts = repeat.time_parts
        worst = parts.longest[0]
        numbers = {"share": share, "times": float(parts.long_steps), "of": float(repeat.steps), "worst_ms": worst.ms}
        yield Finding(kind=Kind.SLOW_STEPS, steps=(worst.step,), numbers=numbers)
