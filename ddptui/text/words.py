"""Words of messages: the language, plurals, lists, suggestions, remedies; sizes and times with their units.

1 KB is 1024 bytes, as in nccl-tests; 1 GB/s is 1e9 bytes/s.

A process chooses the language once, when it reads the user's settings.
"""

import re
import signal
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import floor, log10
from typing import Literal

from ddptui.text.sanitize import spelled

Language = Literal["en", "zh"]
_chosen: Language = "en"


def choose_language(language: Language) -> None:
    """Show texts in this language from now on, and in English those that have no other."""
    global _chosen
    _chosen = language


def chosen() -> Language:
    """The language that texts are shown in."""
    return _chosen


def is_chinese() -> bool:
    """Whether texts are shown in Chinese."""
    return _chosen == "zh"


def localized(english: str, chinese: str) -> str:
    """The text in the chosen language; in English if it has no Chinese one."""
    return chinese if chinese and is_chinese() else english


CHINESE_MARKS = {".": "。", ";": "；"}
WIDE_MARKS = ("。", "；", "？", "！")  # no space follows
HAN = re.compile("[\u4e00-\u9fff]")  # what is in Chinese; the other sentences stay in English


def count(number: int, noun: str, several: str | None = None) -> str:
    """A number with its noun: 1 step, 2 steps."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"


MOST_LISTED = 6  # names in a sentence


def listed(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """Names as a list in a sentence: a, b and c. If there are more than `most`: a, b, c and 4 more. Empty for none."""
    if not names:
        return ""
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def sentence(words: str) -> str:
    """The words as a sentence: with a capital letter, and a period unless they already end with a mark."""
    return ended(words[:1].upper() + words[1:], ".")


def in_a_row(parts: Iterable[str], mark: str) -> str:
    """Joins sentences or clauses into one line, with `mark` after each but the last, unless it already ends with one.
    Empty parts are left out."""
    *before, last = [part for part in parts if part] or [""]
    marked = (ended(part, mark) for part in before)
    return "".join([*(part if part.endswith(WIDE_MARKS) else f"{part} " for part in marked), last])


def ended(words: str, mark: str) -> str:
    """The words with `mark`, unless they already end with one; in Chinese with the Chinese mark."""
    if words.endswith((".", "?", "!", *WIDE_MARKS)):
        return words
    return words + (CHINESE_MARKS[mark] if is_chinese() and HAN.search(words) else mark)


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean 'spawn'?` with the known word most similar to this one; `otherwise` if none is similar."""
    close = get_close_matches(str(word), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def ending(exit_code: int | None) -> str:
    """How a process ended, as words to put after its name: was killed by SIGKILL."""
    if exit_code is None:
        return "died without an error message"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    names = {number.value: number.name for number in signal.Signals}  # most real-time signals have none
    return f"was killed by {names.get(-exit_code, f'signal {-exit_code}')}"  # as in subprocess: minus the signal number


def printable(text: str) -> str:
    """The text with its control characters escaped, so that a rank cannot control the terminal."""
    return "".join(char if char.isprintable() else spelled(char) for char in text)


def first_line(error: BaseException) -> str:
    """An error as one line, without the error number and path that OSError adds."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


AGAIN = "pip install --force-reinstall torch torchvision"
NEWER_TORCH = "pip install --upgrade torch torchvision"
WITH_CUDA = f"`{AGAIN}` (on Linux: with CUDA)"
OLDER = "update the driver, or install a torch for an older CUDA (pytorch.org/get-started)"
WHO_HAS_MPI = "only a torch built from source with an MPI library has it"
REMEDIES = {  # part of an error's text, as Linux and CPython word it, and its remedy
    "Too many open files": "run `ulimit -n 4096` in the shell that starts ddptui",
    "Resource temporarily unavailable": "no more processes can be started: raise `ulimit -u`",
    "can't start new thread": "no more threads can be started: raise `ulimit -u`",
    "Cannot allocate memory": "out of memory: close other programs, or raise `ulimit -v`",
    "failed to map segment": "out of memory, or the folder is mounted noexec: raise `ulimit -v`, or remount it",
    "No space left on device": "the disk is full: free some space",
    "no home folder": "set HOME to a folder that you own",
}


def remedy_of(error: str) -> str | None:
    """The remedy for an error with this text; None if no remedy is known."""
    return next((remedy for part, remedy in REMEDIES.items() if part in error), None)


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


def time_range(low: float, high: float, to: str = " to ") -> str:
    """A range of times in seconds as text: 1.00 to 1.05 s; a single time if both ends read the same."""
    factor, unit = _unit(high)
    places = len(digits(high / factor).partition(".")[2])
    return f"{to.join(dict.fromkeys(f'{time / factor:.{places}f}' for time in (low, high)))} {unit}"


def seconds(value: float | None) -> str:
    """A time in seconds as text for sentences and ticks, with up to three digits: 1.5 s, 20 ms."""
    if value is None:
        return NOTHING
    factor, unit = _unit(abs(value)) if value else (1e-3, "ms")
    return f"{float(digits(value / factor)):g} {unit}"
