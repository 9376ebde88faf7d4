"""What to do about an error of the operating system that means a resource is short."""

REMEDIES = {  # part of an error's text, and what mends it, whatever was tried
    "Too many open files": "`ulimit -n 4096`, in the shell that starts ddptui",
    "Resource temporarily unavailable": "no more processes can be started: raise `ulimit -u`",
    "can't start new thread": "no more threads can be started: raise `ulimit -u`",
    "Cannot allocate memory": "memory is short: end other programs, or raise `ulimit -v`",
    "failed to map segment": "memory is short, or its folder is mounted noexec: raise `ulimit -v`, or remount",
    "No space left on device": "the disk is full: free some of it",
}


def remedy_of(error: str) -> str | None:
    """What mends an error with this text; None: its text names no shortage."""
    return next((remedy for part, remedy in REMEDIES.items() if part in error), None)
