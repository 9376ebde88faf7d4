"""The format of the notes that a rank sends to its relay: 64-bit numbers, which take the rank 2 µs a step, where JSON
would take 20 µs.

A note consists of its code, the moment of the call, and the call's arguments. Moments are in ns, or clock.UNKNOWN. If
an argument may be None, -1 encodes that. A loss is encoded by its bits.
"""

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddptui.config.trial import Site

NONE = -1
ASIDE = 2  # the call is on another stream than the loop's
MOST_NOTES = 400_000  # numbers that may wait in a rank: there are more only if its relay does not read
MOST_OPEN = 1_000  # unfinished collectives that are tracked; the ends of older ones are not reported
# The arguments of each note. Most of these names are methods of watch.loop.Loop.
ARGUMENTS = {
    "data_begins": ("trains",),
    "data_ends": ("samples", "trains", "is_first", "batch", "batches", "loader"),  # loader: an id
    "forward_begins": ("trains",),
    "forward_ends": ("trains",),
    "backward_begins": ("has_loss", "loss"),
    "backward_ends": (),
    "aggregate_begins": (),
    "aggregate_ends": (),
    "optimizer_begins": ("optimizer",),
    "optimizer_ends": ("optimizer",),
    "stepped_unseen": (),
    "held_up": ("begin",),  # the GPU's home stream waited for an event
    "step_ends": ("has_loss", "loss", "samples"),
    "scheduled": ("cpu_ns", "queued_ns"),
    "ddp_is_made": (),
    "read": ("reading",),  # a number whose name is a Reading's facts (checks.py)
    "slept": ("site", "begin_ns", "end_ns"),  # site: an index into SITES
    "numbered": (),  # the rank has accepted the number of a step that the relay has sent
    # kind, group and line: numbers whose names the relay has received. background: 0, 1 or ASIDE
    "collective": (
        "number",
        "kind",
        "size",
        "root",
        "group",
        "line",
        "background",
        "enter",
        "issued",
        "awaited",
        "notified",
        "ended",
    ),
    "collective_ended": ("number", "background", "issued", "awaited", "notified", "ended"),
    "asleep": ("is_asleep",),
    "paused": ("begin_ns", "end_ns"),
    "tied": ("error_ns",),  # accuracy from this moment on, as in wire.messages.Tied
    "memory": ("used", "reserved", "peak", "peak_reserved"),  # of a GPU, in bytes
}
NAMES = tuple(ARGUMENTS)
CODES = {name: code for code, name in enumerate(NAMES)}
LENGTHS = tuple(2 + len(arguments) for arguments in ARGUMENTS.values())
# The kinds of collectives that hooks.METHODS lists, sorted. The relay reads them, without torch.
KINDS = (
    *("all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "gather", "recv", "reduce"),
    *("reduce_scatter", "scatter", "send"),
)
SITES: "tuple[Site, ...]" = ("data", "forward", "backward", "aggregate")
VERSION = 8  # of the protocol between a rank and its relay
BITS, FLOAT = struct.Struct("=q"), struct.Struct("=d")


def bits_of(loss: float) -> int:
    """The bits of a float as an integer; `loss_of` decodes it."""
    number: int = BITS.unpack(FLOAT.pack(loss))[0]
    return number


def loss_of(noted: Any) -> Any:
    """Decode a loss: an integer holds the bits of a float; anything else is returned unchanged."""
    return FLOAT.unpack(BITS.pack(noted))[0] if isinstance(noted, int) else noted
