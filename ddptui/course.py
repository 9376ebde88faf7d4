"""How far a run has come, and how long it may still take. Pure."""

from ddptui.live import Live
from ddptui.preset import Preset

S = 1e9  # ns


def launches(preset: Preset, live: Live) -> int:
    """How many there will have been: a trial that has failed, or was skipped, is spared its other repeats."""
    return sum(live.over.get(trial.name, preset.repeats) for trial in preset.trials)


def left_s(preset: Preset, live: Live, now_ns: int) -> float | None:
    """A launch takes what launches so far took on average; of the running one, its steps tell. None: nobody knows."""
    begun = live.step / live.steps if live.steps and live.status == "running" else 0.0
    share = (live.finished + begun) / launches(preset, live)
    if live.began_ns is None or live.status == "interrupted" or not 0 < share < 1:
        return None
    return (now_ns - live.began_ns) / S * (1 - share) / share


def clock(seconds: float) -> str:
    """Minutes and seconds, as on a stopwatch."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
