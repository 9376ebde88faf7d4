"""The checks of `make test-gpu` on real ranks on the CPU, shortened: what does not concern GPUs comes out as expected,
so what runs presets and what judges them fit together; what a CPU cannot give is missed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddptui.host import gpus
from tests.gpu import plans, test_one_gpu, test_two_gpus, test_watch
from tests.gpu.judging import Recorded, costs_at_most
from tests.gpu.plans import Plan
from tests.gpu.running import run_plan
from tests.gpu.watching import Watch, Watched, run_training
from tests.support.gpu_checks import missed, on_the_cpu

ENOUGH = 5.0  # minutes
FEW = ("ddp", "flat", "reduce_broadcast")  # strategies
RARE = pytest.mark.rare


def on_cpu(folder: Path, plan: Plan, trials: tuple[str, ...] = (), **changes: object) -> Recorded:
    return run_plan(folder, on_the_cpu(plan, trials, **changes), ENOUGH)


@RARE
def test_the_quickstart(tmp_path: Path) -> None:
    recorded = on_cpu(tmp_path, plans.QUICKSTART, pin_memory=False, epochs=20, width=64)
    on_cpu_only, backend, clocks = missed(test_one_gpu.test_gpu_quickstart, lambda _: recorded)
    assert "one-process on cpu" in on_cpu_only
    assert backend == "group-of-one over gloo"
    assert clocks == "no rank reported how exact the times of its GPU are"
    assert "one-process: no TFLOP/s" in missed(test_one_gpu.test_figures, recorded)[0]


@pytest.mark.parametrize(
    "plan", [plans.STRATEGIES, pytest.param(plans.STRATEGIES_SHARED, marks=RARE)], ids=["alone", "two"]
)
def test_strategies(plan: Plan, tmp_path: Path) -> None:
    recorded = on_cpu(tmp_path, plan, trials=FEW, epochs=2)
    [on_cpu_only] = missed(test_one_gpu.test_strategies_shared, lambda _: recorded)
    assert "ddp on cpu" in on_cpu_only
    assert missed(test_one_gpu.test_strategies, lambda _: recorded)[1].startswith("ddp over gloo")


@RARE
def test_primitives(tmp_path: Path) -> None:
    recorded = on_cpu(tmp_path, plans.PRIMITIVES_SHARED, max_bytes=65536, iterations=5, cell_s=0.1)
    assert missed(test_one_gpu.test_primitives_shared, lambda _: recorded) == []


@RARE
def test_what_looking_costs(tmp_path: Path) -> None:
    small = {"model": "net", "dataset": "digits", "batch_size": 64, "steps": 43}
    looked = on_cpu(tmp_path, plans.LOOKING, shape=None, **small)
    assert costs_at_most(looked, "unseen", "seen", factor=10.0).ok
    assert not costs_at_most(looked, "unseen", "seen", factor=0.01).ok


@RARE
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
        pytest.param(test_watch.test_watched_pair, (), marks=RARE),
        pytest.param(test_watch.test_watched_pace, (), marks=RARE),
        pytest.param(test_watch.test_watched_buckets, ("gloo",), marks=RARE),
        pytest.param(test_watch.test_watched_captures, (), marks=RARE),
        pytest.param(test_watch.test_watched_compiled, (), marks=RARE),
        pytest.param(test_watch.test_watched_spread, (), marks=RARE),
        pytest.param(test_watch.test_watched_overwritten, (), marks=RARE),
        pytest.param(test_watch.test_watched_sharded, (), marks=RARE),
    ],
)
def test_a_training_is_watched(check: Callable[..., None], more: tuple[str, ...], tmp_path: Path) -> None:
    found = missed(check, watch_on_the_cpu(tmp_path), *more)
    assert found[0] == "on cpu"
    assert not [text for text in found if text.endswith("reported") or "wrong" in text]


@RARE
def test_what_is_watched_is_unharmed(tmp_path: Path) -> None:
    assert missed(test_watch.test_watched_unharmed, watch_on_the_cpu(tmp_path)) == []


@RARE
def test_a_training_that_fails_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^ended with exit code 1$"):
        run_training(tmp_path, "late", "wide=none", "DEVICE=cpu", minutes=ENOUGH)
    assert "ValueError: invalid literal" in capsys.readouterr().out


# What runs a preset


@RARE
def test_a_trial_that_fails_brings_the_end_of_its_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = [{"kind": "raise", "rank": 1, "step": 3}]
    run_plan(tmp_path, Plan(preset="overlap", trials=("flat",), set={"steps": 8, "width": 16, "fault": fault}), ENOUGH)
    printed = capsys.readouterr().out
    assert "\nflat, rank-1.log:\n" in printed
    assert "Error" in printed.partition("rank-1.log:")[2]


@pytest.mark.skipif(not gpus.surely_none(), reason="there may be a GPU here")
def test_what_the_console_refuses_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"^gpu-amp, trial bf16-compiled: .* this machine has none"):
        run_plan(tmp_path, plans.COMPILED, ENOUGH)


@RARE
def test_a_run_that_hangs_is_stopped_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(preset="overlap", trials=("flat",), set={"steps": 1_000_000, "width": 16})
    for minutes in (0.1, 0.3, 1.0):  # until its ranks have begun to train
        folder = tmp_path / str(minutes)
        folder.mkdir()
        with pytest.raises(pytest.fail.Exception, match=f"^not over after {minutes:g} min: stopped$"):
            run_plan(folder, plan, minutes)
        printed = capsys.readouterr().out
        if "flat, rank-0.log:" in printed:
            break
    assert "\nrank 0  epoch" in printed
