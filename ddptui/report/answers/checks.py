"""Which checks the trials pass: are the ranks in sync, did each get the average, did epochs differ in their order?"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

from ddptui.analysis.correctness import averaged_wrong, names_text
from ddptui.analysis.effect import effects
from ddptui.analysis.results import RepeatResult, Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.report.answers.words import times
from ddptui.text.words import count, listed

CHECKS: dict[str, Callable[[RepeatResult], bool]] = {
    "in sync": lambda repeat: repeat.in_sync.parameters is False,
    "average": lambda repeat: averaged_wrong(repeat) is not None,
    "order": lambda repeat: repeat.reshuffled is False,
}


def are_in_doubt(results: Results, preset: Preset) -> bool:
    """Whether a mistake is made on purpose, or a trial fails a check that others pass, or one that all should pass."""
    last = _last(results)
    buffers = {repeat.in_sync.buffers for repeat in last.values() if repeat.in_sync.buffers is not None}
    fails = len(buffers) > 1 or any(failed(repeat) for failed in CHECKS.values() for repeat in last.values())
    return fails or any(trial.mistake for trial in preset.trials)


def checks(results: Results, preset: Preset) -> Iterator[str]:
    """What the checks found; of mistakes made on purpose, how many they found."""
    last = _last(results)
    by_check = {check: [name for name, repeat in last.items() if failed(repeat)] for check, failed in CHECKS.items()}
    failing = dict.fromkeys(name for names in by_check.values() for name in names)
    mistaken = {trial.name for trial in preset.trials if trial.mistake}
    if mistaken:
        yield from _of_mistakes(results, mistaken & last.keys(), by_check)
    elif failing:
        yield f"do not trust what {listed([*failing])} learned: {_by_check(by_check)}"
    yield from _buffers(last)


def _last(results: Results) -> dict[str, RepeatResult]:
    """The last repeat of each trial."""
    return {trial.name: trial.repeats[-1] for trial in results.trials if trial.repeats}


def _by_check(by_check: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f'"{check}" fails in {listed(names)}' for check, names in by_check.items() if names)


def _of_mistakes(results: Results, mistaken: Set[str], by_check: Mapping[str, Sequence[str]]) -> Iterator[str]:
    failing = {name for names in by_check.values() for name in names}
    ran = [trial for trial in results.trials if trial.name in mistaken]
    unseen = [trial for trial in ran if trial.name not in failing]
    found = {check: [name for name in names if name in mistaken] for check, names in by_check.items()}
    if not ran:
        return
    words = f"the checks found {len(ran) - len(unseen)} of {count(len(ran), 'mistake')}"
    yield f"{words}: {_by_check(found)}" if any(found.values()) else words
    if unseen:
        passes = "passes" if len(unseen) == 1 else "pass"
        yield f"{listed([trial.name for trial in unseen])} {passes} every check{_cost(results, unseen[0])}"
    if sound := sorted(failing - mistaken):
        yield f"without a mistake, {listed(sound)} failed a check, too"


def _cost(results: Results, trial: TrialResult) -> str:
    """What a mistake costs that no check finds, beside the trial that differs from it in the mistake alone."""
    twins = [other for other in results.trials if not other.config.get("mistake") and _rest(other) == _rest(trial)]
    effect = effects(results).get((trial.name, twins[0].name)) if twins else None
    if effect is None or effect.outcome == "unclear":
        return ""
    slower = effect.outcome == "slower"
    return f": the result is right, {f'but it was {times(effect)}' if slower else 'and no slower'} than {twins[0].name}"


def _rest(trial: TrialResult) -> dict[str, Any]:
    return {key: value for key, value in trial.config.items() if key not in ("name", "mistake")}


def _buffers(last: dict[str, RepeatResult]) -> Iterator[str]:
    """Models whose parameters agree, but whose running statistics do not."""
    differ = [name for name, repeat in last.items() if repeat.in_sync.parameters and repeat.in_sync.buffers is False]
    if differ:
        names = names_text(last[differ[0]].in_sync.differing)
        yield f"the ranks of {listed(differ)} end with the same parameters but different buffers: {names}"
        same = [name for name, repeat in last.items() if repeat.in_sync.parameters and repeat.in_sync.buffers]
        if same:
            yield f"nothing differs in {listed(same)}"
