"""Where a process stands among the ranks of a run, whoever started it."""

import msgspec


class PlaceError(ValueError):
    """An environment that says no place. One line: which variable, what is wrong with it, and who sets it."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment says. Everything is counted from 0.

    kind          the environment that says it
    rank, world   of this process; where the environment speaks of a node, the first rank that this node has
    local_rank    among the ranks of this node
    local_world   how many ranks this node has, as far as the environment says
    node, nodes   this one, and how many there are
    address, port where the ranks meet; none: in a file
    file          the file that they meet in, where the environment names one
    is_node       the environment speaks of a node: who reads it has to start local_world ranks, from `rank` on
    says          which variable was read as what
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
    each: int,
    says: tuple[str, ...],
    address: str | None = None,
    port: int | None = None,
) -> Place:
    """A node that has a block of ranks, as large as every other node's."""
    return Place(
        kind=kind,
        rank=node * each,
        world=nodes * each,
        local_rank=0,
        local_world=each,
        node=node,
        nodes=nodes,
        address=address,
        port=port,
        is_node=True,
        says=says,
    )
