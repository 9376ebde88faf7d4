"""Parses Slurm's compact lists of nodes and counts, because scontrol may be missing on a node."""

import re

from ddptui.host.place.place import PlaceError, quoted

MOST_NAMES = 65_536  # a longer list of counts is an error: no cluster has so many nodes
RANGE = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
CHOICE = r"(?:\d{1,9}-\d{1,9}|[^\[\],\s-]++)"
BRACKETS = re.compile(rf"\[({CHOICE})((?:,{CHOICE})*+)\]", re.ASCII)
NODE = rf"(?:[^\[\],\s]|{BRACKETS.pattern})++"
NODES = re.compile(rf"({NODE})(?:,{NODE})*+", re.ASCII)
COUNT = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?", re.ASCII)


def first_node(text: str) -> str:
    """The first node of a list: n08 for `n[08-10],x`. Raises PlaceError."""
    nodes = NODES.fullmatch(text)
    ranges = [found for choices in BRACKETS.findall(text) for found in RANGE.findall("".join(choices))]
    if nodes is None or any(int(first) > int(last) for first, last in ranges):
        raise PlaceError(f"'{quoted(text)}' is not a list of nodes in Slurm's format, such as a[1-3,07-09],b")
    return BRACKETS.sub(lambda found: found[1].split("-")[0], nodes[1])


def counts(text: str) -> list[int]:
    """The number of tasks of each node: 2, 2, 2, 1 for `2(x3),1`. Raises PlaceError."""
    matches = [COUNT.fullmatch(piece) for piece in text.split(",")]
    runs = [(int(match[1]), int(match[2] or 1)) for match in matches if match]
    if len(runs) < len(matches) or sum(times for _, times in runs) > MOST_NAMES:
        raise PlaceError(f"'{quoted(text)}' is not a list of task counts in Slurm's format, such as 2(x3),1")
    return [tasks for tasks, times in runs for _ in range(times)]
