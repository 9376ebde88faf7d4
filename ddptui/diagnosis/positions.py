"""Describes where the ranks of a stalled launch are: which ranks have not arrived at a collective, and what the other
ranks are doing. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ddptui.text.tables import grouped
from ddptui.text.words import count, listed, size
from ddptui.wire.messages import (
    POINT_TO_POINT,
    SAME_SIZE,
    Done,
    Failed,
    Heartbeat,
    Position,
    RankMessage,
    Ready,
    Shown,
    Stack,
    Step,
    Timed,
)
from ddptui.wire.phases import BETWEEN, PHASES

STOPPED = ("stopped", "tracing-stop")  # states of a process, as psutil names them
PAST = {"is": "was", "are": "were", "has": "had", "have": "had", "waits": "waited", "wait": "waited", "sends": "sent"}
WRAPPERS = ("wrapper", "inner", "wrapped", "decorate_context")  # names of functions that only call another
OPTIMIZER = PHASES[4]
FIRST_PHASES = PHASES[:3]  # always in this order in ddptui's training loop; the order of the rest depends on the trial


class Stall(NamedTuple):
    """The explanation of a launch that makes no progress."""

    why: str  # a headline, and a line with the remedy
    rank: int  # the rank whose log is most likely to show the cause
    suspect: int | None = None  # the rank that caused it; None: not known


class CallCountMismatch(NamedTuple):
    """The first step in which the ranks called different numbers of collectives."""

    step: int
    calls: Mapping[int, int]  # number of collectives, keyed by rank


class RankProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rank has come."""

    position: Position = Position()
    steps: int = 0  # number of finished steps
    trains: bool = False  # whether its startup is over
    silent: bool = False  # whether its heartbeats are overdue
    state: str | None = None  # the state of its process, as psutil names it; None: not known
    stack: Stack = ()  # where its code is; empty: not known
    is_over: bool = False  # it has ended

    @property
    def place(self) -> tuple[int, int]:
        """The rank's step, and the number of collectives that it has reached in it; comparable between ranks."""
        return (self.steps if self.position.step is None else self.position.step), self.position.calls

    @property
    def has_left(self) -> bool:
        """Whether the rank has left its training loop."""
        return self.is_over or (self.position.step is None and self.position.phase == BETWEEN)

    @property
    def waits_in(self) -> tuple[int, int] | None:
        """The collective in which the rank waits, as (step, index within the step); None: it is in no collective."""
        step, number = self.position.step, self.position.number
        return (step, number) if step is not None and number is not None else None

    def after(self, message: RankMessage) -> "RankProgress":
        """How far the rank is by its next message."""
        match message:
            case Ready():
                return replace(self, trains=True)
            case Step():
                return replace(self, steps=message.step + 1, trains=True)
            case Shown() | Timed():
                return replace(self, steps=message.place + 1)
            case Heartbeat() | Failed():
                return replace(self, position=message.position, stack=message.stack)
            case Done():
                return replace(self, is_over=True)
        return self


def explain_stall(
    ranks: Mapping[int, RankProgress], world_size: int, stood_s: float, mismatch: CallCountMismatch | None = None
) -> Stall:
    """Explain a stall: what the ranks are doing, and a remedy. ranks: those that have not ended. stood_s: for how long
    they have made no progress."""
    headline, suspects = describe_positions(ranks, world_size)
    if mismatch is not None:
        out_of_step, suspects = describe_mismatch(mismatch)
        headline = f"{out_of_step}; now {headline}"
    remedy = "`ddptui presets NAME` shows the command: run it in a shell to see more"
    if any(progress.trains for progress in ranks.values()):
        remedy = f"if steps may legitimately take this long: --set stall_s={3 * stood_s:g}"
    suspect = suspects[0] if len(suspects) == 1 else None
    return Stall(f"{headline}; {no_progress(stood_s)}\n{remedy}", min(suspects), suspect)


def describe_positions(ranks: Mapping[int, RankProgress], world_size: int) -> tuple[str, list[int]]:
    """A sentence that says which ranks have not arrived and what the others are doing; and the suspects: the ranks that
    may have caused the stall."""
    if different := different_collectives(ranks):
        return different
    waiting = [progress.waits_in for progress in ranks.values() if progress.waits_in and not progress.silent]
    suspects = [rank for rank, progress in ranks.items() if progress.silent] or list(ranks)
    if not waiting:
        last = min(ranks[rank].place for rank in suspects)
        return "; ".join(_groups(ranks, suspects)), [rank for rank in suspects if ranks[rank].place == last]
    headline, absent = _at_a_collective(ranks, min(waiting), world_size)
    return headline, absent or suspects


