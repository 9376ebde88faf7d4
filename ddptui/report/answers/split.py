"""How nn.DataParallel cut each batch among its replicas."""

from collections.abc import Iterator

from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.report.ranks import sub_batches
from ddptui.text.words import listed


def split(results: Results, preset: Preset) -> Iterator[str]:
    """How DataParallel cut each batch."""
    trials = {trial.name: trial for trial in preset.trials}
    last = [(trials[trial.name], repeat.ranks) for trial in results.trials for repeat in trial.repeats[-1:]]
    cuts = [(trial, cut) for trial, ranks in last if len(cut := sub_batches(ranks)) > 1]
    batches = {trial.batch_size for trial, _ in cuts}
    for batch in batches:
        of_batch = [cut for trial, cut in cuts if trial.batch_size == batch]
        parts = [f"{'+'.join(map(str, cut))} for {len(cut)} replicas" for cut in of_batch]
        yield f"DataParallel cut each batch of {batch} into {listed(parts)}"
    if any(len(set(cut)) > 1 for _, cut in cuts):
        yield "the parts are of equal length, rounded up, and the last replica gets the rest"
