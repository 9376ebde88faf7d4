"""Draws a primitive as a page: each rank's buffers before and after the call, every number in its rank's color. Pure.

The rank of a number is looked up in the buffers before the call, since no two ranks have the same numbers. The kinds of
spans are rank-0 to rank-7 (higher ranks repeat them), reduced (made from several ranks), undefined, muted (decoration,
and 0, which comes from no rank), strong and wrong.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ddptui.analysis.primitives.results import BufferView, RankView, View
from ddptui.config.primitives import OPERATIONS, primitive_title
from ddptui.report.primitives.grid import ARROW, BETWEEN_PARTS, DOUBT
from ddptui.text.drawing import Line, Span, width_of, wrap
from ddptui.text.units import NOTHING
from ddptui.text.words import count

RANK_KINDS = tuple(f"rank-{number}" for number in range(8))
RESULT = "tensor"  # the argument of a reduction that holds its result; others are inputs
HIDDEN = "·"  # a number that the user is still to guess
INDENT = "  "
MOST_NAMED = 8  # ranks, in a sentence or a legend
LARGEST = 1e6  # larger numbers are rounded
NARROWEST = 20  # columns for wrapped text

Values = Sequence[float | None]
Item = TypeVar("Item")


class Side(NamedTuple):
    """Widths before or after the call, in columns: of a number, by argument; and of the longest buffer."""

    numbers: Mapping[str, int]
    buffer: int


class Page(NamedTuple):
    """What all lines of a drawing depend on. whose: see owners; name: width of the arguments' names; after: the call is
    over."""

    view: View
    whose: Mapping[float, int]
    width: int
    name: int
    before_side: Side
    after_side: Side
    after: bool

    @property
    def left(self) -> int:
        """The column at which buffers begin."""
        return len(INDENT) + self.name + 2

    @property
    def beside(self) -> bool:
        """Whether there is room for before and after side by side."""
        return self.left + self.before_side.buffer + len(ARROW) + self.after_side.buffer <= self.width


def view_title(view: View) -> str:
    """The title of a view, such as "reduce MAX"."""
    return (
        f"{primitive_title(view.operation)} {view.reduce_op.upper()}"
        if view.reduce_op
        else primitive_title(view.operation)
    )


def page_lines(view: View, width: int, room: int, *, after: bool) -> list[Line]:
    """What the primitive does, the legend, and each rank's call and buffers, before or after the call. width: columns;
    room: visible lines; if they suffice, ranks are separated by empty lines."""
    sentences = [line for sentence in description(view) for line in textwrap.wrap(sentence, max(NARROWEST, width))]
    head: list[Line] = [[(line, "")] for line in sentences]
    if view.error:
        refusal = textwrap.wrap(f"The backend cannot: {view.error}", max(NARROWEST, width))
        return [*head, [], *([(line, "wrong")] for line in refusal)]
    lines = [*head, *(wrap(entries, width, 2) if (entries := legend(view)) else ())]
    blocks = [[*_rank(rank, page_of(view, width, after=after))] for rank in view.ranks]
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
    yield f"{moves[0].upper()}{moves[1:]}.{root}"
    if ranks := _undefined(view):
        where = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:MOST_NAMED]))}"
        more = f" and {count(len(ranks) - MOST_NAMED, 'other')}" if len(ranks) > MOST_NAMED else ""
        yield f"Undefined on {where}{more}: nobody may rely on what it leaves there."


def legend(view: View) -> list[Line]:
    """Which color stands for which rank, and the marks for those who see no colors."""
    if not (firsts := _firsts(view)):
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


def page_of(view: View, width: int, *, after: bool) -> Page:
    """The page of a view with this many columns."""
    buffers = [buffer for rank in view.ranks for buffer in rank.buffers]
    name = max((len(buffer.name) for buffer in buffers), default=0)
    before_side = _side(buffers, 1, after=False)
    after_side = _side(buffers, max(before_side.numbers.values(), default=1), after=True)
    return Page(view, owners(view), width, name, before_side, after_side, after)


def _side(buffers: Sequence[BufferView], least: int, *, after: bool) -> Side:
    """Before the call all numbers are equally wide, and after it none is narrower: widths must not tell the result."""
    numbers: dict[str, int] = {}
    for buffer in buffers:
        longest = max(map(len, _texts(buffer, after=after)), default=1)
        numbers[buffer.name] = max(least, longest, numbers.get(buffer.name, 1))
    if not after:
        numbers = dict.fromkeys(numbers, max(numbers.values(), default=1))
    lengths = [_length(_values(buffer, after=after), buffer.parts, numbers[buffer.name]) for buffer in buffers]
    return Side(numbers, max(lengths, default=1))


def _values(buffer: BufferView, *, after: bool) -> Values:
    return (buffer.after if after else buffer.before) or ()


def _texts(buffer: BufferView, *, after: bool) -> list[str]:
    uncertainty = DOUBT if after and buffer.undefined else ""
    return [f"{number_text(value)}{uncertainty}" for value in _values(buffer, after=after)]


def _length(values: Values, parts: int, number: int) -> int:
    """In columns."""
    pieces = len(_parts(values, parts))
    return len(values) * (number + 1) - pieces + max(0, pieces - 1) * len(BETWEEN_PARTS)


def _undefined(view: View) -> list[int]:
    return [rank.rank for rank in view.ranks if any(buffer.undefined for buffer in rank.buffers)]


def _firsts(view: View) -> dict[int, float]:
    """By rank, the first number that it had, if it had any."""
    firsts: dict[int, float] = {}
    for value, rank in owners(view).items():
        firsts.setdefault(rank, value)
    return firsts


def _rank(rank: RankView, page: Page) -> Iterator[Line]:
    """A rank's call and buffers."""
    name = f"rank {rank.rank} "
    call = textwrap.wrap(rank.call, max(NARROWEST, page.width - len(name))) or [""]
    yield [(name, rank_kind(rank.rank)), (call[0], "strong")]
    for more in call[1:]:
        yield [(" " * len(name), ""), (more, "strong")]
    for buffer in rank.buffers:
        yield from _buffer(buffer, page)


