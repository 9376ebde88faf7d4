"""What a measured trial sends, and what its transfers took: from what was seen of its calls. Pure."""

from collections.abc import Sequence
from statistics import fmean, median

from ddptui.config.strategies import STRATEGIES, Sends
from ddptui.config.trial import Trial
from ddptui.projection.costs import Traffic
from ddptui.projection.measured import Call, Launch, MeasuredTrial
from ddptui.projection.network import Taken

ITEMSIZES = {"float32": 4, "float64": 8}
PARTS = ("gather", "all_gather", "scatter")  # a rank tells of its part of them; the formulas count all parts together

Key = tuple[str, int]  # kind and bytes


def traffic(trial: Trial, seen: MeasuredTrial) -> Traffic:
    """The tensors' sizes are known where each has a call of its own; else they count as equal parts."""
    itemsize = ITEMSIZES[trial.dtype]
    facts = STRATEGIES[trial.strategy or "none"]
    sends = facts.sends or Sends("each")
    own = [float(size) for kind, size in seen.sent if kind == sends.collective]
    total = float(seen.parameters * itemsize)
    widened = itemsize / (sends.number_bytes or itemsize)
    early = [call for launch in seen.launches for moment in launch for call in moment.calls if call.early]
    moments = sum(map(len, seen.launches))
    return Traffic(
        tensors=tuple(own) or (total / seen.tensors,) * seen.tensors,
        itemsize=itemsize,
        buckets=tuple(size * widened for _, size in seen.sent) if facts.overlaps else (),
        ready=seen.ready if facts.overlaps else (),
        bucket_mb=trial.bucket_mb,
        early_calls=sum(call.times for call in early) / moments,
        early_bytes=sum(call.times * call.bytes for call in early) / moments,
    )


def taken(seen: MeasuredTrial, launches: Sequence[Launch]) -> list[Taken]:
    """What calls of each kind and size took in these launches of the trial, and how often in all of their steps."""
    by_key: dict[Key, list[Call]] = {}
    for call in (call for launch in launches for moment in launch for call in moment.calls):
        by_key.setdefault((call.kind, call.bytes), []).append(call)
    return [
        Taken(
            operation=kind,
            ranks=seen.ranks,
            bytes=size * (seen.ranks if kind in PARTS else 1),
            s=median(call.s for call in calls),
            mean_s=fmean(call.s for call in calls),
            times=sum(call.times for call in calls),
        )
        for (kind, size), calls in sorted(by_key.items())
    ]
