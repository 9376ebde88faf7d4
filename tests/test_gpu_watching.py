"""How the checks of `ddptui watch` on a GPU judge what trainings print and what watching them leaves: as expected, and
each part of it once not."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.results import ConfidenceInterval, Culprit, Light
from ddptui.wire.messages import Collective, Step
from ddptui.wire.records import Message
from tests.gpu import test_watch as watch
from tests.gpu.watching import Watched
from tests.support.builders import MS, tied
from tests.support.gpu_checks import missed
from tests.test_gpu_judging import recorded

STEPS, FORWARD_MS = 11, 2.0
SENT = Collective("all_reduce", 0, 8, 10, 20, 30, 40, bucket=0)
AT_ONCE = replace(SENT, exit_ns=20)


def steps_of(ranks: int, forward_ms: Sequence[float] = (FORWARD_MS,) * STEPS, **changes: Any) -> list[Step]:
    """Steps of 10 ms, with a bucket each, the forward of each as long as given."""
    made = []
    for number, ms in enumerate(forward_ms):
        phases_ns = (0, round(ms * MS), round((10 - ms) * MS), 0, 0)
        begin_ns = number * 10 * MS
        for rank in range(ranks):
            made.append(Step(
                rank=rank, step=number, epoch=0, warmup=False, begin_ns=begin_ns, end_ns=begin_ns + 10 * MS,
                phases_ns=phases_ns, samples=8, loss=1.0, collectives=(SENT,),
            ))  # fmt: skip
    return [replace(step, **changes) for step in made]


def training(
    found: Mapping[str, Any],
    told: Sequence[Message],
    ranks: int = 1,
    of_ranks: dict[str, Any] | None = None,
    **changes: Any,
) -> Watched:
    """One whose ranks have each printed this. of_ranks, changes: to figures of ranks, and of the repeat."""
    of_run = recorded({"watched": {"ranks": of_ranks} | changes}, told)
    return Watched(dict.fromkeys(range(ranks), found), of_run)


def spread(*pids: int) -> Watched:
    """Processes 1 and 2 are ranks, and these have a context."""
    pair = training({}, PAIR)
    return pair._replace(found={rank: {"pid": rank + 1, "on_the_gpu": pids, "steps": STEPS} for rank in range(2)})


def late(rank: int, phase: str, s: float) -> Culprit:
    excess = ConfidenceInterval(estimate=s, low=s, high=s)
    return Culprit(rank=rank, phase=phase, share=0.9, wait_caused_s=s, excess_s=excess)


ALONE, PAIR = steps_of(1), steps_of(2)
TIED = tied(error_ms=0.02)
PACE = {"wide_ms": 8.0, "narrow_ms": 0.8, "steps": STEPS}
PARTS = {"part": 5, "warmup": 0, "slept_ms": 20.0}
SLEPT = [2.0] * 5 + [9.0] * 5  # ms of forward, without sleep and with it; and so again
TOLD = {"steps": STEPS}
SLEEP = {"slept_ms": 20.0}  # in each of the 10 steps that a repeat has there
CAPTURED = {"captures": 20, "errors": [], "waits": "", "steps": STEPS}
SHARDED = TOLD | {"bytes": [10**8, 10**8]}
ON_CPU = {"device": "cpu"}
IN_SYNC = [Light(name="in sync", state="right"), Light(name="average", state="right")]
NOT_AVERAGED = [IN_SYNC[0], Light(name="average", state="wrong")]
Made = Callable[[], Watched]

CASES: list[tuple[Any, Made, dict[str, Made], tuple[Any, ...]]] = [
    (watch.test_watched_sleep, lambda: training(PARTS | {"slept_ms": 7.0}, steps_of(1, SLEPT * 2)), {
        "its loss unread: 7.00 of 20.0 ms": lambda: training(PARTS, steps_of(1, SLEPT * 2)),
        "19 of 20 steps reported": lambda: training(PARTS | {"slept_ms": 7.0}, steps_of(1, (SLEPT * 2)[:-1])),
        "on cpu": lambda: training(PARTS | {"slept_ms": 7.0}, steps_of(1, SLEPT * 2), ranks=1, of_ranks=ON_CPU),
    }, ()),
    (watch.test_watched_pair, lambda: training(TOLD, [*PAIR, TIED], ranks=2, checks=IN_SYNC), {
        "in sync: right, average: wrong": lambda: training(TOLD, [*PAIR, TIED], ranks=2, checks=NOT_AVERAGED),
        "rank 1 named in data": lambda: training(TOLD, [*PAIR, TIED], ranks=2, culprit=late(1, "data", 0.2)),
        "times of GPUs off by ±90.0": lambda: training(TOLD, [*PAIR, tied(error_ms=0.09)], ranks=2),
        "11 and 10 of 11 steps": lambda: training(TOLD, [*PAIR[:-1], TIED], ranks=2),
        "12 and 11 of 11 steps": lambda: training(TOLD, [*PAIR, PAIR[0], TIED], ranks=2),
    }, ()),
    (watch.test_watched_late_rank, lambda: training(SLEEP, PAIR, 2, culprit=late(1, "forward", 0.23)), {
        "no rank named, 200 ms slept": lambda: training(SLEEP, PAIR, 2),
        "rank 1 in forward, 250 ms of 200 ms": lambda: training(SLEEP, PAIR, 2, culprit=late(1, "forward", 0.25)),
        "rank 1 in backward, 200 ms": lambda: training(SLEEP, PAIR, 2, culprit=late(1, "backward", 0.2)),
        "rank 0 in forward, 200 ms": lambda: training(SLEEP, PAIR, 2, culprit=late(0, "forward", 0.2)),
    }, ()),
    (watch.test_watched_buckets, lambda: training(TOLD, ALONE, wait_ms=0.0), {
        "NCCL None, told gloo": lambda: training(TOLD, ALONE, wait_ms=0.0, nccl=None),
        "0 buckets, 11 steps without": lambda: training(TOLD, steps_of(1, collectives=()), wait_ms=0.0),
        "transfers 0 ms": lambda: training(TOLD, steps_of(1, collectives=(AT_ONCE,)), wait_ms=0.0),
        "waits 1.00 ms a step": lambda: training(TOLD, ALONE, wait_ms=1.0),
    }, ("nccl",)),
    (watch.test_watched_captures, lambda: training(CAPTURED, ALONE[:-1]), {
        "operation not permitted": lambda: training(CAPTURED | {"errors": ["operation not permitted"]}, ALONE),
        "called item()": lambda: training(CAPTURED | {"waits": "called item()"}, ALONE),
        "9 of 11 steps": lambda: training(CAPTURED, ALONE[:-2]),
    }, ()),
    (watch.test_watched_compiled, lambda: training(TOLD, ALONE), {
        "0 of them with a loss": lambda: training(TOLD, steps_of(1, loss=None)),
    }, ()),
    (watch.test_watched_spread, lambda: spread(1, 2), {
        "contexts: 1 of ranks, 0 of others": lambda: spread(1),
        "contexts: 2 of ranks, 1 of others": lambda: spread(1, 2, 3),
    }, ()),
    (watch.test_watched_overwritten, lambda: training({"wrong": 0, "tries": 200}, ALONE), {
        "1 of 200 wrong": lambda: training({"wrong": 1, "tries": 200}, ALONE),
    }, ()),
    (watch.test_watched_sharded, lambda: training(SHARDED, ALONE), {
        "95.4 MB, then 191 MB": lambda: training(SHARDED | {"bytes": [10**8, 2 * 10**8]}, ALONE),
    }, ()),
]  # fmt: skip


@pytest.mark.parametrize(("check", "sound", "flaws", "more"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_check_misses_what_is_not_as_expected(
    check: Any, sound: Made, flaws: dict[str, Made], more: tuple[Any, ...]
) -> None:
    def missing(made: Made) -> list[str]:
        return missed(check, lambda *_, **__: made(), *more)

    assert missing(sound) == []
    for said, made in flaws.items():
        found = missing(made)
        assert any(said in each for each in found), (said, found)


def compared(check: Any, plain: Mapping[str, Any], found: Mapping[str, Any], told: Sequence[Message]) -> list[str]:
    """What this check misses of a training that found this when it was watched, and that otherwise."""

    def run(_: str, *, watched: bool = True) -> Watched:
        return training(found if watched else plain, told)

    return missed(check, run)


@pytest.mark.parametrize(
    ("found", "told", "said"),
    [
        (PACE, ALONE, []),
        (PACE | {"wide_ms": 8.15, "narrow_ms": 1.19}, ALONE, []),
        (PACE | {"wide_ms": 8.17}, ALONE, ["wide: 8.00 ms, watched 8.17 ms"]),
        (PACE | {"narrow_ms": 1.21}, ALONE, ["narrow: 0.800 ms, watched 1.21 ms"]),
        (PACE, ALONE[:-1], ["10 of 11 steps reported"]),
        (PACE, steps_of(1, pieces=((0, 9 * MS),)), ["parts of a step off by 10% of it at most"]),
    ],
)
def test_the_pace_of_what_is_watched(found: Mapping[str, Any], told: Sequence[Message], said: list[str]) -> None:
    assert compared(watch.test_watched_pace, PACE, found, told) == said


def test_what_users_do_beside_the_steps_comes_out_as_if_not_watched() -> None:
    plain = {"P2POp": "right", "loss": "0.25"}
    check = watch.test_watched_unharmed
    assert compared(check, plain, plain, ALONE) == []
    assert compared(check, plain, plain | {"P2POp": "ValueError: no"}, ALONE) == ["P2POp: right, ValueError: no"]
