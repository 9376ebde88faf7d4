"""Where the ranks of a run are started, on this host, on nodes that join, or by Slurm; and over which links."""

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ddptui.config.trial import Trial

EngineName = Literal["local", "join", "slurm"]
Option = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*\Z")]  # it goes into a script


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What `[engine]` in a preset says, or the command line.

    name       local: here; join: on nodes where somebody types `ddptui join TICKET`; slurm: as jobs of a cluster
    nodes      how many; the ranks of a trial are spread over them in blocks
    interface  of this host, by which the nodes reach the console; none: the one that leads out of this host
    port       of the console; none: one that follows from the run's name, below the ephemeral range
    shared     a folder that all nodes see, for init_method = "file"; none (slurm): the run's own
    tasks      slurm: what a task is. A rank; a node, on which the trial's launch mode starts the ranks; "array": a rank
               again, but each is a job of its own, of an array, which Slurm places as it likes (nodes means nothing)
    partition, account, gres, time    as sbatch has them
    options    further options of sbatch, as they are typed: "--exclusive"
    """

    name: EngineName = "local"
    nodes: Annotated[int, Meta(ge=1, le=1024)] = 1
    interface: Option | None = None
    port: Annotated[int, Meta(ge=1024, le=65000)] | None = None
    shared: Option | None = None
    tasks: Literal["rank", "node", "array"] = "rank"
    partition: Option | None = None
    account: Option | None = None
    gres: Option | None = None
    time: Option | None = None
    options: tuple[Option, ...] = ()


LOCAL = EngineOptions()


class Part(NamedTuple):
    """What one node has of a world: which ranks; and where all ranks meet, on node 0."""

    node: int
    nodes: int
    ranks: range
    address: str
    port: int

    def environment(self) -> dict[str, str]:
        """What the node's entry point reads (workers/rank/node.py)."""
        return {
            "NNODES": str(self.nodes),
            "NODE_RANK": str(self.node),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def spread(world_size: int, nodes: int) -> list[range]:
    """Which ranks each node has: blocks as even as can be, the larger ones first. A small world takes fewer nodes."""
    nodes = min(nodes, world_size)
    small, larger = divmod(world_size, nodes)
    starts = [node * small + min(node, larger) for node in range(nodes + 1)]
    return [range(first, end) for first, end in pairwise(starts)]


class Links(msgspec.Struct, frozen=True):
    """mbit: by rank, 1e6 bits a second each way; the other ranks' links have no limit."""

    world_size: int
    mbit: dict[int, float]


def links_of(trial: Trial) -> Links | None:
    """None: no link of this trial is slow, and its ranks need no networks of their own."""
    slow = {rank: each.mbit for each in trial.bottleneck for rank in each.ranks if each.mbit is not None}
    return Links(trial.world_size, slow) if slow else None
