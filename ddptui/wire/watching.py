"""How a training that is watched finds its console: a file, which its environment names. A later console may write it
anew, with its own address: then ranks that were let go report to that one."""

import msgspec

from ddptui.config.trial import Bottleneck

WATCHED = "DDPTUI_WATCHED"  # the variable that names the file
NOTES = "notes"  # the file beside it in which a process writes why it is not watched, a line for each reason


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """What of the training is reported, and the delays that are put in."""

    skip: int = 3  # steps at the beginning that count as warm-up
    steps: int | None = None  # after which the ranks are let go, the skipped ones included; None: to the end
    every: int = 1  # every so many steps one is reported
    bottleneck: tuple[Bottleneck, ...] = ()


class WatchingConsole(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds."""

    way: dict[str, str]  # the variables of wire/connection.py with which a rank connects
    pid: int | None  # of the console, if it is on the training's host
    watching: Watching

    def spell(self) -> str:
        """The text that `read` reads."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str | bytes) -> "WatchingConsole":
        """The console in a file's text. Raises ValueError."""
        return msgspec.json.decode(text, type=cls)
