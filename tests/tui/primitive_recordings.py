"""The recorded run of primitives: `see` on four ranks, then the same measured on two and on four."""

from pathlib import Path

from ddptui.live.monitor import RunMonitor
from ddptui.run.playback import Playback
from ddptui.store.runs import Run
from ddptui.tui.screens.base import EndedRun
from tests.support.launches import told_by
from tests.tui import recordings
from tests.tui.recordings import Clock

RECORDED = Path(__file__).parent / "recorded_primitives" / "run"
SEEN, MEASURED = "see", ("ranks-2", "ranks-4")


def playback(clock: Clock | None = None) -> Playback:
    run = Run(RECORDED)
    return Playback(run, run.preset(), clock or Clock())


def over() -> EndedRun:
    return recordings.over(Run(RECORDED))


def at(trial: str, places: int, clock: Clock | None = None) -> Playback:
    """When all ranks of a trial had told of so many places."""
    told = playback(clock)
    watched = RunMonitor()
    for at_ns, message in told_by(told.recording):
        watched.add([message])
        if watched.live.trial == trial and watched.live.step == places:
            told.seek((at_ns - told.begin_ns) / 1e9 + 1e-6)
            return told
    raise LookupError(f"{trial} has no place {places}")
