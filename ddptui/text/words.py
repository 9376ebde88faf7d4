"""Words for messages: plurals, spellings, remedies; how a process ended; text that is safe to print."""

import signal
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from textwrap import wrap

from ddptui.text.door import spelled


def count(number: int, noun: str, several: str | None = None) -> str:
    """A number with its noun: 1 step, 2 steps."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a sentence: a, b and c; of more than `most`, the first: a, b, c and 4 more. Of none: nothing."""
    if not names:
        return ""
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def paragraph(text: str, width: int) -> list[str]:
    """The lines of a text, none of them wider than `width`, with every name whole: reduce-scatter is one word."""
    return wrap(text, width, break_on_hyphens=False)


def sentence(words: str) -> str:
    """The words with a capital and a full stop, unless they end with a mark of their own."""
    return _marked(words[:1].upper() + words[1:], ".")


def in_a_row(parts: Iterable[str], mark: str) -> str:
    """Sentences or clauses in one line: this mark is between two, unless the first ends with a mark of its own. Empty
    ones are left out."""
    *before, last = [part for part in parts if part] or [""]
    return " ".join([*(_marked(part, mark) for part in before), last])


def _marked(words: str, mark: str) -> str:
    return words if words.endswith((".", "?", "!")) else words + mark


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean 'spawn'?`, with the known word that is spelled most like this one; or `otherwise` if none is."""
    close = get_close_matches(str(word), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def ending(exit_code: int | None) -> str:
    """How a process ended, in words that follow its name: killed by SIGKILL."""
    if exit_code is None:
        return "died without an error message"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    names = {number.value: number.name for number in signal.Signals}  # most real-time signals have none
    return f"killed by {names.get(-exit_code, f'signal {-exit_code}')}"  # subprocess: the negated number of a signal


def printable(text: str) -> str:
    """The text with its control characters spelled out, so that a rank cannot steer the terminal."""
    return "".join(char if char.isprintable() else spelled(char) for char in text)


def first_line(error: BaseException) -> str:
    """An error in one line, without the numbers and paths that OSError puts around it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


AGAIN = "pip install --force-reinstall torch torchvision"
NEWER_TORCH = "pip install --upgrade torch torchvision"
WITH_CUDA = f"`{AGAIN}` (on Linux: with CUDA)"
OLDER = "update the driver, or install a torch for an older CUDA (pytorch.org/get-started)"
WHO_HAS_MPI = "only a torch that was built from source beside an MPI library has it"
REMEDIES = {  # part of an error's text, as Linux and CPython word it, and what mends it
    "Too many open files": "`ulimit -n 4096`, in the shell that starts ddptui",
    "Resource temporarily unavailable": "no more processes can be started: raise `ulimit -u`",
    "can't start new thread": "no more threads can be started: raise `ulimit -u`",
    "Cannot allocate memory": "memory is short: end other programs, or raise `ulimit -v`",
    "failed to map segment": "memory is short, or its folder is mounted noexec: raise `ulimit -v`, or remount",
    "No space left on device": "the disk is full: free some of it",
    "no home folder": "set HOME to a folder that is yours",
}


def remedy_of(error: str) -> str | None:
    """The remedy for an error with this text; None if the text names none of these."""
    return next((remedy for part, remedy in REMEDIES.items() if part in error), None)
