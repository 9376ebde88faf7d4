"""Several calls of a primitive in flight: all are begun, then all are waited for. So DDP's buckets run, and so PARAM
(github.com/facebookresearch/param) times collectives by default.

`Work.wait` blocks the host over gloo. Over NCCL it makes the current stream wait, on which the clock's next event
follows: that event is reached once all calls are over.
"""

from collections.abc import Sequence

from workers.primitives.primitive import Primitive, Setting, wait

MOST_IN_FLIGHT = 8
MOST_BYTES = 64 * 2**20  # of their messages together, since each call needs buffers of its own


def calls_in_flight(bytes: int, iterations: int) -> int:
    """How many calls of this size are in flight at once, of so many in a round: eight, fewer large ones, but two."""
    return min(MOST_IN_FLIGHT, iterations, max(2, MOST_BYTES // max(1, bytes)))


class Pipelined(Primitive):
    """Calls of one primitive in flight at once. Two calls must never write to the same buffer."""

    def __init__(self, setting: Setting, kind: type[Primitive], number: int) -> None:
        super().__init__(setting)
        self.calls = [kind(setting) for _ in range(number)]
        self.transfers = number

    def call(self) -> None:
        for works in [call.begin() for call in self.calls]:
            wait(works)

    def in_flight(self) -> Sequence[Primitive]:
        return self.calls
