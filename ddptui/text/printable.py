"""Makes text from logs, processes and the network safe to print, and says how a process ended."""

import signal


def ending(exit_code: int | None) -> str:
    """How a process ended, in words that follow its name: killed by SIGKILL."""
    match exit_code:
        case None:
            return "died without an error message"
        case code if code < 0:
            try:
                return f"killed by {signal.Signals(-code).name}"
            except ValueError:
                return f"killed by signal {-code}"
        case code:
            return f"ended with exit code {code}"


def printable(text: str) -> str:
    """The text with its control characters spelled out, so that a rank cannot steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def first_line(error: BaseException) -> str:
    """An error in one line, without the numbers and paths that OSError puts around it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
