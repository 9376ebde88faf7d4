"""The slow links that a trial asks for."""

import msgspec

from ddptui.config.trial import Trial


class Links(msgspec.Struct, frozen=True):
    """mbit: by rank, 1e6 bits a second each way; the other ranks' links have no limit."""

    world_size: int
    mbit: dict[int, float]


def links_of(trial: Trial) -> Links | None:
    """None: no link of this trial is slow, and its ranks need no networks of their own."""
    slow = {rank: each.mbit for each in trial.bottleneck for rank in each.ranks if each.mbit is not None}
    return Links(trial.world_size, slow) if slow else None
