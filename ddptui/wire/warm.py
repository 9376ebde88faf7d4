"""The messages that the console and its warm parent (workers/warm.py) exchange over a private pair of sockets."""

import msgspec

MOST_BYTES = 2**17  # largest message: without privileges, a socket pair accepts up to 2**17.6 bytes at once


class Imported(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent, once: it has imported all modules that ranks need."""

    pid: int
    threads: int  # threads of the process: must be 1, because a fork copies only the thread that calls it


class Fork(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the warm parent: fork a launcher. Only one runs at a time. The message carries the file descriptor of the
    launcher's log."""

    module: str  # a module of workers
    function: str  # its function that is called as the entry point
    arguments: tuple[str, ...]  # sys.argv[1:] of the launcher
    environment: dict[str, str]  # variables added to the warm parent's own, or replacing them
    folder: str  # working folder of the launcher
    launch_folder: str  # temporary folder that belongs to the launch
    open_files: tuple[int, int]  # limits of open files for the launcher and its ranks: soft and hard


class Forked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent: the launcher is running."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent: it could not fork."""

    why: str


class End(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To the warm parent: end every process of the launch. Ignored if no launch is running."""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """From the warm parent, once for each Forked: all processes of the launch have ended."""

    status: int  # exit status of the launcher, as os.wait returns it


FromParent = Imported | Forked | Refused | Ended
