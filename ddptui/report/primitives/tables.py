"""The tables of primitives: times by size, models beside the textbook, and which primitive overtakes which."""

from collections.abc import Callable, Sequence

from ddptui.analysis.primitives.cells import PrimitiveKey, is_uneven
from ddptui.analysis.primitives.crossover import Overtaking
from ddptui.analysis.primitives.fit import Fit, predicted_time, textbook_time
from ddptui.analysis.primitives.results import Cell, TimeUs
from ddptui.analysis.primitives.theory import Network, Theory, theory
from ddptui.config.primitives import OPERATIONS, primitive_facts
from ddptui.text.tables import RED, Column, Table, fill
from ddptui.text.units import NOTHING, US_IN_S, bandwidth, digits, duration, percent, size

MARK = "¹"
NEAR = 0.15  # as near as a model should come to what was measured


def of_cells(cells: Sequence[Cell], fit: Fit | None, network: Network | None) -> Table:
    """One operation, a line a size, named as in nccl-tests; beside each, what its model and the textbook predict."""
    columns: tuple[Column[Cell], ...] = (
        Column("size", _bytes, 100),
        Column("calls", lambda cell: str(cell.calls), 70),
        Column("min", _time(lambda time: time.min), 90),
        Column("median", _marked, 99),
        Column("fitted", lambda cell: duration(predicted_time(fit, cell.bytes) if fit else None), 84),
        Column(
            "textbook", lambda cell: duration(textbook_time(fit, cell.bytes, network) if fit and network else None), 83
        ),
        Column("p90", _time(lambda time: time.p90), 82),
        Column("p99", _time(lambda time: time.p99), 92),
        Column("CV", lambda cell: percent(cell.cv), 93),
        Column("mean", _time(lambda time: time.mean), 81),
        Column("algbw", lambda cell: digits(cell.algbw_gb_s), 91),
        Column("busbw", lambda cell: digits(cell.busbw_gb_s), 97),
        Column("slowest", lambda cell: NOTHING if cell.slowest is None else f"rank {cell.slowest}", 60),
        Column("#wrong", _wrong, 98),
    )
    return Table(fill(columns, cells), {row: RED for row, cell in enumerate(cells) if cell.wrong or cell.error})


def of_models(fits: Sequence[Fit], network: tuple[Network, PrimitiveKey] | None) -> Table:
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
        Column("textbook off", lambda fit: _off(fit, network), 96),
        Column("algorithm", lambda fit: _theory(fit).algorithm, 60, left=True),
        Column("textbook formula", lambda fit: _theory(fit).formula, 90, left=True),
    )
    return Table(fill(columns, fits))


OVERTAKINGS: tuple[Column[Overtaking], ...] = (
    Column("faster below", lambda overtaking: str(overtaking.before), 99, left=True),
    Column("faster above", lambda overtaking: str(overtaking.after), 100, left=True),
    Column("measured", lambda overtaking: _size(overtaking.measured), 98),
    Column("fitted", lambda overtaking: _size(overtaking.fitted), 97),
    Column("textbook", lambda overtaking: _size(overtaking.textbook), 96),
)


def of_overtakings(overtakings: Sequence[Overtaking]) -> Table:
    """A line a pair of operations: from which size on the other one is faster."""
    return Table(fill(OVERTAKINGS, overtakings))


def heading(which: PrimitiveKey) -> str:
    """all_reduce: all tensors as one to all."""
    return str(which) if which.composite else f"{which}: {OPERATIONS[which.operation].moves}"


def _off(fit: Fit, network: tuple[Network, PrimitiveKey] | None) -> str:
    """The range of the textbook's errors over all sizes; empty for the primitive that its α and β come from."""
    if network is None or fit.key == network[1] or fit.key.operation == "local_sum":
        return NOTHING
    errors = [textbook_time(fit, size, network[0]) / s - 1 for size, s in fit.times.items()]
    low, high = (f"{error:+.0%}" for error in (min(errors), max(errors)))
    return low if low == high else f"{low}…{high}"


def _near(fit: Fit) -> str:
    """At how many of the sizes the bent line is that near; empty if there are too few sizes to be off."""
    if fit.worst is None:
        return NOTHING
    return f"{sum(abs(residual) <= NEAR for residual in fit.residuals.values())} of {len(fit.residuals)}"


def _theory(fit: Fit) -> Theory:
    return theory(fit.key.operation, composite=fit.key.composite)


def _bytes(cell: Cell) -> str:
    return size(cell.bytes) if primitive_facts(cell.operation, composite=cell.composite).has_bytes else NOTHING


def _wrong(cell: Cell) -> str:
    """The number of wrong elements; empty if the primitive moves no bytes."""
    return str(cell.wrong) if primitive_facts(cell.operation, composite=cell.composite).has_bytes else NOTHING


def _knots(fit: Fit) -> str:
    return (", ".join(map(size, fit.curve.knots)) if fit.curve else "") or NOTHING


def _time(figure: Callable[[TimeUs], float]) -> Callable[[Cell], str]:
    return lambda cell: duration(figure(cell.time_us) * US_IN_S if cell.time_us else None)


def _marked(cell: Cell) -> str:
    median = _time(lambda time: time.median)(cell)
    return f"{MARK} {median}" if is_uneven(cell) else median


def _size(bytes: float | None) -> str:
    return NOTHING if bytes is None else size(bytes)
