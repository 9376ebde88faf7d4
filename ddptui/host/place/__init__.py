"""Where this process stands among the ranks, whoever started it: one translator an environment, to one struct.

The same names mean different things: RANK is a process under torchrun, and a node under PAI-DLC.
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from ddptui.host.place import dlc, env, file, pytorchjob, slurm, slurm_array, torchrun, trainjob
from ddptui.host.place.describe import describe
from ddptui.host.place.place import Place, PlaceError
from ddptui.host.place.reading import Environ, quoted

__all__ = ["KINDS", "Place", "PlaceError", "describe", "here", "kinds_here"]


class Kind(NamedTuple):
    detected: Callable[[Environ], bool]
    place: Callable[[Environ], Place]


# In the order in which they are looked for: the innermost first, as what an outer one has set is still there. Slurm
# sets none of the variables of the others, so that these are from somebody whom its task has started.
KINDS = {
    "torchrun": Kind(torchrun.detected, torchrun.place),
    "dlc": Kind(dlc.detected, dlc.place),
    "pytorchjob": Kind(pytorchjob.detected, pytorchjob.place),
    "trainjob": Kind(trainjob.detected, trainjob.place),
    "file": Kind(file.detected, file.place),
    "env": Kind(env.detected, env.place),
    "slurm_array": Kind(slurm_array.detected, slurm_array.place),
    "slurm": Kind(slurm.detected, slurm.place),
}


def here(environ: Environ, name: str | None = None) -> Place | None:
    """The place that an environment says, by the kind of that name, or by the innermost that is there; None where none
    is. Raises PlaceError."""
    if name is not None:
        return _named(name).place(environ)
    return next((KINDS[kind].place(environ) for kind in kinds_here(environ)), None)


def kinds_here(environ: Environ) -> list[str]:
    return [name for name, kind in KINDS.items() if kind.detected(environ)]


def _named(name: str) -> Kind:
    if name in KINDS:
        return KINDS[name]
    near = get_close_matches(name, KINDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(KINDS)}"
    raise PlaceError(f"'{quoted(name)}' is no environment: {hint}")
