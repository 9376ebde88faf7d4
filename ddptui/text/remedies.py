"""Remedies that several messages name: for a torch that lacks something, and for a resource that is short."""

AGAIN = "pip install --force-reinstall torch torchvision"
WITH_CUDA = f"`{AGAIN}` (on Linux: with CUDA)"
OLDER = "update the driver, or install a torch for an older CUDA (pytorch.org/get-started)"
WHO_HAS_MPI = "only a torch that was built from source beside an MPI library has it"

REMEDIES = {  # part of an error's text, and what mends it
    "Too many open files": "`ulimit -n 4096`, in the shell that starts ddptui",
    "Resource temporarily unavailable": "no more processes can be started: raise `ulimit -u`",
    "can't start new thread": "no more threads can be started: raise `ulimit -u`",
    "Cannot allocate memory": "memory is short: end other programs, or raise `ulimit -v`",
    "failed to map segment": "memory is short, or its folder is mounted noexec: raise `ulimit -v`, or remount",
    "No space left on device": "the disk is full: free some of it",
}


def remedy_of(error: str) -> str | None:
    """The remedy for an error with this text; None if the text names no shortage."""
    return next((remedy for part, remedy in REMEDIES.items() if part in error), None)
