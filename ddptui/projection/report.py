"""A projection in words, as terminal text, Markdown and JSON. Pure."""

from collections.abc import Callable, Sequence

import msgspec

from ddptui.projection import Point, Projection
from ddptui.projection.model import Costs, MeasuredTrial
from ddptui.text.door import ascii_json
from ddptui.text.tables import Column, Filled, Table, as_markdown, as_text, fill, total
from ddptui.text.units import MS_PER_S, NOTHING, bandwidth, digits, duration
from ddptui.text.words import count, listed, paragraph, sentence

FAR_OFF = 0.5  # a fit with a larger relative error is too poor to rest a figure on it alone
MOST_IN_FULL = 2  # strategies
CLEARLY = 0.10  # faster: smaller differences are within the error of a projection

WAIT = "How long ranks wait for the slowest one, in ms a step."
ERROR = "How far the predicted step is off the measured one; + means that it is too long."
MEASURED = "The step in ms of a trial of the same run with this strategy and number of ranks, if there is one."
EFFICIENCY = "The measured work as a part of the step; under strong scaling, a rank's share of that work."
COLUMNS: tuple[Column[Point], ...] = (
    Column("ranks", lambda point: str(point.ranks), 10, about="How many ranks."),
    Column("step ms", lambda point: digits(point.step_ms), 9, about="The predicted step: work, wait and transfer."),
    Column("work", lambda point: digits(point.work_ms), 3, about="A rank's own work in a step, in ms, mean of ranks."),
    Column("wait", lambda point: digits(point.wait_ms), 5, about=WAIT),
    Column("transfer", lambda point: digits(point.transfer_ms), 1, about="Communication in a step, in ms."),
    Column("exposed", lambda point: digits(point.exposed_ms), 4, about="Transfer that backward does not hide, in ms."),
    Column("efficiency", lambda point: f"{point.efficiency:.1%}", 8, about=EFFICIENCY),
    Column("measured", lambda point: digits(point.measured_ms), 7, about=MEASURED),
    Column("error", lambda point: NOTHING if point.error is None else f"{point.error:+.1%}", 6, about=ERROR),
)


def text(projection: Projection, width: int) -> str:
    """The findings; one strategy or two in full, of more only the first; all strategies side by side; then notes."""
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
    """All strategies in full, as a Markdown section."""
    names = Filled("strategy", [point.strategy for point in projection.points], left=True)
    table = as_markdown(Table([names, *in_full(projection.points).columns]))
    said, notes = " ".join(map(sentence, projection.said)), [f"- {note}" for note in projection.notes]
    return "\n".join([f"## {title(projection)}", "", said, "", *table, "", *notes]) + "\n"


def as_json(projection: Projection) -> str:
    """All figures unrounded, with the sentences."""
    return ascii_json(msgspec.json.format(msgspec.json.encode(projection), indent=2).decode()) + "\n"


def in_full(points: Sequence[Point]) -> Table:
    """A row for each point."""
    return Table(fill(COLUMNS, points))


def side_by_side(points: Sequence[Point], width: int) -> Table:
    """Step times with a row a strategy and a column a number of ranks: of many every second one, or fewer, always the
    most."""
    names = Filled("", list(dict.fromkeys(point.strategy for point in points)), left=True)
    ranks = list(dict.fromkeys(point.ranks for point in points))
    steps = [Filled(str(n), [digits(point.step_ms) for point in points if point.ranks == n]) for n in ranks]
    while len(steps) > 1 and total([column.width for column in (names, *steps)]) > width:
        steps = steps[::-2][::-1]
    return Table([names, *steps], at_least=1 + len(steps))


def title(projection: Projection) -> str:
    """What was measured, and what it is projected to."""
    what = f"{projection.trial} of {projection.run}, measured on {projection.measured_ranks} ranks"
    return f"{what}, on others: {projection.scaling} scaling"


def findings(points: Sequence[Point], measured_ranks: int, network: Costs) -> list[str]:
    """How far predictions are off where there are measurements; on the most ranks, what the measured strategy, which
    comes first, loses, and the fastest strategy."""
    own = points[0].strategy
    on_most = [point for point in points if point.ranks == points[-1].ranks]
    beside = [
        f"{point.strategy} on {point.ranks} ranks {with_unit(point.step_ms)} against {with_unit(point.measured_ms)} "
        f"({point.error:+.1%})"
        for point in points
        if point.measured_ms and (point.strategy, point.ranks) != (own, measured_ranks)
    ]
    sentences = [f"predicted against measured, a step: {'; '.join(beside)}"] if beside else []
    costs = f"waiting for the slowest costs {with_unit(on_most[0].wait_ms)} a step"
    costs += f", exposed communication {with_unit(on_most[0].exposed_ms)}"
    sentences.append(f"on {points[-1].ranks} ranks {costs}: efficiency is {on_most[0].efficiency:.1%}")
    if len(on_most) > 1:
        sentences.append(_fastest(on_most, network))
    return sentences


def _fastest(on_most: Sequence[Point], network: Costs) -> str:
    """The fastest strategies on the most ranks; where the fit is poor, that they cannot be known."""
    if network.worst and network.worst > FAR_OFF:
        off = f"the fit of the network is off by up to {network.worst:.0%}"
        return f"do not rely on other strategies than {on_most[0].strategy}: {off}; measure the network (--network)"
    best = min(point.step_ms for point in on_most)
    near = [point.strategy for point in on_most if point.step_ms <= (1 + CLEARLY) * best]
    tie = f" (within {CLEARLY:.0%})" if len(near) > 1 else ""
    return f"fastest there: {listed(near)}{tie}, {with_unit(best)} a step"


def notes(network: Costs, trial: MeasuredTrial, most: int, strong: bool, cores: int | None) -> list[str]:
    """What the figures assume. most: ranks; strong, cores: as in model.points."""
    scaling = "weak scaling: each rank keeps its batch, and works as long as a measured rank"
    if strong:
        shrinks = f"data, forward and backward shrink by {trial.ranks} / ranks; the rest of the work stays"
        scaling = f"strong scaling: {shrinks}"
    worst = f" (worst error of the fit {network.worst:.0%})" if network.worst is not None else ""
    costs = f"a message {duration(network.alpha)}, {bandwidth(network.beta)} GB/s{worst}"
    shared = "every rank has the cores and the network of a measured rank"
    if cores:
        shared = f"all ranks share {count(cores, 'core')}: only computing and copying take longer there"
    chance = "each rank is slow by chance, independently of the others, as in some measured step"
    steps = sum(len(launch[0]) for launch in trial.work)
    if most > steps:
        chance += f"; {most} ranks are more than the {steps} measured steps, so they may wait longer than predicted"
    return [scaling, f"network: {network.source}: {costs}", shared, chance]


def with_unit(value_ms: float) -> str:
    """A time with its unit, from µs to hours."""
    return duration(value_ms / MS_PER_S)


FORMATS: dict[str, Callable[[Projection], str]] = {"markdown": markdown, "json": as_json}
