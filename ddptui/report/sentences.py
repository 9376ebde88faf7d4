"""The verdict of a trial in sentences: the finding first, then the evidence."""

from collections.abc import Iterator, Sequence
from statistics import fmean, median

import msgspec
from msgspec.structs import replace

from ddptui.analysis.breakdown import slept_in_steps
from ddptui.analysis.cautions import Caution
from ddptui.analysis.correctness import diverged
from ddptui.analysis.counted import counted, is_changed, why_left_out
from ddptui.analysis.disturbance import is_disturbed
from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.own_work import BETWEEN
from ddptui.analysis.policy import FEWEST_STEPS, MATTERS
from ddptui.analysis.results import (
    Change,
    ConfidenceInterval,
    Culprit,
    RepeatResult,
    Summary,
    TrialResult,
)
from ddptui.config.trial import Bottleneck, Trial
from ddptui.config.trial_text import describe_bottleneck
from ddptui.findings.time import EXPLAIN_IDLE, IDLE, of_repeats
from ddptui.findings.words import long, meanwhile, short
from ddptui.report import ranks, remedies
from ddptui.report.train_time import rest_of_time
from ddptui.text.units import MS, S, in_one_unit, seconds, time_range
from ddptui.text.words import count, in_a_row, listed
from ddptui.wire.phases import PARTS

BETWEEN_STEPS = PARTS[BETWEEN]  # stands by itself in a sentence, where a phase has "in" before it
MENTIONED = 0.2  # of a loss: phases with less of it are not named
ALIKE = 0.9  # of the longest injected delay: ranks that slept at least so long slept as long
# Findings that say where time went besides steps of the median length.
WHERE = (
    Kind.DATA,
    Kind.FIRST_BATCH,
    Kind.LONG_STEPS,
    Kind.RESTART,
    Kind.RARE_WAITS,
    Kind.BURSTS,
    Kind.BY_TURNS,
    Kind.UNEVEN_WORK,
)
MOST_RANKS = 8  # whose waiting one line lists


def of_trial(result: TrialResult, trial: Trial) -> list[str]:
    """What came of one trial, a line each; nothing if it has no figures."""
    if result.summary is None:
        return []
    repeats = counted(result.repeats)
    changes = _changes(result.repeats)
    in_figures = any(map(is_changed, repeats))
    problems = [
        *_hidden_waits(repeats),
        *_without_core(repeats),
        "the loss is not finite" if diverged(result) else "",
        *_mismatches(result.repeats),
    ]
    ours = EXPLAIN_IDLE if _slept(repeats) and result.summary.culprit else ()  # what we injected is not said twice
    ours = (*ours, Kind.LATE_RANK, Kind.NO_CORE)  # which the line of the culprit says
    all_found = of_repeats(repeats)
    found = [finding for finding in all_found if finding.kind not in ours]
    lost = [meanwhile(finding) for finding in all_found if finding.kind is Kind.LATE_RANK]
    rest = "" if any(finding.kind in WHERE for finding in found) else rest_of_time(result.repeats)
    if any([rest, *problems]):  # then there is something
        found = [finding for finding in found if finding.kind is not Kind.NOTHING]
    lines = [
        *(changes if in_figures else ()),
        *_verdict(repeats, result.summary, found, lost),
        *problems,
        rest,
        *(() if in_figures else changes),
        ranks.output_device(result.repeats[-1].ranks) if trial.launch == "dp" else "",
        "without instruments: only its times are known" if trial.instruments == "off" else "",
    ]
    return [*filter(None, lines)]


def _verdict(
    repeats: Sequence[RepeatResult], summary: Summary, found: Sequence[Finding], lost: Sequence[str]
) -> list[str]:
    """The rank that was late, how long the others stood idle, and what to try; then where else the time went.
    lost: what the late rank did in the time that it lost."""
    worst = _worst_queues(repeats)
    without_core = worst.rank_without_core if worst else None  # late in that repeat, since it had no core
    sentences = [*_blame(repeats, summary, without_core, found, lost)]
    if not sentences:
        return [*map(long, found)]
    culprit = summary.culprit
    sentences += [short(finding) for finding in found if finding.kind in IDLE]
    # Nothing is to be mended in what the lab itself injected.
    if not _slept(repeats) and Caution.TOO_FEW_STEPS not in summary.warnings:
        if culprit:
            sentences.append(remedies.EVERYWHERE if culprit.slower is not None else remedies.OF_PART[culprit.phase])
        if without_core is not None and (not culprit or culprit.rank == without_core):
            sentences.append(remedies.OWN_CORE)
    others = [finding for finding in found if finding.kind not in (*IDLE, Kind.NOTHING)]
    late = culprit.rank if culprit else without_core
    return [
        in_a_row(sentences, "."),
        *(long(replace(finding, action=None) if finding.rank == late else finding) for finding in others),
    ]


