"""Reads TOML files, with errors that say what is wrong, and replaces files as a whole."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddptui.config.values import read_toml
from ddptui.host.folders import read_plain

MOST_BYTES = 2**20


class TomlFileError(ValueError):
    """A TOML file cannot be read. The message is one line: the file, and why."""


def read_table(path: Path, what: str) -> dict[str, Any]:
    """The contents of a TOML file. what: the expected kind of file for errors, e.g. "a preset". Raises
    TomlFileError."""
    try:
        text = read_plain(path, MOST_BYTES).decode("utf-8-sig")  # drops a byte-order mark
        return read_toml(text.replace("\r\n", "\n"))  # line ends of Windows
    except OSError as error:
        raise TomlFileError(f"{path}: {_why_not(error, what)}") from None
    except UnicodeDecodeError as error:
        raise TomlFileError(f"{path}: is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # also raised for huge numbers and deep nesting
        raise TomlFileError(f"{path}: is not valid TOML: {error}") from None


def _why_not(error: OSError, what: str) -> str:
    """Why a file cannot be read, and what to do."""
    if error.errno == errno.EFBIG:
        return f"is not {what}: {error.strerror}"
    remedy = ": replace it with one, or remove it" if error.errno in (errno.EISDIR, errno.EINVAL) else ""
    return f"cannot be read: {error.strerror}{remedy}"


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically: readers see the old or the new content, even after a crash. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)  # an existing link would redirect the writing
        with new.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # otherwise a crash could leave an empty file
        if path.exists():
            with suppress(OSError):  # some file systems have no modes
                shutil.copymode(path, new)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
