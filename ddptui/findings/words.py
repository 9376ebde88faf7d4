"""A finding as text: finding, evidence, remedy. Whatever shows a finding takes its words from here. Pure."""

from collections.abc import Callable
from typing import NamedTuple

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import MUCH
from ddptui.text.units import MS, S, seconds, size
from ddptui.text.words import count, in_a_row, listed
from ddptui.wire.phases import BETWEEN


class Words(NamedTuple):
    """How a kind of finding reads, each without a full stop: what was found, as in a headline, and what shows it."""

    finding: Callable[[Finding], str]
    evidence: Callable[[Finding], str] = lambda _: ""


def _late_rank(finding: Finding) -> str:
    numbers = finding.numbers
    where = f"in every phase (× {numbers['slower']:.2f})" if "slower" in numbers else _where(finding)
    return f"Rank {finding.rank} holds everyone up: {_ms(numbers['late_ms'])} a step, {where}"


def _caused(finding: Finding) -> str:
    of_waiting, share = finding.numbers["of_waiting_share"], finding.numbers["share"]
    words = f"It caused {of_waiting:.0%} of the waiting: the others waited for it {share:.0%} of the time"
    return in_a_row([words, meanwhile(finding)], ".")


def meanwhile(finding: Finding) -> str:
    """What the late rank's thread did in the time that it lost; empty if that is not known."""
    if factor := finding.numbers.get("cpu_times"):
        why = "more work, or a slower core" if "slower" in finding.numbers else "more work, not less of a core"
        return f"It used {factor:.1f} × the CPU time of the others: it has {why}"
    if "blocked_share" in finding.numbers:
        return "It did not compute meanwhile: it slept, or waited for a file, a lock or another process"
    return ""


def _no_core(finding: Finding) -> str:
    return f"Rank {finding.rank} holds everyone up, since other programs have its core"


def _uncertain(finding: Finding) -> str:
    caused = f"Rank {finding.rank} caused {finding.numbers['of_waiting_share']:.0%} of the waiting"
    return f"{caused}; not certain, since {finding.doubt}"


def _data(finding: Finding) -> str:
    numbers = finding.numbers
    return f"Data limits all ranks: {numbers['share']:.0%} of the time, {_ms(numbers['step_ms'])} a step"


def _data_evidence(finding: Finding) -> str:
    low, high = finding.numbers["low_share"], finding.numbers["high_share"]
    words = f"A rank fetches batches for {low:.0%} to {high:.0%} of its time; the others wait meanwhile"
    if every := finding.numbers.get("every_steps"):
        words += f". One batch in {every:.0f} is slow, as {every:.0f} workers at their limit make it"
    return words


def _first_batch(finding: Finding) -> str:
    first, epochs = seconds(finding.numbers["first_s"]), count(round(finding.numbers["epochs"]), "epoch")
    share = f"{finding.numbers['share']:.0%} of the time"
    return f"Data limits all ranks: {share}, most of it in the first batch of each epoch (about {first} each, {epochs})"


def _long_steps(finding: Finding) -> str:
    numbers = finding.numbers
    steps = f"{count(round(numbers['times']), 'step')} took {seconds(numbers['longer_s'])} longer than usual"
    return f"{steps}{' on all ranks' * (numbers['ranks'] > 1)}, {_where(finding)}: {_steps(finding)}"


def _rare_waits(finding: Finding) -> str:
    other = finding.numbers.get("waiting_rank")  # where there is only one
    who = f"rank {other:.0f}" if other is not None else "each of the other ranks"
    waited = seconds(finding.numbers["waited_s"])
    return f"In {_steps(finding)}, {who} waited {waited} for rank {finding.rank} ({_where(finding)})"


def _bursts(finding: Finding) -> str:
    every, times = finding.numbers["every_steps"], round(finding.numbers["times"])
    pause = _ms(finding.numbers["pause_ms"])
    return (
        f"Rank {finding.rank} is late in 1 step of {every:.0f}, by {pause}, {_where(finding)} ({count(times, 'time')})"
    )


def _by_turns(finding: Finding) -> str:
    numbers = finding.numbers
    by_rank = {int(key.split("_")[1]): times for key, times in numbers.items() if key.startswith("rank_")}
    if len({*by_rank.values()}) == 1:
        who = f"{next(iter(by_rank.values())):.0f} on each rank"
    else:
        who = listed([f"{times:.0f} on rank {rank}" for rank, times in sorted(by_rank.items())])
    pauses = f"{count(round(numbers['times']), 'pause')} of {_ms(numbers['pause_ms'])}"
    return f"Late by turns: {pauses} {_where(finding)}, {who}"


def _trend(finding: Finding) -> str:
    low, high = (_ms(max(0.0, finding.numbers[key])) for key in ("from_ms", "to_ms"))
    if finding.steps:
        return f"Rank {finding.rank} is late from step {finding.steps[0]} on: {high} a step, {low} before"
    return f"Rank {finding.rank} grows late over the run: from {low} to {high} a step"


