"""The tables of primitives: times by size, models beside the textbook, and which primitive overtakes which."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddptui.analysis.primitives.cells import PrimitiveKey, is_uneven
from ddptui.analysis.primitives.crossover import Overtaking
from ddptui.analysis.primitives.fit import Fit, predicted_time, textbook_time
from ddptui.analysis.primitives.results import Cell, TimeUs
from ddptui.analysis.primitives.theory import Network, Theory, theory
from ddptui.config.primitives import OPERATIONS, Cadence, primitive_facts
from ddptui.text.tables import RED, Column, Table, fill
from ddptui.text.units import NOTHING, US_IN_S, bandwidth, digits, duration, percent, size

MARK = "¹"
ALGORITHM = "gloo's algorithm"
NEAR = 0.15  # as near as a model should come to what was measured

Source = (
    tuple[Network, PrimitiveKey] | None
)  # of the textbook's figures: α, β and γ, and the operation that has α and β


class Sized(NamedTuple):
    """A size of an operation, with what predicts its time."""

    cell: Cell
    fit: Fit | None
    source: Source


class Modeled(NamedTuple):
    """An operation's model, beside the textbook's."""

    fit: Fit
    source: Source


def of_cells(cells: Sequence[Cell], fit: Fit | None, source: Source) -> Table:
    """One operation, a line a size, named as in nccl-tests; beside each, what its model and the textbook predict."""
    columns = fill(SIZE_COLUMNS, [Sized(cell, fit, source) for cell in cells])
    return Table(columns, {row: RED for row, cell in enumerate(cells) if cell.wrong or cell.error})


def of_models(fits: Sequence[Fit], source: Source) -> Table:
    """A line an operation. α in µs a message, β and γ as bandwidths; errors as parts of what was measured."""
    return Table(fill(MODEL_COLUMNS, [Modeled(fit, source) for fit in fits]))


def of_overtakings(overtakings: Sequence[Overtaking]) -> Table:
    """A line a pair of operations: from which size on the other one is faster."""
    return Table(fill(OVERTAKING_COLUMNS, overtakings))


def heading(which: PrimitiveKey, cadence: Cadence) -> str:
    """all_reduce: all tensors as one to all (pipelined)."""
    name = str(which) if which.composite else f"{which}: {OPERATIONS[which.operation].moves}"
    return name + unless_usual(cadence)


def unless_usual(cadence: Cadence) -> str:
    """The cadence in parentheses; empty if calls follow each other at once, as they usually do."""
    return {"back_to_back": "", "barrier": " (after barriers)", "pipelined": " (pipelined)"}[cadence]


def theory_of(which: PrimitiveKey) -> Theory:
    """What the textbook says of an operation."""
    return theory(which.operation, composite=which.composite)


def _textbook_s(fit: Fit, bytes: int, source: Source) -> float | None:
    """The textbook's prediction; none for the operation that its α and β come from, which it would only repeat."""
    if source is None or fit.key == source[1] or fit.key.operation == "local_sum":  # γ comes from local_sum
        return None
    return textbook_time(fit, bytes, source[0])


def _textbook_off(row: Modeled) -> str:
    """The range of the textbook's errors over all sizes."""
    fit, source = row
    errors = [book / s - 1 for bytes, s in fit.times.items() if (book := _textbook_s(fit, bytes, source)) is not None]
    if not errors:
        return NOTHING
    low, high = (f"{error:+.0%}" for error in (min(errors), max(errors)))
    return low if low == high else f"{low}…{high}"


def _near(row: Modeled) -> str:
    """At how many of the sizes the bent line is that near; empty if there are too few sizes to be off."""
    fit = row.fit
    if fit.worst is None:
        return NOTHING
    return f"{sum(abs(residual) <= NEAR for residual in fit.residuals.values())} of {len(fit.residuals)}"


def _knots(row: Modeled) -> str:
    return (", ".join(map(size, row.fit.curve.knots)) if row.fit.curve else "") or NOTHING


def _if_bytes(text: Callable[[Cell], str]) -> Callable[[Sized], str]:
    """The text; a dash for a primitive that moves no bytes, and so has no size and no elements to be wrong."""

    def shown(row: Sized) -> str:
        has_bytes = primitive_facts(row.cell.operation, composite=row.cell.composite).has_bytes
        return text(row.cell) if has_bytes else NOTHING

    return shown


def _time(figure: Callable[[TimeUs], float]) -> Callable[[Sized], str]:
    return lambda row: duration(figure(row.cell.time_us) * US_IN_S if row.cell.time_us else None)


def _marked(row: Sized) -> str:
    median = _time(lambda time: time.median)(row)
    return f"{MARK} {median}" if is_uneven(row.cell) else median


def _fitted(row: Sized) -> str:
    return duration(predicted_time(row.fit, row.cell.bytes) if row.fit else None)


def _textbook(row: Sized) -> str:
    return duration(_textbook_s(row.fit, row.cell.bytes, row.source) if row.fit else None)


