"""Which trials of a run say something of each other. Pure."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ddptui.config.fields import FIELDS
from ddptui.config.trial import Trial

ON_THE_WIRE = [name for name, field in FIELDS.items() if field.affects_wire]


def on_the_same_wire(trial: Trial, others: Iterable[Trial]) -> Iterator[Trial]:
    """Those that sent as many ranks' messages under the same conditions: what a call took there holds here. With a
    mistake, it may never have come to the wire."""
    for other in others:
        alike = all(getattr(other, key) == getattr(trial, key) for key in ON_THE_WIRE)
        if alike and other != trial and not other.mistake:
            yield other


def foretold(trial: Trial, others: Iterable[Trial], *, strong: bool) -> Iterator[Trial]:
    """Those that are what the trial would be on their number of ranks, with their strategy: with the same batch a rank,
    or with the same global batch."""
    for other in others:
        if _bare(other) == _bare(trial) and _same_share(trial, other, strong):
            yield other


def _same_share(trial: Trial, other: Trial, strong: bool) -> bool:
    if strong:
        return trial.batch_size == other.batch_size
    return trial.batch_size * other.world_size == other.batch_size * trial.world_size


def _bare(trial: Trial) -> Trial:
    """Without what may differ, the number of steps among it. A delay on all ranks is the same on any number of them."""
    everybody = tuple(range(trial.world_size))
    delays = tuple(
        replace(each, ranks=()) if tuple(sorted(each.ranks)) == everybody else each for each in trial.bottleneck
    )
    length = {"steps": None, "epochs": 1, "warmup_steps": 0}
    return replace(trial, name="", world_size=1, batch_size=1, strategy=None, seed=0, bottleneck=delays, **length)