def describe_late(ranks: Mapping[int, RankProgress], world_size: int) -> tuple[str, list[int]]:
    """Like `describe_positions`, of ranks that have ended since: which kept the others waiting, and where all were."""
    sentence, suspects = describe_positions(ranks, world_size)
    waiting = [rank for rank, progress in ranks.items() if progress.waits_in and rank not in suspects]
    if not waiting:
        return sentence, suspects
    clauses = [*_pronoun(_groups(ranks, suspects), suspects), *_waits(ranks, waiting, "")]
    was = "; ".join(" ".join(PAST.get(word, word) for word in clause.split(" ")) for clause in clauses)
    return f"{named(suspects)} kept {named(waiting)} waiting: {was}", suspects


def _pronoun(clauses: list[str], ranks: Sequence[int]) -> list[str]:
    """The clauses about ranks that were just named: if they all do the same, with a pronoun."""
    they = "they" if len(ranks) > 1 else "it"
    return [they + clauses[0].removeprefix(named(ranks))] if len(clauses) == 1 else clauses


def _waits(ranks: Mapping[int, RankProgress], waiting: Sequence[int], late: str) -> list[str]:
    """A clause for each collective in which ranks wait. late: for whom; may be empty."""
    calls = grouped((_call_and_line(ranks[rank]), rank) for rank in waiting)
    wait = f"waits{' for ' * bool(late)}{late} in"
    return [f"{named(those)} {verb(those, wait)} {call}" for call, those in calls.items()]


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
    kinds = sorted({ranks[rank].position.kind for rank in arrived})  # neighbours in a ring: recv and send
    name = call_name(ranks[arrived[0]], which[1]).replace(position.kind, "/".join(kinds), 1)
    wait = f"{named(arrived)} {verb(arrived, 'waits')}"
    lines = "".join(f", {line}" for line in dict.fromkeys(line_of(ranks[rank].stack) for rank in arrived) if line)
    there = f"{wait} there{lines}"
    if missing and all(ranks[rank].stack for rank in missing):
        waits = _waits(ranks, arrived, "it" if len(missing) == 1 else "them")
        return "; ".join([*_groups(ranks, missing), *waits, *_groups(ranks, beyond)]), missing
    if missing:
        parts = [*_pronoun(_groups(ranks, missing), missing), there, *_groups(ranks, beyond)]
        return f"{named(missing)} {verb(missing, 'has')} not arrived at {name}: {'; '.join(parts)}", missing
    if silent:
        return "; ".join([*_groups(ranks, silent), f"{wait} in {name}"]), silent
    if beyond and position.kind in POINT_TO_POINT:  # it only concerns two ranks, whose numbers need not be equal
        return "; ".join(_groups(ranks, members)), members
    if beyond:
        parts = [there, *_groups(ranks, beyond)]
        return f"{named(beyond)} {verb(beyond, 'has')} gone past {name}: {'; '.join(parts)}", beyond
    return f"{wait} in {name}{lines}, which does not finish", arrived


def _behind(ranks: Mapping[int, RankProgress], arrived: Sequence[int]) -> list[int]:
    """Of ranks that went on while the collective runs in the background, those that have reached fewest collectives
    since; empty if all have reached equally many, or if one of them waits for this collective."""
    calls = {rank: ranks[rank].position.calls for rank in arrived}
    behind = [rank for rank in arrived if calls[rank] == min(calls.values())]
    goes_on = all(ranks[rank].position.ahead for rank in behind)
    return behind if goes_on and len(behind) < len(arrived) else []


def describe_mismatch(mismatch: CallCountMismatch) -> tuple[str, list[int]]:
    """A sentence about ranks that called different numbers of collectives; and those that differ from most."""
    (common, most), *rest = Counter(mismatch.calls.values()).most_common()
    if rest[0][1] == most:
        counts = [f"{named([rank])} called {number}" for rank, number in mismatch.calls.items()]
        called = f"there, of its collectives, {listed(counts)}"
        return f"the ranks have been out of step since step {mismatch.step}: {called}", sorted(mismatch.calls)
    others = [rank for rank, calls in mismatch.calls.items() if calls != common]
    counts = [f"{named([rank])} called {count(mismatch.calls[rank], 'collective')}" for rank in others]
    since = f"{verb(others, 'has')} been out of step with the others since step {mismatch.step}"
    return f"{named(others)} {since}: there, {listed(counts)}, the others {common}", others


