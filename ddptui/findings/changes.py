"""Judges the delays that the user injected during a repeat: each change on the measured steps in which it was in
effect. Pure."""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ddptui.analysis.finding import ABOUT_LATE_RANK, Finding
from ddptui.analysis.launch_data import LaunchData
from ddptui.analysis.results import Change, Culprit
from ddptui.analysis.thinning import scaled_culprit
from ddptui.analysis.waits import AlignedSteps
from ddptui.findings.verdict import analyze_aligned
from ddptui.text.words import S


class DelayWindow(NamedTuple):
    """The measured steps from one change of delays to the next, and the rank that was late in them."""

    numbers: range
    delayed: bool  # whether the user's delays were in effect
    culprit: Culprit | None
    findings: tuple[Finding, ...]  # about the late rank


def stretches_of(log: LaunchData, aligned: AlignedSteps, *, disturbed: bool) -> list[DelayWindow]:
    """The stretch before any change, then one for each change; a change after the last step has no steps. disturbed:
    whether other programs disturbed the repeat."""
    totals = log.thinned.totals.values()
    first = min((rank.begin.step for rank in totals if rank.begin), default=0)
    end = max((rank.end.step + 1 for rank in totals if rank.end), default=0)
    begins = [first, *(max(first, log.first_step_after.get(index, end)) for index in range(len(log.injections)))]
    delayed = [False, *(bool(injection.bottleneck) for injection in log.injections)]
    return [
        _stretch(range(begin, after), by_hand, aligned, disturbed)
        for begin, after, by_hand in zip(begins, [*begins[1:], end], delayed, strict=True)
    ]


def _stretch(numbers: range, delayed: bool, aligned: AlignedSteps, disturbed: bool) -> DelayWindow:
    steps = [step for step in aligned.steps if step.number in numbers] if numbers else []
    analysis = analyze_aligned(aligned._replace(steps=steps), disturbed=disturbed)
    culprit = analysis.culprit if analysis else None
    if culprit:  # in a long launch, not all steps were kept
        scaled = scaled_culprit(culprit, len(numbers) / len(steps))
        culprit = replace(scaled, steps=(numbers[0], numbers[-1]))
    return DelayWindow(
        numbers,
        delayed,
        culprit,
        tuple(finding for finding in (analysis.findings if analysis else ()) if finding.kind in ABOUT_LATE_RANK),
    )


def judged_stretch(stretches: list[DelayWindow]) -> DelayWindow | None:
    """The stretch whose culprit becomes that of the repeat. Among stretches with delays injected by the user, the one
    whose culprit caused the most waiting, or else the longest. If delays were only removed, the stretch before the
    first change, with the trial's own delays. None: no measured step was changed."""
    before, *changed = stretches
    if not any(stretch.numbers for stretch in changed):
        return None
    delayed = [stretch for stretch in changed if stretch.delayed and stretch.numbers]
    return max(delayed or [before] * bool(before.numbers) or changed, key=_weight)


def _weight(stretch: DelayWindow) -> tuple[float, int]:
    return stretch.culprit.wait_caused_s if stretch.culprit else 0.0, len(stretch.numbers)


def change_of_delays(log: LaunchData, index: int, stretch: DelayWindow) -> Change:
    """The change that an injection caused: its time, the first step with the new delays, and the culprit since."""
    injection = log.injections[index]
    # Ranks without instruments report no steps, only when their first one began.
    begins_ns = [totals.begin_ns for totals in log.thinned.totals.values()]
    begin_ns = min(begins_ns or [trained.first_ns for trained in log.trained.values()])
    return Change(
        s=(injection.at_ns - begin_ns) / S,
        step=log.first_step_after.get(index),
        steps=len(stretch.numbers) if begins_ns else None,
        bottleneck=[msgspec.to_builtins(bottleneck) for bottleneck in injection.bottleneck],
        culprit=stretch.culprit,
    )
