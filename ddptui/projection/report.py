"""Renders a projection as terminal text, Markdown and JSON. Pure."""

from collections.abc import Callable, Sequence

from ddptui.projection import Point, Projection
from ddptui.projection.model import Costs, MeasuredTrial
from ddptui.report.exports import json_text
from ddptui.text.drawing import paragraph
from ddptui.text.tables import Column, Filled, Table, as_markdown, as_text, fill, total
from ddptui.text.words import MS_PER_S, NOTHING, count, digits, duration, listed, sentence

FAR_OFF = 0.5  # predictions from a fit with a larger relative error are not reliable
MOST_IN_FULL = 2  # up to this many strategies are shown in full
LEAST_MS = 0.001  # shorter times are not reported as losses
CLEARLY = 0.10  # smaller relative differences between strategies are within the error of a projection

WAIT = "How long ranks wait for the slowest rank, in ms per step."
ERROR = "Relative error of the predicted step; + means that the prediction is too long."
MEASURED = "The measured step in ms of a trial of this run with this strategy and number of ranks, if there is one."
EFFICIENCY = "Measured work divided by the step; under strong scaling, a rank's share of that work."
COLUMNS: tuple[Column[Point], ...] = (
    Column("ranks", lambda point: f"{point.ranks:,}", 10, about="Number of ranks."),
    Column("step ms", lambda point: in_ms(point.step_ms), 9, about="The predicted step: work, wait and transfer."),
    Column("work", lambda point: in_ms(point.work_ms), 3, about="A rank's own work per step in ms, mean over ranks."),
    Column("wait", lambda point: in_ms(point.wait_ms), 5, about=WAIT),
    Column("transfer", lambda point: in_ms(point.transfer_ms), 1, about="Communication per step, in ms."),
    Column("exposed", lambda point: in_ms(point.exposed_ms), 4, about="Communication not hidden by backward, in ms."),
    Column("efficiency", lambda point: percent(point.efficiency), 8, about=EFFICIENCY),
    Column("measured", lambda point: in_ms(point.measured_ms), 7, about=MEASURED),
    Column("error", lambda point: NOTHING if point.error is None else f"{point.error:+,.1%}", 6, about=ERROR),
)


def text(projection: Projection, width: int) -> str:
    """The projection as terminal text: findings, tables and notes. Up to MOST_IN_FULL strategies are shown in full; of
    more, only the measured one. Several strategies are also shown side by side."""
    names = list(dict.fromkeys(point.strategy for point in projection.points))
    lines = [title(projection), "", *paragraph(" ".join(map(sentence, projection.said)), width), ""]
    for name in names if len(names) <= MOST_IN_FULL else names[:1]:
        table = in_full([point for point in projection.points if point.strategy == name])
        lines += [name, *as_text(table, width, rule=False), ""]
    if len(names) > 1:
        table = side_by_side(projection.points, width)
        lines += ["step ms by strategy and ranks", *as_text(table, width, rule=False), ""]
    return "\n".join([*lines, *projection.notes]) + "\n"


def markdown(projection: Projection) -> str:
    """The projection as a Markdown section, with all strategies in full."""
    names = Filled("strategy", [point.strategy for point in projection.points], left=True)
    table = as_markdown(Table([names, *in_full(projection.points).columns]))
    said, notes = " ".join(map(sentence, projection.said)), [f"- {note}" for note in projection.notes]
    return "\n".join([f"## {title(projection)}", "", said, "", *table, "", *notes]) + "\n"


def in_full(points: Sequence[Point]) -> Table:
    """A table with a row for each point."""
    return Table(fill(COLUMNS, points))


def side_by_side(points: Sequence[Point], width: int) -> Table:
    """A table of step times with a row per strategy and a column per number of ranks. If it is too wide, every second
    column is dropped, repeatedly; the largest number of ranks always stays."""
    names = Filled("", list(dict.fromkeys(point.strategy for point in points)), left=True)
    ranks = list(dict.fromkeys(point.ranks for point in points))
    steps = [Filled(f"{n:,}", [in_ms(point.step_ms) for point in points if point.ranks == n]) for n in ranks]
    while len(steps) > 1 and total([column.width for column in (names, *steps)]) > width:
        steps = steps[::-2][::-1]
    return Table([names, *steps], at_least=1 + len(steps))


