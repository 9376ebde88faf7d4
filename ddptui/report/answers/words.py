"""Phrases that the answers share: 2.7 ± 0.1 times slower; 1.47 of the extra 1.59 s went into transfer."""

from ddptui.analysis.counted import counted
from ddptui.analysis.effect import SHOWN_BY_ONE, Effect, inverted, off, spread
from ddptui.analysis.results import Ratio
from ddptui.report.differences import parts
from ddptui.text.units import duration, seconds
from ddptui.text.words import count

TELLS = 0.15  # of a difference: parts with less of it are not named
MOST_PARTS = 2  # that a sentence names


def times(effect: Effect) -> str:
    """2.7 ± 0.1 times slower; of one repeat, about 2.7 times slower; of disturbed ones, roughly 2.1 to 2.9 times."""
    is_faster = effect.ratio.median < 1
    ratio = inverted(effect.ratio) if is_faster else effect.ratio
    return f"{_factor(ratio, effect)} times {'faster' if is_faster else 'slower'}"


def _factor(ratio: Ratio, effect: Effect) -> str:
    if effect.is_rough:
        return f"roughly {low_to_high(ratio)}"
    if effect.repeats < 2:
        return f"about {ratio.median:.{1 if ratio.median >= 2 else 2}f}"
    places = 1 if ratio.median >= 2 and off(ratio) >= 0.05 else 2
    return f"{ratio.median:.{places}f} ± {off(ratio):.{places}f}"


def as_long(effect: Effect) -> str:
    """What disturbed repeats tell: roughly 0.41 to 1.92 times as long."""
    return f"roughly {low_to_high(effect.ratio)} times as long"


def low_to_high(ratio: Ratio) -> str:
    """As in 0.41 to 1.92; of a single repeat 0.41."""
    return " to ".join(dict.fromkeys([f"{ratio.low:.2f}", f"{ratio.high:.2f}"]))


def too_noisy(effect: Effect) -> str:
    """The end of a sentence that begins with "cannot tell": 3 repeats of ddp differ by 40%."""
    if effect.is_rough:
        return as_long(effect)
    if effect.repeats < 2:
        return f"one repeat shows no difference below {SHOWN_BY_ONE:.0%}"
    noisy = max((effect.trial, effect.baseline), key=spread)
    return f"{count(len(counted(noisy.repeats)), 'repeat')} of {noisy.name} differ by {spread(noisy):.0%}"


def with_reason(finding: str, effect: Effect) -> str:
    """The finding, and what most of the difference is."""
    reason = because(effect)
    return f"{finding}: {reason}" if reason else finding


def because(effect: Effect) -> str:
    """What most of the difference is: 1.47 of the extra 1.59 s went into transfer. Empty if no part stands out."""
    whole = effect.difference.total
    named = [part for part in parts(effect.difference, effect.trial) if part.name != "unexplained"]
    telling = sorted((part for part in named if abs(part.s) > TELLS * abs(whole)), key=lambda part: -abs(part.s))
    if not telling:
        return ""
    most, *others = telling[:MOST_PARTS]
    if 0.5 <= most.s / whole <= 1.05:
        part, total = same_unit(abs(most.s), abs(whole))
        return f"{part} of the {f'extra {total} went into' if whole > 0 else f'{total} saved came from'} {most.name}"
    if most.s * whole < 0:  # what is named first must be a reason
        return ""
    more = (f", {part.name} {_more_or_less(part.s)}" for part in others)
    return f"{most.name} took {_more_or_less(most.s)}" + "".join(more)


def _more_or_less(s: float) -> str:
    return f"{seconds(abs(s))} {'more' if s > 0 else 'less'}"


def same_unit(part_s: float, whole_s: float) -> tuple[str, str]:
    """A part, which is at most the whole, and the whole, both in its unit, which only the second names: 1.47, 1.59 s;
    all, 1.59 s where both would read the same."""
    whole = duration(whole_s)
    figure = whole.rsplit(" ", 1)[0]
    places = len(figure.partition(".")[2])
    scale = float(figure.replace(",", "")) / whole_s if whole_s else 1.0
    part = f"{min(part_s, whole_s) * scale:.{places}f}"
    return "all" if part == figure else part, whole
