"""Waits before a run until no other program takes cores that its ranks want."""

import time
from collections.abc import Callable

from ddptui.analysis.cautions import MOST_OTHER_LOAD
from ddptui.analysis.disturbance import busy_now
from ddptui.config.preset import Preset
from ddptui.host.load import LoadMeter, descendants

CALM_READINGS = 4  # in a row, which takes two seconds: many programs pause
LOOK_EVERY_S = 0.1


class Calm:
    """Whether this machine has become quiet. `busy`: what takes its cores, by the last reading."""

    def __init__(self, busy: str = "") -> None:
        self.busy = busy
        self._meter = LoadMeter(descendants, MOST_OTHER_LOAD, looks=True)
        self._readings = 0

    def busy_so_far(self) -> str:
        """What has taken its cores since the last reading, however short that is."""
        for load in self._meter.read(now=True):
            self.busy = busy_now(load)
        return self.busy

    def is_there(self) -> bool:
        """Read the load if it is time to. Returns whether the last readings were quiet."""
        for load in self._meter.read():
            self.busy = busy_now(load)
            self._readings = 0 if self.busy else self._readings + 1
        return self._readings >= CALM_READINGS


def wait_until_quiet(within_s: float, say: Callable[[str], object]) -> None:
    """Wait until this machine is quiet, for so long at most. say: gets a line when it is busy, and one at the end."""
    calm, ends_at, waits = Calm(), time.monotonic() + within_s, False
    while not (is_quiet := calm.is_there()) and time.monotonic() < ends_at:
        if calm.busy and not waits:
            waits = True
            say(f"waiting until this machine is quiet, {within_s:g} s at most: {calm.busy}")
        time.sleep(LOOK_EVERY_S)
    if waits:
        say("this machine is quiet" if is_quiet else f"not quiet after {within_s:g} s, starting anyway: {calm.busy}")


def can_wait(preset: Preset) -> bool:
    """Whether a run may wait for this machine to be quiet: a training of the user's own is never held up."""
    return preset.kind != "command" and preset.engine.name == "local"
