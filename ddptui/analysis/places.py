"""On which lines of the user's code the ranks' own work was spent, from samples of the thread that trains. Pure.

A sample counts if the rank did not wait at that moment. A rank's work in a part of the step is measured; the samples
only divide it among lines, so that their times add up to it. Neighboring lines of one function count as one place.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import sqrt
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from ddptui.analysis.finding import Where
from ddptui.analysis.operations import AGGREGATE, Interval, Piece, part_at, phase_spans
from ddptui.analysis.policy import (
    FEWEST_SAMPLES,
    KEEPS_LOCK_NS,
    MOST_LINES,
    MOST_PLACES,
    NEIGHBORS,
    ONE_LINE,
    SMALLEST_PLACE,
    SURE_OF_LINE,
    WORTH_NAMING,
)
from ddptui.analysis.results import PlaceTime
from ddptui.analysis.waits import AlignedStep, RankStep
from ddptui.text.words import MS
from ddptui.wire.messages import Line, Place, Sampled, Stack
from ddptui.wire.phases import PARTS

COLLECTION = "garbage collection"  # as in workers/instruments/sampler.py: the function of such a sample


class Spot(NamedTuple):
    """A place in the code, in one part of a step."""

    part: int  # index in PARTS
    first: Place
    last: int  # the last line
    by: Place | None  # the line of the user's code that called its function
    ns: dict[int, float]  # by rank: own work there, over all steps
    samples: dict[int, int]  # by rank

    @property
    def place(self) -> str:
        """As in "augment, train.py:28"."""
        return self.first.full_text + f" to {self.last}" * (self.last > self.first.line)

    def where(self, ns: float, steps: int) -> Where:
        """The place with a time over all steps."""
        return Where(place=self.place, by=self.by.full_text if self.by else "", ms=ns / MS / steps)


class Taken(NamedTuple):
    """The samples of a rank's own work on a line, in one part of the step."""

    ns: float = 0.0  # the time for which they stand
    late_ns: float = 0.0  # of this, samples that were late: the rank was perhaps on an earlier line
    held_ns: float = 0.0  # of this, samples that the line itself made late
    samples: int = 0

    def plus(self, sample: Sampled) -> "Taken":
        """With one more sample."""
        late = sample.ns * (0 < sample.held_ns < KEEPS_LOCK_NS)
        held = sample.ns * (sample.held_ns >= KEEPS_LOCK_NS)
        return Taken(self.ns + sample.ns, self.late_ns + late, self.held_ns + held, self.samples + 1)


def spots_of(steps: Sequence[AlignedStep], lines: Mapping[int, Line]) -> list[Spot]:
    """All places where the ranks worked in these steps. lines: for which numbers stand in samples."""
    ranks = [*steps[0].ranks] if steps else []
    taken = {rank: _taken([step.ranks[rank] for step in steps], lines) for rank in ranks}
    spots = []
    for part in range(len(PARTS)):
        work = {rank: float(sum(step.ranks[rank].work_ns[part] for step in steps)) for rank in ranks}
        of_part = {rank: {line: each for (at, line), each in taken[rank].items() if at == part} for rank in ranks}
        shares = {rank: _shares(of_part[rank]) for rank in ranks}
        stacks = {line: lines[line].within(PARTS[part]) for of_rank in of_part.values() for line in of_rank}
        for group in _neighbors(stacks):
            ns = {rank: work[rank] * sum(shares[rank].get(line, 0.0) for line in group) for rank in ranks}
            samples = {rank: sum(of_part[rank].get(line, Taken()).samples for line in group) for rank in ranks}
            in_all = {line: sum(work[rank] * shares[rank].get(line, 0.0) for rank in ranks) for line in group}
            spots.append(_spot(part, in_all, stacks, ns, samples))
    return spots


def _taken(steps: Sequence[RankStep], lines: Mapping[int, Line]) -> dict[tuple[int, int], Taken]:
    """The samples of a rank's own work, by part and line."""
    taken: dict[tuple[int, int], Taken] = {}
    for before, own in pairwise([None, *steps]):
        assert own is not None
        if not own.step.lines:
            continue
        follows = before is not None and before.step.step == own.step.step - 1
        begin = before.step.end_ns if before is not None and follows else own.step.begin_ns
        part_at = partial(_part_at, own, begin, phase_spans(own.step))
        for sample in own.step.lines:
            part = part_at(sample.at_ns)
            # If the thread has gone on to another part until the stack was read, its line is of that part.
            if part is not None and part == part_at(sample.at_ns + sample.held_ns) and sample.line in lines:
                taken[part, sample.line] = taken.get((part, sample.line), Taken()).plus(sample)
    return taken


def _part_at(own: RankStep, begin: int, spans: Sequence[Piece], at_ns: int) -> int | None:
    """The part of the step in which the rank worked at a moment. None: it waited then, or the step had not begun."""
    if at_ns < begin or _covers(own.idle, at_ns):
        return None
    if any(call.called_ns <= at_ns < call.enter_ns for call in own.step.collectives):  # a delay postponed the call
        return AGGREGATE
    return part_at(spans, at_ns)


def _shares(taken: Mapping[int, Taken]) -> dict[int, float]:
    """The share of each line. Late samples belong to the lines that keep Python's lock for long, if any do."""
    held = sum(each.held_ns for each in taken.values())
    late = sum(each.late_ns for each in taken.values()) if held else 0.0
    own = {line: each.ns - (each.late_ns if held else 0.0) for line, each in taken.items()}
    whole = sum(own.values()) + late or 1
    return {line: (ns + late * taken[line].held_ns / (held or 1)) / whole for line, ns in own.items()}


