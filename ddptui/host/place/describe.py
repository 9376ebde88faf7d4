"""A place in words: what was made of which variable."""

from ddptui.host.place.place import Place
from ddptui.host.place.reading import printable


def describe(place: Place) -> str:
    """One line that says the place, and a line for each variable."""
    return "\n".join([f"{place.kind}: {_who(place)}; {_where(place)}", *(f"  {line}" for line in place.says)])


def _who(place: Place) -> str:
    if not place.is_node:
        near = f"local rank {place.local_rank} of {place.local_world}"
        return f"rank {place.rank} of {place.world}, {near}, on node {place.node} of {place.nodes}"
    each = "1 process" if place.local_world == 1 else f"{place.local_world} processes"
    return f"node {place.node} of {place.nodes}, with {each}: {_block(place)} of {place.world}"


def _block(place: Place) -> str:
    last = place.rank + place.local_world - 1
    return f"rank {last}" if last == place.rank else f"ranks {place.rank} to {last}"


def _where(place: Place) -> str:
    if place.address is None:
        return f"they meet in the file {printable(place.file or 'that all of them are told')}"
    address = printable(place.address)
    return f"they meet at {f'[{address}]' if ':' in address else address}:{place.port}"
