"""What a measured trial sends, and what its transfers took: from what was seen of its calls. Pure."""

from collections.abc import Sequence
from statistics import fmean, median

from ddptui.config.strategies import STRATEGIES
from ddptui.config.trial import Trial
from ddptui.projection.costs import SENT_IN, Traffic
from ddptui.projection.measured import Call, Launch, MeasuredTrial
from ddptui.projection.network import Taken

A_CALL_A_TENSOR = {
    "all_reduce": "all_reduce", "all_reduce_async": "all_reduce", "reduce_broadcast": "reduce",
    "gather_scatter": "gather", "all_gather": "all_gather", "reduce_scatter_all_gather": "reduce_scatter",
}  # fmt: skip
ITEMSIZES = {"float32": 4, "float64": 8}
PARTS = ("gather", "all_gather", "scatter")  # a rank tells of its part of them; the formulas count all parts together

Key = tuple[str, int]  # kind and bytes


def traffic(trial: Trial, seen: MeasuredTrial) -> Traffic:
    """The tensors' sizes are known where each has a call of its own; else they count as equal parts."""
    itemsize = ITEMSIZES[trial.dtype]
    one = A_CALL_A_TENSOR.get(trial.strategy or "")
    own = [float(size) for kind, size in seen.sent if kind == one]
    total = float(seen.parameters * itemsize)
    overlaps = STRATEGIES[trial.strategy or "none"].overlaps
    widened = itemsize / SENT_IN.get(trial.strategy or "", itemsize)
    early = [call for launch in seen.launches for moment in launch for call in moment.calls if call.early]
    moments = sum(map(len, seen.launches))
    return Traffic(
        tensors=tuple(own) or (total / seen.tensors,) * seen.tensors,
        itemsize=itemsize,
        buckets=tuple(size * widened for _, size in seen.sent) if overlaps else (),
        ready=seen.ready if overlaps else (),
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
