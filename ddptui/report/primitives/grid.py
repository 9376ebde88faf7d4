"""What a primitive did to every rank's buffers, as lines: before → after."""

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import NamedTuple

from ddptui.analysis.primitives.results import BufferView, View
from ddptui.config.primitives import OPERATIONS, primitive_title
from ddptui.text.drawing import Line, Span, width_of
from ddptui.text.units import NOTHING

ARROW = " → "
BETWEEN_PARTS = " │ "
INDENT = "    "  # of a call that goes on
DOUBT = "?"  # after a value that means nothing
LEGEND = (
    f"{BETWEEN_PARTS.strip()} between the tensors of a list; {NOTHING} the rank passes no such thing; "
    f"{DOUBT} the operation does not say what is there afterwards: whatever it is means nothing"
)


class Row(NamedTuple):
    """One buffer of one rank; rank is empty if it is that of the row above."""

    rank: str
    name: str
    before: list[Span]
    after: list[Span]


def heading(view: View) -> str:
    """reduce (max), root 0: all tensors as one to the root."""
    operator = f" ({view.reduce_op})" if view.reduce_op else ""
    root = f", root {view.root}" if view.root is not None else ""
    return f"{primitive_title(view.operation)}{operator}{root}: {OPERATIONS[view.operation].moves}"


def grid(view: View, width: int) -> list[Line]:
    """The calls, and below them a line a buffer, or two if before and after do not fit beside each other.

    If the backend cannot do it, one line says why.
    """
    if view.error:
        return [[(f"not done: {next(iter(view.error.splitlines()))}", "wrong")]]
    rows = [row for rank in view.ranks for row in _rows(str(rank.rank), rank.buffers)]
    called: list[Line] = [
        [(words, "muted")] for call in calls(view) for words in wrap(call, width, subsequent_indent=INDENT)
    ]
    return [*called, *(_beside(rows, width) or _stacked(rows))]


def calls(view: View) -> list[str]:
    """The calls, and the ranks that make them."""
    callers: dict[str, list[int]] = {}
    for rank in view.ranks:
        callers.setdefault(rank.call, []).append(rank.rank)
    if len(callers) == 1:
        return [f"every rank: {call}" for call in callers]
    return [f"{_ranks(ranks)}: {call}" for call, ranks in callers.items()]


def values(numbers: Sequence[float | None] | None, parts: int, *, undefined: bool = False) -> list[Span]:
    """The values of a buffer, with gaps between its parts."""
    if numbers is None:
        return [(NOTHING, "muted")]
    length = max(1, len(numbers) // max(1, parts))
    pieces = [numbers[at : at + length] for at in range(0, len(numbers), length)]
    text = BETWEEN_PARTS.join(" ".join(_value(number) + DOUBT * undefined for number in piece) for piece in pieces)
    return [(text, "muted" if undefined else "")]


def _value(number: float | None) -> str:
    return "nan" if number is None else f"{number:g}"


def _ranks(ranks: Sequence[int]) -> str:
    one_by_one = ", ".join(map(str, ranks))
    return f"rank {one_by_one}" if len(ranks) == 1 else f"ranks {one_by_one}"


def _rows(rank: str, buffers: Iterable[BufferView]) -> list[Row]:
    return [
        Row(
            rank if number == 0 else "",
            buffer.name,
            values(buffer.before, buffer.parts),
            values(buffer.after, buffer.parts, undefined=buffer.undefined),
        )
        for number, buffer in enumerate(buffers)
    ]


def _beside(rows: Sequence[Row], width: int) -> list[Line] | None:
    """Before and after beside each other, a line a buffer; None if a line is too long."""
    ranks, names, before, _ = _widths(rows)
    lines: list[Line] = [
        [*_who(row, ranks, names), *_padded(row.before, before), (ARROW, "muted"), *row.after] for row in rows
    ]
    return lines if max(map(width_of, lines), default=0) <= width else None


def _stacked(rows: Sequence[Row]) -> list[Line]:
    ranks, names, *_ = _widths(rows)
    lines: list[Line] = []
    for row in rows:
        lines.append([*_who(row, ranks, names), (" " * len(ARROW), ""), *row.before])
        lines.append([(" " * (len("rank ") + ranks + names + 4), ""), (ARROW, "muted"), *row.after])
    return lines


def _who(row: Row, ranks: int, names: int) -> list[Span]:
    rank = f"rank {row.rank:>{ranks}}" if row.rank else " " * (len("rank ") + ranks)
    return [(f"{rank}  ", ""), (f"{row.name:<{names}}  ", "muted")]


def _widths(rows: Sequence[Row]) -> tuple[int, int, int, int]:
    return (
        max((len(row.rank) for row in rows), default=0),
        max((len(row.name) for row in rows), default=0),
        max((width_of(row.before) for row in rows), default=0),
        max((width_of(row.after) for row in rows), default=0),
    )


def _padded(spans: Sequence[Span], width: int) -> list[Span]:
    return [*spans, (" " * (width - width_of(spans)), "")]