def title(projection: Projection) -> str:
    """The title: what was measured, and how it is projected."""
    what = f"{projection.trial} of {projection.run}, measured on {projection.measured_ranks} ranks"
    return f"{what}, projected: {projection.scaling} scaling"


def findings(points: Sequence[Point], measured_ranks: int, network: Costs) -> list[str]:
    """The findings, one sentence each: doubts about the network; predictions compared with measurements; and, on the
    largest number of ranks, what the measured strategy loses, and which strategy is fastest. points: the measured
    strategy first."""
    on_most = [point for point in points if point.ranks == points[-1].ranks]
    beside = [
        f"{point.strategy} on {count(point.ranks, 'rank')} {with_unit(point.step_ms)} against "
        f"{with_unit(point.measured_ms)} ({point.error:+,.1%}{', disturbed' if point.disturbed else ''})"
        for point in points
        if point.measured_ms and (point.strategy, point.ranks) != (points[0].strategy, measured_ranks)
    ]
    sentences = [doubts] if (doubts := _doubts(network)) else []
    if beside:
        sentences.append(f"predicted and measured step: {'; '.join(beside)}")
    losses = {"waiting for the slowest": on_most[0].wait_ms, "in exposed communication": on_most[0].exposed_ms}
    lost = " and ".join(f"{with_unit(ms)} {where}" for where, ms in losses.items() if ms >= LEAST_MS)
    step = f" a step loses {lost}:" if lost else ""
    sentences.append(f"on {on_most[0].ranks:,} ranks{step} efficiency is {percent(on_most[0].efficiency)}")
    if len(on_most) > 1 and not doubts:
        best = min(point.step_ms for point in on_most)
        near = [point.strategy for point in on_most if point.step_ms <= (1 + CLEARLY) * best]
        tie = f" (within {CLEARLY:.0%})" if len(near) > 1 else ""
        sentences.append(f"fastest there: {listed(near)}{tie}, {with_unit(best)} a step")
    return sentences


def _doubts(network: Costs) -> str:
    """Why the costs of the network are not reliable, and the remedy; empty if they are."""
    doubts = [f"the {network.unknown} does not follow from these transfers"] if network.unknown else []
    if network.worst and network.worst > FAR_OFF:
        doubts.append(f"do not rely on these predictions: the fit of the network is off by up to {network.worst:,.0%}")
    return "; ".join([*doubts, network.remedy]) if doubts else ""


def notes(network: Costs, trial: MeasuredTrial, most: int, strong: bool) -> list[str]:
    """The assumptions of the projection. most: the largest number of ranks. strong: see model.points."""
    scaling = "weak scaling: each rank keeps its batch, and works as long as a measured rank"
    if strong:
        shrinks = f"data, forward and backward shrink by {trial.ranks} / ranks; the rest of the work stays"
        scaling = f"strong scaling: {shrinks}; past {trial.batch_size:,} ranks there is less than a sample for each"
    worst = f" (worst error of the fit {network.worst:,.0%})" if network.worst is not None else ""
    latency = "latency unknown" if network.unknown == "latency" else f"latency {duration(network.alpha)}"
    bandwidth = "bandwidth unknown" if network.unknown == "bandwidth" else f"{digits(1e-9 / network.beta)} GB/s"
    shared = "every rank has the cores and the network of a measured rank"
    if network.cores:
        shared = f"all ranks share {count(network.cores, 'core')}: only computing and copying take longer there"
    chance = "assumed: ranks are slow at random and independently, as in the measured steps"
    steps = sum(len(launch[0]) for launch in trial.work)
    if most > steps:
        chance += f"; {most:,} ranks are more than the {steps:,} measured steps, so they may wait longer than predicted"
    return [scaling, f"network: {network.source}: {latency}, {bandwidth}{worst}", shared, chance]


def in_ms(value: float | None) -> str:
    """A time in ms as text for a table. A value above 0 is never shown as 0."""
    if value is None or not value:
        return digits(value)
    return f"< {LEAST_MS:g}" if value < LEAST_MS else digits(value) if value < 1000 else f"{value:,.0f}"


def percent(part: float) -> str:
    """A fraction as a percentage with one decimal. A value above 0 is never shown as 0."""
    return "< 0.1%" if 0 < part < 0.001 else f"{part:.1%}"


def with_unit(value_ms: float) -> str:
    """A time in ms as text with a suitable unit."""
    return duration(value_ms / MS_PER_S)


FORMATS: dict[str, Callable[[Projection], str]] = {"markdown": markdown, "json": json_text}
