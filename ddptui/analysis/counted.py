"""Selects the repeats of a trial that count: medians, ratios and verdicts use only these. Pure.

A repeat whose delays the user changed counts only if every repeat was changed. Among the others, repeats disturbed by
other programs are left out unless they are the majority: a busy machine gives figures too, but these are marked.
"""

from collections.abc import Iterable, Mapping, Sequence

from ddptui.analysis.disturbance import is_disturbed
from ddptui.analysis.results import RepeatResult

Pair = tuple[RepeatResult, RepeatResult]  # repeats of two trials with the same number


def is_changed(repeat: RepeatResult) -> bool:
    """Whether the user injected or removed delays. A change after the last measured step does not count."""
    return any(change.steps != 0 for change in repeat.changes)  # without instruments, `steps` is None


def why_not(repeat: RepeatResult) -> str | None:
    """Why a repeat does not count fully: the end of a sentence such as "Repeat 2 was …". None: it counts."""
    if is_changed(repeat):
        return "changed by hand"
    return "disturbed by other programs" if is_disturbed(repeat) else None


def counted(repeats: Sequence[RepeatResult]) -> list[RepeatResult]:
    """Returns the repeats that count."""
    own = [repeat for repeat in repeats if not is_changed(repeat)] or [*repeats]
    calm = [repeat for repeat in own if not is_disturbed(repeat)]
    return calm if 2 * len(calm) >= len(own) else own


def paired(mine: Mapping[int, RepeatResult], its: Mapping[int, RepeatResult]) -> list[Pair]:
    """The pairs of repeats that count in the ratio of two trials: those with the same number. Trials take turns
    (A B A B), so a machine that slows down slows both. Repeats of the other trial that the user changed are left
    out."""
    mine = {number: repeat for number, repeat in mine.items() if not is_changed(repeat)} or mine
    own = [(repeat, its[number]) for number, repeat in mine.items() if number in its and not is_changed(its[number])]
    calm = [pair for pair in own if not any(map(is_disturbed, pair))]
    return calm if 2 * len(calm) >= len(own) else own


def is_rough(repeats: Sequence[RepeatResult]) -> bool:
    """Whether any repeat that counts was disturbed or changed by the user; such figures are marked."""
    return any(map(why_not, counted(repeats)))


def why_rough(pairs: Iterable[Pair]) -> str:
    """Why the ratio of these pairs is inexact, and is marked: the end of a sentence such as "Repeats were …". Empty: it
    is exact."""
    reasons = dict.fromkeys(why_not(repeat) for pair in pairs for repeat in pair)
    return " or ".join(filter(None, reasons))


def all_changed(repeats: Sequence[RepeatResult]) -> bool:
    """Whether there are repeats, and the user changed the delays of all of them."""
    return bool(repeats) and all(map(is_changed, repeats))


def why_left_out(repeat: RepeatResult, repeats: Sequence[RepeatResult]) -> str | None:
    """Why the medians and ratios of a trial leave this repeat out. None: they include it."""
    return None if repeat in counted(repeats) else why_not(repeat)
