"""What the console and its warm parent (workers/warm.py) send each other, over a pair of sockets that only they
have."""

import msgspec

MOST_BYTES = 2**17  # of a message: a pair of sockets takes them up to 2**17.6 whole, without privileges


class Imported(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent, once: it has imported all that ranks need."""

    pid: int
    threads: int  # of the process: a fork copies only one, so it may have no other


class Fork(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the warm parent: fork a launcher; one at a time. With it comes a descriptor, of the launcher's log."""

    module: str  # of workers; its function is called as the entry point
    function: str
    arguments: tuple[str, ...]  # its sys.argv[1:]
    environment: dict[str, str]  # beside the warm parent's own, or in its place
    folder: str  # where it runs
    launch_folder: str  # belongs to the launch
    open_files: tuple[int, int]  # the limits for it and its ranks, soft and hard


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent: the launcher runs."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent: it could not fork."""

    why: str


class End(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the warm parent: end every process of the launch. Without a launch it means nothing."""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent, once for each Forked: no process of the launch is left."""

    status: int  # of the launcher, as os.wait has it


FromParent = Imported | Forked | Refused | Ended
