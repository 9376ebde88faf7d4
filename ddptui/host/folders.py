"""The lab's own folder, and temporary folders that do not outlive their process for long."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def lab_root() -> Path:
    """The folder that holds `workers/` and `presets/`: the checkout, or `_lab` inside an installed wheel."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_lab"
    return shipped if shipped.is_dir() else package.parent


def temporary(kind: str, parent: Path) -> Path:
    """Creates a folder of mode 0700 in `parent`. Removes those of this kind that killed processes have left there."""
    import psutil  # here: most who import this module only want lab_root

    for leftover in parent.glob(f"{kind}-*-*"):
        pid = leftover.name.removeprefix(f"{kind}-").split("-")[0]
        with suppress(FileNotFoundError):  # another process has removed it meanwhile
            if pid.isdecimal() and not psutil.pid_exists(int(pid)) and leftover.stat().st_uid == os.getuid():
                shutil.rmtree(leftover, ignore_errors=True)
    # its name says whose it is, so that the next process can tell whether that one still lives
    return Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=parent))
