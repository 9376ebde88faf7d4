"""The verdict of a trial in words, for the table's foot. Pure."""

from collections.abc import Sequence
from statistics import median

import msgspec

from ddptui.analysis.culprit import MATTERS
from ddptui.analysis.own_work import BETWEEN, PARTS
from ddptui.analysis.results import Change, ConfidenceInterval, Culprit, Injected, RankResult, RepeatResult, TrialResult
from ddptui.config.trial import Bottleneck, Trial
from ddptui.config.trial_text import describe_bottleneck
from ddptui.report import devices
from ddptui.report.status import is_not_finite
from ddptui.text.units import seconds

BETWEEN_STEPS = PARTS[BETWEEN]  # where one is; else: in a phase
MENTIONED = 0.2  # of a loss: phases with less of it are not named
MS_A_S = 1000
MOST_RANKS = 8  # of which a line speaks one by one


def of_trial(result: TrialResult, trial: Trial) -> list[str]:
    """What there is to say of one trial, a line each."""
    if result.summary is None:
        return []
    told = [repeat for repeat in result.repeats if repeat.wait_share is not None]
    said = [". ".join([*([_verdict(result, told)] if told else []), *_sentences(result)])]
    said += [_withheld(repeat) for repeat in _without_waits(result)[-1:]]
    if any(is_not_finite(repeat) for repeat in result.repeats):
        said.append("the loss is not finite")
    mismatches = [words for repeat in result.repeats for words in repeat.mismatches]
    if mismatches and not told:
        said.append(f"nothing is known of its waits: in every step ranks made different operations: {mismatches[0]}")
    elif mismatches:
        steps = "1 step" if len(mismatches) == 1 else f"{len(mismatches)} steps"
        said.append(f"{steps} left out, in which ranks made different operations: {mismatches[0]}")
    changes = [change for repeat in result.repeats for change in repeat.changes]
    if changes:
        said.append("changed while it ran: " + "; ".join(_changed(change) for change in changes))
    if trial.launch == "dp":
        said.append(devices.output_device(result.repeats[-1].ranks))
    if trial.instruments == "off":
        said.append("without instruments: only its times are known")
    return [line for line in said if line]


def _without_waits(result: TrialResult) -> list[RepeatResult]:
    """Repeats whose waits the clocks of the ranks (their hosts', or their GPUs') cannot tell."""
    return [each for each in result.repeats if each.clock_error_ms is not None and each.wait_share is None]


def _withheld(repeat: RepeatResult) -> str:
    off, put_off = (seconds((each or 0.0) / MS_A_S) for each in (repeat.clock_error_ms, repeat.wait_error_ms))
    return (
        f"its waits are withheld: the ranks' clocks agree to ±{off}, which may put those of a step off by ±{put_off}, "
        "and they are shorter"
    )


def _changed(change: Change) -> str:
    """What somebody put in by hand, and when."""
    when = f"from step {change.step} on" if change.step is not None else "too late for any step"
    bottleneck = msgspec.convert(change.bottleneck, tuple[Bottleneck, ...])
    return f"{when}, {describe_bottleneck(bottleneck) if bottleneck else 'no delay'}"


def _verdict(result: TrialResult, told: Sequence[RepeatResult]) -> str:
    assert result.summary is not None
    word = result.summary.verdict
    wait = median(repeat.wait_share or 0.0 for repeat in told)
    transfer = median(repeat.transfer_share or 0.0 for repeat in told)
    nobody = "; no rank stands out" if word in ("skew", "mixed") and result.summary.culprit is None else ""
    words = f"{word}: {wait:.0%} of the time waiting, {transfer:.0%} in transfers that nothing hides{nobody}"
    return f"{words}. {_who_waited(told)}" if wait >= MATTERS and len(told[-1].ranks) > 2 else words


