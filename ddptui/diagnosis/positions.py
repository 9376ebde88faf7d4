"""Describes where the ranks of a stalled launch are: which have not arrived at what, and what the others do. Pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import mode
from typing import NamedTuple

import msgspec

from ddptui.wire.messages import Position
from ddptui.wire.phases import BETWEEN, PHASES

STOPPED = ("stopped", "tracing-stop")  # states of a process, as psutil names them
FIRST_PHASES = PHASES[:3]  # in the lab's loop always in this order; the order of the rest depends on the trial


class Stall(NamedTuple):
    """A launch that makes no progress."""

    why: str  # a headline, and a line with the remedy
    rank: int  # whose log may show more


class CallCountMismatch(NamedTuple):
    """The first step in which the ranks made different numbers of collectives."""

    step: int
    calls: Mapping[int, int]  # how many, by rank


class RankProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rank has come."""

    position: Position
    steps: int  # it has made
    trains: bool  # it is ready: its start is over
    silent: bool  # it has not sent a heartbeat for long
    state: str | None  # of its process, as psutil names it; None: not known

    @property
    def place(self) -> tuple[int, int]:
        """Its step, and the collectives that it has come to there; comparable between ranks."""
        return (self.steps if self.position.step is None else self.position.step), self.position.calls

    @property
    def waits_in(self) -> tuple[int, int] | None:
        """The collective that it is in: the step, and the collective's number there. None: it is in none."""
        step, number = self.position.step, self.position.number
        return (step, number) if step is not None and number is not None else None


def explain_stall(
    ranks: Mapping[int, RankProgress], world_size: int, stood_s: float, mismatch: CallCountMismatch | None = None
) -> Stall:
    """What ranks (those that have not ended) are doing, which made no progress for stood_s or longer; and a remedy."""
    headline, suspects = describe_positions(ranks, world_size)
    if mismatch is not None:
        out_of_step, suspects = _out_of_step(mismatch)
        headline = f"{out_of_step}; now {headline}"
    remedy = "`ddptui presets NAME` shows the command: start it by hand to see more"
    if any(progress.trains for progress in ranks.values()):
        remedy = f"if steps may legitimately take this long: --set stall_s={3 * stood_s:g}"
    return Stall(f"{headline}; {no_progress(stood_s)}\n{remedy}", min(suspects))


def describe_positions(ranks: Mapping[int, RankProgress], world_size: int) -> tuple[str, list[int]]:
    """Which ranks have not arrived, and what the others do; and the suspects: the ranks that may have caused it."""
    waiting = [progress.waits_in for progress in ranks.values() if progress.waits_in and not progress.silent]
    suspects = [rank for rank, progress in ranks.items() if progress.silent] or list(ranks)
    if not waiting:
        last = min(ranks[rank].place for rank in suspects)
        return "; ".join(_groups(ranks, suspects)), [rank for rank in suspects if ranks[rank].place == last]
    headline, absent = _at_a_collective(ranks, min(waiting), world_size)
    return headline, absent or suspects


def _at_a_collective(
    ranks: Mapping[int, RankProgress], which: tuple[int, int], world_size: int
) -> tuple[str, list[int]]:
    """Of the earliest collective that ranks wait in: which have arrived, and which have not."""
    arrived = [rank for rank, progress in ranks.items() if progress.waits_in == which and not progress.silent]
    position = ranks[arrived[0]].position
    members = [rank for rank in position.group or range(world_size) if rank in ranks]
    # A rank that is in this collective has counted it already: its place is beyond.
    missing = [rank for rank in members if ranks[rank].place <= which]
    if len(arrived) == len(members) and (behind := _behind(ranks, arrived)):
        arrived, missing = [rank for rank in arrived if rank not in behind], behind
        which = (which[0], ranks[behind[0]].position.calls)
    beyond = [rank for rank in members if rank not in arrived and rank not in missing]
    silent = [rank for rank in beyond if ranks[rank].silent]  # they may have arrived since they fell silent
    name = f"{position.kind} {which[1]} of step {which[0]}"
    wait = f"{_named(arrived)} {_verb(arrived, 'waits')}"
    if missing:
        parts = [*_groups(ranks, missing), f"{wait} there", *_groups(ranks, beyond)]
        return f"{_named(missing)} {_verb(missing, 'has')} not arrived at {name}: {'; '.join(parts)}", missing
    if silent:
        return "; ".join([*_groups(ranks, silent), f"{wait} in {name}"]), silent
    if beyond:
        parts = [f"{wait} there", *_groups(ranks, beyond)]
        return f"{_named(beyond)} {_verb(beyond, 'has')} gone past {name}: {'; '.join(parts)}", beyond
    return f"{wait} in {name}, and it does not end", arrived


