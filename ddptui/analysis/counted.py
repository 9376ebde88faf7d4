"""Which repeats of a trial count: its medians, its ratios and its verdict are of these alone. Pure.

A repeat that was changed by hand counts only if there is no other. Of those that are left, disturbed ones count if they
are the most: a machine that stays busy gives figures, too, but rough ones, and what rests on them is marked.
"""

from collections.abc import Iterable, Mapping, Sequence

from ddptui.analysis.disturbance import is_disturbed
from ddptui.analysis.results import RepeatResult

Pair = tuple[RepeatResult, RepeatResult]  # of two trials, with the same number


def is_changed(repeat: RepeatResult) -> bool:
    """Whether delays were put in or removed by hand. Too late for any measured step, they have changed nothing."""
    return any(change.steps != 0 for change in repeat.changes)  # without instruments, steps are not known


def why_not(repeat: RepeatResult) -> str | None:
    """Why a repeat does not count, or only roughly, the end of a sentence whose subject is the repeat: "was …"."""
    if is_changed(repeat):
        return "changed by hand"
    return "disturbed by other programs" if is_disturbed(repeat) else None


def counted(repeats: Sequence[RepeatResult]) -> list[RepeatResult]:
    """The repeats that count."""
    own = [repeat for repeat in repeats if not is_changed(repeat)] or [*repeats]
    calm = [repeat for repeat in own if not is_disturbed(repeat)]
    return calm if 2 * len(calm) >= len(own) else own


def paired(mine: Mapping[int, RepeatResult], its: Mapping[int, RepeatResult]) -> list[Pair]:
    """The pairs that count in the ratio of a trial to another one: repeats with the same number. Trials take turns
    (A B A B), so a machine that slows down slows both. A repeat of the other trial that a hand changed is in none."""
    mine = {number: repeat for number, repeat in mine.items() if not is_changed(repeat)} or mine
    own = [(repeat, its[number]) for number, repeat in mine.items() if number in its and not is_changed(its[number])]
    calm = [pair for pair in own if not any(map(is_disturbed, pair))]
    return calm if 2 * len(calm) >= len(own) else own


def is_rough(repeats: Sequence[RepeatResult]) -> bool:
    """Whether a repeat that counts was disturbed or changed by hand, so that the figures are marked."""
    return any(map(why_not, counted(repeats)))


def are_rough(pairs: Iterable[Pair]) -> bool:
    """Whether a repeat of these was disturbed or changed by hand, so that the ratio is marked."""
    return any(why_not(repeat) for pair in pairs for repeat in pair)


def all_changed(repeats: Sequence[RepeatResult]) -> bool:
    """Whether there are repeats, and a hand has changed all of them."""
    return bool(repeats) and all(map(is_changed, repeats))


def why_left_out(repeat: RepeatResult, repeats: Sequence[RepeatResult]) -> str | None:
    """Why the repeat is in no median and no ratio of its trial. None: it counts."""
    return None if repeat in counted(repeats) else why_not(repeat)
