"""How the checks of `ddptui watch` on a GPU judge what trainings print and what watching them leaves: as expected, and
each part of it once not."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ddptui.analysis.results import ConfidenceInterval, Culprit, Light
from ddptui.wire.messages import Collective, Step
from tests.gpu import test_watch as watch
from tests.gpu.watching import Watched
from tests.support.builders import MS, tied
from tests.support.gpu_checks import missed
from tests.test_gpu_judging import recorded

STEPS, FORWARD_MS = 11, 2.0
SENT = Collective("all_reduce", 0, 8, 10, 20, 30, 40, bucket=0)


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


def training(case: dict[str, Any], watched: bool = True) -> Watched:
    """found: what its ranks have printed; told: the messages; plain: what they print if it is not watched. All else are
    changes to figures of the repeat."""
    changes = dict(case)
    found, told, plain = changes.pop("found"), changes.pop("told"), changes.pop("plain", None)
    of_each = found if isinstance(found, list) else [found] * (2 if told in (PAIR, PAIR_TIED) else 1)
    return Watched(dict(enumerate(of_each)) if watched else {0: plain}, recorded({"watched": changes}, told))


def late(rank: int, phase: str, s: float) -> dict[str, Any]:
    excess = ConfidenceInterval(estimate=s, low=s, high=s)
    return {"culprit": Culprit(rank=rank, phase=phase, share=0.9, wait_caused_s=s, excess_s=excess)}


def spread(*pids: int) -> dict[str, Any]:
    """Processes 1 and 2 are ranks, and these have a context."""
    return {"found": [{"pid": rank + 1, "on_the_gpu": pids, "steps": STEPS} for rank in range(2)]}


ALONE, PAIR = steps_of(1), steps_of(2)
PAIR_TIED = [*PAIR, tied(error_ms=0.02)]
SLEPT = [2.0] * 5 + [9.0] * 5  # ms of forward, without sleep and with it; and so again
LIGHTS = [Light(name="in sync", state="right"), Light(name="average", state="right")]
TOLD = {"found": {"steps": STEPS}, "told": ALONE}
PARTS = {"found": {"part": 5, "warmup": 0, "slept_ms": 7.0}, "told": steps_of(1, SLEPT * 2)}
TOGETHER = {"found": {"steps": STEPS}, "told": PAIR_TIED, "checks": LIGHTS}
LATE = {"found": {"slept_ms": 20.0}, "told": PAIR} | late(1, "forward", 0.23)  # in each of the 10 steps of a repeat
CAPTURED = {"found": {"captures": 20, "errors": [], "waits": "", "steps": STEPS}, "told": ALONE[:-1]}
PACE = {"wide_ms": 8.0, "narrow_ms": 0.8, "steps": STEPS}
PACED = {"found": PACE | {"wide_ms": 8.15, "narrow_ms": 1.19}, "plain": PACE, "told": ALONE}
UNHARMED = {"found": {"P2POp": "right", "loss": "0.25"}, "plain": {"P2POp": "right", "loss": "0.25"}, "told": ALONE}
SHARDED = {"found": {"steps": STEPS, "bytes": [10**8, 10**8]}, "told": ALONE}

# A check, a training that is as expected, and what may be otherwise, by what the check then misses.
CASES: list[tuple[Any, dict[str, Any], dict[str, dict[str, Any]]]] = [
    (watch.test_watched_sleep, PARTS, {
        "its loss unread: 7.00 of 20.0 ms": {"found": PARTS["found"] | {"slept_ms": 20.0}},
        "on cpu": {"ranks": {"device": "cpu"}},
    }),
    (watch.test_watched_pair, TOGETHER, {
        "in sync: right, average: wrong": {"checks": [LIGHTS[0], Light(name="average", state="wrong")]},
        "rank 1 named in data": late(1, "data", 0.2),
        "12 and 11 of 11 steps": {"told": [*PAIR, PAIR[0], tied(error_ms=0.02)]},
    }),
    (watch.test_watched_late_rank, LATE, {
        "no rank named, 200 ms slept": {"culprit": None},
        "rank 1 in forward, 250 ms of 200 ms": late(1, "forward", 0.25),
    }),
    (watch.test_watched_buckets, TOLD | {"wait_ms": 0.0}, {
        "NCCL None, told gloo": {"nccl": None},
        "0 buckets, 11 steps without": {"told": steps_of(1, collectives=())},
        "transfers 0 ms": {"told": steps_of(1, collectives=(replace(SENT, exit_ns=20),))},
    }),
    (watch.test_watched_captures, CAPTURED, {
        "not permitted": {"found": CAPTURED["found"] | {"errors": ["not permitted"]}},
        "called item()": {"found": CAPTURED["found"] | {"waits": "called item()"}},
    }),
    (watch.test_watched_compiled, TOLD, {"0 of them with a loss": {"told": steps_of(1, loss=None)}}),
    (watch.test_watched_spread, {"told": PAIR} | spread(1, 2), {"of ranks, 1 of others": spread(1, 2, 3)}),
    (watch.test_watched_overwritten, TOLD | {"found": {"wrong": 0, "tries": 200}},
     {"1 of 200 wrong": {"found": {"wrong": 1, "tries": 200}}}),
    (watch.test_watched_sharded, SHARDED, {"then 191 MB": {"found": SHARDED["found"] | {"bytes": [10**8, 2 * 10**8]}}}),
    (watch.test_watched_pace, PACED, {
        "wide: 8.00 ms, watched 8.17 ms": {"found": PACE | {"wide_ms": 8.17}},
        "parts of a step off by 10% of it": {"told": steps_of(1, pieces=((0, 9 * MS),))},
    }),
    (watch.test_watched_unharmed, UNHARMED, {"P2POp: right, no": {"found": UNHARMED["found"] | {"P2POp": "no"}}}),
]  # fmt: skip


@pytest.mark.parametrize(("check", "sound", "flaws"), CASES, ids=[case[0].__name__ for case in CASES])
def test_what_is_missed_of_a_training(check: Any, sound: dict[str, Any], flaws: dict[str, dict[str, Any]]) -> None:
    def missing(case: dict[str, Any]) -> list[str]:
        more = ["nccl"] if check is watch.test_watched_buckets else []
        return missed(check, lambda *_, watched=True, **__: training(case, watched), *more)

    assert missing(sound) == []
    for said, changes in flaws.items():
        assert [each for each in missing(sound | changes) if said in each], said
