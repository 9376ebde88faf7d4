"""The lab's own folder, those of this user, files for this user alone, and temporary folders that do not outlive their
process for long."""

import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal


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
    import platformdirs  # here: most who import this module only want lab_root

    try:
        return (platformdirs.user_data_path if kind == "data" else platformdirs.user_config_path)("ddptui") / name
    except RuntimeError:
        raise _no_home() from None


def _no_home() -> OSError:
    """Neither HOME nor an entry in /etc/passwd, as in some containers."""
    return FileNotFoundError(errno.ENOENT, "no home folder", "~")


LOCK = "lock"  # the file in a temporary folder


def lab_root() -> Path:
    """The folder that holds `workers/` and `presets/`: the checkout, or `_lab` inside an installed wheel."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_lab"
    return shipped if shipped.is_dir() else package.parent


def module_folders() -> list[str]:
    """The folders where a rank looks for modules first: the lab's own, then the user's PYTHONPATH."""
    variable = os.environ.get("PYTHONPATH", "")
    # absolute, because a rank starts in another folder; an empty entry means the current one, no variable means none
    users = [os.path.abspath(folder) for folder in variable.split(os.pathsep)] if variable else []
    return list(dict.fromkeys([str(lab_root()), *users]))


def python_path() -> str:
    """The PYTHONPATH of every process that runs the lab's modules."""
    return os.pathsep.join(module_folders())


def write_private(path: Path, text: str) -> None:
    """Writes a file that only this user can read, in place of one that exists. Raises OSError."""
    path.unlink(missing_ok=True)  # it would keep its mode
    # the file is created with its mode: a chmod afterwards would leave a moment to read it
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


class TemporaryFolder:
    """A new folder of mode 0700 in `parent`. It is this process's as long as that holds the lock of a file in it."""

    def __init__(self, kind: str, parent: Path) -> None:
        """Also removes the folders of this kind that killed processes have left. Raises OSError."""
        for leftover in parent.glob(f"{kind}-*"):
            _remove_unless_locked(leftover)
        self.path = Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=parent))
        self._file = os.open(self.path / "new", os.O_RDWR | os.O_CREAT, 0o600)
        with suppress(OSError):  # files cannot be locked here; then no process can lock it, nor remove the folder
            fcntl.flock(self._file, fcntl.LOCK_EX)
        (self.path / "new").rename(self.path / LOCK)  # with the lock: another process finds none that is free

    def remove(self) -> None:
        """Removes it, with what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._file)


def _remove_unless_locked(folder: Path) -> None:
    # not by a process id: in another container, with the same /tmp, the owner's is unknown or another process's
    with suppress(OSError):  # another program's folder, or its owner holds the lock
        if folder.lstat().st_uid == os.getuid():  # others could have put there what blocks
            with (folder / LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
