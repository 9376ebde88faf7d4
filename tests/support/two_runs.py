"""Results of runs to be compared, made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.run.compare import BY_NAME, Matches, compare_results
from tests.support.builders import journal, preset_of, results_for


def run_of(*step_ms: float, **changes: Any) -> Results:
    """Trial `a` with a repeat for each length of a step (three of them make the train time); `b` always the same."""
    return run_with({"a": step_ms, "b": [10.0] * len(step_ms)}, **changes)


def run_with(trials: Mapping[str, Sequence[float]], **changes: Any) -> Results:
    """These trials, by name, with a repeat for each length of a step."""
    preset = preset_of({"repeats": max(map(len, trials.values())), "trial": [{"name": name} for name in trials]})
    lengths = [(name, number, ms) for name, several in trials.items() for number, ms in enumerate(several, start=1)]
    journals = [journal(name, number, step_ms=ms) for name, number, ms in lengths]
    return msgspec.structs.replace(results_for(preset, *journals), **changes)


def compared(a: Results, b: Results, matches: Matches = BY_NAME) -> tuple[Results, Preset]:
    """Two runs as one, and their preset."""
    return compare_results(a, b, (preset_behind(a), preset_behind(b)), matches)


def preset_behind(results: Results) -> Preset:
    """A preset that gives such results."""
    trials = tuple(msgspec.convert(trial.config, Trial) for trial in results.trials)
    return Preset(
        name=results.preset, title="?", group="", about="", baseline=results.baseline, repeats=results.repeats or 1,
        trials=trials, kind="primitives" if any(trial.primitives for trial in trials) else "training",
    )  # fmt: skip
