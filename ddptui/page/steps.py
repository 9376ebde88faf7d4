"""Pictures of steps: a timeline of what each rank did, and how late each rank arrives at the collectives."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from ddptui.analysis.results import Culprit
from ddptui.analysis.waits import AlignedStep
from ddptui.live.arrivals import ArrivalsSummary, RankArrivals, most_telling, summary
from ddptui.live.excerpts import Excerpt, spread_over
from ddptui.live.timeline import row, runs, telling_ranks, window
from ddptui.page.bars import Bar, Bars, Piece
from ddptui.page.charts import Tick, percent
from ddptui.text.drawing import nice_step, number, ticks
from ddptui.text.units import MS
from ddptui.text.words import count
from ddptui.wire.phases import BETWEEN, PHASES

CELLS = 1500  # horizontal resolution of a timeline, at any zoom
MOST_RANKS = 16
MOST_STEPS = 200  # arrivals are medians over at most this many steps
MOST_TICKS = 8
LAYERS = (*PHASES, "transfer", "wait", "delay")  # in drawing order
ARRIVAL_PARTS = {
    "work": "work until it stands idle",
    "delay": "injected delay",
    "wait": "wait",
    "transfer": "transfer",
    "rest": "rest of the step",
}


class Track(NamedTuple):
    """One rank of a timeline: an SVG path for each kind of activity, and the same in words."""

    rank: int
    paths: list[tuple[str, str]]
    said: str


class Mark(NamedTuple):
    """The start of a step."""

    at: str  # position in percent
    number: int
    is_it: bool  # whether the excerpt is about this step


class Timeline(NamedTuple):
    """A few steps of the most interesting ranks, on one time axis."""

    why: str  # why this step was picked
    number: int  # number of the step
    tracks: list[Track]
    marks: list[Mark]
    ticks: list[Tick]
    kinds: list[str]
    unit: str
    left_out: str  # says which ranks are not shown


class Arrivals(NamedTuple):
    """The ranks' arrivals, as medians over some steps."""

    bars: Bars  # one per rank, with a tick where it arrives, and how often it arrived last
    steps: str  # number of steps, in words
    longest_ms: float
    left_out: str


def timeline(excerpt: Excerpt) -> Timeline:
    """Draws an excerpt as a timeline."""
    begin, end = window(excerpt.steps)
    ranks = telling_ranks(excerpt.steps, MOST_RANKS)
    tracks = [_track(excerpt.steps, rank) for rank in ranks]
    used = {kind for track in tracks for kind, _ in track.paths}
    length = (end - begin) / MS
    step = nice_step(length, MOST_TICKS)
    marks = []
    for aligned in excerpt.steps:
        at = percent(100 * (window([aligned])[0] - begin) / (end - begin))
        marks.append(Mark(at, aligned.number, aligned.number == excerpt.number))
    return Timeline(
        excerpt.why,
        excerpt.number,
        tracks,
        marks,
        [Tick(percent(100 * tick / length), number(tick, step)) for tick in ticks(0, length, MOST_TICKS)],
        [kind for kind in LAYERS if kind in used],
        f"ms{' of host time: the device may be behind' * excerpt.steps[0].host_time}",
        _left_out(len(excerpt.steps[0].ranks) - len(ranks), "waited longer"),
    )


def arrivals(joined: Sequence[AlignedStep], culprit: Culprit | None) -> Arrivals | None:
    """Summarizes how the ranks arrive, over steps spread evenly over the repeat or over the steps that the culprit was
    judged on. None: no rank waits for another, or waits are unknown."""
    judged = culprit.steps if culprit else None
    if judged:
        joined = [step for step in joined if judged[0] <= step.number <= judged[1]]
    found = summary(spread_over(joined, MOST_STEPS))
    if found is None or len(found.ranks) < 2 or not found.steps or found.withheld:
        return None
    shown = most_telling(found, MOST_RANKS, culprit.rank if culprit else None)
    longest = max(sum(ms for _, ms in rank.parts) for rank in shown) or 1.0
    bars = [_arrival(rank, found, longest) for rank in shown]
    used = {piece.kind for bar in bars for piece in bar.pieces}
    return Arrivals(
        Bars(bars, "", {kind: words for kind, words in ARRIVAL_PARTS.items() if kind in used}),
        count(found.steps, "step") + (f" from {judged[0]} to {judged[1]}" if judged else ""),
        longest,
        _left_out(len(found.ranks) - len(shown), "were late less"),
    )


def _left_out(ranks: int, why: str) -> str:
    return f"{count(ranks, 'rank')} that {why} {'is' if ranks == 1 else 'are'} not shown" if ranks else ""


def _track(steps: Sequence[AlignedStep], rank: int) -> Track:
    drawn = [run for run in runs(row(steps, rank), window(steps), CELLS) if run.what != BETWEEN]
    by_kind = {
        kind: list(same)
        for kind, same in groupby(sorted(drawn, key=lambda run: LAYERS.index(run.what)), key=lambda run: run.what)
    }
    paths = [(kind, _path([(run.first, run.last) for run in same])) for kind, same in by_kind.items()]
    lengths = [f"{kind} {sum(run.ns for run in same) / MS:.1f} ms" for kind, same in by_kind.items()]
    return Track(rank, paths, f"rank {rank}: {', '.join(lengths)}")


def _path(cells: Sequence[tuple[int, int]]) -> str:
    """An SVG path of horizontal dashes at height 0, each from its first cell to its last."""
    path, at = "", 0
    for first, last in cells:
        path += f"m{first - at} 0h{last - first}"
        at = last
    return "M0 0" + path


def _arrival(rank: RankArrivals, found: ArrivalsSummary, longest: float) -> Bar:
    pieces, at = [], 0.0
    for kind, ms in rank.parts:
        if ms > 0:
            pieces.append(Piece(kind, percent(100 * at / longest), percent(100 * ms / longest), f"{kind} {ms:.2f} ms"))
        at += ms
    said = ", ".join(piece.said for piece in pieces)
    last_in = f"last in {rank.last_in} of {found.steps}" if rank.last_in else ""
    return Bar(f"rank {rank.rank}", False, pieces, last_in, said, percent(100 * rank.lead / longest))
