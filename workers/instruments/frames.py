"""Messages within the bounds that the console sets, and frames of them. A frame is a MessagePack list of messages."""

import time
from collections.abc import Sequence

import msgspec

from ddptui.wire.limits import MOST_A_STEP, MOST_BYTES_A_FRAME, MOST_OF_AN_ERROR
from ddptui.wire.messages import Failed, Heartbeat, Hello, Pause, RankMessage, Step


def encode_frame(messages: Sequence[RankMessage]) -> tuple[bytes, int]:
    """A frame of the first messages, as many as the console takes at once, and their number; 0 if even one is too long.

    A Hello travels alone: the console takes only a little from a rank that it does not know yet.
    """
    number = 1 if isinstance(messages[0], Hello) else len(messages)
    # Halved, not measured: nearly always the first try fits, and encoding is the expensive part.
    while number and len(frame := msgspec.msgpack.encode(messages[:number])) > MOST_BYTES_A_FRAME:
        number //= 2
    return frame, number


def is_too_long(message: RankMessage) -> bool:
    """Whether the console would refuse the message, and the whole frame with it."""
    return isinstance(message, Step) and len(message.collectives) > MOST_A_STEP


def within_limits(message: RankMessage) -> RankMessage:
    """The message as the console accepts it: an error cut to length; a Failed in place of what it would refuse."""
    if isinstance(message, (Step, Heartbeat, Pause)):  # these come too often to be checked
        return message
    if isinstance(message, Failed):
        error = message.error.encode("utf-8", "backslashreplace").decode()
        return msgspec.structs.replace(message, error=error[:MOST_OF_AN_ERROR])
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=RankMessage)
    except ValueError as error:  # msgspec's errors are ValueErrors, and so is that of text with lone surrogates
        reason = f"cannot send the console a {type(message).__name__}: {error}"
        return Failed(rank=message.rank, at_ns=time.monotonic_ns(), error=reason[:MOST_OF_AN_ERROR])
    return message
