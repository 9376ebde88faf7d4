"""What measured primitives mean for training, in sentences: which is fastest at which size, and what a call costs."""

from collections.abc import Mapping, Sequence

from ddptui.analysis.primitives.cells import PrimitiveKey
from ddptui.analysis.primitives.crossover import CLEAR, fastest_spans, rivals
from ddptui.analysis.primitives.fit import Fit, Times, half_performance_size
from ddptui.config.primitives import Cadence
from ddptui.text.units import duration, size
from ddptui.text.words import listed

NO_MESSAGES = ("barrier", "local_sum")  # send no bytes


def how_long(times: Mapping[PrimitiveKey, Times], ranks: int) -> str:
    """Which of several ways to average is fastest at which size; else how long the primitives take for the smallest
    tensor, and for the largest. times: in s by bytes. Empty if there is nothing to say."""
    ways = rivals(times)
    if len(ways) > 1:
        return _fastest({way: times[way] for way in ways}, ranks)
    sending = {key: of_key for key, of_key in times.items() if key.operation not in NO_MESSAGES and of_key}
    common = sorted(set.intersection(*map(set, sending.values()))) if sending else []
    ends = dict.fromkeys((*common[:1], *common[-1:]))  # which may be the same
    parts = [f"{_range({key: sending[key][bytes] for key in sending})} for {size(bytes)}" for bytes in ends]
    of = "a call" if len(sending) > 1 else str(*sending)
    return f"on {ranks} ranks {of} takes {listed(parts)}" if parts else ""


def why(fits: Sequence[Fit], cadence: Cadence) -> str:
    """From which size on an all_reduce's bytes cost more than the call itself. Empty if that is not known."""
    among = " among several in flight" if cadence == "pipelined" else ""
    for fit in fits:
        half = half_performance_size(fit) if fit.key.operation == "all_reduce" else None
        if half is not None and fit.curve is not None:  # one operator stands for all
            return (
                f"a small tensor costs the call, a large one its bytes: on {fit.ranks} ranks an all_reduce{among} takes"
                f" {duration(fit.curve.start_s)} however small its tensor is, and twice that from {size(half)} on, so"
                " smaller gradients are better sent together, in a bucket"
            )
    return ""


def _fastest(times: Mapping[PrimitiveKey, Times], ranks: int) -> str:
    spans = fastest_spans(times)
    if not spans:
        return ""
    last = spans[-1].last
    parts = []
    for span in spans:
        at = dict.fromkeys(bytes for bytes in (span.first, span.last) if bytes in (spans[0].first, last))
        figures = listed([f"{duration(times[span.way][bytes])} at {size(bytes)}" for bytes in at])
        where = _where(span.first, span.last, spans[0].first, last)
        parts.append(" ".join(filter(None, [str(span.way), where])) + (f" ({figures})" if figures else ""))
    return f"on {ranks} ranks the fastest way to average, to within {CLEAR:.0%}, is {listed(parts)}"


def _where(first: int, last: int, smallest: int, largest: int) -> str:
    """The sizes of a span: up to 256 KB; from 1 MB on; at 1 MB; from 1 to 4 MB; empty for all sizes."""
    if (first, last) == (smallest, largest):
        return "at every size" if first != last else ""
    if first == last:
        return f"at {size(first)}"
    if first == smallest:
        return f"up to {size(last)}"
    return f"from {size(first)} on" if last == largest else f"from {size(first)} to {size(last)}"


def _range(seconds: Mapping[PrimitiveKey, float]) -> str:
    """45 µs (send/recv) to 160 µs (reduce_scatter); of a single operation: 118 µs."""
    if len(seconds) == 1:
        return duration(*seconds.values())
    ends = (choose(seconds, key=lambda key: seconds[key]) for choose in (min, max))
    return " to ".join(f"{duration(seconds[key])} ({key})" for key in ends)
