"""Takes out of a text what a stranger need not know of this machine: names, paths, addresses."""

import getpass
import os
import platform
import re
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ddptui.host.folders import lab_root
from ddptui.text.words import printable

CUT = "…"
PART = r"[^\s/'\"`,;:()\[\]{}<>|]"  # a character of a part of a path
# A path with two parts or more, up to its last one; also what follows the two slashes of an address.
PATH = re.compile(rf"(?<![\w.])(?:~\w*|{CUT})?(?:/{PART}*)+/(?={PART})")
HOST = r"(?=[\w.-]*[\d.-])[A-Za-z][\w.-]*"  # no mere word
ADDRESSES = (
    re.compile(r"(?<![\w.])(?!127\.)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"),  # IPv4, but this host's own
    re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){3,}[0-9A-Fa-f]{0,4}(?:%[\w.-]+)?(?![\w:])"),  # IPv6, and Ethernet's
    re.compile(r"(?<![\w:])[0-9A-Fa-f:]*::[0-9A-Fa-f:]*(?:%[\w.-]+)?(?![\w:])"),  # IPv6 in short
    re.compile(
        rf"(?<![\w.-])(?!HOST:){HOST}(?<!\.py)(?<!\.c)(?<!\.cc)(?<!\.cu)(?<!\.h)(?<!pp)(?=:\d{{4,5}}(?!\w))"
    ),  # and its port
    re.compile(r"(?<![\w.-])[A-Za-z][\w-]*\d[\w-]*(?:\.[A-Za-z][\w-]*){2,}"),  # node08.cluster.example
    re.compile(r"(?i)\b(?:GPU|MIG)-[0-9a-f]{8}[\w-]*"),  # of one GPU in the world
)
PUBLIC_NAMES = {"root", "localhost", ""}  # which say nothing


def own_names() -> dict[str, str]:
    """The names of this host, of its user and of this program's folders, and what to write instead."""
    names = dict.fromkeys(map(str, _folders()), CUT)
    with suppress(OSError, KeyError, ImportError):  # a user without a name
        names[getpass.getuser()] = "USER"
    for host in (platform.node(), socket.gethostname()):
        names |= {host: "HOST", host.split(".")[0]: "HOST"}
        domain = host.partition(".")[2]
        names |= {domain: "DOMAIN"} if "." in domain else {}  # "local" is a word
    return {name: instead for name, instead in names.items() if name not in PUBLIC_NAMES | {os.sep}}


def _folders() -> list[Path]:
    with suppress(RuntimeError):  # no home
        return [Path.home(), lab_root(), Path(sys.prefix), Path(tempfile.gettempdir()), Path.cwd()]
    return [lab_root(), Path(sys.prefix), Path(tempfile.gettempdir()), Path.cwd()]


def without_names(text: str, names: Mapping[str, str]) -> str:
    """The text in one line, without these names, paths and addresses. Of a path its last part stays."""
    text = printable(text)
    for name in sorted(names, key=len, reverse=True):  # a folder before the user whose name is in it
        text = re.sub(rf"(?i)(?<![^\W_]){re.escape(name)}(?![^\W_])", names[name], text)
    text = PATH.sub(f"{CUT}/", text)
    for address in ADDRESSES:
        text = address.sub(CUT, text)
    return text
