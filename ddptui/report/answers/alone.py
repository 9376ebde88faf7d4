"""What a run of a single trial spent its time on; and the rank that we made late, if there is one."""

from collections.abc import Iterator

from ddptui.analysis.breakdown import breakdown
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.answers.blame import blame
from ddptui.report.answers.delays import delays_some
from ddptui.report.differences import parts
from ddptui.text.units import seconds
from ddptui.text.words import listed

TELLS = 0.02  # of the train time: parts with less are not named


def alone(results: Results, preset: Preset) -> Iterator[str]:
    """The parts of the train time, the largest first; then whether ddptui found the late rank."""
    for trial in results.trials:
        if (times := breakdown(trial)) is None:
            continue
        by_size = sorted(parts(times, trial), key=lambda part: -part.s)
        named = [f"{part.name} {seconds(part.s)}" for part in by_size if part.s > TELLS * times.total]
        ranks = len(trial.repeats[-1].ranks)
        who = "one process" if ranks == 1 else f"{ranks} ranks"
        trained = f"{who} trained for {seconds(times.total)}"
        yield f"{trained}: {listed(named)}" if len(named) > 1 else f"{trained}, all of it {by_size[0].name}"
        if delays_some(preset.base):
            yield from blame(results, preset)
