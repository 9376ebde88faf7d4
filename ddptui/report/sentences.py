"""The verdict of a trial in sentences: the finding first, then the evidence."""

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from ddptui.analysis.culprit import MATTERS
from ddptui.analysis.own_work import BETWEEN, PARTS
from ddptui.analysis.results import (
    Change,
    ConfidenceInterval,
    Culprit,
    RankResult,
    RepeatResult,
    Summary,
    TrialResult,
    Verdict,
)
from ddptui.config.trial import Bottleneck, Trial
from ddptui.config.trial_text import describe_bottleneck
from ddptui.report import ranks
from ddptui.text.units import MS, S, seconds
from ddptui.text.words import count

BETWEEN_STEPS = PARTS[BETWEEN]  # where one is; else: in a phase
MENTIONED = 0.2  # of a loss: phases with less of it are not named
MOST_RANKS = 8  # whose waiting one line lists


def of_trial(result: TrialResult, trial: Trial) -> list[str]:
    """What came of one trial, a line each; nothing if it has no figures."""
    if result.summary is None:
        return []
    lines = [_verdict(result, result.summary), *_hidden_waits(result.repeats)]
    if any(is_not_finite(repeat) for repeat in result.repeats):
        lines.append("the loss is not finite")
    lines += _mismatches(result.repeats)
    if changes := [change for repeat in result.repeats for change in repeat.changes]:
        lines.append("changed while it ran: " + "; ".join(_changed(change) for change in changes))
    if trial.launch == "dp":
        lines.append(ranks.output_device(result.repeats[-1].ranks))
    if trial.instruments == "off":
        lines.append("without instruments: only its times are known")
    return [line for line in lines if line]


def _verdict(result: TrialResult, summary: Summary) -> str:
    """Who is to blame, then how the time was spent; empty if nothing is known of either."""
    with_waits = [repeat for repeat in result.repeats if repeat.wait_share is not None]
    sentences = [*_blame(result, summary), *(_shares(summary, with_waits) if with_waits else [])]
    return ". ".join(sentences)


def _shares(summary: Summary, repeats: Sequence[RepeatResult]) -> Iterator[str]:
    """How much of the time ranks were idle, and of more than two ranks, who waited for whom."""
    wait = median(repeat.wait_share or 0.0 for repeat in repeats)
    transfer = median(repeat.transfer_share or 0.0 for repeat in repeats)
    yield idle(wait, transfer, summary.verdict, has_culprit=summary.culprit is not None)
    if wait >= MATTERS and len(repeats[-1].ranks) > 2:
        yield _who_waited(repeats[-1])


def idle(wait: float, transfer: float, verdict: Verdict, *, has_culprit: bool) -> str:
    """How much of the time ranks were idle, and for what; the shares are parts of 1."""
    if not has_culprit and max(wait, transfer) < MATTERS:
        return f"Nothing to worry about: {wait + transfer:.0%} of the time in communication"
    if verdict == "transfer":
        return f"Mostly the network: ranks stood idle {transfer:.0%} of the time for it, {wait:.0%} for a late rank"
    shares = f"anks stood idle {wait:.0%} of the time for a late rank, {transfer:.0%} for the network"
    nobody = "" if has_culprit or verdict == "inconclusive" else "; no rank stands out"
    return f"Mostly waiting: r{shares}{nobody}" if verdict == "skew" else f"R{shares}{nobody}"


def _who_waited(repeat: RepeatResult) -> str:
    """Rank by rank, and for whom most."""
    return "Waited: " + ", ".join(f"rank {rank.rank} {_waited(rank)}" for rank in repeat.ranks[:MOST_RANKS])


def _waited(rank: RankResult) -> str:
    if rank.wait_s is None:
        return "less than the clocks can tell"
    whom = max(rank.waited_for_s, key=lambda other: rank.waited_for_s[other], default=None)
    share = f" ({seconds(rank.waited_for_s[whom])} for rank {whom})" if whom is not None else ""
    return f"{seconds(rank.wait_s)}{share}"


