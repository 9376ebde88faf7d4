"""What became of the times that a preset wants seen, such as the aggregation of a step."""

from ddptui.analysis.cautions import Caution
from ddptui.analysis.effect import Effect
from ddptui.analysis.results import RepeatResult
from ddptui.config.preset import Preset
from ddptui.report.rows import Figure, median_figure
from ddptui.text.units import MS_PER_S, duration


def _aggregation(repeat: RepeatResult) -> float | None:
    is_host_time = Caution.HOST_TIME in repeat.warnings
    return repeat.phases_ms.aggregate if repeat.phases_ms and not is_host_time else None


TIMES: dict[str, tuple[str, Figure]] = {  # by the key of a column: its name in a sentence, and a time of a step in ms
    "aggregate": ("the aggregation of a step", _aggregation),
    "transfer": ("the transfers of a step", lambda repeat: repeat.transfer_ms),
}


def asked_for(effect: Effect, preset: Preset) -> str:
    """The first of the preset's columns that is one of these times and changed as the train time did: the aggregation
    of a step, 8 collectives, took 1.81 ms instead of 9.30 ms. Empty without any."""
    for key in preset.columns:
        if key in TIMES:
            name, of = TIMES[key]
            ms, instead = (median_figure(trial, of) for trial in (effect.trial, effect.baseline))
            if ms and instead and (ms < instead if effect.ratio.median < 1 else ms > instead):
                repeat = effect.trial.repeats[-1]
                calls = round((repeat.ranks[0].collectives or 0) / repeat.steps, 1) if repeat.steps else 0.0  # a step
                took = f"took {duration(ms / MS_PER_S)} instead of {duration(instead / MS_PER_S)}"
                return f"{name}, {calls:g} collectives, {took}" if calls > 1 else f"{name} {took}"
    return ""
