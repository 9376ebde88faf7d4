"""What delays put in by hand did to a repeat: each change is judged on the measured steps in which it held. Pure."""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ddptui.analysis.finding import ABOUT_LATE_RANK, Finding
from ddptui.analysis.launch_log import LaunchLog
from ddptui.analysis.results import Change, Culprit
from ddptui.analysis.thinning import scaled_culprit
from ddptui.analysis.waits import AlignedSteps
from ddptui.findings.verdict import analyze_aligned
from ddptui.text.units import S


class Stretch(NamedTuple):
    """The measured steps from one change to the next, and the rank that was late in them."""

    numbers: range
    delayed: bool  # by hand
    culprit: Culprit | None
    findings: tuple[Finding, ...]  # about that rank


def stretches_of(log: LaunchLog, aligned: AlignedSteps, *, disturbed: bool) -> list[Stretch]:
    """The steps before any change, then those of each change, of which a late one has none. disturbed: by other
    programs."""
    totals = log.thinned.totals.values()
    first = min((rank.begin.step for rank in totals if rank.begin), default=0)
    end = max((rank.end.step + 1 for rank in totals if rank.end), default=0)
    begins = [first, *(max(first, log.first_step_after.get(index, end)) for index in range(len(log.injections)))]
    delayed = [False, *(bool(injection.bottleneck) for injection in log.injections)]
    return [
        _stretch(range(begin, after), by_hand, aligned, disturbed)
        for begin, after, by_hand in zip(begins, [*begins[1:], end], delayed, strict=True)
    ]


def _stretch(numbers: range, delayed: bool, aligned: AlignedSteps, disturbed: bool) -> Stretch:
    steps = [step for step in aligned.steps if step.number in numbers] if numbers else []
    analysis = analyze_aligned(aligned._replace(steps=steps), disturbed=disturbed)
    culprit = analysis.culprit if analysis else None
    if culprit:  # of a long launch, not all steps were kept
        scaled = scaled_culprit(culprit, len(numbers) / len(steps))
        culprit = replace(scaled, steps=(numbers[0], numbers[-1]))
    return Stretch(
        numbers,
        delayed,
        culprit,
        tuple(finding for finding in (analysis.findings if analysis else ()) if finding.kind in ABOUT_LATE_RANK),
    )


def judged_stretch(stretches: list[Stretch]) -> Stretch | None:
    """The stretch whose culprit is that of the repeat: of those with delays put in by hand, the one whose culprit the
    others waited for longest, as a matrix of all waits shows it; else the longest. If delays were only removed, the
    steps before that count, in which the trial's own still held. None: no measured step was changed."""
    before, *changed = stretches
    if not any(stretch.numbers for stretch in changed):
        return None
    delayed = [stretch for stretch in changed if stretch.delayed and stretch.numbers]
    return max(delayed or [before] * bool(before.numbers) or changed, key=_weight)


def _weight(stretch: Stretch) -> tuple[float, int]:
    return stretch.culprit.wait_caused_s if stretch.culprit else 0.0, len(stretch.numbers)


def change_of_delays(log: LaunchLog, index: int, stretch: Stretch) -> Change:
    """When the delays of an injection by hand came into force: at the first step that a rank began after it."""
    injection = log.injections[index]
    # Ranks without instruments report no steps, but when they began.
    begins_ns = [totals.begin_ns for totals in log.thinned.totals.values()]
    begin_ns = min(begins_ns or [trained.first_ns for trained in log.trained.values()])
    return Change(
        s=(injection.at_ns - begin_ns) / S,
        step=log.first_step_after.get(index),
        steps=len(stretch.numbers) if begins_ns else None,
        bottleneck=[msgspec.to_builtins(bottleneck) for bottleneck in injection.bottleneck],
        culprit=stretch.culprit,
    )
