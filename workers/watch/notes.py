"""The notes that a rank takes of its loop, as they travel to the relay: numbers of 64 bits, since JSON would take the
rank 20 µs a step, and these take 2.

A note is its code, the moment of the call, and the call's arguments. Moments are in ns, or clock.UNKNOWN. Where an
argument may be None, -1 stands for that. A loss is its bits.
"""

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddptui.config.trial import Site

NONE = -1
ASIDE = 2  # on another stream than the loop's
MOST_NOTES = 400_000  # numbers that wait in a rank: more are there only if its relay does not read
MOST_OPEN = 1_000  # calls that have not ended; the ends of older ones are not told
# The arguments of each: the first ones are calls of watch.loop.Loop.
ARGUMENTS = {
    "data_begins": ("trains",),
    "data_ends": ("samples", "trains", "is_first", "batch", "batches", "loader"),  # loader: an id, of all its iterators
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
    "slept": ("site", "begin_ns", "end_ns"),  # site: its place in SITES
    "numbered": (),  # the number of a step that the relay has told is taken
    # kind and group: numbers of names that the relay was told before. background: 0, 1; or ASIDE
    "collective": (
        "number",
        "kind",
        "size",
        "root",
        "group",
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
    "tied": ("error_ns",),  # wire.messages.Tied, from that moment on
    "memory": ("used", "reserved", "peak", "peak_reserved"),  # of a GPU, in bytes
}
NAMES = tuple(ARGUMENTS)
CODES = {name: code for code, name in enumerate(NAMES)}
LENGTHS = tuple(2 + len(arguments) for arguments in ARGUMENTS.values())
SITES: "tuple[Site, ...]" = ("data", "forward", "backward", "aggregate")
VERSION = 5  # of the frames between a rank and its relay
BITS, FLOAT = struct.Struct("=q"), struct.Struct("=d")


def bits_of(loss: float) -> int:
    """A float as an integer, for `loss_of`."""
    number: int = BITS.unpack(FLOAT.pack(loss))[0]
    return number


def loss_of(noted: Any) -> Any:
    """A loss as it was noted, or the float of the bits that were sent."""
    return FLOAT.unpack(BITS.pack(noted))[0] if isinstance(noted, int) else noted
