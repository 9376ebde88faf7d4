"""The lab's own folder, those of this user, files for this user alone, and temporary folders that do not outlive their
process for long."""

import errno
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


def temporary(kind: str, parent: Path) -> Path:
    """Creates a folder of mode 0700 in `parent`. Removes those of this kind that killed processes have left there."""
    import psutil  # here, as above

    for leftover in parent.glob(f"{kind}-*-*"):
        pid = leftover.name.removeprefix(f"{kind}-").split("-")[0]
        with suppress(FileNotFoundError):  # another process has removed it meanwhile
            if pid.isdecimal() and not psutil.pid_exists(int(pid)) and leftover.stat().st_uid == os.getuid():
                shutil.rmtree(leftover, ignore_errors=True)
    # its name says whose it is, so that the next process can tell whether that one still lives
    return Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=parent))