def _blame(
    repeats: Sequence[RepeatResult],
    summary: Summary,
    without_core: int | None,
    found: Sequence[Finding],
    lost: Sequence[str],
) -> Iterator[str]:
    """The rank that holds the others up; where the lab injected a delay, that stands beside what was measured. found:
    what is said besides. lost: as in _verdict."""
    # Delays put in by hand stand beside what was measured in their steps alone.
    culprit = summary.culprit
    injected = [repeat for repeat in repeats if repeat.injected and not is_changed(repeat)]
    if culprit is None:
        if injected:
            is_found = any(finding.rank in _slept(injected) for finding in found)
            yield f"We injected {_injected(injected)}" + ("" if is_found else f"; {_without_culprit(injected)}")
        if without_core is not None:
            yield f"Rank {without_core} holds everyone up, since other programs have its core"
        return
    if injected:
        measured = f"ddptui measured {interval(culprit.excess_s)} on rank {culprit.rank} {_where(culprit)}"
        yield f"We injected {_injected(injected)}; {measured}{_beside_others(injected, culprit.rank)}"
    else:
        yield f"Rank {culprit.rank} holds everyone up: {interval(culprit.excess_s)} {_where(culprit)}{_steps(culprit)}"
    caused = f"It caused {culprit.share:.0%} of the waiting{_steps(culprit)}"
    yield f"{caused}: {seconds(culprit.wait_caused_s)}, summed over ranks"
    yield from () if injected else lost
    if without_core == culprit.rank:
        yield "Other programs have its core"
    if summary.what_if_s and summary.what_if_s.without_culprit is not None:
        without_s, measured_s = summary.what_if_s.without_culprit, summary.train_time_s.median
        yield f"Without rank {culprit.rank}'s delay: about {without_s:.2f} s instead of {measured_s:.2f} s"


def _where(culprit: Culprit) -> str:
    if culprit.slower is not None:
        return f"in every phase (× {culprit.slower:.2f}), most in {culprit.phase}"
    phases = [phase for phase, part in culprit.phases.items() if part >= MENTIONED] or [culprit.phase]
    within = " and ".join(phase for phase in phases if phase != BETWEEN_STEPS)
    parts = [f"in {within}"] * bool(within) + [BETWEEN_STEPS] * (BETWEEN_STEPS in phases)
    return " and ".join(parts)


def _steps(culprit: Culprit) -> str:
    """Those that the culprit was judged on; empty if these are all."""
    return f" in steps {culprit.steps[0]} to {culprit.steps[1]}" if culprit.steps else ""


def _injected(repeats: Sequence[RepeatResult]) -> str:
    """The mean over repeats, site by site."""
    totals: dict[tuple[int, str], float] = {}
    for delay in (delay for repeat in repeats for delay in repeat.injected):
        totals[delay.rank, delay.at] = totals.get((delay.rank, delay.at), 0.0) + delay.s
    return ", ".join(f"{seconds(total / len(repeats))} on rank {rank} at {at}" for (rank, at), total in totals.items())


def _beside_others(repeats: Sequence[RepeatResult], culprit: int) -> str:
    """Why less was measured than injected, if other ranks slept, too."""
    others = [rank for rank in _slept(repeats) if rank != culprit]
    if not others:
        return ""
    ranks = f"{'rank' if len(others) == 1 else 'ranks'} {listed([str(rank) for rank in others])}"
    return f" beyond the others, of which {ranks} slept, too"


def _slept(repeats: Sequence[RepeatResult]) -> dict[int, float]:
    """By rank, the delays injected into its steps, in s, the mean over repeats."""
    by_rank = [slept_in_steps(repeat) for repeat in repeats]
    ranks_of_any = dict.fromkeys(rank for slept_s in by_rank for rank in slept_s)
    return {rank: fmean(slept_s.get(rank, 0.0) for slept_s in by_rank) for rank in ranks_of_any}


def _without_culprit(repeats: Sequence[RepeatResult]) -> str:
    if slept_s := _slept(repeats):
        late = [str(rank) for rank, s in slept_s.items() if s > ALIKE * max(slept_s.values())]
        waits = [repeat.wait_share for repeat in repeats if repeat.wait_share is not None]
        if len(late) == len(repeats[0].ranks):
            by_turns = waits and median(waits) > MATTERS
            return f"all ranks slept as long, {'by turns' if by_turns else 'at once, so none waits for another'}"
        if (steps := min(repeat.compared for repeat in repeats)) < FEWEST_STEPS:
            return f"not attributed: {count(steps, 'step')}, too few"
        if len(late) > 1:
            return f"not attributed to one rank: ranks {listed(late)} slept as long"
        return "not attributed: too small or too uncertain"
    # A delay at the start is over before the first step: it is in no train time, and seen in the start itself.
    first = repeats[0].ranks
    starts = {rank.rank: median(repeat.ranks[at].start_s for repeat in repeats) for at, rank in enumerate(first)}
    last = max(starts, key=lambda rank: starts[rank])
    others = [start for rank, start in starts.items() if rank != last]
    later = starts[last] - median(others) if others else 0.0
    return f"ddptui measured {seconds(later)} on rank {last} before the first step (in no train time)"


