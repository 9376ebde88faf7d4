"""Several calls of a primitive in flight: the rank starts all, then waits for all. DDP's buckets run like this, and
PARAM (github.com/facebookresearch/param) times collectives like this by default.

Over gloo, `Work.wait` blocks the host. Over NCCL, it makes the current stream wait. The clock's next event follows on
that stream, so it is reached when all calls have ended.
"""

from collections.abc import Sequence

from workers.primitives.primitive import Primitive, Setting, wait

MOST_IN_FLIGHT = 8
MOST_BYTES = 64 * 2**20  # total size of the messages in flight, since each call needs its own buffers


def calls_in_flight(bytes: int, iterations: int) -> int:
    """The number of calls of this size in flight at once: 8, or fewer (but at least 2) if they are large; at most
    `iterations`, the number of calls in a round."""
    return min(MOST_IN_FLIGHT, iterations, max(2, MOST_BYTES // max(1, bytes)))


class Pipelined(Primitive):
    """Several calls of one primitive in flight at once, each with its own buffers."""

    def __init__(self, setting: Setting, kind: type[Primitive], number: int) -> None:
        super().__init__(setting)
        self.calls = [kind(setting) for _ in range(number)]
        self.transfers = number

    def call(self) -> None:
        for works in [call.begin() for call in self.calls]:
            wait(works)

    def in_flight(self) -> Sequence[Primitive]:
        return self.calls
