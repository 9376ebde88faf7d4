"""How far a run has come, and how long it may still take."""

from ddptui.config.preset import Preset
from ddptui.live.fold import RATE_OVER
from ddptui.live.state import Live
from ddptui.text.units import S


def launches(preset: Preset, live: Live) -> int:
    """The number of launches of the run; a trial that failed or was skipped has no further repeats."""
    return sum(live.over.get(trial.name, preset.repeats) for trial in preset.trials)


def left_s(preset: Preset, live: Live, now_ns: int) -> float | None:
    """Seconds until the run ends; None if that is not known yet.

    The running launch goes on at the pace of its steps, and each further one takes as long as those so far.
    """
    if live.began_ns is None or live.status == "interrupted":
        return None
    to_come = launches(preset, live) - live.finished
    finished = live.finished - live.resumed
    if live.status != "running":
        return to_come * (now_ns - live.began_ns) / S / finished if to_come and finished else None
    running_s = (now_ns - live.launched_ns) / S
    usual_s = (live.launched_ns - live.began_ns) / S / finished if finished else None
    rest_s = _rest_s(live)
    if rest_s is None:
        rest_s = max(0.0, usual_s - running_s) if usual_s is not None else None
    if rest_s is None:
        return None
    return rest_s + (to_come - 1) * (usual_s if usual_s is not None else running_s + rest_s)


def _rest_s(live: Live) -> float | None:
    """Seconds until the running launch ends, once enough steps have given a pace."""
    rates = [rank.steps_per_s for rank in live.ranks.values()]
    slowest = min((rate for rate in rates if rate), default=None)
    if live.steps is None or slowest is None or live.step < RATE_OVER:
        return None
    return (live.steps - live.step) / slowest


def clock(seconds: float) -> str:
    """Minutes and seconds, as on a stopwatch."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
