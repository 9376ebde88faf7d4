"""What primitives were shown or measured: how long they take, and which way to average is fastest. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.primitives.cells import PrimitiveKey, Times, combined, fastest_spans, rivals, times_of
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset

NO_MESSAGES = ("barrier", "local_sum")  # send no bytes


def of_primitives(results: Results, preset: Preset) -> Iterator[Finding]:
    """Which primitives were shown; wrong elements; then how long they take with each number of ranks."""
    for trial in (trial for trial in results.trials if trial.primitives):
        result = combined(trial.primitives)
        if result.views:
            done = {view.operation for view in result.views if not view.error}
            numbers = {"primitives": float(len(done)), "ranks": float(result.ranks)}
            numbers["refused"] = float(sum(bool(view.error) for view in result.views))
            yield Finding(kind=Kind.SHOWN, trials=(trial.name,), place=result.backend, numbers=numbers)
        if wrong := sum(cell.wrong or 0 for cell in result.cells):
            yield Finding(
                kind=Kind.WRONG_VALUES, severity="critical", trials=(trial.name,), numbers={"elements": float(wrong)}
            )
    measured = [trial.primitives for trial in results.trials if trial.primitives]
    yield from (finding for launches in measured for finding in how_long(launches))
    yield from [finding for launches in measured for finding in cost_of_call(launches)][:1]


def how_long(launches: Sequence[PrimitivesResult]) -> Iterator[Finding]:
    """Which of several ways to average is fastest at which size; else how long the primitives take for the smallest
    tensor, and for the largest."""
    ranks, measured = float(launches[0].ranks), times_of(launches, steady=False)
    if len(ways := rivals(measured)) > 1:
        yield from _fastest({way: measured[way] for way in ways}, ranks)
        return
    times = times_of(launches, steady=True)
    sending = {key: of_key for key, of_key in times.items() if key.operation not in NO_MESSAGES}
    common = sorted(set.intersection(*map(set, sending.values()))) if sending else []
    for size in dict.fromkeys((*common[:1], *common[-1:])):  # which may be the same
        taken = [median(of_key[size]) for of_key in sending.values()]
        numbers = {"ranks": ranks, "bytes": float(size), "low_s": min(taken), "high_s": max(taken)}
        yield Finding(kind=Kind.CALLS, place=str(*sending) if len(sending) == 1 else None, numbers=numbers)


def cost_of_call(launches: Sequence[PrimitivesResult]) -> Iterator[Finding]:
    """Up to which size an all_reduce costs the call rather than its bytes; nothing if that was not measured."""
    for key, of_key in times_of(launches, steady=True).items():
        if key.operation == "all_reduce":  # one operator stands for all
            times = {size: median(of_key[size]) for size in sorted(of_key)}
            least = min(times)
            most = max(size for size, s in times.items() if s <= 2 * times[least])
            if least < most < max(times):
                numbers = {"ranks": float(launches[0].ranks), "least_bytes": float(least), "most_bytes": float(most)}
                place = "in flight" if launches[0].cadence == "pipelined" else None
                yield Finding(kind=Kind.CALL_COSTS, place=place, numbers=numbers | {"call_s": times[least]})
            return


def _fastest(times: Mapping[PrimitiveKey, Times], ranks: float) -> Iterator[Finding]:
    spans = fastest_spans(times)
    for span in (span for span in spans if len(span.ways) == 1):
        numbers = {"ranks": ranks, "first_bytes": float(span.first), "last_bytes": float(span.last)}
        numbers |= {"smallest_bytes": float(spans[0].first), "largest_bytes": float(spans[-1].last)}
        yield Finding(kind=Kind.FASTEST_WAY, place=str(span.ways[0]), numbers=numbers)
    if spans and all(len(span.ways) > 1 for span in spans):
        yield Finding(kind=Kind.WAYS_ALIKE, numbers={"ranks": ranks})
