"""Bytes and times with their units. 1 KB is 1024 bytes, as in nccl-tests; 1 GB/s is 1e9 bytes a second."""

from math import floor, log10

SIZES = ("B", "KB", "MB", "GB", "TB")
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
S, MS, US = 1_000_000_000, 1_000_000, 1_000  # in ns: clocks and messages count nanoseconds
MS_PER_S, US_IN_S = 1e3, 1e-6
DRIFT_PPM = 100  # a generous bound for the quartz clocks of hosts
MB, GB = 2**20, 2**30  # in bytes
LONG_S = 100.0  # from there on minutes are easier to read
NOTHING = "–"
# What a unit is in bytes or in seconds, by its name in lower case: tables sort by it.
FACTORS = {unit.casefold(): 1024.0**power for power, unit in enumerate(SIZES)}
FACTORS |= {unit.casefold(): factor for factor, unit in TIMES} | {"min": 60.0, "h": 3600.0}


def size(value: float | None) -> str:
    """Bytes in units of 1024, with three digits: 1.50 KB."""
    if value is None:
        return NOTHING
    bytes_in_unit, unit = size_unit(value)
    value /= bytes_in_unit
    return f"{digits(value) if value % 1 else f'{value:.0f}'} {unit}"


def size_unit(value: float) -> tuple[int, str]:
    """The unit in which so many bytes read best, with its own bytes first: 2**20, MB."""
    last = len(SIZES) - 1
    power = next((power for power in range(last) if round(value / 1024**power) < 1024), last)  # 1023.9 KB is 1 MB
    return 1024**power, SIZES[power]


def part_of(part: float, whole: float) -> str:
    """Bytes of so many, in the unit of these: 3.1/4.2 GB; without decimals from 10 on."""
    bytes_in_unit, unit = size_unit(whole)
    values = (part / bytes_in_unit, whole / bytes_in_unit)
    shown = [f"{value:.1f}" if value < 9.95 else f"{value:.0f}" for value in values]
    return f"{'/'.join(shown)} {unit}"


def duration(seconds: float | None) -> str:
    """A time for tables, with three digits: 1.50 s, 20.0 ms; minutes and hours from 100 s on."""
    if seconds is None:
        return NOTHING
    if seconds >= LONG_S:
        return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
    factor, unit = _unit(seconds)
    return f"{digits(seconds / factor)} {unit}"


def digits(value: float | None, most: int = 3) -> str:
    """A number with three digits, or all there are before the point; never as a power of ten."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{most - 1}e}")  # first, since 9.996 becomes 10.0 and has a digit more before the point
    decimals = max(0, most - 1 - floor(log10(abs(rounded))))
    return f"{value:.{decimals}f}"


def percent(part: float | None) -> str:
    """A part in percent, without decimals."""
    return NOTHING if part is None else f"{part:.0%}" if abs(part) < 100 else "> 9999%"  # of next to nothing


def _unit(seconds: float) -> tuple[float, str]:
    """The largest unit of which there is at least one, rounded: three digits never make 1000."""
    return next(((factor, unit) for factor, unit in TIMES if seconds >= 0.9995 * factor), TIMES[-1])


def in_one_unit(*times: float) -> tuple[list[str], str]:
    """Times with the unit and the digits of the last one, and this unit, in which they are: 0.95, 1.00 and 1.05, s."""
    factor, unit = _unit(times[-1])
    places = len(digits(times[-1] / factor).partition(".")[2])
    return [f"{time / factor:.{places}f}" for time in times], unit


def time_range(low: float, high: float) -> str:
    """Two times with the same unit and digits: 1.00 to 1.05 s; one if both read the same."""
    (first, last), unit = in_one_unit(low, high)
    return f"{last if first == last else f'{first} to {last}'} {unit}"


def seconds(value: float | None) -> str:
    """A time for sentences and ticks, with three digits and without zeros at the end: 1.5 s, 20 ms."""
    if value is None:
        return NOTHING
    factor, unit = _unit(abs(value)) if value else (1e-3, "ms")
    return f"{float(digits(value / factor)):g} {unit}"
