"""Slurm's grammar of lists of nodes and of counts: scontrol, which reads them, may be missing on a node."""

import re
from itertools import product
from math import prod

from ddptui.host.place.place import PlaceError, quoted

MOST_NAMES = 65_536  # a longer list is an error: no cluster has so many nodes
ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]\s]+\])+")  # up to a comma that is in no brackets
PART = re.compile(r"\[([^\[\]]+)\]|([^\[\]]+)")  # of an item: what is inside brackets, or outside
RANGE = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
COUNT = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?", re.ASCII)


def node_names(text: str) -> list[str]:
    """The nodes of a list: `n[08-10],x` is n08, n09, n10, x. Raises PlaceError."""
    items = ITEM.findall(text)
    if not items or ",".join(items) != text:  # a pattern alone would skip what it does not match
        raise _no_list(text)
    names = [name for item in items for name in _names(item, text)]
    if len(names) > MOST_NAMES:
        raise _no_list(text)
    return names


def _names(item: str, text: str) -> list[str]:
    parts = [
        [name for piece in inside.split(",") for name in _choices(piece, text)] if inside else [plain]
        for inside, plain in PART.findall(item)
    ]
    if prod(map(len, parts)) > MOST_NAMES:  # before they are multiplied: a few brackets make more names than memory
        raise _no_list(text)
    return ["".join(name) for name in product(*parts)]


def _choices(piece: str, text: str) -> list[str]:
    if match := RANGE.fullmatch(piece):
        first, last = map(int, match.groups())
        if not first <= last < first + MOST_NAMES:
            raise _no_list(text)
        # as wide as the first number: n[08-10] is n08, n09, n10
        return [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    if not piece or "-" in piece:
        raise _no_list(text)
    return [piece]


def _no_list(text: str) -> PlaceError:
    return PlaceError(f"'{quoted(text)}' is no list of nodes as Slurm writes it, a[1-3,07-09],b")


def counts(text: str) -> list[int]:
    """Tasks of each node: `2(x3),1` is 2, 2, 2, 1. Raises PlaceError."""
    matches = [COUNT.fullmatch(piece) for piece in text.split(",")]
    runs = [(int(match[1]), int(match[2] or 1)) for match in matches if match]
    if len(runs) < len(matches) or sum(times for _, times in runs) > MOST_NAMES:
        raise PlaceError(f"'{quoted(text)}' are no counts of nodes as Slurm writes them, 2(x3),1")
    return [tasks for tasks, times in runs for _ in range(times)]