def _behind(ranks: Mapping[int, RankProgress], arrived: Sequence[int]) -> list[int]:
    """Of ranks that went on while the same operation is under way, those that have come to fewer others since."""
    calls = {rank: ranks[rank].position.calls for rank in arrived}
    fewest = min(calls.values())
    return [rank for rank in arrived if calls[rank] == fewest] if max(calls.values()) > fewest else []


def _out_of_step(mismatch: CallCountMismatch) -> tuple[str, list[int]]:
    """The ranks that made another number of collectives than most, in words and as a list."""
    usual = mode(mismatch.calls.values())  # of two ranks that differ, the first one's
    others = [rank for rank, calls in mismatch.calls.items() if calls != usual]
    counts = "; ".join(f"{_named([rank])} made {mismatch.calls[rank]}" for rank in others)
    return f"in step {mismatch.step}, {counts} of {usual} collectives, and is out of step with the others since", others


def _groups(ranks: Mapping[int, RankProgress], chosen: Sequence[int]) -> list[str]:
    """What ranks are doing: a text for each group that does the same."""
    doing: dict[str, list[int]] = {}
    for rank in chosen:
        doing.setdefault(_doing(ranks[rank]), []).append(rank)
    return [f"{_named(group)} {_verb(group, text)}" for text, group in doing.items()]


def _doing(progress: RankProgress) -> str:
    """What a rank is doing, in words that follow its name."""
    position = progress.position
    if progress.state in STOPPED:  # the strongest evidence: a stopped rank is silent, too
        return "is stopped, as by SIGSTOP"
    if progress.silent:
        return "is silent" + (f" (process {progress.state})" if progress.state else "")
    if progress.waits_in is not None and not position.ahead:
        return f"is in {position.kind} {position.number} of step {position.step}"
    if position.step is not None:
        phase = _phase(position)
        return f"is in step {position.step}" + (f", {phase}" if phase else "")
    if not progress.trains:
        return "has not begun to train"
    return f"has made its last step ({progress.steps - 1})" if progress.steps else "has not begun its first step"


def _phase(position: Position) -> str:
    """The phase that a rank is in, or has passed; empty: neither is known, as in a watched loop that has called
    nothing yet."""
    passed = position.passed
    if position.phase not in ("", BETWEEN):
        return f"in {position.phase}"
    if not position.phase and len(passed) < len(FIRST_PHASES):
        return f"in {FIRST_PHASES[len(passed)]}"
    return f"past its {passed[-1]}" if passed else ""


def no_progress(stood_s: float) -> str:
    """How a sentence about a stall ends."""
    return f"no progress for {stood_s:g} s"


def records_kept(ranks: Sequence[int], folder: str) -> str:
    """A line about ranks whose flight records are in this part of the run's folder; empty: there are none."""
    where = f"{folder}/*.flight.json in the run's folder"
    return f"\ntorch's record of the last collectives of {_named(ranks)}: {where}" if ranks else ""


def _named(ranks: Sequence[int]) -> str:
    """Ranks in short: "rank 1", "ranks 0, 2–5"."""
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0])]
    spans = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(spans)


def _verb(ranks: Sequence[int], text: str) -> str:
    """The text in the plural if there are several ranks: is → are, waits → wait, its → their."""
    if len(ranks) == 1:
        return text
    verb, space, rest = text.replace(" its ", " their ").partition(" ")
    return {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s")) + space + rest
