"""Hostile input: texts that steer a terminal, nests without end, files that never end; and the scene in which
a console meets them: its words, its files, its environment."""

import json
import os
import shutil
import socket
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from enum import Enum, auto
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import tomli_w

from ddptui.engines.join.ticket import MARK

RECORDED = Path(__file__).parents[2] / "tui" / "recorded" / "run"
RUN = "runs/20260101-000000-recorded"
PRESET = tomllib.loads((RECORDED / "preset.toml").read_text(encoding="utf-8"))
LONG = 500_000
DEPTH = 200_000
HUGE = 3 * 2**30
UNPACKED = 3 * 2**29

# The clipboard, the title, a question that the terminal answers as if it were typed, the other screen; each also with
# control characters of one byte (C1).
CLIPBOARD, TITLE, ASKS, WIPES = "\x1b]52;c;aGk=\x07", "\x1b]0;mine\x1b\\", "\x1b[6n", "\x1b[2J\x1b[1;1H"
STEERING = (CLIPBOARD, TITLE, ASKS, WIPES, "\x9b6n", "\x9d0;mine\x9c", "\x1bPq\x1b\\", "\x07\x08\x0b\x0c\x0e", "\x7f",
            "\u202egnp.exe", "\u2066x", "a\nb", "a\rb", "a\u2028b", "\x1bc", "\x1b")  # fmt: skip
NO_TEXT = "\udcff\udc9b6n"  # as Python holds the bytes of a name that are no UTF-8
DEEP = "as deep as it goes"  # stands for a list in a list in a list


class Special(Enum):
    """What a file can be instead of a plain one."""

    FIFO = auto()
    SOCKET = auto()
    FOLDER = auto()
    LOOP = auto()  # a link to itself
    NOWHERE = auto()  # a link to nothing
    DEVICE = auto()  # a link to a device without end
    TERMINAL = auto()  # a link to the terminal, where nobody types
    SPARSE = auto()  # zeros without end
    BOMB = auto()  # a checkpoint, small until it is unpacked


Content = str | bytes | Special


class Scene(NamedTuple):
    """A command, and what it finds.

    words          of the command line
    files          by name, in the folder where it is started, over the recorded run
    variables      of the environment; None: it is not set
    within         the command whose last word it is
    on_a_terminal  or on pipes
    keys           typed on the terminal, each when a text has been painted
    well           nothing is wrong with it: it ends with exit code 0
    """

    words: tuple[str | bytes, ...]
    files: Mapping[str, Content] = MappingProxyType({})
    variables: Mapping[str, str | bytes | None] = MappingProxyType({})
    within: str = ""
    on_a_terminal: bool = False
    keys: tuple[tuple[bytes, bytes], ...] = ()
    well: bool = False


def lay(folder: Path, files: Mapping[str, Content]) -> None:
    """Write the recorded run, and these files over it."""
    shutil.copytree(RECORDED, folder / RUN)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if isinstance(content, Special):
            _make(path, content)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def _make(path: Path, kind: Special) -> None:
    match kind:
        case Special.FIFO:
            os.mkfifo(path)
        case Special.SOCKET:
            here = os.open(path.parent, os.O_RDONLY)  # a socket's path may be short only
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
        case Special.FOLDER:
            path.mkdir()
        case Special.SPARSE:
            path.touch()
            os.truncate(path, HUGE)
        case Special.BOMB:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as checkpoint:
                checkpoint.writestr("a/version", "3\n")
                with checkpoint.open("a/data.pkl", "w") as unpacked:
                    for _ in range(UNPACKED >> 20):
                        unpacked.write(bytes(2**20))
        case _:
            targets = {Special.LOOP: path.name, Special.NOWHERE: "nowhere", Special.DEVICE: "/dev/zero"}
            path.symlink_to(targets.get(kind, "/dev/tty"))


def deep(text: str) -> str:
    """JSON or TOML, with what DEEP stands for in its place."""
    return text.replace(json.dumps(DEEP), "[" * DEPTH + "]" * DEPTH)


def recorded(name: str, **changes: Any) -> str:
    """A file of JSON of the recorded run, with other values."""
    return deep(json.dumps(json.loads((RECORDED / name).read_text(encoding="utf-8")) | changes))


def preset(**changes: Any) -> str:
    """The recorded run's preset, with other values."""
    return deep(tomli_w.dumps(PRESET | changes))


KEYS = ("s" * 40, "p" * 40, "x" * 40)
ENDPOINT = "tcp://127.0.0.1:9"


def ticket(**fields: Any) -> str:
    """A ticket as the console spells it, with other values. Nobody answers at its endpoint."""
    whole = {"run": "r", "endpoint": ENDPOINT, "token": "t" * 32, "keys": KEYS} | fields
    return MARK + urlsafe_b64encode(msgspec.msgpack.encode(whole)).decode()


Variables = dict[str, str | bytes | None]
ENCODINGS: tuple[Variables, ...] = (
    {},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "ascii"},
)
# The lab, the list of runs, the newest of them opened.
LOOKS_AROUND = ((b"Presets", b"r"), (rb"[1-9]\d* run", b"\r"), (b"In words|Cannot be", b"q"))
