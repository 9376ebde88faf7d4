"""Draws in the terminal: measures, cuts and aligns text by cells; bars, axes and legends; braille plots; large
letters.

Most characters take one cell; Chinese ones take two.

A line is a sequence of spans. The kind of a span says what it represents and so determines its color ("": the default).

Where many points of a line fall into one column of dots, all dots from the lowest to the highest of them are set. So no
spike is lost, however many points there are.
"""

import re
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from math import ceil, floor, inf, log10
from textwrap import TextWrapper
from typing import Any, NamedTuple
from unicodedata import category, east_asian_width

CLOSING = "，。；：、！？）》」』】”’"  # marks that do not begin a line
FILLER = "\0"  # follows each wide character while a text is wrapped, so that its length is its width


@lru_cache(4096)  # tables measure the same cells at each redraw
def cell_len(text: str) -> int:
    """The width of a text in cells."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    return 0 if category(char) in ("Mn", "Me") else 2 if east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The longest start of a text that fits into a width."""
    return text[:width] if text.isascii() else text[: bisect_right([*accumulate(map(_width, text))], width)]


def ljust(text: str, width: int) -> str:
    """The text, filled up with blanks on the right."""
    return text + " " * (width - cell_len(text))


def rjust(text: str, width: int) -> str:
    """The text, filled up with blanks on the left."""
    return " " * (width - cell_len(text)) + text


class _Wrapper(TextWrapper):
    """Breaks lines between words, and beside wide characters, since Chinese has no spaces between words."""

    pieces = re.compile(rf"\s+|(?:[^\s{FILLER}]{FILLER}|(?:[^\s{FILLER}](?!{FILLER}))+)(?:[{CLOSING}]{FILLER})*")

    def _split(self, text: str) -> list[str]:
        return self.pieces.findall(text)


def paragraph(text: str, width: int, **options: Any) -> list[str]:
    """The lines of a text, wrapped to `width`. Hyphenated names such as reduce-scatter are not broken. options: those
    of TextWrapper."""
    filled = "".join(char + FILLER * (_width(char) - 1) for char in text)
    return [line.replace(FILLER, "") for line in _Wrapper(width, break_on_hyphens=False, **options).wrap(filled)]


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


Point = tuple[float, float | None]  # x and y; y is None in a gap
Signs = list[dict[int, Span]]  # the nonempty cells of a plot: one dict per row, from the top, keyed by column

LARGEST = 1e270  # larger values count as not finite, so that differences and margins cannot overflow
SMALLEST_PLOT = 1e-290  # smaller differences count as 0, so that dividing by them cannot overflow
# The bits for the lowest 0, 1, 2, 3 or 4 dots of a cell: first for its left column, then for its right one. Unicode
# numbers the upper three dots of the left column, then those of the right one, and then the lowest row.
DOTS_UPTO = ((0, 0x40, 0x44, 0x46, 0x47), (0, 0x80, 0xA0, 0xB0, 0xB8))
EMPTY = 0x2800  # the braille character without dots; adding the bits of a pattern gives its character


class Frame(NamedTuple):
    """The ranges of x and y that a plot shows; on a logarithmic axis they are logarithms."""

    left: float
    right: float
    low: float
    high: float


def is_finite(value: float | None) -> bool:
    """Whether a value is present and can be drawn."""
    return value is not None and -LARGEST < value < LARGEST  # a comparison with NaN is false


def logarithms(points: Iterable[Point]) -> list[Point]:
    """The points for a logarithmic axis: y becomes log10(y); values of 0 or less become gaps."""
    return [(x, log10(y) if y is not None and 0 < y < LARGEST else None) for x, y in points]


def frame(lines: Iterable[Sequence[Point]]) -> Frame | None:
    """The smallest frame that contains all points, never of zero width or height; None if there are no points."""
    drawn = [(x, y) for line in lines for x, y in line if y is not None and is_finite(y)]
    if not drawn:
        return None
    xs, ys = [x for x, _ in drawn], [y for _, y in drawn]
    low, high = min(ys), max(ys)
    if high - low <= SMALLEST_PLOT:  # a constant line is drawn at half height
        margin = abs(low) / 10 if abs(low) > SMALLEST_PLOT else 1.0
        low, high = low - margin, high + margin
    left, right = min(xs), max(xs)
    return Frame(left, right if right > left else left + 1, low, high)  # a single point is drawn at the left


def _extents(points: Sequence[Point], bounds: Frame, width: int, height: int) -> Iterator[tuple[int, int, int]]:
    """Yields (column, lowest row, highest row) of a line, in dots. The dots that join two columns belong to the left
    one."""
    across, up = (width - 1) / (bounds.right - bounds.left), (height - 1) / (bounds.high - bounds.low)
    for is_drawn, piece in groupby(points, key=lambda point: is_finite(point[1])):
        at = [(round((x - bounds.left) * across), round(((y or 0.0) - bounds.low) * up)) for x, y in piece if is_drawn]
        last: tuple[int, int] | None = None
        for column, same in groupby(at, key=lambda place: place[0]):
            rows = [row for _, row in same]
            if last:
                yield from _joined(*last, column, rows[0])
            yield column, min(rows), max(rows)
            last = column, rows[-1]


