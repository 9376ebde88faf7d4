"""Wording of messages: plurals, lists, suggestions, remedies, exit codes of processes, text that is safe to print."""

import re
import signal
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from ddptui.text.door import spelled
from ddptui.text.language import is_chinese

CHINESE_MARKS = {".": "。", ";": "；"}
WIDE_MARKS = ("。", "；", "？", "！")  # no space follows
HAN = re.compile("[\u4e00-\u9fff]")  # what is in Chinese; the other sentences stay in English


def count(number: int, noun: str, several: str | None = None) -> str:
    """A number with its noun: 1 step, 2 steps."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
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
