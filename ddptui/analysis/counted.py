"""Which repeats of a trial count: its medians, its ratios and its verdict are of these alone. Pure.

To leave out repeats for another reason, add it to `why_not`. Where no repeat counts by itself, all of them do: then the
figures are of a trial that was disturbed, the words say so, and no ratio is formed against it.
"""

from collections.abc import Mapping, Sequence

from ddptui.analysis.disturbance import is_disturbed
from ddptui.analysis.results import RepeatResult


def is_changed(repeat: RepeatResult) -> bool:
    """Whether delays were put in or removed by hand. Too late for any measured step, they have changed nothing."""
    return any(change.steps != 0 for change in repeat.changes)  # without instruments, steps are not known


def why_not(repeat: RepeatResult) -> str | None:
    """Why a repeat does not count, the end of a sentence whose subject is the repeat: "was …". None: it counts."""
    if is_changed(repeat):
        return "changed by hand"
    return "disturbed by other programs" if is_disturbed(repeat) else None


def undisturbed(repeats: Mapping[int, RepeatResult]) -> dict[int, RepeatResult]:
    """The repeats that count by themselves, by number; there may be none."""
    return {number: repeat for number, repeat in repeats.items() if why_not(repeat) is None}


def counted(repeats: Sequence[RepeatResult]) -> list[RepeatResult]:
    """The repeats that count by themselves; if there are none, all."""
    return [*undisturbed(dict(enumerate(repeats))).values()] or [*repeats]


def none_counts(repeats: Sequence[RepeatResult]) -> bool:
    """Whether there are repeats, and none of them counts by itself."""
    return bool(repeats) and all(map(why_not, repeats))


def why_left_out(repeat: RepeatResult, repeats: Sequence[RepeatResult]) -> str | None:
    """Why the repeat is in no median and no ratio of its trial. None: it counts."""
    return None if repeat in counted(repeats) else why_not(repeat)
