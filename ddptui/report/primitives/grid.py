"""What a primitive did to every rank's buffers, as lines: before → after."""

from collections.abc import Sequence
from textwrap import wrap

from ddptui.analysis.primitives.results import BufferView, View
from ddptui.config.primitives import OPERATIONS, primitive_title
from ddptui.report.rows import grouped
from ddptui.text.drawing import Line, Span, width_of
from ddptui.text.units import NOTHING

ARROW = " → "
BETWEEN_PARTS = " │ "
INDENT = "    "  # of a call that goes on
DOUBT = "?"  # after a value that means nothing
LEGEND = (
    f"{BETWEEN_PARTS.strip()} separates the tensors of a list; {NOTHING} the rank passes no such argument; "
    f"{DOUBT} undefined: the operation does not say what is there after the call"
)


def heading(view: View) -> str:
    """reduce (max), root 0: all tensors as one to the root."""
    operator = f" ({view.reduce_op})" if view.reduce_op else ""
    root = f", root {view.root}" if view.root is not None else ""
    return f"{primitive_title(view.operation)}{operator}{root}: {OPERATIONS[view.operation].moves}"


def grid(view: View, width: int) -> list[Line]:
    """The calls, and below them a line a buffer, or two if before and after do not fit beside each other."""
    if view.error:  # the backend cannot do it
        return [[(f"not done: {next(iter(view.error.splitlines()))}", "wrong")]]
    called: list[Line] = [
        [(words, "muted")] for call in _calls(view) for words in wrap(call, width, subsequent_indent=INDENT)
    ]
    buffers = [(rank.rank, buffer) for rank in view.ranks for buffer in rank.buffers]
    digits = max((len(str(rank)) for rank, _ in buffers), default=0)
    names = max((len(buffer.name) for _, buffer in buffers), default=0)
    longest = max((len(_values(buffer.before, buffer)[0]) for _, buffer in buffers), default=0)
    beside: list[Line] = []
    stacked: list[Line] = []
    for place, (rank, buffer) in enumerate(buffers):
        is_named = place == 0 or rank != buffers[place - 1][0]  # in the first row of the rank
        name = f"rank {rank:>{digits}}  " if is_named else " " * (len("rank   ") + digits)
        who = [(name, ""), (f"{buffer.name:<{names}}  ", "muted")]
        before, after = _values(buffer.before, buffer), _values(buffer.after, buffer, undefined=buffer.undefined)
        beside.append([*who, before, (" " * (longest - len(before[0])), ""), (ARROW, "muted"), after])
        stacked.append([*who, (" " * len(ARROW), ""), before])
        stacked.append([(" " * width_of(who), ""), (ARROW, "muted"), after])
    return [*called, *(beside if max(map(width_of, beside), default=0) <= width else stacked)]


def _calls(view: View) -> list[str]:
    """The calls, and the ranks that make them."""
    callers = grouped((rank.call, rank.rank) for rank in view.ranks)
    if len(callers) == 1:
        return [f"every rank: {call}" for call in callers]
    return [f"{named(ranks)}: {call}" for call, ranks in callers.items()]


def named(ranks: Sequence[int]) -> str:
    """Ranks by their numbers: rank 1, or ranks 0, 2."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _values(numbers: Sequence[float | None] | None, buffer: BufferView, *, undefined: bool = False) -> Span:
    """The values of a buffer, with gaps between its parts."""
    if numbers is None:
        return NOTHING, "muted"
    length = max(1, len(numbers) // max(1, buffer.parts))
    texts = [("nan" if number is None else f"{number:g}") + DOUBT * undefined for number in numbers]
    parts = [" ".join(texts[at : at + length]) for at in range(0, len(texts), length)]
    return BETWEEN_PARTS.join(parts), "muted" if undefined else ""