def interval(excess: ConfidenceInterval) -> str:
    """1.23 s (95%: 1.20 to 1.25 s); the lower bound is at least 0."""
    low, high = max(0.0, excess.low), excess.high
    (estimate, _), unit = in_one_unit(excess.estimate, high)
    return f"{estimate} {unit} (95%: {time_range(low, high)})"


def _hidden_waits(repeats: Sequence[RepeatResult]) -> list[str]:
    """Why it is not known who waited: times are the host's, or the clocks of ranks or GPUs are too far apart."""
    if len(repeats[-1].ranks) > 1 and Caution.HOST_TIME in repeats[-1].warnings:
        return ["who waited is not known: the devices may be behind the times of the host"]
    hidden = [repeat.clock_error_ms for repeat in repeats if repeat.wait_share is None]
    errors = [f"±{seconds(error_ms * MS / S)}" for error_ms in hidden if error_ms is not None]
    return [f"the clock error ({error}) exceeds the measured waits, so they are hidden" for error in errors[-1:]]


def _without_core(repeats: Sequence[RepeatResult]) -> list[str]:
    """How long ranks of disturbed repeats were ready to go on, but other programs had their cores."""
    worst = _worst_queues(repeats)
    if worst is None or max(rank.queued_s for rank in worst.ranks) < MATTERS * worst.train_time_s:
        return []
    waits = ", ".join(f"rank {rank.rank} {seconds(rank.queued_s)}" for rank in worst.ranks[:MOST_RANKS])
    return [f"Ranks waited for a core that other programs had: {waits}, of {worst.train_time_s:.2f} s"]


def _worst_queues(repeats: Sequence[RepeatResult]) -> RepeatResult | None:
    """The disturbed repeat in which a rank had no core for longest; None if none was disturbed."""
    disturbed = [repeat for repeat in repeats if is_disturbed(repeat)]
    return max(disturbed, key=lambda repeat: max(rank.queued_s for rank in repeat.ranks), default=None)


def _mismatches(repeats: Sequence[RepeatResult]) -> list[str]:
    steps = [mismatch for repeat in repeats for mismatch in repeat.mismatches]
    if not steps:
        return []
    in_all = all(repeat.overlap is None and len(repeat.ranks) > 1 for repeat in repeats)
    lost = "its waits are unknown" if in_all else f"{count(len(steps), 'step')} left out"
    return [f"{lost}, since the ranks' reports do not match: {steps[0]}"]


def _changes(repeats: Sequence[RepeatResult]) -> list[str]:
    """For each repeat whose delays were changed by hand: from when on, what was measured then, and what follows."""
    lines = []
    for number, repeat in enumerate(repeats, start=1):
        if not repeat.changes:
            continue
        who = f"repeat {number} of {len(repeats)} was " if len(repeats) > 1 else ""
        line = f"{who}changed by hand {'; '.join(map(_changed, repeat.changes))}"
        if is_changed(repeat):
            is_left_out = why_left_out(repeat, repeats)
            line += "; it is in no median and no ratio" if is_left_out else "; the figures include it"
        lines.append(line)
    return lines


def _changed(change: Change) -> str:
    """Which delays were injected by hand, from which step on, and what was measured in these steps."""
    when = f"from step {change.step} on" if change.step is not None else "too late for any step"
    if change.step is change.steps is None:  # without instruments, only the moment is known
        when = f"after {seconds(change.s)}"
    bottleneck = msgspec.convert(change.bottleneck, tuple[Bottleneck, ...])
    put_in = describe_bottleneck(bottleneck) if bottleneck else "no delay"
    return f"{when}: {put_in}{_measured(change)}"


def _measured(change: Change) -> str:
    """What stands beside delays put in by hand."""
    if change.steps == 0 and change.step is not None:
        return " (in no measured step)"
    if not change.bottleneck or not change.steps:  # removed, too late, or without instruments
        return ""
    if culprit := change.culprit:
        s, steps = culprit.excess_s, change.steps
        a_step = ConfidenceInterval(estimate=s.estimate / steps, low=s.low / steps, high=s.high / steps)
        return f" (ddptui measured {interval(a_step)} a step on rank {culprit.rank} {_where(culprit)})"
    if change.steps < FEWEST_STEPS:
        return f" (not attributed: {count(change.steps, 'step')}, too few)"
    return " (not attributed: too small or too uncertain)"


def status_of(result: TrialResult) -> str:
    """ok, failed or stopped; empty if the trial was not reached."""
    return result.status if result.status != "skipped" else "stopped" if result.command else ""


def what_became(result: TrialResult) -> str:
    """The end of a sentence whose subject is the trial: was stopped before its end: no figures."""
    if result.status != "skipped":
        return result.status
    if not result.command:
        return "was not reached"
    return "was stopped before its end" + ("" if result.primitives else ": no figures")


def failure(result: TrialResult) -> str:
    """Why a trial failed; the end of its log is indented below."""
    headline, *log = (result.error or "").splitlines()
    return "\n  ".join([f"{result.name} failed: {headline}", *log])