def _who_waited(repeats: Sequence[RepeatResult]) -> str:
    """Rank by rank, and for whom most: directly, as it looked to the rank. Of the last repeat."""
    return "Waited: " + ", ".join(f"rank {rank.rank} {_waited(rank)}" for rank in repeats[-1].ranks[:MOST_RANKS])


def _waited(rank: RankResult) -> str:
    if rank.wait_s is None:
        return "less than the clocks can tell"
    whom = max(rank.waited_for_s, key=lambda other: rank.waited_for_s[other], default=None)
    what_for = f" ({seconds(rank.waited_for_s[whom])} for rank {whom})" if whom is not None else ""
    return f"{seconds(rank.wait_s)}{what_for}"


def _sentences(result: TrialResult) -> list[str]:
    """What was put in, and who is to blame: where the lab put a delay in, this is its own test."""
    assert result.summary is not None
    culprit, what_if = result.summary.culprit, result.summary.what_if_s
    injected = [repeat for repeat in result.repeats if repeat.injected]
    if not culprit:
        return [_injected(injected, _to_nobody(injected))] if injected else []
    words = f"attributed {_blame(culprit)}" if injected else f"Rank {culprit.rank} is waited for: {_loss(culprit)}"
    words += f"; it caused {culprit.share:.0%} of the waiting, {seconds(culprit.wait_caused_s)}"
    if what_if and what_if.without_culprit is not None:
        total = result.summary.train_time_s.median
        words += f"; without that, {what_if.without_culprit:.2f} s of {total:.2f} s (estimated)"
    return [_injected(injected, words) if injected else words]


def _loss(culprit: Culprit) -> str:
    return f"it lost {interval(culprit.excess_s)} {_where(culprit)}"


def _blame(culprit: Culprit) -> str:
    return f"{interval(culprit.excess_s)} to rank {culprit.rank} {_where(culprit)}"


def _where(culprit: Culprit) -> str:
    if culprit.slower is not None:
        return f"in every phase (× {culprit.slower:.2f}), most in {culprit.phase}"
    phases = [phase for phase, part in culprit.phases.items() if part >= MENTIONED] or [culprit.phase]
    within = " and ".join(phase for phase in phases if phase != BETWEEN_STEPS)
    where = " and ".join(
        [*([f"in {within}"] if within else []), *(phase for phase in phases if phase == BETWEEN_STEPS)]
    )
    return where + (f", most of it in step {culprit.step}" if culprit.step is not None else "")


def _injected(repeats: Sequence[RepeatResult], attributed: str) -> str:
    sites = dict.fromkeys((each.rank, each.at) for repeat in repeats for each in repeat.injected)
    put_in = ", ".join(f"{seconds(_mean(repeats, *site))} on rank {site[0]} at {site[1]}" for site in sites)
    return f"Injected {put_in}; {attributed}"


def _to_nobody(repeats: Sequence[RepeatResult]) -> str:
    if all(each.at == "start" for repeat in repeats for each in repeat.injected):
        return f"attributed {_late_start(repeats)}"
    return "attributed to nobody: too little, or too uncertain, to stand out"


def _late_start(repeats: Sequence[RepeatResult]) -> str:
    """A delay at the start is over before the first step: it is in no train time, and seen in the start itself."""
    starts = {
        rank.rank: median(repeat.ranks[at].start_s for repeat in repeats) for at, rank in enumerate(repeats[0].ranks)
    }
    last = max(starts, key=lambda rank: starts[rank])
    later = starts[last] - median(start for rank, start in starts.items() if rank != last) if len(starts) > 1 else 0.0
    return f"{seconds(later)} to rank {last} before the first step (in no train time)"


def _mean(repeats: Sequence[RepeatResult], rank: int, at: str) -> float:
    own: list[Injected] = [each for repeat in repeats for each in repeat.injected if (each.rank, each.at) == (rank, at)]
    return sum(each.s for each in own) / len(repeats)


def interval(found: ConfidenceInterval) -> str:
    return f"{seconds(found.estimate)} ({seconds(max(0.0, found.low))} … {seconds(found.high)})"
