"""Finds out which rank or node this process is, from the variables of the launcher or platform that started it.

The same variable means different things: RANK numbers processes under torchrun, and nodes under PAI-DLC.
"""

from msgspec.structs import replace

from ddptui.host.place.place import Environ, Place, PlaceError, Variables, quoted
from ddptui.host.place.table import LAUNCHERS
from ddptui.text.words import did_you_mean


def here(environ: Environ, name: str | None = None) -> Place | None:
    """The place of this process, from the variables of the named launcher, or else of the innermost one. None: no
    launcher has set variables. Raises PlaceError."""
    if name is None and (name := next(iter(kinds_here(environ)), None)) is None:
        return None
    if name not in LAUNCHERS:
        hint = did_you_mean(name, LAUNCHERS, f"there are {', '.join(LAUNCHERS)}")
        raise PlaceError(f"'{quoted(name)}' is not a known environment: {hint}")
    launcher = LAUNCHERS[name]
    variables = Variables(environ, launcher.setter)
    place = launcher.place(variables)
    return replace(place, kind=name, says=variables.meanings(launcher.meanings) + place.says)


def kinds_here(environ: Environ) -> list[str]:
    """The names of the launchers whose variables are set, innermost first."""
    return [name for name, launcher in LAUNCHERS.items() if launcher.is_here(environ)]


def explanation(environ: Environ, name: str | None = None) -> str:
    """The output of `ddptui place`: the place, each variable's meaning, the outer launchers. Raises PlaceError."""
    place = here(environ, name)
    if place is None:
        raise PlaceError(f"no launcher has set variables here; --as NAME lists what is missing: {', '.join(LAUNCHERS)}")
    # env is left out: its variables belong to other launchers as well
    others = [kind for kind in kinds_here(environ) if kind not in (place.kind, "env")]
    return "\n".join([place.describe(), *(f"  variables of {kind} are set, too: --as {kind}" for kind in others)])