SIZE_COLUMNS: tuple[Column[Sized], ...] = (
    Column(
        "size",
        _if_bytes(lambda cell: size(cell.bytes)),
        100,
        about="The tensor's size, 1 KB being 1024 bytes; where each rank gives or gets a part, all parts together.",
    ),
    Column("calls", lambda row: str(row.cell.calls), 70, about="How many calls were timed, without the warm-up."),
    Column(
        "in flight",
        lambda row: str(row.cell.in_flight) if row.cell.in_flight > 1 else NOTHING,
        96,
        about="How many calls were under way at once. Times are then of a group of so many, divided by their number.",
    ),
    Column("min", _time(lambda time: time.min), 90, about="The shortest call, each a mean over the ranks."),
    Column(
        "median",
        _marked,
        99,
        about=f"Half of the calls took less, half took more. {MARK} marks sizes whose calls differ so much that no one "
        "figure stands for them.",
    ),
    Column(
        "fitted",
        _fitted,
        84,
        about="What the fitted model says for this size: a line with up to three knots through the medians.",
    ),
    Column(
        "textbook",
        _textbook,
        83,
        about="What the textbook's formula says, with α and β as measured between two ranks; "
        "empty for the operation that α and β come from.",
    ),
    Column("p90", _time(lambda time: time.p90), 82, about="Nine of ten calls took less than this."),
    Column("p99", _time(lambda time: time.p99), 92, about="99 of 100 calls took less than this."),
    Column(
        "CV",
        lambda row: percent(row.cell.cv),
        93,
        about="How much the calls differ: their standard deviation as a part of their mean.",
    ),
    Column("mean", _time(lambda time: time.mean), 81, about="The mean over all calls, which nccl-tests reports."),
    Column(
        "algbw",
        lambda row: digits(row.cell.algbw_gb_s),
        91,
        about="Algorithm bandwidth: the size over the mean time, in GB/s of 1e9 bytes.",
    ),
    Column(
        "busbw",
        lambda row: digits(row.cell.busbw_gb_s),
        97,
        about="Bus bandwidth: algbw times what nccl-tests multiplies it with, so that it compares to the bandwidth of "
        "a wire whatever the operation and the number of ranks.",
    ),
    Column(
        "slowest",
        lambda row: NOTHING if row.cell.slowest is None else f"rank {row.cell.slowest}",
        60,
        about="The rank whose calls took longest on average.",
    ),
    Column(
        "#wrong",
        _if_bytes(lambda cell: str(cell.wrong)),
        98,
        about="How many elements had a wrong value, on all ranks together; every element was checked.",
    ),
)

MODEL_COLUMNS: tuple[Column[Modeled], ...] = (
    Column("operation", lambda row: str(row.fit.key), 100, left=True, about="What was called, or how ranks averaged."),
    Column(
        "α",
        lambda row: duration(row.fit.alpha),
        99,
        about="Latency: what one message costs however small it is, by a straight line through the medians.",
    ),
    Column(
        "β GB/s",
        lambda row: bandwidth(row.fit.beta),
        98,
        about="The bandwidth of one message by the same line; β itself is the time for a byte.",
    ),
    Column(
        "γ GB/s",
        lambda row: bandwidth(row.fit.gamma),
        80,
        about="How fast a rank adds up tensors, as local_sum measured it; empty for operations that add up nothing.",
    ),
    Column(
        "line off",
        lambda row: percent(row.fit.line_worst),
        95,
        about="How far the straight line is off at worst, as a part of the measured time.",
    ),
    Column(
        "bent off",
        lambda row: percent(row.fit.worst),
        97,
        about="How far the line with up to three knots is off at worst, as a part of the measured time.",
    ),
    Column(
        f"within {NEAR:.0%}", _near, 94, about=f"At how many sizes the line with knots is off by {NEAR:.0%} at most."
    ),
    Column(
        "left out",
        lambda row: percent(row.fit.left_out),
        79,
        about="How far the line with knots is off at worst at a size that was left out of its fit.",
    ),
    Column("bends at", _knots, 70, left=True, about="The sizes at which the line with knots changes its slope."),
    Column(
        "textbook off",
        _textbook_off,
        96,
        about="How far the textbook's formula is off, from the lowest to the highest; + means that it says too much.",
    ),
    Column(
        ALGORITHM,
        lambda row: theory_of(row.fit.key).algorithm,
        60,
        left=True,
        about="The algorithm that the formula is of: gloo's, by its sources. Another backend may use another one.",
    ),
    Column(
        "textbook formula",
        lambda row: theory_of(row.fit.key).formula,
        90,
        left=True,
        about="The time for n bytes on p ranks: α a message, β a byte sent, γ a byte added up.",
    ),
)

OVERTAKING_COLUMNS: tuple[Column[Overtaking], ...] = (
    Column("faster below", lambda row: str(row.before), 99, left=True, about="The operation for smaller tensors."),
    Column("faster above", lambda row: str(row.after), 100, left=True, about="The operation for larger tensors."),
    Column("measured", lambda row: size(row.measured), 98, about="Where one overtakes the other by the medians."),
    Column("fitted", lambda row: size(row.fitted), 97, about="Where it does by the fitted models."),
    Column("textbook", lambda row: size(row.textbook), 96, about="Where it does by the textbook's formulas."),
)
