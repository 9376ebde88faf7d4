"""The checks of `make test-gpu` on real ranks on the CPU, shortened: what does not concern GPUs comes out as expected,
so what runs presets and what judges them fit together; what a CPU cannot give is missed. Of the product, other tests
show the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import plans, test_one_gpu, test_two_gpus, test_watch
from tests.gpu.judging import Recorded
from tests.gpu.plans import Plan
from tests.gpu.running import run_plan
from tests.gpu.watching import Watch, Watched, run_training
from tests.support.gpu_checks import missed, on_the_cpu

ENOUGH = 5.0  # minutes
FEW = ("ddp", "flat", "reduce_broadcast")  # strategies
pytestmark = pytest.mark.rare


def on_cpu(folder: Path, plan: Plan, trials: tuple[str, ...] = (), **changes: object) -> Recorded:
    return run_plan(folder, on_the_cpu(plan, trials, **changes), ENOUGH)


def test_the_quickstart(tmp_path: Path) -> None:
    recorded = on_cpu(tmp_path, plans.QUICKSTART, pin_memory=False, epochs=20, width=64)
    on_cpu_only, backend, clocks = missed(test_one_gpu.test_gpu_quickstart, lambda _: recorded)
    assert "one-process on cpu" in on_cpu_only
    assert backend == "group-of-one over gloo"
    assert clocks == "no rank reported how exact the times of its GPU are"
    assert "one-process: no TFLOP/s" in missed(test_one_gpu.test_figures, recorded)[0]


@pytest.mark.parametrize("plan", [plans.STRATEGIES, plans.STRATEGIES_SHARED], ids=["alone", "two"])
def test_strategies(plan: Plan, tmp_path: Path) -> None:
    recorded = on_cpu(tmp_path, plan, trials=FEW, epochs=2)
    [on_cpu_only] = missed(test_one_gpu.test_strategies_shared, lambda _: recorded)
    assert "ddp on cpu" in on_cpu_only
    assert missed(test_one_gpu.test_strategies, lambda _: recorded)[1].startswith("ddp over gloo")


def test_primitives(tmp_path: Path) -> None:
    recorded = on_cpu(tmp_path, plans.PRIMITIVES_SHARED, max_bytes=65536, iterations=5, cell_s=0.1)
    assert missed(test_one_gpu.test_primitives_shared, lambda _: recorded) == []


def test_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(plan: Plan, minutes: float) -> Recorded:
        return on_cpu(tmp_path, plan, trials=("sound", "kill", "hang"), stall_s=minutes)

    assert missed(test_two_gpus.test_faults, run, monkeypatch) == []


# Trainings that are watched

SMALL = {  # what they ask for on the CPU, which comes last
    "paced": ("wide=64", "narrow=16", "steps=10"),
    "late": ("wide=32",),
    "grouped": ("wide=32", "steps=40", "group=gloo"),
    "handled": ("group=gloo",),
    "overwritten": ("tries=3", "bytes=1024", "group=gloo"),
    "compiled": ("steps=10",),
    "sharded": ("wide=16", "steps=10", "group=gloo"),
    "spread": ("workers=1",),
}


def watch_on_the_cpu(folder: Path) -> Watch:
    def watch(name: str, *options: str, **how: Any) -> Watched:
        runs = folder / f"{name}-{len([*folder.iterdir()])}"
        runs.mkdir()
        return run_training(runs, name, *options, *SMALL.get(name, ()), "DEVICE=cpu", minutes=ENOUGH, **how)

    return watch


@pytest.mark.parametrize(
    ("check", "more"),
    [
        (test_watch.test_watched_sleep, ()),
        (test_watch.test_watched_pair, ()),
        (test_watch.test_watched_pace, ()),
        (test_watch.test_watched_buckets, ("gloo",)),
        (test_watch.test_watched_captures, ()),
        (test_watch.test_watched_compiled, ()),
        (test_watch.test_watched_spread, ()),
        (test_watch.test_watched_overwritten, ()),
        (test_watch.test_watched_sharded, ()),
    ],
)
def test_a_training_is_watched(check: Callable[..., None], more: tuple[str, ...], tmp_path: Path) -> None:
    found = missed(check, watch_on_the_cpu(tmp_path), *more)
    assert found[0] == "on cpu"
    assert not [text for text in found if text.endswith("reported") or "wrong" in text]


def test_what_is_watched_is_unharmed(tmp_path: Path) -> None:
    assert missed(test_watch.test_watched_unharmed, watch_on_the_cpu(tmp_path)) == []
