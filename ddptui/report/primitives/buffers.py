"""Draws a primitive: the calls of all ranks, then each rank's buffers before → after, every number in its rank's color.

The rank of a number is looked up in the buffers before the call, since no two ranks have the same numbers. The kinds of
spans are rank-0 to rank-7 (higher ranks repeat them), reduced (made from several ranks), undefined, muted (decoration,
and 0, which comes from no rank), strong and wrong.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ddptui.analysis.primitives.results import BufferView, View
from ddptui.config.primitives import OPERATIONS, primitive_title
from ddptui.report.rows import grouped
from ddptui.text.drawing import Line, Span, width_of, wrap
from ddptui.text.units import NOTHING
from ddptui.text.words import listed, sentence

RANK_KINDS = tuple(f"rank-{number}" for number in range(8))
RESULT = "tensor"  # the argument of a reduction that holds its result; others are inputs
HIDDEN = "·"  # a number that the user is still to guess
DOUBT = "?"  # after a value that means nothing
ARROW = " → "
BETWEEN_PARTS = " │ "
LEGEND = (
    f"{BETWEEN_PARTS.strip()} separates the tensors of a list; "
    f"{DOUBT} undefined: the operation does not say what is there after the call"
)
MOST_NAMED = 8  # ranks, in a sentence
LARGEST = 1e6  # larger numbers are rounded
NARROWEST = 20  # columns for wrapped text


def view_title(view: View) -> str:
    """The title of a view, such as "reduce MAX"."""
    return primitive_title(view.operation) + (f" {view.reduce_op.upper()}" if view.reduce_op else "")


def heading(view: View) -> str:
    """Title, root and what is moved: "reduce MAX, root 0: all tensors as one to the root"."""
    root = f", root {view.root}" if view.root is not None else ""
    return f"{view_title(view)}{root}: {OPERATIONS[view.operation].moves}"


def page_lines(view: View, width: int, *, after: bool) -> list[Line]:
    """A page to guess from: what the primitive does, the legend, and the buffers. after: the call is over."""
    narrow = max(NARROWEST, width)
    lines: list[Line] = [[(line, "")] for sentence in description(view) for line in textwrap.wrap(sentence, narrow)]
    return [*lines, *wrap(legend(view), width, 2), *buffer_lines(view, width, after=after)]


def buffer_lines(view: View, width: int, *, after: bool | None = None) -> list[Line]:
    """The calls, then a line a buffer with its numbers before → after. after: False hides those after the call. Where
    the two do not fit beside each other, they are below each other, or only those asked for are there."""
    narrow = max(NARROWEST, width)
    if view.error:
        return [[(line, "wrong")] for line in textwrap.wrap(f"The backend cannot: {view.error}", narrow)]
    callers = grouped((rank.call, rank.rank) for rank in view.ranks)
    calls = [f"{_named(ranks) if len(callers) > 1 else 'every rank'}: {call}" for call, ranks in callers.items()]
    lines = [line for call in calls for line in textwrap.wrap(call, narrow, subsequent_indent="    ")]
    return [*([(line, "strong")] for line in lines), *_rows(view, width, after)]


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
    yield sentence(OPERATIONS[view.operation].moves) + root
    if ranks := _undefined(view):
        yield f"Undefined on {_named(ranks)}: do not use what it leaves there."


def legend(view: View) -> list[Line]:
    """An example of whose a number is, and the marks for those who see no colors. A rank's name has its color."""
    # By rank, the first number that it had: reversed, since the last one that is entered stays.
    firsts = {rank: value for value, rank in reversed(owners(view).items())}
    if not firsts:
        return []
    rank = 1 if 1 in firsts else min(firsts)
    entries: list[Line] = [[(number_text(firsts[rank]), rank_kind(rank)), (f": rank {rank}'s first", "muted")]]
    if view.reduce_op is not None:
        entries.append([(view.reduce_op, "reduced"), (" of all", "muted")])
    if _undefined(view):
        entries.append([(f"9{DOUBT}", "undefined"), (" undefined", "muted")])
    return entries


