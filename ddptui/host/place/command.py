"""`ddptui place`: where a process that is started here would stand, and what was read as what."""

from ddptui.host.place import KINDS, here, kinds_here
from ddptui.host.place.describe import describe
from ddptui.host.place.place import PlaceError
from ddptui.host.place.reading import Environ


def text(environ: Environ, name: str | None = None) -> str:
    """What is to be printed. Raises PlaceError: one line."""
    place = here(environ, name)
    if place is None:
        raise PlaceError(f"nothing here says a place; --as NAME tells what is missing: {', '.join(KINDS)}")
    others = [kind for kind in kinds_here(environ) if kind not in (place.kind, "env")]  # env's variables are theirs
    return "\n".join([describe(place), *(f"  {kind} is here, too: --as {kind}" for kind in others)])
