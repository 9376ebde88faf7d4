"""The types of a message's fields, each with its bounds."""

from typing import Annotated

import msgspec
from msgspec import Meta

MOST_BYTES_A_FRAME = 4 * 2**20
MOST_OF_AN_ERROR = 16_384  # characters

# The bounds are far wider than any rank needs: they keep a hostile or broken peer from filling disk and screen. Names
# cannot contain control characters. Errors can, so they are escaped where they are shown.
Count = Annotated[int, Meta(ge=0, le=2**62)]  # also for ns, bytes and process ids
Moment = Annotated[int, Meta(ge=-(2**62), le=2**62)]  # ns: a time by some clock, or the offset between two clocks
RankNumber = Annotated[int, Meta(ge=0, lt=1024)]
Number = Annotated[float, Meta(ge=-1.7e308, le=1.7e308)]  # finite: JSON has no other
Amount = Annotated[float, Meta(ge=0, le=1e30)]  # bounded so that sums and products of amounts stay finite
_INVISIBLE = r"\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
Word = Annotated[str, Meta(max_length=64, pattern=rf"^[^{_INVISIBLE}]*\Z")]
Name = Annotated[str, Meta(max_length=500, pattern=rf"^[^{_INVISIBLE}]*\Z")]
Error = Annotated[str, Meta(max_length=MOST_OF_AN_ERROR)]
Hash = Annotated[str, Meta(max_length=128)]
Hashes = Annotated[dict[Name, Hash], Meta(max_length=50_000)]  # by the name of the tensor
Group = Annotated[tuple[RankNumber, ...], Meta(max_length=1024)]
Values = Annotated[tuple[Number | None, ...], Meta(max_length=65_536)]  # None: not a number
MOST_A_STEP = 65_536  # collectives or delays per step: a ring of 64 ranks makes 252 calls per parameter


class Tagged(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Base class of messages. On the wire and in a journal, a message is tagged with the name of its class."""

    def __deepcopy__(self, memo: object) -> "Tagged":
        """The message itself: it never changes, so a copy of a state shares it."""
        return self
