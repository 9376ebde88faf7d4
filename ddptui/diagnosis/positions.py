"""Describes where the ranks of a stalled launch are: which ranks have not arrived at a collective, and what the other
ranks are doing. Pure."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import mode
from typing import NamedTuple

import msgspec

from ddptui.wire.messages import Position
from ddptui.wire.phases import BETWEEN, PHASES

STOPPED = ("stopped", "tracing-stop")  # states of a process, as psutil names them
FIRST_PHASES = PHASES[:3]  # always in this order in ddptui's training loop; the order of the rest depends on the trial


class Stall(NamedTuple):
    """The explanation of a launch that makes no progress."""

    why: str  # a headline, and a line with the remedy
    rank: int  # the rank whose log is most likely to show the cause


class CallCountMismatch(NamedTuple):
    """The first step in which the ranks called different numbers of collectives."""

    step: int
    calls: Mapping[int, int]  # number of collectives, keyed by rank


class RankProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rank has come."""

    position: Position
    steps: int  # number of finished steps
    trains: bool  # whether its startup is over
    silent: bool  # whether its heartbeats are overdue
    state: str | None  # the state of its process, as psutil names it; None: not known

    @property
    def place(self) -> tuple[int, int]:
        """The rank's step, and the number of collectives that it has reached in it; comparable between ranks."""
        return (self.steps if self.position.step is None else self.position.step), self.position.calls

    @property
    def waits_in(self) -> tuple[int, int] | None:
        """The collective in which the rank waits, as (step, index within the step); None: it is in no collective."""
        step, number = self.position.step, self.position.number
        return (step, number) if step is not None and number is not None else None


def explain_stall(
    ranks: Mapping[int, RankProgress], world_size: int, stood_s: float, mismatch: CallCountMismatch | None = None
) -> Stall:
    """Explain a stall: what the ranks are doing, and a remedy. ranks: those that have not ended. stood_s: for how long
    they have made no progress."""
    headline, suspects = describe_positions(ranks, world_size)
    if mismatch is not None:
        out_of_step, suspects = _out_of_step(mismatch)
        headline = f"{out_of_step}; now {headline}"
    remedy = "`ddptui presets NAME` shows the command: run it in a shell to see more"
    if any(progress.trains for progress in ranks.values()):
        remedy = f"if steps may legitimately take this long: --set stall_s={3 * stood_s:g}"
    return Stall(f"{headline}; {no_progress(stood_s)}\n{remedy}", min(suspects))


def describe_positions(ranks: Mapping[int, RankProgress], world_size: int) -> tuple[str, list[int]]:
    """A sentence that says which ranks have not arrived and what the others are doing; and the suspects: the ranks that
    may have caused the stall."""
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
    """A sentence about a collective in which ranks wait, which says what ranks have arrived and have not; and the
    suspects."""
    arrived = [rank for rank, progress in ranks.items() if progress.waits_in == which and not progress.silent]
    position = ranks[arrived[0]].position
    members = [rank for rank in position.group or range(world_size) if rank in ranks]
    # A rank in this collective has already counted it, so its place is larger.
    missing = [rank for rank in members if ranks[rank].place <= which]
    if len(arrived) == len(members) and (behind := _behind(ranks, arrived)):
        arrived, missing = [rank for rank in arrived if rank not in behind], behind
        which = (which[0], ranks[behind[0]].position.calls)
    beyond = [rank for rank in members if rank not in arrived and rank not in missing]
    silent = [rank for rank in beyond if ranks[rank].silent]  # they may have arrived after their last heartbeat
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
    return f"{wait} in {name}, which does not finish", arrived


def _behind(ranks: Mapping[int, RankProgress], arrived: Sequence[int]) -> list[int]:
    """Of ranks that went on while the collective runs in the background, those that have reached fewest collectives
    since; empty if all have reached equally many."""
    calls = {rank: ranks[rank].position.calls for rank in arrived}
    fewest = min(calls.values())
    return [rank for rank in arrived if calls[rank] == fewest] if max(calls.values()) > fewest else []


def _out_of_step(mismatch: CallCountMismatch) -> tuple[str, list[int]]:
    """The ranks that called a different number of collectives than most: a sentence about them, and their list."""
    usual = mode(mismatch.calls.values())  # of two ranks that differ, the number of the first one
    others = [rank for rank, calls in mismatch.calls.items() if calls != usual]
    counts = "; ".join(f"{_named([rank])} made {mismatch.calls[rank]}" for rank in others)
    return f"in step {mismatch.step}, {counts} of {usual} collectives, and is out of step with the others since", others


def _groups(ranks: Mapping[int, RankProgress], chosen: Sequence[int]) -> list[str]:
    """What the chosen ranks are doing: a clause for each group of ranks that do the same."""
    doing: dict[str, list[int]] = {}
    for rank in chosen:
        doing.setdefault(_doing(ranks[rank]), []).append(rank)
    return [f"{_named(group)} {_verb(group, text)}" for text, group in doing.items()]


def _doing(progress: RankProgress) -> str:
    """What a rank is doing, as words to put after its name."""
    position = progress.position
    if progress.state in STOPPED:  # first, because a stopped rank sends no heartbeats either
        return "is stopped, as by SIGSTOP"
    if progress.silent:
        return "sends no heartbeats" + (f" (process {progress.state})" if progress.state else "")
    if progress.waits_in is not None and not position.ahead:
        return f"is in {position.kind} {position.number} of step {position.step}"
    if position.step is not None:
        phase = _phase(position)
        return f"is in step {position.step}" + (f", {phase}" if phase else "")
    if not progress.trains:
        return "has not begun to train"
    return f"has made its last step ({progress.steps - 1})" if progress.steps else "has not begun its first step"


def _phase(position: Position) -> str:
    """The phase that a rank is in, or the last one that it has finished, in words. Empty if neither is known, e.g. in a
    watched training that has not called torch yet."""
    passed = position.passed
    if position.phase not in ("", BETWEEN):
        return f"in {position.phase}"
    if not position.phase and len(passed) < len(FIRST_PHASES):
        return f"in {FIRST_PHASES[len(passed)]}"
    return f"past its {passed[-1]}" if passed else ""


def no_progress(stood_s: float) -> str:
    """The last clause of a sentence about a stall."""
    return f"no progress for {stood_s:g} s"


def records_kept(ranks: Sequence[int], folder: str) -> str:
    """A line that says where the flight records of these ranks are; empty if there are none. folder: within the run's
    folder."""
    where = f"{folder}/*.flight.json in the run's folder"
    return f"\ntorch's record of the last collectives of {_named(ranks)}: {where}" if ranks else ""


def _named(ranks: Sequence[int]) -> str:
    """Ranks in words: "rank 1", "ranks 0, 2–5"."""
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0])]
    spans = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(spans)


def _verb(ranks: Sequence[int], text: str) -> str:
    """The text, in the plural if there are several ranks: is → are, waits → wait, its → their."""
    if len(ranks) == 1:
        return text
    verb, space, rest = text.replace(" its ", " their ").partition(" ")
    return {"is": "are", "has": "have"}.get(verb, verb.removesuffix("s")) + space + rest
