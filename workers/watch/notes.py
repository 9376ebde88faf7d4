"""The notes that a rank sends to its relay.

A note consists of its code, the moment of the call, and the call's arguments. Moments are in ns, or clock.UNKNOWN. All
notes of a frame are one list, encoded by Python's marshal: it takes a third of the time that JSON takes, in which the
training's thread must wait for Python's lock. A rank's relay trusts it: both are processes of the same user.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddptui.config.trial import Site


ASIDE = 2  # the call is on another stream than the loop's
MARSHAL = 2  # the version of the encoding, which every Python reads
MOST_NOTES = 400_000  # numbers that may wait in a rank: there are more only if its relay does not read
MOST_OPEN = 1_000  # unfinished collectives that are tracked; the ends of older ones are not reported
# The arguments of the notes that are methods of watch.loop.Loop
OF_LOOP = {
    "data_begins": ("trains",),
    "data_ends": ("samples", "trains", "is_first", "batch", "batches", "loader"),  # loader: an id
    "forward_begins": ("trains",),
    "forward_ends": ("trains",),
    "backward_begins": ("loss",),
    "backward_ends": (),
    "aggregate_begins": (),
    "aggregate_ends": (),
    "optimizer_begins": ("optimizer",),
    "optimizer_ends": ("optimizer",),
    "stepped_unseen": (),
    "step_ends": ("loss", "samples"),
    "scheduled": ("cpu_ns", "queued_ns"),
}
OF_AN_END = ("issued", "awaited", "notified", "ended")  # the moments of a collective that come with its end
# and of all notes
ARGUMENTS = {
    **OF_LOOP,
    "held_up": ("begin",),  # the GPU's home stream waited for an event
    "ddp_is_made": (),
    "read": ("reading",),  # a Reading's facts (checks.py), as JSON
    "slept": ("site", "begin_ns", "end_ns"),  # site: an index into SITES
    "numbered": (),  # the rank has accepted the number of a step that the relay has sent
    # number: only of a call that has not ended yet. line: a stack. background: 0, 1 or ASIDE
    "collective": ("number", "kind", "size", "root", "group", "line", "background", "enter", *OF_AN_END),
    "collective_ended": ("number", "background", *OF_AN_END),
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
VERSION = 9  # of the protocol between a rank and its relay
