"""Draws a primitive: every rank's call and buffers before and after; and its table of times by message size.

No two ranks have the same numbers before the call, so a number shows which rank it came from. The kinds of spans are
rank-0 to rank-7 (higher ranks repeat them), reduced (computed from several ranks), undefined, muted (decoration, and 0,
which comes from no rank), strong and wrong.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from ddptui.analysis.primitive_results import BufferView, Cell, PrimitiveKey, View, is_uneven
from ddptui.config.catalog import OPERATIONS, Cadence, primitive_facts, primitive_title
from ddptui.report.rows import off_by
from ddptui.text.drawing import Line, Span, width_of, wrap
from ddptui.text.tables import RED, Column, Table, cell_at, fill, grouped
from ddptui.text.words import NOTHING, US_IN_S, digits, duration, listed, percent, sentence, size

RANK_KINDS = tuple(f"rank-{number}" for number in range(8))
RESULT = "tensor"  # the argument of a reduction that receives the result; other arguments are inputs
HIDDEN = "·"  # a number that the user has to guess
DOUBT = "?"  # behind an undefined value
ARROW = " → "
BETWEEN_PARTS = " │ "
LEGEND = (
    f"{BETWEEN_PARTS.strip()} separates the tensors of a list; "
    f"{DOUBT} undefined: the operation does not define this value after the call"
)
MOST_NAMED = 8  # ranks listed in a sentence
LARGEST = 1e6  # larger numbers are rounded
NARROWEST = 20  # columns for wrapped text


def view_title(view: View) -> str:
    """The title of a view, e.g. "reduce MAX"."""
    return primitive_title(view.operation) + (f" {view.reduce_op.upper()}" if view.reduce_op else "")


def heading(view: View) -> str:
    """Title, root and effect of the primitive, e.g. "reduce MAX, root 0: the root gets the reduced tensor"."""
    root = f", root {view.root}" if view.root is not None else ""
    return f"{view_title(view)}{root}: {OPERATIONS[view.operation].moves}"


def page_lines(view: View, width: int, *, after: bool) -> list[Line]:
    """A page on which the user guesses the result: what the primitive does, the legend, and the buffers. after: whether
    to show the buffers after the call."""
    narrow = max(NARROWEST, width)
    lines: list[Line] = [[(line, "")] for sentence in description(view) for line in textwrap.wrap(sentence, narrow)]
    return [*lines, *wrap(legend(view), width, 2), *buffer_lines(view, width, after=after)]


def buffer_lines(view: View, width: int, *, after: bool | None = None) -> list[Line]:
    """The calls, then one line for each buffer with its numbers before → after. after=False hides the numbers after the
    call. If both do not fit side by side, they stand below each other; with after=True or False, only one is shown."""
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
    """The kind of span for a rank's numbers."""
    return RANK_KINDS[rank % len(RANK_KINDS)]


def number_kind(value: float | None, buffer: BufferView, view: View, whose: Mapping[float, int], *, after: bool) -> str:
    """The kind of span for a number in a buffer. whose: the rank of each number, from `owners`."""
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
    """A number as text, rounded to three digits if it is large."""
    if value is None:
        return "nan"
    return f"{value:.6g}" if abs(value) < LARGEST else f"{value:.2e}"


def description(view: View) -> Iterator[str]:
    """Sentences on what the primitive does and on which ranks its result is undefined."""
    root = f" Root: rank {view.root}." if view.root is not None else ""
    yield sentence(OPERATIONS[view.operation].moves) + root
    if ranks := _undefined(view):
        yield f"Undefined on {_named(ranks)}: do not use these values."


def legend(view: View) -> list[Line]:
    """The legend: an example of a rank's number in its color, and the marks, which work without colors."""
    # The first number of each rank: in reverse order, since later entries replace earlier ones.
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
            yield [*label, (f"{NOTHING} not passed", "muted")]
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
    """The numbers by buffer and part, aligned to the right. All have the same width before the call. After it, those of
    the same argument have, and never less: otherwise the widths would give away the hidden result."""
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
    """Lines that each have as many parts as fit, at least one."""
    longest = max(map(width_of, parts), default=1)
    a_line = max(1, (width + len(BETWEEN_PARTS)) // (longest + len(BETWEEN_PARTS)))
    return [_joined(parts[at : at + a_line]) for at in range(0, len(parts), a_line)] or [[]]


MARK = "¹"


def of_cells(cells: Sequence[Cell]) -> Table:
    """The table of one operation, with one line for each size. Columns are named as in nccl-tests."""
    columns = fill(SIZE_COLUMNS, cells)
    return Table(columns, {row: RED for row, cell in enumerate(cells) if cell.wrong or cell.error})


def size_heading(which: PrimitiveKey, cadence: Cadence) -> str:
    """The heading of an operation's table, e.g. "all_reduce: every rank gets the reduced tensor (pipelined)"."""
    name = str(which) if which.composite else f"{which}: {OPERATIONS[which.operation].moves}"
    return name + {"back_to_back": "", "barrier": " (after barriers)", "pipelined": " (pipelined)"}[cadence]


def _if_bytes(text: Callable[[Cell], str]) -> Callable[[Cell], str]:
    """A cell with the text, or with a dash for a primitive that moves no data, such as barrier."""
    return lambda row: text(row) if primitive_facts(row.operation, composite=row.composite).has_bytes else NOTHING


def _time(figure: str) -> Callable[[Cell], str]:
    return cell_at(f"time_us.{figure}", lambda us: duration(us * US_IN_S))


def _in_flight(row: Cell) -> str:
    return str(row.in_flight) if row.in_flight > 1 else NOTHING


def _marked(row: Cell) -> str:
    return f"{MARK} {_time('median')(row)}" if is_uneven(row) else _time("median")(row)


def _ratio(row: Cell) -> str:
    return off_by(row.ratio.median, row.ratio.low, row.ratio.high) if row.ratio else NOTHING


SIZE_COLUMNS: tuple[Column[Cell], ...] = (
    Column(
        "size", _if_bytes(cell_at("bytes", size)), 100, about="Size of the tensor, with all parts; 1 KB is 1024 bytes."
    ),
    Column("calls", cell_at("calls"), 70, about="Number of timed calls, without the warm-up."),
    Column("in flight", _in_flight, 96, about="Calls in flight at once; the time of the group is divided by it."),
    Column("min", _time("min"), 90, about="The shortest call; the time of a call is a mean over the ranks."),
    Column("median", _marked, 99, about=f"Half of the calls took less; {MARK}: calls vary too much for one figure."),
    Column("p90", _time("p90"), 82, about="Nine of ten calls took less than this."),
    Column("p99", _time("p99"), 92, about="99 of 100 calls took less than this."),
    Column("CV", cell_at("cv", percent), 93, about="Standard deviation of the calls in percent of their mean."),
    Column("mean", _time("mean"), 81, about="The mean over all calls, which nccl-tests reports."),
    Column("algbw", cell_at("algbw_gb_s", digits), 91, about="The size divided by the mean time, in GB/s (1e9 bytes)."),
    Column(
        "busbw", cell_at("busbw_gb_s", digits), 97, about="algbw × the factor of nccl-tests: the bandwidth of a link."
    ),
    Column("slowest", cell_at("slowest", "rank {}".format), 60, about="The rank whose calls took longest on average."),
    Column("ratio", _ratio, 98, about="Of two runs: B's median over A's, with the least and most of their launches."),
    Column("#wrong", _if_bytes(cell_at("wrong")), 98, about="Wrong elements, on all ranks; every element is checked."),
)
