"""Delays put in by hand while a trial runs: what was typed in, checked as the preset loader would. Pure."""

from collections.abc import Sequence

import msgspec

from ddptui.config.trial import Bottleneck, Trial, TrialError, choices
from ddptui.config.trial_text import parse_assignment
from ddptui.config.trial_values import make_trial
from ddptui.tui.draft import LINK, bottleneck

TOO_LATE = "start"  # a rank that runs has started
LONGEST_MS = 60_000  # torch waits longer than that for a late rank, and much longer for the trial's own delays only


def sites() -> list[str]:
    return [site for site in choices("at") if site not in (TOO_LATE, LINK)]


def can_still_come(there: Sequence[Bottleneck]) -> tuple[Bottleneck, ...]:
    """Of these bottlenecks, the delays that a rank that runs has before it. Slow links are no delays: they stay."""
    return tuple(each for each in there if each.at not in (TOO_LATE, LINK))


def with_delay(trial: Trial, there: Sequence[Bottleneck], at: str, ranks: str, sleep_ms: str) -> tuple[Bottleneck, ...]:
    """The delays that are there and one more, which takes the place of one at the same site on the same ranks. Raises
    TrialError: one line, without the field's path."""
    if at == LINK:
        raise TrialError("", "at: the links are made before the ranks start; a slow one goes into the preset")
    _, wanted = parse_assignment(f"bottleneck={bottleneck(at, ranks, sleep_ms)}")
    [new] = _checked(trial, wanted)
    if new.sleep_ms > LONGEST_MS:
        raise TrialError("", f"sleep_ms: at most {LONGEST_MS:,} while it runs; a longer delay goes into the preset")
    return (*(each for each in there if (each.at, set(each.ranks)) != (new.at, set(new.ranks))), new)


def _checked(trial: Trial, wanted: object) -> tuple[Bottleneck, ...]:
    try:
        return make_trial({**msgspec.to_builtins(trial), "bottleneck": wanted}).bottleneck
    except TrialError as error:
        raise TrialError("", f"{error.key.rpartition('.')[2]}: {error.why}") from None