def _groups(ranks: Mapping[int, RankProgress], chosen: Sequence[int]) -> list[str]:
    """What the chosen ranks are doing: a clause for each group of ranks that do the same."""
    doing = grouped((_doing(ranks[rank]), rank) for rank in chosen)
    return [f"{named(group)} {verb(group, text)}" for text, group in doing.items()]


def _doing(progress: RankProgress) -> str:
    """What a rank is doing, as words to put after its name."""
    position = progress.position
    if progress.state in STOPPED:  # first, because a stopped rank sends no heartbeats either
        return "is stopped, as by SIGSTOP"
    if progress.silent:
        return "sends no heartbeats" + (f" (process {progress.state})" if progress.state else "")
    where = where_in(progress.stack)
    if progress.has_left:
        return f"has left its training loop after {count(progress.steps, 'step')}" + (f", {where}" if where else "")
    if progress.waits_in is not None and not position.ahead:
        return f"is in {_call_and_line(progress)}"
    if where and position.step is not None:
        return f"is {where}, {'after' if is_after_step(position) else 'in'} step {position.step}"
    if is_after_step(position):
        return f"is past step {position.step}"
    if position.step is not None:
        phase = _phase(position)
        return f"is in step {position.step}" + (f", {phase}" if phase else "")
    if not progress.trains:
        return "has not begun to train"
    return f"has made its last step ({progress.steps - 1})" if progress.steps else "has not begun its first step"


def different_collectives(ranks: Mapping[int, RankProgress]) -> tuple[str, list[int]] | None:
    """A sentence about ranks whose unfinished collectives are each other's counterparts but of different kinds or
    sizes, and the suspects; None if there are none. Torch matches collectives by their order within a group."""
    calls: dict[object, dict[tuple[str, int], list[int]]] = {}
    for rank, progress in ranks.items():
        position = progress.position
        place = position.seq or progress.waits_in  # the lab's ranks do not number their collectives over all steps
        if place is not None and position.kind not in POINT_TO_POINT:
            alike = position.kind, position.bytes if position.kind in SAME_SIZE else 0
            calls.setdefault((position.group, place), {}).setdefault(alike, []).append(rank)
    kinds = next((kinds for kinds in calls.values() if len(kinds) > 1), None) or _beside_point_to_point(ranks)
    if kinds is None:
        return None
    keys = [_suspicion(ranks[those[0]].position, len(those)) for those in kinds.values()]
    suspects = [those for those, key in zip(kinds.values(), keys, strict=True) if key == min(keys)]
    parts = _calls(ranks, [*kinds.values()], suspects)
    between = {ranks[those[0]].position.between for those in kinds.values()}
    if len(between) > 1 and len({_boundary(ranks[those[0]]) for those in kinds.values()}) == 1:
        (first, number), *others = [(named(those), ranks[those[0]].position.between) for those in kinds.values()]
        counts = [f"{first} called {count(number, 'collective')}", *(f"{who} {number}" for who, number in others)]
        step = _boundary(ranks[min(kinds.values())[0]]) - 1
        parts.append(f"after step {step}, {listed(counts)}")
    return f"ranks are in different collectives: {'; '.join(parts)}", sorted(chain.from_iterable(suspects))


def _beside_point_to_point(ranks: Mapping[int, RankProgress]) -> dict[tuple[str, int], list[int]] | None:
    """The lab's ranks by what they wait in, if some wait in a collective and all others in point-to-point operations of
    the same step; None otherwise. In a watched training, that may be on purpose."""
    kinds: dict[tuple[str, int], list[int]] = {}
    for rank, progress in ranks.items():
        if progress.waits_in is None or progress.silent or progress.position.seq:
            return None
        kinds.setdefault((progress.position.kind, 0), []).append(rank)
    is_one_step = len({progress.position.step for progress in ranks.values()}) == 1
    return kinds if is_one_step and 0 < sum(kind in POINT_TO_POINT for kind, _ in kinds) < len(kinds) else None


def _suspicion(position: Position, ranks: int) -> tuple[int, ...]:
    """A key that is smallest for ranks in a collective that is none of the training loop's own. ranks: their number."""
    if position.seq:
        return ranks, not is_after_step(position)
    return len(position.passed), position.ahead, ranks  # the strategy's own collectives come late in the lab's step


