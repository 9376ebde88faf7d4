"""Which trial was the fastest and which the slowest, each beside the baseline, and whether they learned the same."""

from collections.abc import Iterator, Sequence

from ddptui.analysis.counted import counted
from ddptui.analysis.effect import Effect, effects
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.answers.words import times, too_noisy, with_reason
from ddptui.report.rows import loss_of
from ddptui.report.sentences import is_not_finite
from ddptui.text.units import digits
from ddptui.text.words import count, listed

FEW = 2  # trials besides the baseline: each gets a sentence of its own
EXACT = 1e-5  # an average that misses the mean by less is exact, as float32 goes
NEARLY = 0.10  # losses that differ by less are nearly the same
# A trial that differs from the baseline in one of these fields alone is called by what it does.
DOES = {"instruments": "measuring", "sched_batch": "SCHED_BATCH", "compile": "torch.compile"}


def ranking(results: Results, preset: Preset) -> Iterator[str]:
    """The fastest and the slowest trial, or each of a few; then how true their averages are, and their losses."""
    baseline = results.base
    compared = effects(results.trials, baseline)
    if len(compared) <= FEW:
        yield from (beside(effect, _subject(effect, preset)) for effect in compared)
    else:
        yield from _ends(compared)
    rest = _rest(compared) if len(compared) > FEW else []
    if learned := [*rest, *filter(None, [_averages(results), _losses(results.trials)])]:
        yield "; ".join(learned)


def beside(effect: Effect, subject: str) -> str:
    """One trial beside the baseline. subject: its name, or what it does."""
    does, base = subject != effect.name, effect.baseline.name
    shown = count(effect.repeats, "repeat")
    if effect.outcome == "alike":
        if does:
            return f"{subject} made no difference that {shown} could show"
        return f"{subject} took as long as {base}, as far as {shown} can tell"
    if effect.outcome == "unclear":
        return f"cannot tell whether {subject} {'costs time' if does else f'differs from {base}'}: {too_noisy(effect)}"
    finding = f"{subject} made training {times(effect)}" if does else f"{subject} was {times(effect)} than {base}"
    return with_reason(finding, effect)


def _subject(effect: Effect, preset: Preset) -> str:
    """The name of a trial; if there is only this one, and it sets a field that has a name of its own, this name."""
    fields = [name for name in DOES if len({getattr(trial, name) for trial in preset.trials}) > 1]
    return DOES[fields[0]] if len(preset.trials) == 2 and len(fields) == 1 else effect.name


def _ends(compared: Sequence[Effect]) -> Iterator[str]:
    """The fastest and the slowest trial, a sentence each."""
    by_ratio = sorted(compared, key=lambda effect: effect.ratio.median)
    faster = [effect for effect in by_ratio if effect.outcome == "faster"]
    slower = [effect for effect in by_ratio if effect.outcome == "slower"]
    yield from (_end("fastest", effect) for effect in faster[:1])
    nothing_faster = "" if faster else f"no trial was seen to be faster than {compared[0].baseline.name}; "
    yield from (f"{nothing_faster}{_end('slowest', effect)}" for effect in slower[-1:])


def _rest(compared: Sequence[Effect]) -> list[str]:
    """The trials that do not differ from the baseline, and those of which that cannot be told."""
    alike = [effect.name for effect in compared if effect.outcome == "alike"]
    unclear = [effect for effect in compared if effect.outcome == "unclear"]
    words = [f"no difference from {compared[0].baseline.name} was seen in {listed(alike)}"] if alike else []
    names = listed([effect.name for effect in unclear])
    return words + ([f"cannot tell for {names}: {too_noisy(unclear[0])}"] if unclear else [])


def _end(place: str, effect: Effect) -> str:
    """The trial at one end of the ranking."""
    return with_reason(f"{effect.name} was the {place}, {times(effect)} than {effect.baseline.name}", effect)


def _averages(results: Results) -> str:
    """By how much lossy strategies miss the average; empty if every strategy is exact."""
    errors = {
        trial.name: averaging.error
        for trial in results.trials
        if trial.repeats and (averaging := trial.repeats[-1].averaging) and averaging.error is not None
        if averaging.error > EXACT
    }
    if not errors:
        return ""
    least, most = (choose(errors, key=lambda name: errors[name]) for choose in (min, max))
    if least == most:
        return f"{most} misses the average by {_percent(errors[most])}"
    return f"averages are off by {_percent(errors[least])} ({least}) to {_percent(errors[most])} ({most})"


def _percent(part: float) -> str:
    return f"{digits(100 * part, 2)}%"


def _losses(trials: Sequence[TrialResult]) -> str:
    """Whether the trials learned the same; empty where that is not known."""
    broken = [trial.name for trial in trials if any(map(is_not_finite, trial.repeats))]
    if broken:
        return f"the loss of {listed(broken)} is not finite"
    seen = [trial for trial in trials if all(repeat.step_ms for repeat in counted(trial.repeats))]
    known = {trial.name: loss for trial in seen if (loss := loss_of(trial)) is not None}
    if len(known) < 2:
        return ""
    least, most = (choose(known, key=lambda name: known[name]) for choose in (min, max))
    low, high = known[least], known[most]
    if f"{low:.3f}" == f"{high:.3f}":
        return f"the loss is the same in all: {low:.3f}"
    if high <= low * (1 + NEARLY):
        return f"the loss is nearly the same in all: {low:.3f} to {high:.3f}"
    return f"the loss differs: from {low:.3f} ({least}) to {high:.3f} ({most})"
