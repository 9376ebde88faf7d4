"""A process's place among the ranks of a run, and the same in words."""

import msgspec


class PlaceError(ValueError):
    """An environment that says no place. One line: the variable, what is wrong with it, and who sets it."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment says. Everything is counted from 0.

    kind          the name of the environment
    rank, world   of this process; where the environment describes a node, the first rank of this node
    local_rank    among the ranks of this node
    local_world   number of ranks on this node, as far as the environment says
    node, nodes   this node, and how many there are
    address, port where the ranks meet; None: in a file
    file          the file that they meet in, where the environment names one
    is_node       the environment describes a node: its reader has to start local_world ranks, from `rank` on
    says          a line for each variable: its value and its meaning
    """

    kind: str
    rank: int
    world: int
    local_rank: int
    local_world: int
    node: int
    nodes: int
    address: str | None = None
    port: int | None = None
    file: str | None = None
    is_node: bool = False
    says: tuple[str, ...] = ()


def place_of_node(
    kind: str,
    node: int,
    nodes: int,
    ranks: int,
    says: tuple[str, ...],
    address: str | None = None,
    port: int | None = None,
) -> Place:
    """The place of a node with a block of `ranks` ranks, as many as every other node has."""
    return Place(
        kind=kind,
        rank=node * ranks,
        world=nodes * ranks,
        local_rank=0,
        local_world=ranks,
        node=node,
        nodes=nodes,
        address=address,
        port=port,
        is_node=True,
        says=says,
    )


def describe(place: Place) -> str:
    """One line that says the place, and a line for each variable."""
    return "\n".join([f"{place.kind}: {_position(place)}; {_meeting(place)}", *(f"  {line}" for line in place.says)])


def _position(place: Place) -> str:
    if not place.is_node:
        local = f"local rank {place.local_rank} of {place.local_world}"
        return f"rank {place.rank} of {place.world}, {local}, on node {place.node} of {place.nodes}"
    processes = "1 process" if place.local_world == 1 else f"{place.local_world} processes"
    return f"node {place.node} of {place.nodes}, with {processes}: {_block(place)} of {place.world}"


def _block(place: Place) -> str:
    last = place.rank + place.local_world - 1
    return f"rank {last}" if last == place.rank else f"ranks {place.rank} to {last}"


def _meeting(place: Place) -> str:
    if place.address is None:
        return f"they meet in the file {escaped(place.file or 'that all of them are given')}"
    address = escaped(place.address)
    return f"they meet at {f'[{address}]' if ':' in address else address}:{place.port}"


def escaped(value: str) -> str:
    """The value in printable ASCII, so that it cannot move a terminal's cursor."""
    return value.encode("unicode_escape").decode()
