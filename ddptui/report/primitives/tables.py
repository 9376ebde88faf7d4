"""The tables of primitives: times by size, models beside the textbook, and which primitive overtakes which."""

from collections.abc import Callable, Sequence

from ddptui.analysis.primitives.cells import PrimitiveKey, is_uneven
from ddptui.analysis.primitives.crossover import Overtaking
from ddptui.analysis.primitives.fit import Fit, predicted_time, textbook_time
from ddptui.analysis.primitives.results import Cell, TimeUs
from ddptui.analysis.primitives.theory import Network, Theory, theory
from ddptui.config.primitives import OPERATIONS, Cadence, primitive_facts
from ddptui.text.tables import RED, Column, Table, fill
from ddptui.text.units import NOTHING, US_IN_S, bandwidth, digits, duration, percent, size

MARK = "¹"
NEAR = 0.15  # as near as a model should come to what was measured

Source = (
    tuple[Network, PrimitiveKey] | None
)  # of the textbook's figures: α, β and γ, and the operation that has α and β


def of_cells(cells: Sequence[Cell], fit: Fit | None, source: Source) -> Table:
    """One operation, a line a size, named as in nccl-tests; beside each, what its model and the textbook predict."""
    columns: tuple[Column[Cell], ...] = (
        Column("size", lambda cell: _if_bytes(cell, size(cell.bytes)), 100),
        Column("calls", lambda cell: str(cell.calls), 70),
        Column("in flight", lambda cell: str(cell.in_flight) if cell.in_flight > 1 else NOTHING, 96),
        Column("min", _time(lambda time: time.min), 90),
        Column("median", _marked, 99),
        Column("fitted", lambda cell: duration(predicted_time(fit, cell.bytes) if fit else None), 84),
        Column("textbook", lambda cell: duration(_textbook_s(fit, cell.bytes, source) if fit else None), 83),
        Column("p90", _time(lambda time: time.p90), 82),
        Column("p99", _time(lambda time: time.p99), 92),
        Column("CV", lambda cell: percent(cell.cv), 93),
        Column("mean", _time(lambda time: time.mean), 81),  # what nccl-tests reports
        Column("algbw", lambda cell: digits(cell.algbw_gb_s), 91),
        Column("busbw", lambda cell: digits(cell.busbw_gb_s), 97),
        Column("slowest", lambda cell: NOTHING if cell.slowest is None else f"rank {cell.slowest}", 60),
        Column("#wrong", lambda cell: _if_bytes(cell, str(cell.wrong)), 98),
    )
    return Table(fill(columns, cells), {row: RED for row, cell in enumerate(cells) if cell.wrong or cell.error})


def of_models(fits: Sequence[Fit], source: Source) -> Table:
    """A line an operation. α in µs a message, β and γ as bandwidths; errors as parts of what was measured."""
    columns: tuple[Column[Fit], ...] = (
        Column("operation", lambda fit: str(fit.key), 100, left=True),
        Column("α", lambda fit: duration(fit.alpha), 99),
        Column("β GB/s", lambda fit: bandwidth(fit.beta), 98),
        Column("γ GB/s", lambda fit: bandwidth(fit.gamma), 80),
        Column("line off", lambda fit: percent(fit.line_worst), 95),
        Column("bent off", lambda fit: percent(fit.worst), 97),
        Column(f"within {NEAR:.0%}", _near, 94),
        Column("left out", lambda fit: percent(fit.left_out), 79),
        Column("bends at", _knots, 70, left=True),
        Column("textbook off", lambda fit: _textbook_off(fit, source), 96),
        Column("algorithm", lambda fit: theory_of(fit.key).algorithm, 60, left=True),
        Column("textbook formula", lambda fit: theory_of(fit.key).formula, 90, left=True),
    )
    return Table(fill(columns, fits))


def of_overtakings(overtakings: Sequence[Overtaking]) -> Table:
    """A line a pair of operations: from which size on the other one is faster."""
    columns: tuple[Column[Overtaking], ...] = (
        Column("faster below", lambda overtaking: str(overtaking.before), 99, left=True),
        Column("faster above", lambda overtaking: str(overtaking.after), 100, left=True),
        Column("measured", lambda overtaking: size(overtaking.measured), 98),
        Column("fitted", lambda overtaking: size(overtaking.fitted), 97),
        Column("textbook", lambda overtaking: size(overtaking.textbook), 96),
    )
    return Table(fill(columns, overtakings))


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


def _textbook_off(fit: Fit, source: Source) -> str:
    """The range of the textbook's errors over all sizes."""
    errors = [book / s - 1 for bytes, s in fit.times.items() if (book := _textbook_s(fit, bytes, source)) is not None]
    if not errors:
        return NOTHING
    low, high = (f"{error:+.0%}" for error in (min(errors), max(errors)))
    return low if low == high else f"{low}…{high}"


def _near(fit: Fit) -> str:
    """At how many of the sizes the bent line is that near; empty if there are too few sizes to be off."""
    if fit.worst is None:
        return NOTHING
    return f"{sum(abs(residual) <= NEAR for residual in fit.residuals.values())} of {len(fit.residuals)}"


def _knots(fit: Fit) -> str:
    return (", ".join(map(size, fit.curve.knots)) if fit.curve else "") or NOTHING


def _if_bytes(cell: Cell, text: str) -> str:
    """The text; a dash for a primitive that moves no bytes, and so has no size and no elements to be wrong."""
    return text if primitive_facts(cell.operation, composite=cell.composite).has_bytes else NOTHING


def _time(figure: Callable[[TimeUs], float]) -> Callable[[Cell], str]:
    return lambda cell: duration(figure(cell.time_us) * US_IN_S if cell.time_us else None)


def _marked(cell: Cell) -> str:
    median = _time(lambda time: time.median)(cell)
    return f"{MARK} {median}" if is_uneven(cell) else median
