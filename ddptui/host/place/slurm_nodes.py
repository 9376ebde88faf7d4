"""Slurm's grammar of nodes and of counts, read without scontrol: `a[1-3,07-09]b,c` and `2(x3),1`."""

import re
from itertools import product
from math import prod

from ddptui.host.place.place import PlaceError
from ddptui.host.place.reading import quoted

MOST = 65536  # names; a list that says more is no list of nodes
ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]\s]+\])+")
PART = re.compile(r"\[([^\[\]]+)\]|([^\[\]]+)")
RANGE = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
COUNT = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?", re.ASCII)


def node_names(text: str) -> list[str]:
    """`n[08-10],x` is n08, n09, n10, x: a range is as wide as its first number."""
    items = ITEM.findall(text)
    if not items or ",".join(items) != text:
        raise _no_list(text)
    names = [name for item in items for name in _names(item, text)]
    if len(names) > MOST:
        raise _no_list(text)
    return names


def _names(item: str, text: str) -> list[str]:
    parts = [_choices(inside, text) if inside else [plain] for inside, plain in PART.findall(item)]
    if prod(map(len, parts)) > MOST:
        raise _no_list(text)
    return ["".join(name) for name in product(*parts)]


def _choices(inside: str, text: str) -> list[str]:
    return [name for piece in inside.split(",") for name in _choice(piece, text)]


def _choice(piece: str, text: str) -> list[str]:
    if found := RANGE.fullmatch(piece):
        first, last = map(int, found.groups())
        if not first <= last < first + MOST:
            raise _no_list(text)
        return [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
    if not piece or "-" in piece:
        raise _no_list(text)
    return [piece]


def _no_list(text: str) -> PlaceError:
    return PlaceError(f"'{quoted(text)}' is no list of nodes as Slurm writes it, a[1-3,07-09],b")


def counts(text: str) -> list[int]:
    """`2(x3),1` is 2, 2, 2, 1: tasks of each node."""
    found = [COUNT.fullmatch(piece) for piece in text.split(",")]
    if not all(found) or sum(int(each[2] or 1) for each in found if each) > MOST:
        raise PlaceError(f"'{quoted(text)}' are no counts of nodes as Slurm writes them, 2(x3),1")
    return [int(each[1]) for each in found if each for _ in range(int(each[2] or 1))]
