"""What primitives were shown or measured: how long they take, and which way to average is fastest."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from ddptui.analysis.primitives.cells import CLEAR, PrimitiveKey, Times, combined, fastest_spans, rivals, times_of
from ddptui.analysis.primitives.results import PrimitivesResult
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.text.units import duration, size
from ddptui.text.words import count, listed

NO_MESSAGES = ("barrier", "local_sum")  # send no bytes


def primitives(results: Results, preset: Preset) -> Iterator[str]:
    """Which primitives were shown; wrong elements; then how long they take with each number of ranks, and why."""
    for trial in results.trials:
        if not trial.primitives:
            continue
        result = combined(trial.primitives)
        if result.views:
            yield _shown(result)
        if wrong := sum(cell.wrong or 0 for cell in result.cells):
            yield f"do not trust the times of {trial.name}: {count(wrong, 'element')} came out wrong"
    measured = [trial.primitives for trial in results.trials if trial.primitives]
    yield from filter(None, map(how_long, measured))
    yield from [*filter(None, map(why, measured))][:1]


def how_long(launches: Sequence[PrimitivesResult]) -> str:
    """Which of several ways to average is fastest at which size; else how long the primitives take for the smallest
    tensor, and for the largest. Empty if there is nothing to say."""
    ranks, measured = launches[0].ranks, times_of(launches, steady=False)
    ways = rivals(measured)
    if len(ways) > 1:
        return _fastest({way: measured[way] for way in ways}, ranks)
    times = times_of(launches, steady=True)
    sending = {key: of_key for key, of_key in times.items() if key.operation not in NO_MESSAGES}
    common = sorted(set.intersection(*map(set, sending.values()))) if sending else []
    ends = dict.fromkeys((*common[:1], *common[-1:]))  # which may be the same
    parts = [f"{_range({key: median(sending[key][bytes]) for key in sending})} for {size(bytes)}" for bytes in ends]
    of = "a call" if len(sending) > 1 else str(*sending)
    return f"on {ranks} ranks {of} takes {listed(parts)}" if parts else ""


def why(launches: Sequence[PrimitivesResult]) -> str:
    """Up to which size an all_reduce costs the call rather than its bytes. Empty if that was not measured."""
    among = " among several in flight" if launches[0].cadence == "pipelined" else ""
    for key, of_key in times_of(launches, steady=True).items():
        if key.operation == "all_reduce":  # one operator stands for all
            times = {bytes: median(of_key[bytes]) for bytes in sorted(of_key)}
            least, *_ = times
            most = max(bytes for bytes, s in times.items() if s <= 2 * times[least])
            if not least < most < max(times):
                return ""
            return (
                f"a small tensor costs the call, a large one its bytes: on {launches[0].ranks} ranks an all_reduce"
                f"{among} takes {duration(times[least])} for {size(least)} and at most twice that for {size(most)}, so"
                " smaller gradients are better sent together, in a bucket"
            )
    return ""


def _fastest(times: Mapping[PrimitiveKey, Times], ranks: int) -> str:
    spans = fastest_spans(times)
    fastest, unclear = [], []
    for ways, first, last in spans:
        where, names = _where(first, last, spans[0].first, spans[-1].last), ", ".join(map(str, ways))
        if len(ways) > 1:
            unclear.append(f"{where} ({names})")
        else:
            ends = dict.fromkeys(duration(median(times[ways[0]][bytes])) for bytes in (first, last))
            fastest.append(f"{names} {where} ({' to '.join(ends)})")
    if not spans:
        return ""
    if not fastest:
        why = f"since none is by more than {CLEAR:.0%}: {listed(unclear)}"
        return f"cannot tell which way to average is fastest on {ranks} ranks, {why}"
    tail = f"; cannot tell {listed(unclear)}" if unclear else ""
    return f"on {ranks} ranks the fastest way to average, by more than {CLEAR:.0%}, is {listed(fastest)}{tail}"


def _where(first: int, last: int, smallest: int, largest: int) -> str:
    """The sizes of a span: at 1 MB; at every size; up to 256 KB; from 1 MB on; from 1 to 4 MB."""
    if first == last:
        return f"at {size(first)}"
    if (first, last) == (smallest, largest):
        return "at every size"
    if first == smallest:
        return f"up to {size(last)}"
    return f"from {size(first)} on" if last == largest else f"from {size(first)} to {size(last)}"


def _range(seconds: Mapping[PrimitiveKey, float]) -> str:
    """45 µs (send/recv) to 160 µs (reduce_scatter); of a single operation: 118 µs."""
    if len(seconds) == 1:
        return duration(*seconds.values())
    ends = (choose(seconds, key=lambda key: seconds[key]) for choose in (min, max))
    return " to ".join(f"{duration(seconds[key])} ({key})" for key in ends)


def _shown(result: PrimitivesResult) -> str:
    refused = [view for view in result.views if view.error]
    done = {view.operation for view in result.views if not view.error}
    words = f"{count(len(done), 'primitive')} ran on {result.ranks} ranks over {result.backend}"
    refusals = f"; {result.backend} refused {count(len(refused), 'call')}" if refused else ""
    return f"{words}; what each rank's buffers held before and after is below{refusals}"
