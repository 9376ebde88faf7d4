"""What was measured as tables: times by size, the models beside the textbook, and who overtakes whom. Pure."""

from collections.abc import Callable, Sequence

from ddptui.analysis.primitives.cells import PrimitiveKey, is_uneven
from ddptui.analysis.primitives.crossover import Overtaking
from ddptui.analysis.primitives.fit import Fit, predicted_time, textbook_time
from ddptui.analysis.primitives.results import Cell, TimeUs
from ddptui.analysis.primitives.theory import Network, Theory, theory
from ddptui.config.primitives import OPERATIONS, primitive_facts
from ddptui.text.tables import Column, Table
from ddptui.text.units import NOTHING, bandwidth, digits, duration, percent, size

MARK = "¹"
NEAR = 0.15  # as near as a model should come to what was measured
US = 1e-6


def of_cells(cells: Sequence[Cell], fit: Fit | None, network: Network | None) -> Table:
    """One operation, a line a size, in nccl-tests' words; and what its model and the textbook say of each."""
    columns = (
        Column("size", [_bytes(cell) for cell in cells], 100),
        Column("calls", [str(cell.calls) for cell in cells], 70),
        Column("min", [_time(cell, lambda time: time.min) for cell in cells], 90),
        Column("median", [_marked(cell) for cell in cells], 99),
        Column("fitted", [duration(predicted_time(fit, cell.bytes) if fit else None) for cell in cells], 84),
        Column(
            "textbook",
            [duration(textbook_time(fit, cell.bytes, network) if fit and network else None) for cell in cells],
            83,
        ),
        Column("p90", [_time(cell, lambda time: time.p90) for cell in cells], 82),
        Column("p99", [_time(cell, lambda time: time.p99) for cell in cells], 92),
        Column("CV", [percent(cell.cv) for cell in cells], 93),
        Column("mean", [_time(cell, lambda time: time.mean) for cell in cells], 81),
        Column("algbw", [digits(cell.algbw_gb_s) for cell in cells], 91),
        Column("busbw", [digits(cell.busbw_gb_s) for cell in cells], 97),
        Column("slowest", [NOTHING if cell.slowest is None else f"rank {cell.slowest}" for cell in cells], 60),
        Column("#wrong", [_wrong(cell) for cell in cells], 98),
    )
    return Table(columns, frozenset(number for number, cell in enumerate(cells) if cell.wrong or cell.error))


def of_models(fits: Sequence[Fit], network: tuple[Network, PrimitiveKey] | None) -> Table:
    """A line an operation. α in µs a message, β and γ as bandwidths; errors as parts of what was measured."""
    book = [_theory(fit) for fit in fits]
    columns = (
        Column("operation", [str(fit.key) for fit in fits], 100, left=True),
        Column("α", [duration(fit.alpha) for fit in fits], 99),
        Column("β GB/s", [bandwidth(fit.beta) for fit in fits], 98),
        Column("γ GB/s", [bandwidth(fit.gamma) for fit in fits], 80),
        Column("line off", [percent(fit.line_worst) for fit in fits], 95),
        Column("bent off", [percent(fit.worst) for fit in fits], 97),
        Column(f"within {NEAR:.0%}", [_near(fit) for fit in fits], 94),
        Column("left out", [percent(fit.left_out) for fit in fits], 79),
        Column("bends at", [", ".join(map(size, fit.curve.knots)) or NOTHING if fit.curve else NOTHING for fit in fits],
               70, left=True),
        Column("textbook off", [_off(fit, network) for fit in fits], 96),
        Column("algorithm", [each.algorithm for each in book], 60, left=True),
        Column("textbook formula", [each.formula for each in book], 90, left=True),
    )  # fmt: skip
    return Table(columns)


def of_overtakings(found: Sequence[Overtaking]) -> Table:
    columns = (
        Column("faster below", [str(each.before) for each in found], 99, left=True),
        Column("faster above", [str(each.after) for each in found], 100, left=True),
        Column("measured", [_size(each.measured) for each in found], 98),
        Column("fitted", [_size(each.fitted) for each in found], 97),
        Column("textbook", [_size(each.textbook) for each in found], 96),
    )
    return Table(columns)


def heading(which: PrimitiveKey) -> str:
    """all_reduce: all tensors as one to all."""
    return str(which) if which.composite else f"{which}: {OPERATIONS[which.operation].moves}"


def _off(fit: Fit, network: tuple[Network, PrimitiveKey] | None) -> str:
    """From the size where the textbook is lowest, over what was measured, to the one where it is highest; nothing for
    what it was fed with."""
    if network is None or fit.key == network[1] or fit.key.operation == "local_sum":
        return NOTHING
    errors = [textbook_time(fit, size, network[0]) / s - 1 for size, s in fit.times.items()]
    low, high = (f"{error:+.0%}" for error in (min(errors), max(errors)))
    return low if low == high else f"{low}…{high}"


def _near(fit: Fit) -> str:
    """At how many of the sizes the bent line is; nothing where it could be no further."""
    if fit.worst is None:
        return NOTHING
    return f"{sum(abs(residual) <= NEAR for residual in fit.residuals.values())} of {len(fit.residuals)}"


def _theory(fit: Fit) -> Theory:
    return theory(fit.key.operation, composite=fit.key.composite)


def _bytes(cell: Cell) -> str:
    return size(cell.bytes) if primitive_facts(cell.operation, composite=cell.composite).has_bytes else NOTHING


def _wrong(cell: Cell) -> str:
    """Where nothing moves, nothing can be wrong."""
    return str(cell.wrong) if primitive_facts(cell.operation, composite=cell.composite).has_bytes else NOTHING


def _time(cell: Cell, figure: Callable[[TimeUs], float]) -> str:
    return duration(figure(cell.time_us) * US if cell.time_us else None)


def _marked(cell: Cell) -> str:
    median = _time(cell, lambda time: time.median)
    return f"{MARK} {median}" if is_uneven(cell) else median


def _size(bytes: float | None) -> str:
    return NOTHING if bytes is None else size(bytes)
