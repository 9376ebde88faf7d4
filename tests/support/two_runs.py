"""Results of runs to be compared, made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ddptui.analysis.results import Results
from tests.support.builders import journal, preset_of, results_for, two_trials


def run_of(*step_ms: float, **changes: Any) -> Results:
    """Trial `a` with a repeat for each length of a step (three of them make the train time); `b` always the same."""
    repeats = len(step_ms)
    journals = [journal("a", number, step_ms=length) for number, length in enumerate(step_ms, start=1)]
    journals += [journal("b", number) for number in range(1, repeats + 1)]
    return msgspec.structs.replace(results_for(two_trials(repeats=repeats), *journals), **changes)


def run_with(trials: Mapping[str, Sequence[float]], **changes: Any) -> Results:
    """These trials, by name, with a repeat for each length of a step."""
    preset = preset_of({"repeats": max(map(len, trials.values())), "trial": [{"name": name} for name in trials]})
    lengths = [(name, number, ms) for name, several in trials.items() for number, ms in enumerate(several, start=1)]
    journals = [journal(name, number, step_ms=ms) for name, number, ms in lengths]
    return msgspec.structs.replace(results_for(preset, *journals), **changes)
