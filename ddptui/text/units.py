"""Bytes, times and bandwidths as they are read. 1 KB is 1024 bytes, as in nccl-tests; 1 GB/s is 1e9 bytes a second."""

from math import floor, log10

SIZES = ("B", "KB", "MB", "GB", "TB")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
S, MS, US = 1e9, 1e6, 1e3  # in ns: clocks and messages count nanoseconds
NOTHING = "–"


def size(value: float) -> str:
    """In 1024s, to three digits."""
    unit = 0
    while unit + 1 < len(SIZES) and round(value) >= 1024:
        value, unit = value / 1024, unit + 1
    return f"{digits(value) if value % 1 else f'{value:.0f}'} {SIZES[unit]}"


def duration(seconds: float | None) -> str:
    """With the unit that leaves something before the point."""
    if seconds is None:
        return NOTHING
    factor, unit = _unit(seconds)
    return f"{digits(seconds / factor)} {unit}"


def round_duration(seconds: float) -> str:
    """Without zeros at the end, as a tick of an axis has it."""
    factor, unit = _unit(seconds)
    return f"{seconds / factor:.3g} {unit}"


def digits(value: float | None, most: int = 3) -> str:
    """A number with three digits, or all there are before the point; never as a power of ten."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, most - 1 - floor(log10(abs(float(f"{value:.{most - 1}e}")))))
    return f"{value:.{decimals}f}"


def percent(part: float | None) -> str:
    return NOTHING if part is None else f"{part:.0%}" if abs(part) < 100 else "> 9999%"


def bandwidth(s_per_byte: float | None) -> str:
    """GB/s, of the time that a byte takes; ∞ where it takes none."""
    return NOTHING if s_per_byte is None else digits(1e-9 / s_per_byte) if s_per_byte > 0 else "∞"


def _unit(seconds: float) -> tuple[float, str]:
    """A hair below one is one: three digits would make 1000 of it."""
    return next((each for each in TIMES if seconds >= 0.9995 * each[0]), TIMES[-1])


def seconds(value: float) -> str:
    """Three digits that count, in s or ms."""
    return f"{value:.3g} s" if abs(value) >= 1 else f"{value * 1000:.3g} ms"