def _blame(result: TrialResult, summary: Summary) -> Iterator[str]:
    """The rank that holds the others up; where the lab injected a delay, that stands beside what was measured."""
    culprit, injected = summary.culprit, [repeat for repeat in result.repeats if repeat.injected]
    if culprit is None:
        if injected:
            yield f"We injected {_injected(injected)}; {_without_culprit(injected)}"
        return
    if injected:
        measured = f"ddptui measured {interval(culprit.excess_s)} on rank {culprit.rank} {_where(culprit)}"
        yield f"We injected {_injected(injected)}; {measured}"
    else:
        yield f"Rank {culprit.rank} holds everyone up: {interval(culprit.excess_s)} {_where(culprit)}"
    yield f"It caused {culprit.share:.0%} of the waiting: {seconds(culprit.wait_caused_s)}, summed over ranks"
    if summary.what_if_s and summary.what_if_s.without_culprit is not None:
        without, measured_s = summary.what_if_s.without_culprit, summary.train_time_s.median
        yield f"Without the delay: about {without:.2f} s instead of {measured_s:.2f} s"


def _where(culprit: Culprit) -> str:
    if culprit.slower is not None:
        return f"in every phase (× {culprit.slower:.2f}), most in {culprit.phase}"
    phases = [phase for phase, part in culprit.phases.items() if part >= MENTIONED] or [culprit.phase]
    within = " and ".join(phase for phase in phases if phase != BETWEEN_STEPS)
    where = " and ".join(
        [*([f"in {within}"] if within else []), *(phase for phase in phases if phase == BETWEEN_STEPS)]
    )
    return where + (f", most of it in step {culprit.step}" if culprit.step is not None else "")


def _injected(repeats: Sequence[RepeatResult]) -> str:
    """The mean over repeats, site by site."""
    sites = dict.fromkeys((delay.rank, delay.at) for repeat in repeats for delay in repeat.injected)
    return ", ".join(f"{seconds(_mean(repeats, *site))} on rank {site[0]} at {site[1]}" for site in sites)


def _mean(repeats: Sequence[RepeatResult], rank: int, at: str) -> float:
    delays = [delay for repeat in repeats for delay in repeat.injected if (delay.rank, delay.at) == (rank, at)]
    return sum(delay.s for delay in delays) / len(repeats)


def _without_culprit(repeats: Sequence[RepeatResult]) -> str:
    if all(delay.at == "start" for repeat in repeats for delay in repeat.injected):
        return f"ddptui measured {_late_start(repeats)}"
    return "not attributed: too small or too uncertain"


def _late_start(repeats: Sequence[RepeatResult]) -> str:
    """A delay at the start is over before the first step: it is in no train time, and seen in the start itself."""
    starts = {
        rank.rank: median(repeat.ranks[at].start_s for repeat in repeats) for at, rank in enumerate(repeats[0].ranks)
    }
    last = max(starts, key=lambda rank: starts[rank])
    later = starts[last] - median(start for rank, start in starts.items() if rank != last) if len(starts) > 1 else 0.0
    return f"{seconds(later)} on rank {last} before the first step (in no train time)"


def interval(excess: ConfidenceInterval) -> str:
    """1.23 s (95%: 1.2 s to 1.25 s); the lower bound is at least 0."""
    return f"{seconds(excess.estimate)} (95%: {seconds(max(0.0, excess.low))} to {seconds(excess.high)})"


def _hidden_waits(repeats: Sequence[RepeatResult]) -> list[str]:
    """Of the last repeat in which the ranks' clocks, or those of their GPUs, are too far apart to tell who waited."""
    hidden = [repeat for repeat in repeats if repeat.clock_error_ms is not None and repeat.wait_share is None]
    return [clock_error_hides(repeat.clock_error_ms or 0.0) for repeat in hidden[-1:]]


def clock_error_hides(error_ms: float) -> str:
    """Why no waits are shown."""
    return f"the clock error (±{seconds(error_ms * MS / S)}) exceeds the measured waits, so they are hidden"


def _mismatches(repeats: Sequence[RepeatResult]) -> list[str]:
    steps = [mismatch for repeat in repeats for mismatch in repeat.mismatches]
    if not steps:
        return []
    if all(repeat.wait_share is None for repeat in repeats):
        return [f"its waits are unknown: in every step ranks called different operations: {steps[0]}"]
    return [f"{count(len(steps), 'step')} left out, in which ranks called different operations: {steps[0]}"]


def _changed(change: Change) -> str:
    """Which delays were injected by hand, and from which step on."""
    when = f"from step {change.step} on" if change.step is not None else "too late for any step"
    bottleneck = msgspec.convert(change.bottleneck, tuple[Bottleneck, ...])
    return f"{when}, {describe_bottleneck(bottleneck) if bottleneck else 'no delay'}"


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


def is_not_finite(repeat: RepeatResult) -> bool:
    """Whether the loss ended as no finite number; False without instruments, which look at each step."""
    return repeat.step_ms is not None and repeat.loss.last is None