def _idle(finding: Finding) -> str:
    """First the sum, then the larger part."""
    wait, transfer = finding.numbers["wait_share"], finding.numbers["transfer_share"]
    what = "to hand over outputs" if finding.place else "for the network"
    shares = sorted([(wait, "for a late rank"), (transfer, what)], reverse=True)
    if wait + transfer < MUCH:
        parts = ", ".join(f"{share:.0%} {reason}" for share, reason in shares)
        return f"Ranks stood idle {wait + transfer:.0%} of the time: {parts}"
    if finding.kind is Kind.WAITING:
        return f"Mostly waiting: ranks stood idle {wait:.0%} of the time for a late rank, {transfer:.0%} {what}"
    if finding.place:
        return f"Ranks stood idle {transfer:.0%} of the time {what}, {wait:.0%} for a late rank"
    return f"Mostly the network: ranks stood idle {transfer:.0%} of the time for it, {wait:.0%} for a late rank"


def _small_calls(finding: Finding) -> str:
    number, calls = round(finding.numbers["calls"]), f"{finding.place}s"
    sized = f" of {_bytes(finding.numbers['bytes'])}" if finding.numbers["bytes"] else ""
    return f"Most of the communication is {number} {calls}{sized} a step, {_where(finding)}"


def _bytes(value: float) -> str:
    return count(round(value), "byte") if value < 1024 else size(value)


def _ms(value: float) -> str:
    return seconds(value * MS / S)


def _where(finding: Finding) -> str:
    phase = finding.phase or "several phases"
    return phase if phase == BETWEEN else f"in {phase}"


def _steps(finding: Finding) -> str:
    named = [str(step) for step in finding.steps]
    more = round(finding.numbers["times"]) - len(named)
    names = f"{', '.join(named)} and {more} more" if more > 0 else listed(named, len(named))
    return f"step{'s' * (len(named) + max(0, more) > 1)} {names}"


WORDS: dict[Kind, Words] = {
    Kind.LATE_RANK: Words(_late_rank, _caused),
    Kind.NO_CORE: Words(
        _no_core, lambda finding: f"It queued {_ms(finding.numbers['queued_ms'])} a step longer for one than the others"
    ),
    Kind.UNCERTAIN: Words(_uncertain),
    Kind.DATA: Words(_data, _data_evidence),
    Kind.FIRST_BATCH: Words(
        _first_batch, lambda _: "That is how a loader looks that starts its workers anew for each epoch"
    ),
    Kind.BETWEEN_STEPS: Words(
        lambda finding: f"Work between steps takes {finding.numbers['share']:.0%} of the time on all ranks",
        lambda finding: f"That is {_ms(finding.numbers['step_ms'])} a step",
    ),
    Kind.LONG_STEPS: Words(_long_steps, lambda finding: f"That is {finding.numbers['share']:.0%} of the time"),
    Kind.RESTART: Words(
        lambda finding: f"The ranks were started anew before step {finding.steps[0]}",
        lambda finding: (
            f"It took {seconds(finding.numbers['lost_s'])} until all trained again, "
            f"{finding.numbers['share']:.0%} of the time"
        ),
    ),
    Kind.RARE_WAITS: Words(
        _rare_waits,
        lambda finding: (
            f"That is {finding.numbers['share']:.0%} of the time, {_ms(finding.numbers['pause_ms'])} in such a step"
        ),
    ),
    Kind.BURSTS: Words(
        _bursts,
        lambda finding: (
            f"Others waited {seconds(finding.numbers['waited_s'])} for it, {finding.numbers['share']:.0%} of the time"
        ),
    ),
    Kind.BY_TURNS: Words(
        _by_turns,
        lambda finding: (
            f"The others waited {seconds(finding.numbers['waited_s'])} for these, "
            f"{finding.numbers['share']:.0%} of the time"
        ),
    ),
    Kind.UNEVEN_WORK: Words(
        lambda _: "Ranks are late by turns, in forward and backward: their work differs from step to step",
        lambda finding: (
            f"Equal work in each step would save about {seconds(finding.numbers['saved_s'])}, "
            f"{finding.numbers['share']:.0%} of the time"
        ),
    ),
    Kind.TREND: Words(_trend),
    Kind.NETWORK: Words(_idle),
    Kind.WAITING: Words(_idle),
    Kind.SMALL_CALLS: Words(
        _small_calls,
        lambda finding: f"They take {finding.numbers['share']:.0%} of the time, though all ranks had come",
    ),
    Kind.NOTHING: Words(
        lambda finding: f"Nothing to worry about: {finding.numbers['share']:.0%} of the time in communication"
    ),
}


def short(finding: Finding) -> str:
    """The finding alone, in one line."""
    return WORDS[finding.kind].finding(finding)


def long(finding: Finding) -> str:
    """The finding, the evidence and what to try, a sentence each."""
    evidence = WORDS[finding.kind].evidence(finding)
    return in_a_row([short(finding), evidence, finding.action or ""], ".")
