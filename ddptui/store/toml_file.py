"""Reads TOML files that may not be what they should: presets and the settings."""

import os
from pathlib import Path
from typing import Any

from ddptui.config.toml import read_toml

MOST_BYTES = 2**20


class TomlFileError(ValueError):
    """A TOML file cannot be read. One line: the file, and why."""


def read_table(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file. what: what it should be, in words: a preset. Raises TomlFileError."""
    try:
        return read_toml(_text_of(path, what))
    except TomlFileError:
        raise
    except OSError as error:
        raise TomlFileError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TomlFileError(f"{path}: is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and what absurd numbers and nests raise
        raise TomlFileError(f"{path}: is not valid TOML: {error}") from None


def _text_of(path: Path, what: str) -> str:
    """The text of a file, without a byte-order mark. Raises OSError, TomlFileError."""
    content: bytes | None = None
    if path.is_file():
        # not blocking: some files of /proc, which call themselves plain, would wait for news
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            content = file.read(MOST_BYTES + 1)
    if content is None:
        raise TomlFileError(f"{path}: is not a plain file: replace it with one, or remove it")
    if len(content) > MOST_BYTES:
        raise TomlFileError(f"{path}: is not {what}: it is larger than {MOST_BYTES >> 20} MB")
    return content.decode("utf-8-sig").replace("\r\n", "\n")  # of Windows
