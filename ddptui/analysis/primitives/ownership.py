"""A primitive on a page, to be guessed and then seen: every number by the rank that it came from. Pure: a view in,
lines out.

Whose a number is, is looked up: what was in a rank's buffers before the call is its own, and no two ranks have the
same. The kinds of the spans: rank-0 to rank-7 (then they come again), reduced (made of several), undefined, muted (0,
which is nobody's, and what stands around), strong, wrong.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ddptui.analysis.primitives.results import BufferView, RankView, View
from ddptui.config.primitives import OPERATIONS, primitive_title
from ddptui.text.drawing import Line, Span, width_of, wrap
from ddptui.text.units import NOTHING
from ddptui.text.words import count

RANK_KINDS = tuple(f"rank-{number}" for number in range(8))
RESULT = "tensor"  # of what reduces, the argument that holds what all have come to; any other is only given
DOUBT = "?"
HIDDEN = "·"  # a number that is still to be guessed
ARROW = " → "
BETWEEN_PARTS = " │ "
INDENT = "  "
MOST_NAMED = 8  # ranks, in a sentence or a legend
LARGEST = 1e6  # from which on a number is rounded
NARROWEST = 20  # columns in which words are laid out

Values = Sequence[float | None]
Item = TypeVar("Item")


class Side(NamedTuple):
    """How wide things are before, or after: a number, by the name of the argument; and the longest buffer."""

    numbers: Mapping[str, int]
    buffer: int


class Page(NamedTuple):
    """What a drawing goes by. whose: see owners; name: how wide the arguments' names are; after: the call has been
    made."""

    view: View
    whose: Mapping[float, int]
    width: int
    name: int
    before_side: Side
    after_side: Side
    after: bool

    @property
    def left(self) -> int:
        """Where buffers begin."""
        return len(INDENT) + self.name + 2

    @property
    def beside(self) -> bool:
        """Whether before and after have room beside each other."""
        return self.left + self.before_side.buffer + len(ARROW) + self.after_side.buffer <= self.width


def view_title(view: View) -> str:
    """reduce MAX"""
    return (
        f"{primitive_title(view.operation)} {view.reduce_op.upper()}"
        if view.reduce_op
        else primitive_title(view.operation)
    )


def page_lines(view: View, width: int, room: int, *, after: bool) -> list[Line]:
    """What it does, the legend, and every rank's call and buffers, before the call or after it. room: lines that are
    seen at once; where it suffices, ranks stand apart."""
    words = [line for sentence in description(view) for line in textwrap.wrap(sentence, max(NARROWEST, width))]
    head: list[Line] = [[(line, "")] for line in words]
    if view.error:
        refusal = textwrap.wrap(f"The backend cannot: {view.error}", max(NARROWEST, width))
        return [*head, [], *([(line, "wrong")] for line in refusal)]
    lines = [*head, *(wrap(entries, width, 2) if (entries := legend(view)) else ())]
    blocks = [[*_rank(rank, of_view(view, width, after=after))] for rank in view.ranks]
    apart = len(lines) + sum(map(len, blocks)) + len(blocks) <= room
    for block in blocks:
        lines += [[], *block] if apart else block
    return lines


def owners(view: View) -> dict[float, int]:
    """By number, the rank in whose buffers it was before the call."""
    return {
        value: rank.rank for rank in view.ranks for buffer in rank.buffers for value in buffer.before or () if value
    }


def rank_kind(rank: int) -> str:
    return RANK_KINDS[rank % len(RANK_KINDS)]


def number_kind(value: float | None, buffer: BufferView, view: View, whose: Mapping[float, int], *, after: bool) -> str:
    """The kind of a number in a buffer."""
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
    """Whole numbers in full, as long as they are not too long."""
    if value is None:
        return "nan"
    return f"{value:.6g}" if abs(value) < LARGEST else f"{value:.2e}"


def description(view: View) -> Iterator[str]:
    """What it does, and what it leaves undefined."""
    root = f" Root: rank {view.root}." if view.root is not None else ""
    moves = OPERATIONS[view.operation].moves
    yield f"{moves[0].upper()}{moves[1:]}.{root}"
    if ranks := _undefined(view):
        where = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:MOST_NAMED]))}"
        more = f" and {count(len(ranks) - MOST_NAMED, 'other')}" if len(ranks) > MOST_NAMED else ""
        yield f"Undefined on {where}{more}: nobody may rely on what it leaves there."


def legend(view: View) -> list[Line]:
    """Whose is which colour, and what it is without colours; what else there is to be seen."""
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


def of_view(view: View, width: int, *, after: bool) -> Page:
    buffers = [buffer for rank in view.ranks for buffer in rank.buffers]
    name = max((len(buffer.name) for buffer in buffers), default=0)
    before_side = _side(buffers, 1, after=False)
    after_side = _side(buffers, max(before_side.numbers.values(), default=1), after=True)
    return Page(view, owners(view), width, name, before_side, after_side, after)


def _side(buffers: Sequence[BufferView], least: int, *, after: bool) -> Side:
    """Before, all numbers are as wide, and after none is less wide: it would tell what they are."""
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
    """By rank, the first number of its own, if it has any."""
    found: dict[int, float] = {}
    for value, rank in owners(view).items():
        found.setdefault(rank, value)
    return found


def _rank(rank: RankView, page: Page) -> Iterator[Line]:
    """Its call, and its buffers."""
    name = f"rank {rank.rank} "
    call = textwrap.wrap(rank.call, max(NARROWEST, page.width - len(name))) or [""]
    yield [(name, rank_kind(rank.rank)), (call[0], "strong")]
    for more in call[1:]:
        yield [(" " * len(name), ""), (more, "strong")]
    for buffer in rank.buffers:
        yield from _buffer(buffer, page)


def _buffer(buffer: BufferView, page: Page) -> Iterator[Line]:
    """Before and after beside each other, the latter hidden at first; where there is no room for both, one of them."""
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
    """Part by part."""
    side = page.after_side if after else page.before_side
    values = _values(buffer, after=after)
    kinds = [number_kind(value, buffer, page.view, page.whose, after=after) for value in values]
    spans = [*zip(_texts(buffer, after=after), kinds, strict=True)]
    return [_numbers(part, side.numbers[buffer.name]) for part in _parts(spans, buffer.parts)]


def _hidden(buffer: BufferView, page: Page) -> list[list[Span]]:
    spans = [(HIDDEN, "muted") for _ in _values(buffer, after=True)]
    return [_numbers(part, page.after_side.numbers[buffer.name]) for part in _parts(spans, buffer.parts)]


def _numbers(numbers: Sequence[Span], width: int) -> list[Span]:
    """One after the other, to the right; only the digits have a kind."""
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
    """As many parts a line as there is room for, and one in any case."""
    longest = max((sum(len(text) for text, _ in part) for part in parts), default=1)
    a_line = max(1, (width + len(BETWEEN_PARTS)) // (longest + len(BETWEEN_PARTS)))
    return [_joined(parts[at : at + a_line]) for at in range(0, len(parts), a_line)] or [[]]


def _parts(values: Sequence[Item], parts: int) -> list[Sequence[Item]]:
    length = max(1, len(values) // max(1, parts))
    return [values[at : at + length] for at in range(0, len(values), length)]
