"""How a training that is watched finds the relay on its host: a file, which its environment names. A later console may
write it anew, for its own relay: then ranks that were let go report to that one."""

import msgspec

from ddptui.config.trial import Bottleneck

LET_GO = b"let go\n"  # the last line that a relay gets: without it, what started the relay has died


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """What of the training is reported, and the delays that are put in."""

    skip: int = 3  # steps at the beginning that count as warm-up
    steps: int | None = None  # after which the ranks are let go, the skipped ones included; None: to the end
    every: int = 1  # every so many steps one is reported
    bottleneck: tuple[Bottleneck, ...] = ()


class RelayTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a relay gets from what starts it, as a line of JSON."""

    listener: int  # the descriptor of the socket that ranks connect to
    way: dict[str, str]  # the variables of wire/connection.py with which a rank connects to the console
    watching: Watching
    notes: str  # the file in which it says why a rank is not watched
    ends: str | None = None  # it ends the processes that look for it in this file, if what started it has died

    def spell(self) -> bytes:
        """The line that `read` reads."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "RelayTask":
        """The task of a line. Raises ValueError."""
        return msgspec.json.decode(line, type=cls)


def orders(socket: str, watching: Watching) -> bytes:
    """The text of the file: JSON, which ranks read without a library of ours. socket: the path of the relay's."""
    bottleneck = [msgspec.structs.asdict(delay) for delay in watching.bottleneck]
    return msgspec.json.encode({"socket": socket, "steps": watching.steps, "bottleneck": bottleneck})
