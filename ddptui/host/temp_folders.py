"""Folders for a while: private, named by the process that has them, so that a killed one's can be taken away."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil


def folder(kind: str, where: Path) -> Path:
    """A new folder of mode 0700. Takes away those of its kind whose processes have been killed."""
    for left in where.glob(f"{kind}-*-*"):
        pid = left.name.removeprefix(f"{kind}-").split("-")[0]
        with suppress(FileNotFoundError):  # somebody else was faster
            if pid.isdecimal() and not psutil.pid_exists(int(pid)) and left.stat().st_uid == os.getuid():
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=where))
