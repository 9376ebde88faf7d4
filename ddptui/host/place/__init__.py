"""Where this process stands among the ranks, whichever launcher or platform started it.

The same names mean different things: RANK is a process under torchrun, and a node under PAI-DLC.
"""

from msgspec.structs import replace

from ddptui.host.place.place import Environ, Place, PlaceError, Variables, quoted
from ddptui.host.place.table import LAUNCHERS
from ddptui.text.words import did_you_mean


def here(environ: Environ, name: str | None = None) -> Place | None:
    """The place that the named environment says, or else the innermost; None: there is none. Raises PlaceError."""
    if name is None and (name := next(iter(kinds_here(environ)), None)) is None:
        return None
    if name not in LAUNCHERS:
        hint = did_you_mean(name, LAUNCHERS, f"there are {', '.join(LAUNCHERS)}")
        raise PlaceError(f"'{quoted(name)}' is no environment: {hint}")
    launcher = LAUNCHERS[name]
    variables = Variables(environ, launcher.setter)
    place = launcher.place(variables)
    return replace(place, kind=name, says=variables.meanings(launcher.meanings) + place.says)


def kinds_here(environ: Environ) -> list[str]:
    """The names of the environments whose variables are set, innermost first."""
    return [name for name, launcher in LAUNCHERS.items() if launcher.is_here(environ)]


def explanation(environ: Environ, name: str | None = None) -> str:
    """What `ddptui place` prints: the place, each variable's meaning, the outer environments. Raises PlaceError."""
    place = here(environ, name)
    if place is None:
        raise PlaceError(f"no place is set here; --as NAME says what is missing: {', '.join(LAUNCHERS)}")
    # env is left out: its variables belong to the other environments as well
    others = [kind for kind in kinds_here(environ) if kind not in (place.kind, "env")]
    return "\n".join([place.describe(), *(f"  {kind} is here, too: --as {kind}" for kind in others)])
