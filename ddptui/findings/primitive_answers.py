"""Rules about runs of primitives: which were shown, how long they take, and which way to average is fastest. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from math import log
from statistics import median

from msgspec.structs import replace

from ddptui.analysis.effect import TimeRatio, unpaired
from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.primitive_results import (
    Cell,
    PrimitiveKey,
    PrimitivesResult,
    Times,
    combined,
    fastest_spans,
    has_a_median,
    key_of,
    rivals,
    times_of,
)
from ddptui.analysis.results import Results, TrialResult
from ddptui.config.preset import Preset
from ddptui.text import words

NO_MESSAGES = ("barrier", "local_sum")  # send no bytes


def of_primitives(results: Results, preset: Preset) -> Iterator[Finding]:
    """Finds which primitives were shown, wrong elements, and how long they take with each number of ranks."""
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
    """Finds the fastest of several ways to average at each size; with a single way, how long the primitives take for
    the smallest and for the largest tensor."""
    ranks, measured = float(launches[0].ranks), times_of(launches, steady=False)
    if len(ways := rivals(measured)) > 1:
        yield from _fastest({way: measured[way] for way in ways}, ranks)
        return
    times = times_of(launches, steady=True)
    sending = {key: of_key for key, of_key in times.items() if key.operation not in NO_MESSAGES}
    common = sorted(set.intersection(*map(set, sending.values()))) if sending else []
    for size in dict.fromkeys((*common[:1], *common[-1:])):  # smallest and largest may be the same
        taken = sorted((median(of_key[size]), str(key)) for key, of_key in sending.items())
        numbers = {"ranks": ranks, "bytes": float(size), "low_s": taken[0][0], "high_s": taken[-1][0]}
        place = taken[0][1] if len(taken) == 1 else f"fastest: {taken[0][1]}, slowest: {taken[-1][1]}"
        yield Finding(kind=Kind.CALLS, place=place, numbers=numbers)


def cost_of_call(launches: Sequence[PrimitivesResult]) -> Iterator[Finding]:
    """Finds up to which size the time of an all_reduce is that of the call, not of its bytes; nothing if it was not
    measured."""
    for key, of_key in times_of(launches, steady=True).items():
        if key.operation == "all_reduce":  # the first reduce operator represents all of them
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


# Two runs


Which = tuple[str, int, PrimitiveKey, int]  # a trial of run B, how many ranks, the operation, bytes


def between_runs(results: Results, preset: Preset) -> Iterator[Finding]:
    """How many times as long calls took in run B, and in how many cells that is more than chance; then wrong values."""
    cells = _cells_beside(results)
    steady = {which: ratio for which, (ratio, is_steady) in cells.items() if is_steady}
    steady = steady or {which: ratio for which, (ratio, _) in cells.items()}
    if not steady:
        yield Finding(kind=Kind.NO_PAIR, severity="warning", place="timed call of one size")
        return
    ratios = {which: each.ratio.median for which, each in steady.items()}
    most = max(ratios, key=lambda which: abs(log(ratios[which])))
    real = [ratios[which] for which, each in steady.items() if each.is_real]
    numbers = {"ratio_times": median(ratios.values()), "low_times": min(ratios.values())}
    numbers |= {"high_times": max(ratios.values()), "cells": float(len(steady))}
    numbers |= {"slower_cells": float(sum(ratio > 1 for ratio in real))}
    numbers |= {"faster_cells": float(sum(ratio < 1 for ratio in real))}
    numbers |= {"repeats": float(min(each.repeats for each in steady.values()))}
    trial, ranks, key, bytes = most
    place = f"{key}, {words.size(bytes)}" if bytes else str(key)
    yield Finding(kind=Kind.CELLS, trials=(trial,), place=f"{place}, {ranks} ranks", numbers=numbers)
    yield from (finding for finding in of_primitives(results, preset) if finding.severity != "note")


def with_ratios(results: Results) -> list[TrialResult]:
    """The trials of two runs, the cells of run B with their ratios to those of run A."""
    found = _cells_beside(results)

    def with_ratio(trial: TrialResult, launch: PrimitivesResult, cell: Cell) -> Cell:
        which = trial.name, launch.ranks, key_of(cell), cell.bytes
        return replace(cell, ratio=found[which][0].ratio) if which in found else cell

    def of_launches(trial: TrialResult) -> list[PrimitivesResult]:
        return [
            replace(launch, cells=[with_ratio(trial, launch, cell) for cell in launch.cells])
            for launch in trial.primitives
        ]

    return [replace(trial, primitives=of_launches(trial)) for trial in results.trials]


def _cells_beside(results: Results) -> dict[Which, tuple[TimeRatio, bool]]:
    """By cell that a trial of run B and its partner in run A have in common, in A's order: B's time over A's, and
    whether the medians are typical of the single calls."""
    both: dict[Which, tuple[list[Cell], list[Cell]]] = {}
    for trial in results.trials:
        base = results.base_of(trial)
        if base and base is not trial:
            mine, its = _cells(trial), _cells(base)
            both |= {(trial.name, *which): (mine[which], its[which]) for which in its if which in mine}
    compared = unpaired([(_medians(b), _medians(a)) for b, a in both.values()])
    steady = (all(map(has_a_median, [*b, *a])) for b, a in both.values())
    return dict(zip(both, zip(compared, steady, strict=True), strict=True))


def _cells(trial: TrialResult) -> dict[tuple[int, PrimitiveKey, int], list[Cell]]:
    """By ranks, operation and bytes, those that were timed: one a launch."""
    cells: dict[tuple[int, PrimitiveKey, int], list[Cell]] = {}
    for launch in trial.primitives:
        for cell in launch.cells:
            if cell.time_us and cell.time_us.median:
                cells.setdefault((launch.ranks, key_of(cell), cell.bytes), []).append(cell)
    return cells


def _medians(cells: Sequence[Cell]) -> list[float]:
    return [cell.time_us.median for cell in cells if cell.time_us]