def _undefined(view: View) -> list[int]:
    return [rank.rank for rank in view.ranks if any(buffer.undefined for buffer in rank.buffers)]


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {listed([*map(str, ranks)], MOST_NAMED)}"


def _rows(view: View, width: int, after: bool | None) -> Iterator[Line]:
    buffers = [(rank.rank, buffer) for rank in view.ranks for buffer in rank.buffers]
    before, then = _parts(view, after=False), _parts(view, after=True, hidden=after is False)
    longest, longest_then = (max((width_of(_joined(parts)) for parts in each), default=0) for each in (before, then))
    rank_width = max((len(f"rank {rank}  ") for rank, _ in buffers), default=0)
    name_width = max((len(f"{buffer.name}  ") for _, buffer in buffers), default=0)
    room = width - rank_width - name_width
    last = None  # the rank of the row above
    for (rank, buffer), was, now in zip(buffers, before, then, strict=True):
        name = "" if rank == last else f"rank {rank}"
        last = rank
        label: Line = [(name.ljust(rank_width), rank_kind(rank)), (buffer.name.ljust(name_width), "muted")]
        if buffer.before is None and buffer.after is None:
            yield [*label, (f"{NOTHING} it passes none", "muted")]
        elif longest + len(ARROW) + longest_then <= room:
            gap = " " * (longest - width_of(_joined(was)))
            yield [*label, *_joined(was), (gap + ARROW, "muted"), *_joined(now)]
        else:
            sides = [(" " * len(ARROW), was), (ARROW, now)]
            for sign, parts in sides if after is None else [sides[after]]:
                for line in _folded(parts, room - len(ARROW)):
                    yield [*label, (sign, "muted"), *line]
                    label, sign = [(" " * (rank_width + name_width), "")], " " * len(ARROW)


def _parts(view: View, *, after: bool, hidden: bool = False) -> list[list[list[Span]]]:
    """By buffer and part, the numbers, aligned to the right. Before the call all are equally wide, after it those of an
    argument, and no number is narrower: widths must not tell the result."""
    buffers, whose = [buffer for rank in view.ranks for buffer in rank.buffers], owners(view)
    least = max((len(text) for buffer in buffers for text in _texts(buffer, after=False)), default=1)
    widths: dict[str, int] = {}
    for buffer in buffers:
        widths[buffer.name] = max([widths.get(buffer.name, least), *map(len, _texts(buffer, after=after))])
    drawn = []
    for buffer in buffers:
        values = (buffer.after if after else buffer.before) or ()
        length = max(1, len(values) // max(1, buffer.parts))
        spans: list[Span] = []
        for place, (value, text) in enumerate(zip(values, _texts(buffer, after=after), strict=True)):
            kind = number_kind(value, buffer, view, whose, after=after)
            text, kind = (HIDDEN, "muted") if hidden else (text, kind)
            spans += [(" " * (widths[buffer.name] - len(text) + (place % length > 0)), ""), (text, kind)]
        drawn.append([spans[at : at + 2 * length] for at in range(0, len(spans), 2 * length)])
    return drawn


def _texts(buffer: BufferView, *, after: bool) -> list[str]:
    doubt = DOUBT if after and buffer.undefined else ""
    return [number_text(value) + doubt for value in (buffer.after if after else buffer.before) or ()]


def _joined(parts: Sequence[Sequence[Span]]) -> list[Span]:
    return [span for part in parts for span in ((BETWEEN_PARTS, "muted"), *part)][1:]


def _folded(parts: Sequence[Sequence[Span]], width: int) -> list[list[Span]]:
    """Lines of as many parts as there is room for, at least one."""
    longest = max(map(width_of, parts), default=1)
    a_line = max(1, (width + len(BETWEEN_PARTS)) // (longest + len(BETWEEN_PARTS)))
    return [_joined(parts[at : at + a_line]) for at in range(0, len(parts), a_line)] or [[]]
