"""Which trial was the fastest and which the slowest, each beside the baseline, and whether they learned the same."""

from collections.abc import Iterator, Sequence

from ddptui.analysis.effect import Effect, Effects, beside_baseline, effects
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.answers.losses import losses
from ddptui.report.answers.phases import asked_for
from ddptui.report.answers.words import as_long, low_to_high, times, too_noisy, with_reason
from ddptui.text.units import digits
from ddptui.text.words import count, listed

FEW = 2  # trials besides the baseline: each gets a sentence of its own
EXACT = 1e-5  # an average that misses the mean by less is exact, as float32 goes
# A trial that differs from the baseline in one of these fields alone is called by what it does.
DOES = {"instruments": "measuring", "sched_batch": "SCHED_BATCH", "compile": "torch.compile"}
BECAUSE = {
    "SCHED_BATCH": "with it, a rank that a message wakes runs at once; without it, often only from the scheduler's next"
    " tick on"
}


def ranking(results: Results, preset: Preset) -> Iterator[str]:
    """The fastest and the slowest trial, or each of a few; then how true their averages are, and their losses."""
    compared = beside_baseline(results)
    learned = [*filter(None, [_averages(results), losses(results.trials)])]
    if len(compared) <= FEW:
        for effect in compared:
            yield from _told(effect, preset)
    else:
        in_order = sorted(compared, key=lambda effect: effect.ratio.median)
        found = effects(results)
        faster, slower = ([each for each in in_order if each.outcome == outcome] for outcome in ("faster", "slower"))
        rest = _rest(compared)
        if faster:
            yield _end("fastest", faster, found)
            learned = [*rest, *learned]
        else:
            yield "; ".join([f"no trial was seen to be faster than {results.base.name}", *rest])
        if slower:
            yield _end("slowest", slower[::-1], found)
    if learned:
        yield "; ".join(learned)


def _told(effect: Effect, preset: Preset) -> Iterator[str]:
    """One trial beside the baseline, by its name or by what it does; and why, if that is known."""
    subject = _subject(effect, preset)
    does, base = subject != effect.name, effect.baseline.name
    if effect.is_rough and effect.outcome in ("alike", "unclear"):
        yield f"{subject} made training {as_long(effect)}" if does else f"{subject} took {as_long(effect)} as {base}"
    elif effect.outcome == "alike":
        shown = count(effect.repeats, "repeat")
        alike = f"made no difference that {shown} could show"
        yield f"{subject} {alike if does else f'took as long as {base}, as far as {shown} can tell'}"
    elif effect.outcome == "unclear":
        yield f"cannot tell whether {subject} {'costs time' if does else f'differs from {base}'}: {too_noisy(effect)}"
    else:
        finding = f"{subject} made training {times(effect)}" if does else f"{subject} was {times(effect)} than {base}"
        phases = asked_for(effect, preset)
        yield f"{finding}: {phases}" if phases else with_reason(finding, effect)
        if effect.outcome == "faster" and subject in BECAUSE:
            yield BECAUSE[subject]


def _subject(effect: Effect, preset: Preset) -> str:
    """The name of a trial; if there is only this one, and it sets a field that has a name of its own, this name."""
    fields = [name for name in DOES if len({getattr(trial, name) for trial in preset.trials}) > 1]
    return DOES[fields[0]] if len(preset.trials) == 2 and len(fields) == 1 else effect.name


def _rest(compared: Sequence[Effect]) -> list[str]:
    """The trials that do not differ from the baseline, and those of which that cannot be told."""
    alike = [effect.name for effect in compared if effect.outcome == "alike"]
    unclear = [effect for effect in compared if effect.outcome == "unclear"]
    words = [f"no difference from {compared[0].baseline.name} was seen in {listed(alike)}"] if alike else []
    names = listed([effect.name for effect in unclear if not effect.is_rough])
    if rough := [f"{effect.name} {low_to_high(effect.ratio)}" for effect in unclear if effect.is_rough]:
        words.append(f"how many times as long others took is only roughly known: {listed(rough)}")
    return words + ([f"cannot tell for {names}: {too_noisy(unclear[0])}"] if names else [])


def _end(place: str, effects: Sequence[Effect], found: Effects) -> str:
    """The trials at one end of the ranking, then those that were faster or slower, too. effects: the one at the very
    end first."""
    first, *others = effects
    tied = [other.name for other in others if found[other.name, first.name].outcome in ("alike", "unclear")]
    more = [other.name for other in others if other.name not in tied]
    if tied:
        beside = with_reason(f"{first.name} was {times(first)} than {first.baseline.name}", first)
        told = f"{listed([first.name, *tied])} were the {place}, too close to call; {beside}"
    else:
        told = with_reason(f"{first.name} was the {place}, {times(first)} than {first.baseline.name}", first)
    return told + (f"; {listed(more)} {'was' if len(more) == 1 else 'were'} {first.outcome}, too" if more else "")


def _averages(results: Results) -> str:
    """By how much lossy strategies miss the average; empty if every strategy is exact."""
    audits = [(trial.name, repeat.averaging) for trial in results.trials for repeat in trial.repeats[-1:]]
    errors = {name: audit.error for name, audit in audits if audit and audit.error and audit.error > EXACT}
    if not errors:
        return ""
    least, most = (choose(errors, key=lambda name: errors[name]) for choose in (min, max))
    if least == most:
        return f"{most} misses the average by {_percent(errors[most])}"
    return f"averages are off by {_percent(errors[least])} ({least}) to {_percent(errors[most])} ({most})"


def _percent(part: float) -> str:
    return f"{digits(100 * part, 2)}%"
