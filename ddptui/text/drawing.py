"""The building blocks of drawings in the terminal: bars, ticks, an axis, a legend.

A line is a sequence of spans. The kind of a span says what it represents and so determines its color ("": the default).
"""

from collections.abc import Iterable, Sequence
from math import ceil, floor, inf, log10

from ddptui.text.cells import cell_len, cut

Span = tuple[str, str]  # text, kind
Line = Sequence[Span]

# Each kind has a glyph of its own, so that no meaning depends on color alone.
GLYPHS = {"work": "━", "arrival": "┫", "wait": "░", "transfer": "▓", "rest": "─", "delay": "╳", "unknown": "?"}
STEPS = (1, 2, 5, 10)  # a tick step is one of these times a power of ten
SERIES = tuple(f"series-{number}" for number in range(6))  # kinds of spans for the lines of a chart, one color each
SMALLEST = 1e-300  # smallest tick step: much smaller floats lose their precision
TICKS_APART = 9  # least distance between two ticks of a time axis, in cells


def bar(parts: Iterable[tuple[str, float]], scale: float) -> list[Span]:
    """A bar of consecutive parts, each with a kind and a length. scale: cells per unit of length."""
    spans: list[Span] = []
    moment, cells = 0.0, 0
    for kind, length in parts:
        moment += length
        end = max(cells, round(moment * scale))  # rounds the sum, so that rounding errors do not add up
        if end > cells:
            spans.append((GLYPHS[kind] * (end - cells), kind))
        cells = end
    return spans


def legend(kinds: Iterable[str]) -> list[Line]:
    """A legend entry for each kind: its glyph and its name."""
    return [[(GLYPHS[kind], kind), (f" {kind}", "muted")] for kind in kinds]


def wrap(entries: Sequence[Line], width: int, most: int) -> list[Line]:
    """Entries two cells apart on at most `most` lines. The last line ends with the number of entries that did not
    fit."""
    lines: list[list[Span]] = [[]]
    for number, entry in enumerate(entries):
        # On the last line, reserve room for the number of entries that do not fit.
        kept = len("+ 99") + 2 if len(lines) == most and number + 1 < len(entries) else 0
        if lines[-1] and width_of(lines[-1]) + width_of(entry) + kept > width:
            if len(lines) == most:
                lines[-1].append((f"+ {len(entries) - number}", "muted"))
                break
            lines.append([])
        lines[-1] += [*entry, ("  ", "")]
    return list(lines)


def width_of(line: Line) -> int:
    """The width of a line in cells."""
    return sum(cell_len(text) for text, _ in line)


def shorten(text: str, width: int) -> str:
    """The text, cut to a width; a cut text ends with an ellipsis."""
    return text if cell_len(text) <= width else cut(text, max(0, width - 1)) + "…"[:width]  # width 0: an empty text


def series_kind(number: int) -> str:
    """The kind, and so the color, of a chart's line with this number. Colors repeat after six."""
    return SERIES[number % len(SERIES)]


def nice_step(span: float, most: int) -> float:
    """The smallest step (1, 2 or 5 times a power of ten) that fits at most `most` times into a span. span: above 0."""
    rough = max(span / max(1, most), SMALLEST)
    power = 10.0 ** floor(log10(rough))
    return next((step * power for step in STEPS if step * power >= rough), 10 * power)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between low and high for ticks, at most about `most`."""
    if not 1e-9 * max(abs(low), abs(high)) < high - low < inf:  # a smaller range is only rounding noise
        return [low]
    step = nice_step(high - low, most)
    # 1e-9: keeps a tick that rounding has moved just beyond an end.
    return [at * step for at in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def number(value: float, step: float = 1.0) -> str:
    """The label of a tick, with as many decimals as the step between ticks needs."""
    decimals = max(0, -floor(log10(step))) if step > 0 else 0
    return f"{value:.{decimals}f}" if abs(value) < 1e5 and decimals < 6 else f"{value:.6g}"


def axis(width: int, length: float, unit: str) -> str:
    """An axis from 0 to `length`, `width` cells wide, with the tick labels written into it: 0 ms────5────10──."""
    if width <= 0 or length <= 0:
        return ""
    cells = ["─"] * width
    for tick, shown in linear_ticks(0, length, max(1, width // TICKS_APART)):
        label, at = shown if tick else f"0 {unit}", round(tick / length * width)
        if at + len(label) <= width:
            cells[at : at + len(label)] = label
    return "".join(cells)


def log_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Positions of ticks on a logarithmic axis with their labels: powers of ten, or round numbers within one decade."""
    if high - low >= 1:
        every = max(1, ceil((high - low) / max(1, most)))
        return [(power, f"{10.0**power:g}") for power in range(ceil(low), floor(high) + 1, every)]
    return [(log10(tick), label) for tick, label in linear_ticks(10.0**low, 10.0**high, most) if tick > 0]


def linear_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Positions of ticks on a linear axis with their labels."""
    step = nice_step(high - low, most)
    return [(tick, number(tick, step)) for tick in ticks(low, high, most)]
