"""What the ranks of one launch told of primitives, put together. Pure: messages in, results out."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median, pstdev, quantiles
from typing import TypeVar, cast, get_args

import msgspec

from ddptui.analysis.primitives.results import BufferView, Cell, PrimitivesResult, RankView, TimeUs, View
from ddptui.config.primitives import OPERATIONS, ReduceOpName, primitive_facts
from ddptui.config.strategies import COMPOSITES
from ddptui.text.units import US
from ddptui.wire.messages import Buffer, Hello, Shown, Timed

MOST_PLACES = 100_000
GB_S = 1.0  # bytes a ns

Kind = TypeVar("Kind", Shown, Timed)


class PrimitivesLog(msgspec.Struct):
    """By place and rank. What no operation of ours is called is not kept, nor more than anybody would look at."""

    places: dict[int, dict[int, Shown | Timed]] = {}

    def add(self, message: Shown | Timed) -> None:
        known = COMPOSITES if isinstance(message, Timed) and message.composite else OPERATIONS
        if (
            message.place < MOST_PLACES
            and message.operation in known
            and message.reduce_op in (None, *get_args(ReduceOpName))
        ):
            self.places.setdefault(message.place, {})[message.rank] = message

    def result(self, hello: Hello, took_s: float | None = None) -> PrimitivesResult:
        """What all ranks have told of. hello: of any of them; took_s: the launch, if it ended well."""
        told = [by_rank for _, by_rank in sorted(self.places.items()) if len(by_rank) == hello.world_size]
        shown = [ranks for by_rank in told if (ranks := _all_of(Shown, by_rank))]
        timed = [calls for by_rank in told if (calls := _all_of(Timed, by_rank))]
        return PrimitivesResult(
            ranks=hello.world_size,
            cadence="barrier" if timed and timed[0][0].cadence == "barrier" else "back_to_back",
            backend=hello.backend or "",
            took_s=took_s,
            views=[view_of(ranks) for ranks in shown],
            cells=[cell_of(ranks) for ranks in timed],
        )


def _all_of(kind: type[Kind], by_rank: Mapping[int, Shown | Timed]) -> list[Kind]:
    """By rank; none if another kind is among them."""
    found = [message for _, message in sorted(by_rank.items()) if isinstance(message, kind)]
    return found if len(found) == len(by_rank) else []


def view_of(ranks: Sequence[Shown]) -> View:
    first = ranks[0]
    return View(
        operation=first.operation,
        reduce_op=cast(ReduceOpName | None, first.reduce_op),
        root=first.root,
        ranks=[
            RankView(rank=own.rank, call=own.call, buffers=[_buffer(each) for each in own.buffers]) for own in ranks
        ],
        error=_error(ranks),
    )


def _buffer(told: Buffer) -> BufferView:
    return BufferView(
        name=told.name,
        parts=told.parts,
        before=None if told.before is None else list(told.before),
        after=None if told.after is None else list(told.after),
        undefined=told.undefined,
    )


def cell_of(ranks: Sequence[Timed]) -> Cell:
    """One operation with one size, from what each rank measured."""
    first = ranks[0]
    calls = calls_ns([own.calls_ns for own in ranks if own.calls_ns])
    slowest = max((own for own in ranks if own.calls_ns), key=lambda own: fmean(own.calls_ns), default=None)
    mean_ns = fmean(calls) if calls else 0.0
    algbw = first.bytes / mean_ns * GB_S if mean_ns and first.bytes else None
    factor = primitive_facts(first.operation, composite=first.composite).factor(len(ranks))
    return Cell(
        operation=first.operation,
        composite=first.composite,
        reduce_op=cast(ReduceOpName | None, first.reduce_op),
        bytes=first.bytes,
        calls=len(calls),
        time_us=time_us(calls) if calls else None,
        cv=pstdev(calls) / mean_ns if mean_ns else None,
        algbw_gb_s=algbw,
        busbw_gb_s=algbw * factor if algbw is not None else None,
        wrong=sum(own.wrong for own in ranks),
        slowest=slowest.rank if slowest else None,
        slowest_us=fmean(slowest.calls_ns) / US if slowest else None,
        error=_error(ranks),
    )


def calls_ns(ranks: Sequence[Sequence[int]]) -> list[float]:
    """Call by call, the mean over ranks."""
    return [fmean(call) for call in zip(*ranks, strict=False)]


def time_us(calls: Sequence[float]) -> TimeUs:
    """Of at least one call, ns."""
    percent = quantiles(calls, n=100, method="inclusive") if len(calls) > 1 else [calls[0]] * 99
    return TimeUs(
        min=min(calls) / US, median=median(calls) / US, mean=fmean(calls) / US, p90=percent[89] / US,
        p99=percent[98] / US,
    )  # fmt: skip


def _error(ranks: Iterable[Shown | Timed]) -> str | None:
    return next((told.error for told in ranks if told.error), None)