def _joined(column: int, row: int, next_column: int, next_row: int) -> Iterator[tuple[int, int, int]]:
    """Yields the extents of a straight line between two points; each column reaches up to where the next one begins."""
    slope = (next_row - row) / (next_column - column)
    rows = [row + round(slope * at) for at in range(next_column - column + 1)]
    for at, (here, there) in enumerate(pairwise(rows)):
        meets = there - (there > here) + (there < here)
        yield column + at, min(here, meets), max(here, meets)


def row_of(y: float, bounds: Frame, height: int) -> int:
    """The row of cells, counted from the top, in which a value is drawn."""
    return height - 1 - round((y - bounds.low) * ((4 * height - 1) / (bounds.high - bounds.low))) // 4


def column_of(x: float, bounds: Frame, width: int) -> int:
    """The column of cells in which an x is drawn."""
    return round((x - bounds.left) * ((2 * width - 1) / (bounds.right - bounds.left))) // 2


def signs_of(lines: Iterable[tuple[Sequence[Point], str]], bounds: Frame, width: int, height: int) -> Signs:
    """Draws lines, each with its kind, into one plot. A cell that several lines share shows the dots of all of them, in
    the kind of the last."""
    cells: list[dict[int, tuple[int, str]]] = [{} for _ in range(height)]
    for points, kind in lines:
        for column, lowest, highest in _extents(points, bounds, 2 * width, 4 * height):
            upto, at = DOTS_UPTO[column % 2], column // 2
            for above in range(lowest // 4, highest // 4 + 1):  # cells, from the bottom
                bits = upto[min(4, highest - 4 * above + 1)] - upto[max(0, lowest - 4 * above)]
                row = cells[height - 1 - above]
                row[at] = (bits | row[at][0] if at in row else bits, kind)
    return [{column: (chr(EMPTY + bits), kind) for column, (bits, kind) in row.items()} for row in cells]


def labels_of(ticks: Iterable[tuple[float, str]], bounds: Frame, height: int) -> dict[int, str]:
    """The labels of the vertical axis, keyed by row from the top."""
    return {row_of(tick, bounds, height): label for tick, label in ticks if bounds.low <= tick}


def beside_axis(signs: Signs, labels: Mapping[int, str]) -> list[Line]:
    """The rows of a plot with the vertical axis to their left."""
    left = max(map(len, labels.values()), default=0)
    axis = [f"{labels.get(row, ''):>{left}}{'┤' if row in labels else '│'}" for row in range(len(signs))]
    return [[(begin, "muted"), *_spans(row)] for begin, row in zip(axis, signs, strict=True)]


def _spans(row: Mapping[int, Span]) -> list[Span]:
    line = [row.get(column, (" ", "")) for column in range(max(row, default=-1) + 1)]
    return [("".join(sign for sign, _ in same), kind) for kind, same in groupby(line, key=lambda sign: sign[1])]


WIDE, HIGH = 4, 6  # pixels of a letter with its gaps
MOST = 6  # cells per pixel
# For each character its five rows from the top, each an octal digit of three pixels.
FONT = """
A25755 B65656 C34443 D65556 E74647 F74644 G34553 H55755 I72227 J11152 K55655 L44447 M57755 N57775 O25552 P65644 Q25563
R65655 S34216 T72222 U55557 V55522 W55775 X55255 Y55222 Z71247 a06357 b46556 c03443 d13553 e03563 f12722 g03536 h46555
i20222 j10152 k45665 l62227 m07775 n06555 o02552 p06564 q03531 r03444 s03636 t27223 u05557 v05552 w05577 x05225 y05536
z07367 075557 126227 271747 371717 455711 574717 674757 771111 875757 975717 .00002 ,00024 :02020 %51245 -00700 _00007
+02720 ×05250 ±27207 (12221 )42224 /11244 '22000 `42000 ?61202 ⚠22202 µ05574
"""
LETTERS = {glyph[0]: [f"{int(row):03b}0" for row in glyph[1:]] for glyph in FONT.split()} | {" ": ["0000"] * 5}
HALVES = {"00": " ", "10": "▀", "01": "▄", "11": "█"}  # by the upper and the lower pixel of a cell


def large(words: str, width: int, height: int) -> list[str]:
    """The words in the largest letters that fit, as centered lines; none if no size fits, or a character has no such
    letter."""
    if not LETTERS.keys() >= {*words}:
        return []
    for scale in range(MOST, 0, -1):
        letters = (width + scale) // (WIDE * scale)  # on a line; its last one needs no gap
        lines = textwrap.wrap(words, letters, break_long_words=False) if letters > 0 else [words]
        if max(map(len, lines), default=0) <= letters and len(lines) * HIGH * scale // 2 <= height:
            return [row for line in lines for row in _drawn(line, scale, width)]
    return []


def _drawn(line: str, scale: int, width: int) -> list[str]:
    rows = ["".join(LETTERS[letter][row] for letter in line) for row in range(HIGH - 1)]
    pixels = [
        "".join(pixel * scale for pixel in row) for row in [*rows, "0" * len(rows[0])] for _ in range(scale)
    ]  # the last row is the gap to the next line
    left = " " * ((width - (len(line) * WIDE - 1) * scale) // 2)
    pairs = zip(pixels[::2], pixels[1::2], strict=True)
    return [left + "".join(HALVES[high + low] for high, low in zip(*pair, strict=True)).rstrip() for pair in pairs]
