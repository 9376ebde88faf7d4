"""The pieces that drawings in the terminal are made of: bars, ticks, an axis, a legend.

A line is a sequence of spans; the kind of a span says what it stands for, and so its color ("": none of its own).
"""

from collections.abc import Iterable, Sequence
from math import ceil, floor, inf, log10

Span = tuple[str, str]  # text, kind
Line = Sequence[Span]

# What each kind looks like without a color: color alone carries no meaning.
GLYPHS = {"work": "━", "arrival": "┫", "wait": "░", "transfer": "▓", "rest": "─", "delay": "╳", "unknown": "?"}
STEPS = (1, 2, 5, 10)  # nice numbers, times a power of ten
SERIES = tuple(f"series-{number}" for number in range(6))  # kinds of spans: a color for each line of a chart
SMALLEST = 1e-300  # of steps: what is much smaller has few digits, and at last none
TICKS_APART = 9  # cells, at least, along a time axis


def bar(parts: Iterable[tuple[str, float]], scale: float) -> list[Span]:
    """Parts by kind and length, one after another; scale: cells per unit."""
    spans: list[Span] = []
    moment, cells = 0.0, 0
    for kind, length in parts:
        moment += length
        end = max(cells, round(moment * scale))  # of all so far, so that rounding errors do not add up
        if end > cells:
            spans.append((GLYPHS[kind] * (end - cells), kind))
        cells = end
    return spans


def legend(kinds: Iterable[str]) -> list[Line]:
    """An entry for each kind: its glyph and its name."""
    return [[(GLYPHS[kind], kind), (f" {kind}", "muted")] for kind in kinds]


def wrap(entries: Sequence[Line], width: int, most: int) -> list[Line]:
    """Entries one after another, two cells apart, on at most `most` lines; the last one counts those without room."""
    lines: list[list[Span]] = [[]]
    for number, entry in enumerate(entries):
        # On the last line, room for the number of those that do not fit.
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
    return sum(len(text) for text, _ in line)  # drawings have no wide characters


def shorten(text: str, width: int) -> str:
    """The text, cut to a width with an ellipsis at its end."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"[:width]  # of width 0: nothing


def series_kind(number: int) -> str:
    """The kind, and so the color, of the line with this number. Colors repeat after six."""
    return SERIES[number % len(SERIES)]


def nice_step(span: float, most: int) -> float:
    """The smallest of 1, 2, 5, 10, 20, … and their tenths that goes at most `most` times into a span above 0."""
    rough = max(span / max(1, most), SMALLEST)
    power = 10.0 ** floor(log10(rough))
    return next((step * power for step in STEPS if step * power >= rough), 10 * power)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Nice numbers between two others, at most about `most`."""
    if not 1e-9 * max(abs(low), abs(high)) < high - low < inf:  # closer together, rounding would make the ticks
        return [low]
    step = nice_step(high - low, most)
    # 1e-9: a tick that rounding puts a hair beyond an end is at that end.
    return [at * step for at in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def number(value: float, step: float = 1.0) -> str:
    """A tick's label, with as many decimals as ticks so far apart need."""
    decimals = max(0, -floor(log10(step))) if step > 0 else 0
    return f"{value:.{decimals}f}" if abs(value) < 1e5 and decimals < 6 else f"{value:.6g}"


def axis(width: int, length: float, unit: str) -> str:
    """An axis from 0 to a length, with its ticks written into it: 0 ms────5────10──."""
    if width <= 0 or length <= 0:
        return ""
    cells = ["─"] * width
    for tick, shown in linear_ticks(0, length, max(1, width // TICKS_APART)):
        label, at = shown if tick else f"0 {unit}", round(tick / length * width)
        if at + len(label) <= width:
            cells[at : at + len(label)] = label
    return "".join(cells)


def log_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Places on a logarithmic axis with their labels: powers of ten, or nice numbers within one power."""
    if high - low >= 1:
        every = max(1, ceil((high - low) / max(1, most)))
        return [(power, f"{10.0**power:g}") for power in range(ceil(low), floor(high) + 1, every)]
    return [(log10(tick), label) for tick, label in linear_ticks(10.0**low, 10.0**high, most) if tick > 0]


def linear_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Places on a linear axis with their labels."""
    step = nice_step(high - low, most)
    return [(tick, number(tick, step)) for tick in ticks(low, high, most)]