def _buffer(buffer: BufferView, page: Page) -> Iterator[Line]:
    """Before and after side by side, the latter hidden at first; only one of them if there is no room for both."""
    left: Span = (f"{INDENT}{buffer.name:{page.name}}  ", "muted")
    if buffer.before is None and buffer.after is None:
        yield [left, (f"{NOTHING} it passes none", "muted")]
    elif page.beside:
        was, now = _drawn(buffer, page, after=False), _drawn(buffer, page, after=True)
        space = " " * (page.before_side.buffer - width_of(_joined(was)))
        yield [left, *_joined(was), (space + ARROW, "muted"), *_joined(now if page.after else _hidden(buffer, page))]
    else:
        lines = _folded(_drawn(buffer, page, after=page.after), page.width - page.left - len(ARROW))
        yield [left, (ARROW if page.after else " " * len(ARROW), "muted"), *lines[0]]
        yield from ([(" " * (page.left + len(ARROW)), ""), *line] for line in lines[1:])


def _drawn(buffer: BufferView, page: Page, *, after: bool) -> list[list[Span]]:
    """The numbers of each part."""
    side = page.after_side if after else page.before_side
    values = _values(buffer, after=after)
    kinds = [number_kind(value, buffer, page.view, page.whose, after=after) for value in values]
    spans = [*zip(_texts(buffer, after=after), kinds, strict=True)]
    return [_numbers(part, side.numbers[buffer.name]) for part in _parts(spans, buffer.parts)]


def _hidden(buffer: BufferView, page: Page) -> list[list[Span]]:
    spans = [(HIDDEN, "muted") for _ in _values(buffer, after=True)]
    return [_numbers(part, page.after_side.numbers[buffer.name]) for part in _parts(spans, buffer.parts)]


def _numbers(numbers: Sequence[Span], width: int) -> list[Span]:
    """Numbers side by side, aligned to the right."""
    spans: list[Span] = []
    for text, kind in numbers:
        spans += [(" " * (width - len(text) + bool(spans)), ""), (text, kind)]
    return spans


def _joined(parts: Iterable[Sequence[Span]]) -> list[Span]:
    spans: list[Span] = []
    for part in parts:
        spans += [(BETWEEN_PARTS, "muted"), *part] if spans else part
    return spans


def _folded(parts: Sequence[Sequence[Span]], width: int) -> list[list[Span]]:
    """Lines of as many parts as there is room for, at least one."""
    longest = max((sum(len(text) for text, _ in part) for part in parts), default=1)
    a_line = max(1, (width + len(BETWEEN_PARTS)) // (longest + len(BETWEEN_PARTS)))
    return [_joined(parts[at : at + a_line]) for at in range(0, len(parts), a_line)] or [[]]


def _parts(values: Sequence[Item], parts: int) -> list[Sequence[Item]]:
    length = max(1, len(values) // max(1, parts))
    return [values[at : at + length] for at in range(0, len(values), length)]
