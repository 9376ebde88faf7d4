"""Where this process stands among the ranks, whichever launcher or platform started it: one reader an environment.

The same names mean different things: RANK is a process under torchrun, and a node under PAI-DLC.
"""

from collections.abc import Callable
from typing import NamedTuple

from ddptui.host.place import pods, processes, slurm
from ddptui.host.place.place import Environ, Place, PlaceError, quoted
from ddptui.text.words import did_you_mean


class Kind(NamedTuple):
    """An environment: whether its variables are set, and the place that they say."""

    is_here: Callable[[Environ], bool]
    place: Callable[[Environ], Place]


# The order of the search: the innermost first, because the variables of an outer environment are still set inside it.
# Slurm comes last: it sets none of the other variables, so a process that its task started must have set them.
KINDS = {
    "torchrun": Kind(processes.is_torchrun, processes.torchrun),
    "dlc": Kind(pods.is_dlc, pods.dlc),
    "pytorchjob": Kind(pods.is_pytorchjob, pods.pytorchjob),
    "trainjob": Kind(pods.is_trainjob, pods.trainjob),
    "file": Kind(processes.is_file, processes.file),
    "env": Kind(processes.is_env, processes.env),
    "slurm_array": Kind(slurm.is_array, slurm.array),
    "slurm": Kind(slurm.is_task, slurm.task),
}


def here(environ: Environ, name: str | None = None) -> Place | None:
    """The place that the named environment says, or else the innermost; None: there is none. Raises PlaceError."""
    if name is None:
        return next((KINDS[kind].place(environ) for kind in kinds_here(environ)), None)
    if name not in KINDS:
        hint = did_you_mean(name, KINDS, f"there are {', '.join(KINDS)}")
        raise PlaceError(f"'{quoted(name)}' is no environment: {hint}")
    return KINDS[name].place(environ)


def kinds_here(environ: Environ) -> list[str]:
    """The names of the environments whose variables are set, innermost first."""
    return [name for name, kind in KINDS.items() if kind.is_here(environ)]


def explanation(environ: Environ, name: str | None = None) -> str:
    """What `ddptui place` prints: the place, each variable's meaning, the outer environments. Raises PlaceError."""
    place = here(environ, name)
    if place is None:
        raise PlaceError(f"no place is set here; --as NAME says what is missing: {', '.join(KINDS)}")
    # env is left out: its variables belong to the other environments as well
    others = [kind for kind in kinds_here(environ) if kind not in (place.kind, "env")]
    return "\n".join([place.describe(), *(f"  {kind} is here, too: --as {kind}" for kind in others)])