def _covers(intervals: Sequence[Interval], at_ns: int) -> bool:
    return any(begin <= at_ns < end for begin, end in intervals)


def _neighbors(stacks: Mapping[int, Stack]) -> Iterator[list[int]]:
    """Groups numbers whose lines are neighbors in one function."""
    by_function: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for number, (place, *_) in stacks.items():
        by_function[place.file, place.function].append((place.line, number))
    for (_, function), found in by_function.items():
        group: list[int] = []
        last = 0
        for line, number in sorted(found):
            if group and line - last > NEIGHBORS and function != COLLECTION:
                yield group
                group = []
            group.append(number)
            last = line
        yield group


def _spot(
    part: int,
    by_number: Mapping[int, float],
    stacks: Mapping[int, Stack],
    ns: dict[int, float],
    samples: dict[int, int],
) -> Spot:
    by_line: dict[int, float] = defaultdict(float)
    by_caller: dict[Place | None, float] = defaultdict(float)
    for number, taken in by_number.items():
        inner, *outer = stacks[number]
        by_line[inner.line] += taken
        by_caller[outer[0] if outer else None] += taken
    whole, most = sum(by_line.values()), max(by_line, key=lambda line: by_line[line])
    large = [line for line in by_line if by_line[line] >= WORTH_NAMING * whole]
    is_one = by_line[most] >= ONE_LINE * whole or inner.function == COLLECTION
    first, last = (most, most) if is_one else (min(large), max(large))
    by = max(by_caller, key=lambda caller: by_caller[caller])
    return Spot(part, Place(inner.file, first, inner.function, inner.own), last, by, ns, samples)


def lines_of_excess(spots: Sequence[Spot], rank: int, lost: Mapping[int, float], steps: int) -> tuple[Where, ...]:
    """The lines on which a rank spent more than the others, the most costly first. lost: by part, how much longer the
    rank worked, in ns over all steps. The lines of a part take at most that."""
    found: dict[tuple[str, str], Where] = {}  # a place may take time in several parts
    for part, excess in lost.items():
        of_part = [spot for spot in spots if spot.part == part]
        more = [(_more(spot, of_part, rank), spot) for spot in of_part]
        named = [(ns, spot) for ns, spot in more if ns >= WORTH_NAMING * excess]
        factor = min(1.0, excess / sum(ns for ns, _ in named)) if named else 1.0
        for ns, spot in named:
            where = spot.where(ns * factor, steps)
            before = found.get((where.place, where.by))
            found[where.place, where.by] = replace(where, ms=where.ms + before.ms) if before else where
    return tuple(sorted(found.values(), key=lambda where: -where.ms)[:MOST_LINES])


def _more(spot: Spot, of_part: Sequence[Spot], rank: int) -> float:
    """How much longer than the others a rank was at a spot, in ns; 0 if that may be due to the small samples."""
    if spot.samples[rank] < FEWEST_SAMPLES:
        return 0.0
    others = [other for other in spot.ns if other != rank]
    more = spot.ns[rank] - median(spot.ns[other] for other in others) if others else spot.ns[rank]
    variance = sum(_variance(spot, of_part, each) for each in (rank, *others[:1]))
    return more if more >= SURE_OF_LINE * sqrt(variance) else 0.0


def _variance(spot: Spot, of_part: Sequence[Spot], rank: int) -> float:
    """The variance of a rank's time at a spot, since its samples are few (binomial)."""
    whole, samples = sum(each.ns[rank] for each in of_part), sum(each.samples[rank] for each in of_part)
    share = spot.ns[rank] / whole if whole else 0.0
    return whole**2 * share * (1 - share) / samples if samples else 0.0


def place_times(spots: Sequence[Spot], steps: int) -> list[PlaceTime]:
    """The places at which some rank worked for a noticeable part of a step, the most costly first."""
    whole = max((sum(spot.ns[rank] for spot in spots) for spot in spots[:1] for rank in spot.ns), default=0.0)
    large = [spot for spot in spots if max(spot.ns.values()) >= SMALLEST_PLACE * whole > 0]
    large.sort(key=lambda spot: -max(spot.ns.values()))
    return [
        PlaceTime(
            phase=PARTS[spot.part],
            place=spot.place,
            by=spot.by.full_text if spot.by else "",
            file=spot.first.file,
            line=spot.first.line,
            last=spot.last,
            ms={rank: ns / MS / steps for rank, ns in spot.ns.items()},
        )
        for spot in large[:MOST_PLACES]
    ]


def lines_on_all_ranks(spots: Sequence[Spot], part: int, steps: int) -> tuple[Where, ...]:
    """The lines on which all ranks together spent most of a part of their work: means over ranks."""
    of_part = [spot for spot in spots if spot.part == part and sum(spot.samples.values()) >= FEWEST_SAMPLES]
    whole = sum(sum(spot.ns.values()) for spot in spots if spot.part == part)
    large = [spot for spot in of_part if sum(spot.ns.values()) >= 2 * WORTH_NAMING * whole]
    large.sort(key=lambda spot: -sum(spot.ns.values()))
    return tuple(spot.where(sum(spot.ns.values()) / len(spot.ns), steps) for spot in large[:MOST_LINES])
