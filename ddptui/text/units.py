"""Formats sizes and times with their units. 1 KB is 1024 bytes, as in nccl-tests; 1 GB/s is 1e9 bytes per second."""

from math import floor, log10

SIZES = ("B", "KB", "MB", "GB", "TB")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
S, MS, US = 1_000_000_000, 1_000_000, 1_000  # in ns, the unit of clocks and messages
MS_PER_S, US_IN_S = 1e3, 1e-6
DRIFT_PPM = 100  # parts per million: a generous bound for the drift of hosts' quartz clocks
MB, GB = 2**20, 2**30  # in bytes
LONG_S = 100.0  # longer times are shown in minutes, which are easier to read
NOTHING = "–"
# Bytes or seconds per unit, keyed by the unit's name in lower case. Tables use them to sort.
FACTORS = {unit.casefold(): 1024.0**power for power, unit in enumerate(SIZES)}
FACTORS |= {unit.casefold(): factor for factor, unit in TIMES} | {"min": 60.0, "h": 3600.0}


def size(value: float | None) -> str:
    """A size in bytes as text in binary units, with three digits: 1.50 KB."""
    if value is None:
        return NOTHING
    bytes_in_unit, unit = size_unit(value)
    value /= bytes_in_unit
    return f"{digits(value) if value % 1 else f'{value:.0f}'} {unit}"


def size_unit(value: float) -> tuple[int, str]:
    """The unit that suits a size in bytes, as (bytes per unit, name): 2**20, MB."""
    last = len(SIZES) - 1
    power = next((power for power in range(last) if round(value / 1024**power) < 1024), last)  # 1023.9 KB is 1 MB
    return 1024**power, SIZES[power]


def part_of(part: float, whole: float) -> str:
    """Two sizes in bytes, in the unit that suits `whole`: 3.1/4.2 GB; without decimals from 10 on."""
    bytes_in_unit, unit = size_unit(whole)
    values = (part / bytes_in_unit, whole / bytes_in_unit)
    shown = [f"{value:.1f}" if value < 9.95 else f"{value:.0f}" for value in values]
    return f"{'/'.join(shown)} {unit}"


def duration(seconds: float | None) -> str:
    """A time in seconds as text for tables, with three digits: 1.50 s, 20.0 ms; minutes or hours from 100 s on."""
    if seconds is None:
        return NOTHING
    if seconds >= LONG_S:
        return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
    factor, unit = _unit(seconds)
    return f"{digits(seconds / factor)} {unit}"


def digits(value: float | None, most: int = 3) -> str:
    """A number with `most` digits, or with all digits before the decimal point if these are more; never with an
    exponent."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{most - 1}e}")  # rounded first: 9.996 becomes 10.0, which needs one decimal fewer
    decimals = max(0, most - 1 - floor(log10(abs(rounded))))
    return f"{value:.{decimals}f}"


def percent(part: float | None) -> str:
    """A fraction as a percentage without decimals."""
    return NOTHING if part is None else f"{part:.0%}" if abs(part) < 100 else "> 9999%"  # the whole was nearly 0


def _unit(seconds: float) -> tuple[float, str]:
    """The largest unit not above a time, as (seconds per unit, name). A time that three digits round up to 1000 of a
    unit gets the next larger unit."""
    return next(((factor, unit) for factor, unit in TIMES if seconds >= 0.9995 * factor), TIMES[-1])


def in_one_unit(*times: float) -> tuple[list[str], str]:
    """Times in seconds as text, in the unit and with the decimals of the last one; and that unit."""
    factor, unit = _unit(times[-1])
    places = len(digits(times[-1] / factor).partition(".")[2])
    return [f"{time / factor:.{places}f}" for time in times], unit


def time_range(low: float, high: float) -> str:
    """A range of times in seconds as text: 1.00 to 1.05 s; a single time if both ends read the same."""
    (first, last), unit = in_one_unit(low, high)
    return f"{last if first == last else f'{first} to {last}'} {unit}"


def seconds(value: float | None) -> str:
    """A time in seconds as text for sentences and ticks, with up to three digits: 1.5 s, 20 ms."""
    if value is None:
        return NOTHING
    factor, unit = _unit(abs(value)) if value else (1e-3, "ms")
    return f"{float(digits(value / factor)):g} {unit}"
