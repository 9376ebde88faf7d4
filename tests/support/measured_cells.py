"""Cells, views and results of primitives made by hand. Times are in µs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from ddptui.analysis.primitive_results import BufferView, Cell, PrimitivesResult, RankView, TimeUs, View
from ddptui.analysis.results import Results
from ddptui.config.catalog import primitive_facts
from ddptui.config.preset import Preset
from ddptui.findings.compare import compare
from ddptui.findings.questions import answer_of
from tests.support.builders import preset_of

KB, MB = 1024, 1024 * 1024
SIZES = tuple(KB * 4**power for power in range(9))  # to 64 MB
STEADY = {"min": 0.95, "mean": 1.01, "p90": 1.05, "p99": 1.1}  # × the median


def cell(operation: str, bytes: int, median: float, *, ranks: int = 2, composite: bool = False, **changes: Any) -> Cell:
    time = TimeUs(median=median, **{name: factor * median for name, factor in STEADY.items()})
    told = primitive_facts(operation, composite=composite)
    algbw = bytes / time.mean / 1e3 if told.has_bytes else None
    made = Cell(
        operation=operation,
        composite=composite,
        reduce_op="sum" if told.reduces and not composite else None,
        bytes=bytes,
        calls=100,
        time_us=time,
        cv=0.05,
        algbw_gb_s=algbw,
        busbw_gb_s=algbw and algbw * told.factor(ranks),
        wrong=0,
        slowest=1,
        slowest_us=1.02 * median,
    )
    return msgspec.structs.replace(made, **changes)


def cells(operation: str, time_us: Callable[[int], float], sizes: Sequence[int] = SIZES, **changes: Any) -> list[Cell]:
    return [cell(operation, bytes, time_us(bytes), **changes) for bytes in sizes]


def result(*several: Sequence[Cell], ranks: int = 2, **changes: Any) -> PrimitivesResult:
    made = PrimitivesResult(ranks=ranks, cadence="back_to_back", backend="gloo", cells=[*chain(*several)])
    return msgspec.structs.replace(made, **changes)


def view(operation: str = "reduce", **changes: Any) -> View:
    """A reduce to rank 0 of 1 2 and 3 4."""

    def rank(number: int, before: list[float], after: list[float]) -> RankView:
        undefined = number != 0
        buffer = BufferView(name="tensor", parts=1, before=[*before], after=[*after], undefined=undefined)
        return RankView(rank=number, call="dist.reduce(tensor, dst=0)", buffers=[buffer])

    made = View(
        operation=operation,
        reduce_op="sum",
        root=0,
        ranks=[rank(0, [1.0, 2.0], [4.0, 6.0]), rank(1, [3.0, 4.0], [3.0, 4.0])],
    )
    return msgspec.structs.replace(made, **changes)


def of_primitives(trials: Mapping[str, Sequence[PrimitivesResult]], **fields: Any) -> tuple[Results, Preset]:
    """A preset with these trials, and what their repeats have shown; a trial without any was not reached."""
    preset = preset_of(
        {
            "title": "Which one?",
            "kind": "primitives",
            "defaults": {"primitives": "measure"},
            "trial": [{"name": name} | fields for name in trials],
        }
    )
    empty = compare(preset, "the-run", {"host": "here"}, {})
    found = [
        msgspec.structs.replace(
            trial, primitives=[*trials[trial.name]], status="ok" if trials[trial.name] else "skipped"
        )
        for trial in empty.trials
    ]
    results = msgspec.structs.replace(empty, status="ok", trials=found)
    return msgspec.structs.replace(results, findings=answer_of(results, preset)), preset
