"""What a console asks of a training that it watches, in the environment that it gives the command."""

from collections.abc import Mapping

import msgspec

from ddptui.config.trial import Bottleneck

NOTES = "DDPTUI_NOTES"  # the file in which a process writes why it is not watched, a line for each reason
_VARIABLE = "DDPTUI_WATCH"


class Watching(msgspec.Struct, frozen=True, kw_only=True):
    """What of the training is reported, and the delays that are put in."""

    skip: int = 3  # steps at the beginning that count as warm-up
    steps: int | None = None  # after the skipped ones: then the ranks are let go; None: to the end
    every: int = 1  # every so many steps one is reported
    bottleneck: tuple[Bottleneck, ...] = ()

    def spell(self) -> dict[str, str]:
        """The variable that `read` reads."""
        return {_VARIABLE: msgspec.json.encode(self).decode()}

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> "Watching":
        """What the environment says. Raises ValueError."""
        return msgspec.json.decode(environ.get(_VARIABLE, "{}"), type=cls)
