"""The engine of a run: whether its ranks start on this host, on nodes that join, or by Slurm. Also the slow links."""

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from ddptui.config.trial import Trial

EngineName = Literal["local", "join", "slurm"]
# Printable characters only, since options are written into a Slurm script.
Option = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*\Z")]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of an engine, from `[engine]` in a preset or the command line."""

    name: EngineName = "local"  # join: nodes on which a user runs `ddptui join TICKET`; slurm: the nodes of a job
    nodes: Annotated[int, Meta(ge=1, le=1024)] = 1  # the ranks of a trial are spread over them in blocks
    interface: Option | None = None  # of this host, by which nodes reach the console; None: that of the default route
    # The console's port. None: derived from the run's name, below the ephemeral range.
    port: Annotated[int, Meta(ge=1024, le=65000)] | None = None
    shared: Option | None = None  # a folder that all nodes see, for init_method = "file"; None (slurm): the run's
    partition: Option | None = None  # this and the fields below are options of sbatch
    account: Option | None = None
    gres: Option | None = None
    time: Option | None = None
    options: tuple[Option, ...] = ()  # more options of sbatch, e.g. "--exclusive"


LOCAL = EngineOptions()
OF_SBATCH = ("partition", "account", "gres", "time")  # passed on to sbatch under the same names


class Part(NamedTuple):
    """The ranks of one node, and the address and port on node 0 where all ranks meet."""

    node: int
    nodes: int
    ranks: range
    address: str
    port: int

    def environment(self) -> dict[str, str]:
        """The environment variables that the node's entry point reads (workers/rank/node.py)."""
        return {
            "NNODES": str(self.nodes),
            "NODE_RANK": str(self.node),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def spread(world_size: int, nodes: int) -> list[range]:
    """The ranks of each node, in blocks as even as possible, larger blocks first; at most as many nodes as ranks."""
    nodes = min(nodes, world_size)
    small, larger = divmod(world_size, nodes)
    starts = [node * small + min(node, larger) for node in range(nodes + 1)]
    return [range(first, end) for first, end in pairwise(starts)]


class Links(msgspec.Struct, frozen=True):
    """The slow links of a trial. mbit: Mbit/s (1e6 bits per second) each way, by rank; other links have no limit."""

    world_size: int
    mbit: dict[int, float]


def links_of(trial: Trial) -> Links | None:
    """The slow links of a trial; None if it has none and its ranks can use the host's network."""
    slow = {rank: link.mbit for link in trial.bottleneck for rank in link.ranks if link.mbit is not None}
    return Links(trial.world_size, slow) if slow else None
