"""Why a train time is not as long as so many median steps, in words."""

from collections.abc import Sequence

from ddptui.analysis.counted import counted
from ddptui.analysis.results import RepeatResult, TimeParts
from ddptui.text.units import MS, S, seconds
from ddptui.text.words import count

TELLS = 0.1  # of the train time; and of the rest, for a part of it to be named


def rest_of_time(repeats: Sequence[RepeatResult]) -> str:
    """What the train time holds besides median steps, of the repeat where this is most; empty below a tenth."""
    known = [(repeat, repeat.time_parts) for repeat in counted(repeats) if repeat.time_parts]
    apart = [
        (abs(repeat.train_time_s - parts.median_s) / repeat.train_time_s, repeat, parts) for repeat, parts in known
    ]
    share, repeat, parts = max(apart, key=lambda each: each[0], default=(0.0, None, None))
    if repeat is None or parts is None or repeat.step_ms is None or share <= TELLS:
        return ""
    who = f"repeat {repeats.index(repeat) + 1}: " if len(repeats) > 1 else ""
    steps = f"{who}{count(repeat.steps, 'median step')} of {repeat.step_ms.median:.2f} ms"
    trained = seconds(repeat.train_time_s)
    if parts.median_s > repeat.train_time_s:
        shorter = f"a tenth of the steps took less than {repeat.step_ms.p10:.2f} ms"
        return f"{steps} would make {seconds(parts.median_s)}, but training took {trained}: {shorter}"
    mean, on = (", a mean over ranks", "on the slowest rank, ") if len(repeat.ranks) > 1 else ("", "")
    rest = "; ".join(_rest(parts, repeat.train_time_s - parts.median_s, on))
    return f"{steps} make {seconds(parts.median_s)} of {trained}. The rest{mean}: {rest}"


def _rest(parts: TimeParts, rest_s: float, on: str) -> list[str]:
    """The parts that tell, the largest first. on: which rank's long steps are named."""
    named = ", ".join(f"step {long.step} took {seconds(long.ms * MS / S)}" for long in parts.longest)
    more = ", …" * (parts.long_steps > len(parts.longest))
    words = [
        (parts.long_s, f"in {count(parts.long_steps, 'long step')}, beyond the median ({on}{named}{more})"),
        (parts.between_steps_s, "between steps"),
        (parts.between_epochs_s, "between epochs"),
        (parts.others_s, "in steps less than twice as long as the median"),
    ]
    told = [f"{seconds(part_s)} {where}" for part_s, where in sorted(words, reverse=True) if part_s > TELLS * rest_s]
    if -parts.others_s > TELLS * rest_s:
        told.append(f"less {seconds(-parts.others_s)}, by which other steps were shorter than the median")
    return told
