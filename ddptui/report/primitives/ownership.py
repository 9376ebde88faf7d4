"""Draws a primitive as a page: each rank's buffers before and after the call, every number in its rank's color. Pure.

The rank of a number is looked up in the buffers before the call, since no two ranks have the same numbers. The kinds of
spans are rank-0 to rank-7 (higher ranks repeat them), reduced (made from several ranks), undefined, muted (decoration,
and 0, which comes from no rank), strong and wrong.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ddptui.analysis.primitives.results import BufferView, RankView, View
from ddptui.config.primitives import OPERATIONS, primitive_title
from ddptui.report.primitives.grid import ARROW, BETWEEN_PARTS, DOUBT, named
from ddptui.text.drawing import Line, Span, width_of, wrap
from ddptui.text.units import NOTHING
from ddptui.text.words import count, sentence

RANK_KINDS = tuple(f"rank-{number}" for number in range(8))
RESULT = "tensor"  # the argument of a reduction that holds its result; others are inputs
HIDDEN = "·"  # a number that the user is still to guess
INDENT = "  "
MOST_NAMED = 8  # ranks, in a sentence or a legend
LARGEST = 1e6  # larger numbers are rounded
NARROWEST = 20  # columns for wrapped text


def view_title(view: View) -> str:
    """The title of a view, such as "reduce MAX"."""
    return primitive_title(view.operation) + (f" {view.reduce_op.upper()}" if view.reduce_op else "")


def page_lines(view: View, width: int, room: int, *, after: bool) -> list[Line]:
    """What the primitive does, the legend, and each rank's call and buffers, before or after the call. width: columns;
    room: visible lines; if they suffice, ranks are separated by empty lines."""
    narrow = max(NARROWEST, width)
    lines: list[Line] = [[(line, "")] for sentence in description(view) for line in textwrap.wrap(sentence, narrow)]
    if view.error:
        refusal = textwrap.wrap(f"The backend cannot: {view.error}", narrow)
        return [*lines, [], *([(line, "wrong")] for line in refusal)]
    if entries := legend(view):
        lines += wrap(entries, width, 2)
    page = _Page(view, width, after=after)
    blocks = [[*page.lines_of(rank)] for rank in view.ranks]
    separated = len(lines) + sum(map(len, blocks)) + len(blocks) <= room
    for block in blocks:
        lines += [[], *block] if separated else block
    return lines


def owners(view: View) -> dict[float, int]:
    """For each number other than 0, the rank that had it before the call."""
    return {
        value: rank.rank for rank in view.ranks for buffer in rank.buffers for value in buffer.before or () if value
    }


def rank_kind(rank: int) -> str:
    """The kind of span of a rank."""
    return RANK_KINDS[rank % len(RANK_KINDS)]


def number_kind(value: float | None, buffer: BufferView, view: View, whose: Mapping[float, int], *, after: bool) -> str:
    """The kind of span of a number in a buffer."""
    if after and buffer.undefined:
        return "undefined"
    if value is None:
        return "wrong"
    if after and view.reduce_op is not None and buffer.name == RESULT:
        return "reduced"
    if value == 0:
        return "muted"
    return rank_kind(whose[value]) if value in whose else ""


def number_text(value: float | None) -> str:
    """A number as text: whole numbers in full, large ones rounded."""
    if value is None:
        return "nan"
    return f"{value:.6g}" if abs(value) < LARGEST else f"{value:.2e}"


def description(view: View) -> Iterator[str]:
    """What the primitive does and what it leaves undefined, in sentences."""
    root = f" Root: rank {view.root}." if view.root is not None else ""
    moves = OPERATIONS[view.operation].moves
    yield sentence(moves) + root
    if ranks := _undefined(view):
        more = f" and {count(len(ranks) - MOST_NAMED, 'other')}" if len(ranks) > MOST_NAMED else ""
        yield f"Undefined on {named(ranks[:MOST_NAMED])}{more}: do not use what it leaves there."


def legend(view: View) -> list[Line]:
    """Which color stands for which rank, and the marks for those who see no colors."""
    # By rank, the first number that it had: reversed, since the last one that is entered stays.
    firsts = {rank: value for value, rank in reversed(owners(view).items())}
    if not firsts:
        return []
    shown = [rank.rank for rank in view.ranks[:MOST_NAMED]]
    ranks: Line = [span for rank in shown for span in ((" ", ""), (str(rank), rank_kind(rank)))]
    more = " …" if len(view.ranks) > len(shown) else ""
    rank = 1 if 1 in firsts else min(firsts)
    entries: list[Line] = [
        [("rank", "muted"), *ranks, (more, "muted")],
        [(number_text(firsts[rank]), rank_kind(rank)), (f": rank {rank}'s first", "muted")],
    ]
    if view.reduce_op is not None:
        entries.append([(view.reduce_op, "reduced"), (" of all", "muted")])
    if _undefined(view):
        entries.append([(f"9{DOUBT}", "undefined"), (" undefined", "muted")])
    return entries


def _undefined(view: View) -> list[int]:
    return [rank.rank for rank in view.ranks if any(buffer.undefined for buffer in rank.buffers)]


class _Page:
    """Draws the ranks of a view. after: the call is over."""

    def __init__(self, view: View, width: int, *, after: bool) -> None:
        self._view, self._owners, self._width, self._after = view, owners(view), width, after
        buffers = [buffer for rank in view.ranks for buffer in rank.buffers]
        self._name = max((len(buffer.name) for buffer in buffers), default=0)
        self._left = len(INDENT) + self._name + 2  # the column at which buffers begin
        # Columns of a number, by argument. Before the call all are equally wide, and after it none is narrower: widths
        # must not tell the result.
        before = max((len(text) for buffer in buffers for text in _texts(buffer, after=False)), default=1)
        widths = {buffer.name: before for buffer in buffers}
        for buffer in buffers:
            widths[buffer.name] = max([widths[buffer.name], *map(len, _texts(buffer, after=True))])
        self._numbers = dict.fromkeys(widths, before), widths  # before the call, and after it
        self._longest, longest_after = (
            max((width_of(_joined(self._parts(buffer, after=side))) for buffer in buffers), default=0)
            for side in (False, True)
        )
        self._is_beside = self._left + self._longest + len(ARROW) + longest_after <= width

    def lines_of(self, rank: RankView) -> Iterator[Line]:
        """A rank's call and buffers."""
        name = f"rank {rank.rank} "
        call = textwrap.wrap(rank.call, max(NARROWEST, self._width - len(name))) or [""]
        yield [(name, rank_kind(rank.rank)), (call[0], "strong")]
        yield from ([(" " * len(name), ""), (more, "strong")] for more in call[1:])
        for buffer in rank.buffers:
            yield from self._buffer(buffer)

    def _buffer(self, buffer: BufferView) -> Iterator[Line]:
        """Before and after side by side, the latter hidden at first; only one of them if there is no room for both."""
        left: Span = (f"{INDENT}{buffer.name:{self._name}}  ", "muted")
        if buffer.before is None and buffer.after is None:
            yield [left, (f"{NOTHING} it passes none", "muted")]
        elif self._is_beside:
            was = _joined(self._parts(buffer, after=False))
            now = _joined(self._parts(buffer, after=True, hidden=not self._after))
            yield [left, *was, (" " * (self._longest - width_of(was)) + ARROW, "muted"), *now]
        else:
            lines = _folded(self._parts(buffer, after=self._after), self._width - self._left - len(ARROW))
            yield [left, (ARROW if self._after else " " * len(ARROW), "muted"), *lines[0]]
            yield from ([(" " * (self._left + len(ARROW)), ""), *line] for line in lines[1:])

    def _parts(self, buffer: BufferView, *, after: bool, hidden: bool = False) -> list[list[Span]]:
        """The numbers of each part, aligned to the right."""
        width = self._numbers[after][buffer.name]
        values = (buffer.after if after else buffer.before) or ()
        kinds = [number_kind(value, buffer, self._view, self._owners, after=after) for value in values]
        numbers = [*zip(_texts(buffer, after=after), kinds, strict=True)]
        if hidden:
            numbers = [(HIDDEN, "muted")] * len(numbers)
        length = max(1, len(numbers) // max(1, buffer.parts))
        spaced: list[list[Span]] = []
        for place, (text, kind) in enumerate(numbers):
            spaced.append([(" " * (width - len(text) + (place % length > 0)), ""), (text, kind)])
        return [[*chain(*spaced[begin : begin + length])] for begin in range(0, len(spaced), length)]


def _texts(buffer: BufferView, *, after: bool) -> list[str]:
    uncertainty = DOUBT if after and buffer.undefined else ""
    return [f"{number_text(value)}{uncertainty}" for value in (buffer.after if after else buffer.before) or ()]


def _joined(parts: Iterable[Sequence[Span]]) -> list[Span]:
    return [span for part in parts for span in ((BETWEEN_PARTS, "muted"), *part)][1:]


def _folded(parts: Sequence[Sequence[Span]], width: int) -> list[list[Span]]:
    """Lines of as many parts as there is room for, at least one."""
    longest = max(map(width_of, parts), default=1)
    a_line = max(1, (width + len(BETWEEN_PARTS)) // (longest + len(BETWEEN_PARTS)))
    return [_joined(parts[at : at + a_line]) for at in range(0, len(parts), a_line)] or [[]]