def _calls(ranks: Mapping[int, RankProgress], groups: Sequence[list[int]], suspects: Sequence[list[int]]) -> list[str]:
    """A clause for each group of ranks, suspects first, then by rank: the collective that they are in, and where. In
    the lab, with their phase if it differs."""
    in_lab = not any(ranks[those[0]].position.seq for those in groups)
    has_sizes = in_lab and len({ranks[those[0]].position.kind for those in groups}) < len(groups)
    has_phases = in_lab and len({_phase(ranks[those[0]].position) for those in groups}) > 1
    parts = []
    for those in sorted(groups, key=lambda those: (those not in suspects, min(those))):
        progress = ranks[those[0]]
        bytes_ = f" ({size(progress.position.bytes)})" if has_sizes else ""
        where = _phase(progress.position) if has_phases else line_of(progress.stack)
        text = f"is in {call_name(progress)}{bytes_}" + (f", {where}" if where else "")
        parts.append(f"{named(those)} {verb(those, text)}")
    return parts


def _boundary(progress: RankProgress) -> int:
    """The number of steps that the rank has finished."""
    step = progress.position.step
    return progress.steps if step is None else step + is_after_step(progress.position)


def call_name(progress: RankProgress, number: int | None = None) -> str:
    """The rank's unfinished collective in words: all_reduce (132 KB) of step 60. number: its index, if not the
    unfinished one's."""
    position = progress.position
    which = position.number if number is None else number
    what = f"{position.kind} {which}"
    if position.seq:  # a watched training: its collectives within a step have no meaning to the user
        is_own = position.bytes and which == position.number
        what = f"{position.kind} ({size(position.bytes)})" if is_own else position.kind
    return f"{what} {'after' if is_after_step(position) else 'of'} step {position.step}"


def _call_and_line(progress: RankProgress) -> str:
    """As in: all_reduce (132 KB) of step 60, train.py:57."""
    return ", ".join(filter(None, [call_name(progress), line_of(progress.stack)]))


def is_after_step(position: Position) -> bool:
    """Whether the rank has finished this step, and the next one has not begun."""
    return position.phase == BETWEEN and OPTIMIZER in position.passed


def line_of(stack: Stack) -> str:
    """The innermost line of the user's own code: train.py:57. Empty if there is none."""
    own = next((place for place in stack if place.own), None)
    return own.text if own else ""


def where_in(stack: Stack) -> str:
    """The function in which the user's code is, and its line: in save, checkpoint.py:12. If a library has called that
    code, also the line that called the library. Empty if the stack has no own code."""
    owns = [at for at, place in enumerate(stack) if place.own]
    if not owns:
        return ""
    callers = [at for at in owns[1:] if not stack[at - 1].own]
    inner, *outer = [f"{_called(stack, at)}, {stack[at].text}".removeprefix(", ") for at in [owns[0], *callers[:1]]]
    return ", called by ".join([f"in {inner}" if _called(stack, owns[0]) else f"at {inner}", *outer])


def _called(stack: Stack, at: int) -> str:
    """The name of the library function that a line of the user's code calls, or of the function that has this line."""
    inside = [place.function.rpartition(".")[2] for place in reversed(stack[:at]) if not place.own]
    names = [name for name in inside if not name.startswith(("_", "<")) and name not in WRAPPERS]
    own = stack[at].function.rpartition(".")[2]
    direct = at > 0 and not stack[at - 1].own
    return names[0] if direct and names else own if not own.startswith("<") else ""


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
    return f"\nthe last collectives of {named(ranks)}, by torch's flight recorder: {where}" if ranks else ""


def named(ranks: Sequence[int]) -> str:
    """Ranks in words: "rank 1", "ranks 0 and 2–5"."""
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0])]
    spans = [span for run in runs for span in ([f"{run[0]}–{run[-1]}"] if len(run) > 2 else map(str, run))]
    return ("rank " if len(ranks) == 1 else "ranks ") + listed(spans, len(spans))


def verb(ranks: Sequence[int], text: str) -> str:
    """The text, in the plural if there are several ranks: is → are, waits → wait, its → their."""
    if len(ranks) == 1:
        return text
    verb, space, rest = text.replace(" its ", " their ").partition(" ")
    return {"is": "are", "has": "have", "was": "were"}.get(verb, verb.removesuffix("s")) + space + rest
