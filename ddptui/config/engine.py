"""Where the ranks of a run are started, on this host, on nodes that join, or by Slurm; and over which links."""

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ddptui.config.trial import Trial

EngineName = Literal["local", "join", "slurm"]
# Printable, since an option goes into a script of Slurm.
Option = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*\Z")]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of an engine, from `[engine]` in a preset or the command line."""

    name: EngineName = "local"  # join: nodes on which a user runs `ddptui join TICKET`; slurm: those of a job
    nodes: Annotated[int, Meta(ge=1, le=1024)] = 1  # over which the ranks of a trial are spread in blocks
    interface: Option | None = None  # of this host, by which nodes reach the console; None: that of the default route
    # Of the console; None: one derived from the run's name, below the ephemeral range.
    port: Annotated[int, Meta(ge=1024, le=65000)] | None = None
    shared: Option | None = None  # a folder that all nodes see, for init_method = "file"; None (slurm): the run's
    partition: Option | None = None  # slurm, from here on: as in sbatch
    account: Option | None = None
    gres: Option | None = None
    time: Option | None = None
    options: tuple[Option, ...] = ()  # further ones of sbatch, as a user types them: "--exclusive"


LOCAL = EngineOptions()
OF_SBATCH = ("partition", "account", "gres", "time")  # options that sbatch takes as they are


class Part(NamedTuple):
    """The ranks of one node, and the address and port on node 0 where all ranks meet."""

    node: int
    nodes: int
    ranks: range
    address: str
    port: int

    def environment(self) -> dict[str, str]:
        """The variables that the node's entry point reads (workers/rank/node.py)."""
        return {
            "NNODES": str(self.nodes),
            "NODE_RANK": str(self.node),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def spread(world_size: int, nodes: int) -> list[range]:
    """The ranks of each node, in blocks as even as possible, larger ones first. A small world takes fewer nodes."""
    nodes = min(nodes, world_size)
    small, larger = divmod(world_size, nodes)
    starts = [node * small + min(node, larger) for node in range(nodes + 1)]
    return [range(first, end) for first, end in pairwise(starts)]


class Links(msgspec.Struct, frozen=True):
    """The slow links of a trial. mbit: by rank, in 1e6 bits a second each way; other ranks' links have no limit."""

    world_size: int
    mbit: dict[int, float]


def links_of(trial: Trial) -> Links | None:
    """The slow links of a trial; None if it has none, so that its ranks need no networks of their own."""
    slow = {rank: link.mbit for link in trial.bottleneck for rank in link.ranks if link.mbit is not None}
    return Links(trial.world_size, slow) if slow else None
