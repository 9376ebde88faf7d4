"""How nn.DataParallel cut each batch among its replicas."""

from collections.abc import Iterator

from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.text.words import listed


def split(results: Results, preset: Preset) -> Iterator[str]:
    """How DataParallel cut each batch."""
    trials = {trial.name: trial for trial in preset.trials}
    cuts = [(trials[trial.name], cut) for trial in results.trials if len(cut := _cut(trial)) > 1]
    batches = {trial.batch_size for trial, _ in cuts}
    for batch in batches:
        parts = [
            f"{'+'.join(map(str, cut))} for {len(cut)} replicas" for trial, cut in cuts if trial.batch_size == batch
        ]
        yield f"DataParallel cut each batch of {batch} into {listed(parts)}"
    if any(len(set(cut)) > 1 for _, cut in cuts):
        yield "the parts are of equal length, rounded up, and the last replica gets the rest"


def _cut(trial: TrialResult) -> list[int]:
    ranks = trial.repeats[-1].ranks if trial.repeats else []
    return [rank.sub_batch for rank in ranks if rank.sub_batch is not None]
