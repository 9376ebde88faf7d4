"""The lab's folder, the user's folders, private and temporary folders; and files that other users may have put in
place.

A pipe, a device or a socket could block the reader forever. A sparse file may be huge without using disk space.
"""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

NOT_PLAIN = "it is a pipe, a socket or a device, not a regular file"


def open_plain(path: Path, most_bytes: int) -> BinaryIO:
    """Open a regular file of at most most_bytes for reading, without blocking. Raises OSError, which says what is
    wrong."""
    check_plain(path, most_bytes)  # before opening: opening a device may already have an effect
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # some files in /proc block


def read_plain(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file. Raises OSError, also if the file grows beyond the limit meanwhile."""
    with open_plain(path, most_bytes) as file:
        content = file.read(most_bytes + 1) or b""  # None: a file in /proc that would block
    if len(content) > most_bytes:
        raise _too_large(path, most_bytes)
    return content


def check_plain(path: Path, most_bytes: int) -> None:
    """Raises OSError unless the path is a regular file of at most most_bytes."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, NOT_PLAIN, str(path))
    if status.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: Path, most_bytes: int) -> OSError:
    size = f"{most_bytes >> 30} GB" if most_bytes >= 2**30 else f"{most_bytes >> 20} MB"
    return OSError(errno.EFBIG, f"it is larger than {size}", str(path))


def user_data(name: str) -> Path:
    """The folder of this name for the user's data. Raises OSError if the user has no home."""
    return _of_user("data", name)


def user_config(name: str) -> Path:
    """The folder or file of this name for the user's presets and settings. Raises OSError if the user has no home."""
    return _of_user("config", name)


def expanded(path: str) -> Path:
    """The absolute path, with the user's home for ~. Raises OSError if the user has none."""
    full = os.path.expanduser(path)
    if full == path and path.split(os.sep)[0] == "~":
        raise _no_home()
    return Path(full).absolute()


def _of_user(kind: Literal["data", "config"], name: str) -> Path:
    import platformdirs  # imported late: most users of this module only need lab_root

    try:
        return (platformdirs.user_data_path if kind == "data" else platformdirs.user_config_path)("ddptui") / name
    except RuntimeError:
        raise _no_home() from None


def _no_home() -> OSError:
    """The error for a user with neither HOME nor an entry in /etc/passwd, as in some containers."""
    return FileNotFoundError(errno.ENOENT, "no home folder", "~")


LOCK = "lock"  # the file in a temporary folder


def lab_root() -> Path:
    """The folder that holds `workers/` and `presets/`: the checkout, or `_lab` inside an installed wheel."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_lab"
    return shipped if shipped.is_dir() else package.parent


def module_folders() -> list[str]:
    """The folders in which a rank looks for modules first: ddptui's own, then those of the user's PYTHONPATH."""
    variable = os.environ.get("PYTHONPATH", "")
    # absolute, because a rank starts in another folder; an empty entry means the current folder
    users = [os.path.abspath(folder) for folder in variable.split(os.pathsep)] if variable else []
    return list(dict.fromkeys([str(lab_root()), *users]))


def python_path() -> str:
    """The PYTHONPATH for every process that runs ddptui's modules."""
    return os.pathsep.join(module_folders())


def write_private(path: Path, text: str) -> None:
    """Writes a file that only this user can read, replacing an existing one. Raises OSError."""
    path.unlink(missing_ok=True)  # an existing file would keep its mode
    # created with its final mode: before a later chmod, others could read it
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


class TemporaryFolder:
    """A new folder of mode 0700 in `parent`. A lock on a file in it shows that this process still uses it."""

    def __init__(self, kind: str, parent: Path) -> None:
        """Creates the folder, and removes folders of this kind that killed processes have left. Raises OSError."""
        for leftover in parent.glob(f"{kind}-*"):
            _remove_unless_locked(leftover)
        self.path = Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=parent))
        self._file = os.open(self.path / "new", os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(OSError):  # files cannot be locked here: then no other process can lock or remove it either
            fcntl.flock(self._file, fcntl.LOCK_EX)
        (self.path / "new").rename(self.path / LOCK)  # already locked: no other process can find it unlocked

    def remove(self) -> None:
        """Removes the folder and its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._file)


def _remove_unless_locked(folder: Path) -> None:
    # a process id would not tell: containers that share /tmp have process ids of their own
    with suppress(OSError):  # another program's folder, or its owner holds the lock
        if folder.lstat().st_uid == os.getuid():  # another user could have put a pipe there, which blocks
            with (folder / LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
