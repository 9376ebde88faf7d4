"""Trials that combine each value of one field with each of another: strategies and numbers of ranks, for example."""

from collections.abc import Iterator
from math import log
from typing import NamedTuple

from ddptui.analysis.effect import Effect, Effects, effects, spread
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.answers.fields import differ, named, valued
from ddptui.report.answers.losses import are_near
from ddptui.report.answers.words import as_long, times, too_noisy, with_reason
from ddptui.report.rows import grouped, loss_of
from ddptui.text.words import count, listed

Cells = dict[tuple[object, object], TrialResult | None]  # by kind and amount; None: not measured
MOST_KINDS = 3


class Axes(NamedTuple):
    """kind: the field whose values are compared at each value of `amount`."""

    kind: str
    amount: str


def grid(results: Results, preset: Preset) -> Iterator[str]:
    """With each amount, the other kinds beside the baseline's; their losses, if they differ; then the baseline's kind
    with the amount that changes most."""
    axes = axes_of(preset)
    if axes is None:
        return
    measured = {trial.name: trial for trial in results.trials if trial.summary}
    trials = list(preset.trials)
    if all(isinstance(getattr(trial, axes.amount), int | float) for trial in trials):
        trials.sort(key=lambda trial: float(getattr(trial, axes.amount)))
    cells: Cells = {
        (getattr(trial, axes.kind), getattr(trial, axes.amount)): measured.get(trial.name) for trial in trials
    }
    kind, amount = (getattr(preset.base, field) for field in axes)
    found = effects(results)
    for other in dict.fromkeys(of_cell for of_cell, _ in cells if of_cell != kind):
        yield from _beside(axes, cells, found, kind, other)
    yield from _losses(axes, cells)
    base = cells[kind, amount]
    along = {to: _effect(found, cells[kind, to], base) for of_cell, to in cells if of_cell == kind and to != amount}
    told = {to: effect for to, effect in along.items() if effect and effect.outcome in ("slower", "faster")}
    if told:
        to = max(told, key=lambda to: abs(log(told[to].ratio.median)))
        trained = f"with {valued(axes.amount, [to])}, {named(axes.kind, kind)} trained {times(told[to])}"
        yield with_reason(f"{trained} than with {valued(axes.amount, [amount])}", told[to])


def axes_of(preset: Preset) -> Axes | None:
    """The two fields in which trials differ, if they are all the combinations of a few values of these; else None."""
    fields = differ(preset)
    if len(fields) != 2:
        return None
    values = {field: {repr(getattr(trial, field)) for trial in preset.trials} for field in fields}
    cells = {tuple(repr(getattr(trial, field)) for field in fields) for trial in preset.trials}
    if len(cells) != len(preset.trials) or len(cells) != len(values[fields[0]]) * len(values[fields[1]]):
        return None
    kind, amount = sorted(fields, key=lambda field: isinstance(getattr(preset.base, field), int | float))
    return Axes(kind, amount) if len(values[kind]) <= MOST_KINDS else None


def _beside(axes: Axes, cells: Cells, known: Effects, kind: object, other: object) -> Iterator[str]:
    """One kind beside the baseline's, with each amount: a sentence, if anything is known."""
    told: list[tuple[str, object]] = []
    noisy: dict[object, Effect] = {}
    for amount in dict.fromkeys(amount for of_cell, amount in cells if of_cell == other):
        effect = _effect(known, cells[other, amount], cells[kind, amount])
        if effect and effect.is_rough and effect.outcome in ("alike", "unclear"):
            told.append((as_long(effect), amount))
        elif effect and effect.outcome == "unclear":
            noisy[amount] = effect
        elif effect:
            alike = f"as fast, as far as {count(effect.repeats, 'repeat')} can tell,"
            told.append((alike if effect.outcome == "alike" else times(effect), amount))
    found = [f"{words} with {valued(axes.amount, amounts)}" for words, amounts in grouped(told).items()]
    clauses = [f"against {named(axes.kind, kind)}, {named(axes.kind, other)} was {listed(found)}"] if found else []
    if noisy:
        worst = max(noisy.values(), key=lambda effect: max(spread(effect.trial), spread(effect.baseline)))
        clauses.append(f"cannot tell with {valued(axes.amount, [*noisy])}: {too_noisy(worst)}")
    if clauses:
        yield "; ".join(clauses)


def _losses(axes: Axes, cells: Cells) -> Iterator[str]:
    """The losses of each kind over the amounts, if with some amount they differ."""
    known = {cell: loss for cell, trial in cells.items() if trial and (loss := loss_of(trial)) is not None}
    kinds, amounts = ([*dict.fromkeys(cell[at] for cell in cells)] for at in (0, 1))
    if known.keys() != cells.keys() or all(are_near([known[kind, amount] for kind in kinds]) for amount in amounts):
        return
    ends = [(named(axes.kind, kind), listed([f"{known[kind, amount]:.3f}" for amount in amounts])) for kind in kinds]
    (first, losses), *others = ends
    against = "".join(f"; {other} at {of_other}" for other, of_other in others)
    yield f"{first} ends at a loss of {losses} with {valued(axes.amount, amounts)}{against}"


def _effect(found: Effects, trial: TrialResult | None, other: TrialResult | None) -> Effect | None:
    return found.get((trial.name, other.name)) if trial and other else None
