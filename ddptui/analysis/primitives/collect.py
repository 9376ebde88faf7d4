"""Collects the ranks' messages about primitives into results. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, pstdev, quantiles
from typing import TypeVar, cast, get_args

import msgspec

from ddptui.analysis.primitives.results import Cell, NcclUse, PrimitivesResult, RankView, TimeUs, View
from ddptui.config.catalog import COMPOSITES, OPERATIONS, Cadence, ReduceOpName, primitive_facts
from ddptui.text.words import US
from ddptui.wire.messages import Hello, Shown, Timed

MOST_PLACES = 100_000  # kept per launch, so that no rank can fill the console's memory
GB_S = 1.0  # 1 byte per ns is 1 GB/s

Kind = TypeVar("Kind", Shown, Timed)


class PrimitivesLog(msgspec.Struct):
    """The messages of one launch, by place in the trial's list of calls, and by rank. Messages with unknown operations
    or beyond MOST_PLACES are dropped."""

    places: dict[int, dict[int, Shown | Timed]] = {}

    def add(self, message: Shown | Timed) -> None:
        """Keep a message, unless its operation or cadence is unknown, or its place too large."""
        known = COMPOSITES if isinstance(message, Timed) and message.composite else OPERATIONS
        is_known = message.operation in known and message.reduce_op in (None, *get_args(ReduceOpName))
        is_known &= isinstance(message, Shown) or message.cadence in get_args(Cadence)
        if is_known and message.place < MOST_PLACES:
            self.places.setdefault(message.place, {})[message.rank] = message

    def result(self, hello: Hello, took_s: float | None = None, nccl: NcclUse | None = None) -> PrimitivesResult:
        """The results of all places for which every rank sent its message. hello: any rank's; took_s: the duration of
        the launch, if it succeeded."""
        complete = [by_rank for _, by_rank in sorted(self.places.items()) if len(by_rank) == hello.world_size]
        shown = [ranks for by_rank in complete if (ranks := _all_of(Shown, by_rank))]
        timed = [calls for by_rank in complete if (calls := _all_of(Timed, by_rank))]
        return PrimitivesResult(
            ranks=hello.world_size,
            cadence=cast(Cadence, timed[0][0].cadence) if timed else "back_to_back",
            backend=hello.backend or "",
            nccl=nccl,
            took_s=took_s,
            views=[view_of(ranks) for ranks in shown],
            cells=[cell_of(ranks) for ranks in timed],
        )


def _all_of(kind: type[Kind], by_rank: Mapping[int, Shown | Timed]) -> list[Kind]:
    """The messages in rank order; empty unless all are of this kind."""
    messages = [message for _, message in sorted(by_rank.items()) if isinstance(message, kind)]
    return messages if len(messages) == len(by_rank) else []


def view_of(ranks: Sequence[Shown]) -> View:
    """Combines the ranks' messages about one shown primitive."""
    first = ranks[0]
    return View(
        operation=first.operation,
        reduce_op=cast(ReduceOpName | None, first.reduce_op),
        root=first.root,
        ranks=[msgspec.convert(shown, RankView, from_attributes=True) for shown in ranks],  # copies the common fields
        error=_error(ranks),
    )


def cell_of(ranks: Sequence[Timed]) -> Cell:
    """Combines the ranks' measurements of one operation at one size."""
    first = ranks[0]
    calls = calls_ns([timed.calls_ns for timed in ranks if timed.calls_ns])
    slowest = max((timed for timed in ranks if timed.calls_ns), key=lambda timed: fmean(timed.calls_ns), default=None)
    mean_ns = fmean(calls) if calls else 0.0
    algbw = first.bytes / mean_ns * GB_S if mean_ns and first.bytes else None
    factor = primitive_facts(first.operation, composite=first.composite).factor(len(ranks))
    return Cell(
        operation=first.operation,
        composite=first.composite,
        reduce_op=cast(ReduceOpName | None, first.reduce_op),
        bytes=first.bytes,
        calls=len(calls) * first.in_flight,
        time_us=time_us(calls) if calls else None,
        cv=pstdev(calls) / mean_ns if mean_ns else None,
        algbw_gb_s=algbw,
        busbw_gb_s=algbw * factor if algbw is not None else None,
        wrong=sum(timed.wrong for timed in ranks),
        slowest=slowest.rank if slowest else None,
        slowest_us=fmean(slowest.calls_ns) / US if slowest else None,
        in_flight=first.in_flight,
        error=_error(ranks),
    )


def calls_ns(ranks: Sequence[Sequence[int]]) -> list[float]:
    """The time of each call, as a mean over ranks, in ns."""
    return [fmean(call) for call in zip(*ranks, strict=False)]  # a failed rank has made fewer calls


def time_us(calls: Sequence[float]) -> TimeUs:
    """The statistics of calls, at least one, given in ns."""
    percent = quantiles(calls, n=100, method="inclusive") if len(calls) > 1 else [calls[0]] * 99
    return TimeUs(
        min=min(calls) / US, median=median(calls) / US, mean=fmean(calls) / US, p90=percent[89] / US,
        p99=percent[98] / US,
    )  # fmt: skip


def _error(ranks: Iterable[Shown | Timed]) -> str | None:
    return next((message.error for message in ranks if message.error), None)
