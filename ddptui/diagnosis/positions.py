"""Where the ranks of a launch are that stands still, in words: who has not arrived at what, and what the others do.
Pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import mode
from typing import NamedTuple

import msgspec

from ddptui.wire.messages import PHASES, Position

STOPPED = ("stopped", "tracing-stop")  # psutil's words
FIRST_PHASES = PHASES[:3]  # these come in this order; what comes after depends on the trial


class Stall(NamedTuple):
    """why: a headline, and a line that says what to do; rank: the one whose log may tell more."""

    why: str
    rank: int


class CallCountMismatch(NamedTuple):
    """The first step in which not all ranks have made as many collectives; how many, by rank."""

    step: int
    calls: Mapping[int, int]


class RankProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a rank. steps: how many it has made; trains: its start is over; silent: it has not beaten for
    long; state: what its process does, in psutil's words, if that is known."""

    position: Position
    steps: int
    trains: bool
    silent: bool
    state: str | None

    @property
    def place(self) -> tuple[int, int]:
        """To compare ranks by: its step, and the collectives that it has come to there."""
        return (self.steps if self.position.step is None else self.position.step), self.position.calls

    @property
    def waits_in(self) -> tuple[int, int] | None:
        """The collective that it is in: the step, and its number there."""
        step, number = self.position.step, self.position.number
        return (step, number) if step is not None and number is not None else None


def explain_stall(
    ranks: Mapping[int, RankProgress], world_size: int, stood_s: float, odd: CallCountMismatch | None = None
) -> Stall:
    """That they stand still, and what to do. ranks: those that have not ended; stood_s: for how long, at least."""
    headline, suspects = describe_positions(ranks, world_size)
    if odd is not None:
        out_of_step, suspects = _out_of_step(odd)
        headline = f"{out_of_step}; now {headline}"
    remedy = "`ddptui presets NAME` shows the command: start it by hand to see more"
    if any(where.trains for where in ranks.values()):
        remedy = f"where a step may take so long, that is no fault: --set stall_s={3 * stood_s:g}"
    return Stall(f"{headline}; for {stood_s:g} s now\n{remedy}", min(suspects))


def describe_positions(ranks: Mapping[int, RankProgress], world_size: int) -> tuple[str, list[int]]:
    """Who has not arrived, and what the others do; and those whose fault it may be."""
    waiting = [where.waits_in for where in ranks.values() if where.waits_in is not None and not where.silent]
    silent = [rank for rank, where in ranks.items() if where.silent]
    suspects = silent or list(ranks)
    if not waiting:
        last = min(ranks[rank].place for rank in suspects)
        return "; ".join(_groups(ranks, suspects)), [rank for rank in suspects if ranks[rank].place == last]
    headline, absent = _at_a_collective(ranks, min(waiting), world_size)
    return headline, absent or suspects


def _at_a_collective(
    ranks: Mapping[int, RankProgress], which: tuple[int, int], world_size: int
) -> tuple[str, list[int]]:
    """Of the collective that ranks wait in, and that comes first: who is there, and who is not."""
    there = [rank for rank, where in ranks.items() if where.waits_in == which and not where.silent]
    position = ranks[there[0]].position
    members = [rank for rank in position.group or range(world_size) if rank in ranks]
    missing = [rank for rank in members if ranks[rank].place <= which]
    if len(there) == len(members) and (behind := _behind(ranks, there)):
        there, missing = [rank for rank in there if rank not in behind], behind
        which = (which[0], ranks[behind[0]].position.calls)
    beyond = [rank for rank in members if rank not in there and rank not in missing]
    silent = [rank for rank in beyond if ranks[rank].silent]  # arrived, or not: that was before it fell silent
    name = f"{position.kind} {which[1]} of step {which[0]}"
    wait = f"{_named(there)} {_verb(there, 'waits')}"
    if missing:
        do = [*_groups(ranks, missing), f"{wait} there", *_groups(ranks, beyond)]
        return f"{_named(missing)} {_verb(missing, 'has')} not arrived at {name}: {'; '.join(do)}", missing
    if silent:
        return "; ".join([*_groups(ranks, silent), f"{wait} in {name}"]), silent
    if beyond:
        do = [f"{wait} there", *_groups(ranks, beyond)]
        return f"{_named(beyond)} {_verb(beyond, 'has')} gone past {name}: {'; '.join(do)}", beyond
    return f"{wait} in {name}, and it does not end", there


def _behind(ranks: Mapping[int, RankProgress], there: Sequence[int]) -> list[int]:
    """Of ranks that went on while the same operation is under way, those that have come to fewer others since."""
    calls = {rank: ranks[rank].position.calls for rank in there}
    fewest = min(calls.values())
    return [rank for rank in there if calls[rank] == fewest] if max(calls.values()) > fewest else []


def _out_of_step(odd: CallCountMismatch) -> tuple[str, list[int]]:
    """Who has made another number of collectives than most."""
    usual = mode(odd.calls.values())
    others = [rank for rank, calls in odd.calls.items() if calls != usual]
    theirs = "; ".join(f"{_named([rank])} made {odd.calls[rank]}" for rank in others)
    return f"in step {odd.step}, {theirs} of {usual} collectives, and is out of step with the others since", others


def _groups(ranks: Mapping[int, RankProgress], chosen: Sequence[int]) -> list[str]:
    """What each of them does, those who do the same together."""
    doing: dict[str, list[int]] = {}
    for rank in chosen:
        doing.setdefault(_doing(ranks[rank]), []).append(rank)
    return [f"{_named(same)} {_verb(same, words)}" for words, same in doing.items()]


def _doing(where: RankProgress) -> str:
    """In words that follow a name."""
    position = where.position
    if where.state in STOPPED:
        return "is stopped, as by SIGSTOP"
    if where.silent:
        return "says nothing" + (f" (process {where.state})" if where.state else "")
    if where.waits_in is not None and not position.ahead:
        return f"is in {position.kind} {position.number} of step {position.step}"
    if position.step is not None:
        return f"is in step {position.step}, {_phase(position.passed)}"
    if not where.trains:
        return "has not begun to train"
    return f"is past step {where.steps - 1}, the last one" if where.steps else "has not begun its first step"


def _phase(passed: Sequence[str]) -> str:
    if len(passed) < len(FIRST_PHASES):
        return f"in {FIRST_PHASES[len(passed)]}"
    return f"past its {passed[-1]}"


def _named(ranks: Sequence[int]) -> str:
    """rank 1; ranks 0, 2–5."""
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0])]
    spans = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(spans)


def _verb(ranks: Sequence[int], words: str) -> str:
    """is → are, has → have, waits → wait, says → say, if there are several."""
    if len(ranks) == 1:
        return words
    verb, space, rest = words.partition(" ")
    return {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s")) + space + rest
