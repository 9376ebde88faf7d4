"""Real runs with a rank that is late on purpose: it is named, with its phase and what it lost; and a run without names
nobody.

On a busy machine a step takes some ms longer in one rank than in the other, and each collective a tick of the
scheduler: delays and steps are long enough to hide that.
"""

from pathlib import Path
from typing import Any

import pytest

from ddptui.engines.local.warm import WarmParent
from tests.support.here import run_here
from tests.support.runner import ddptui, write_preset

SLEEP_MS = 80
PRESET = f"""
title = "Who is late?"
[defaults]
steps = 33
threads = 1
[[trial]]
name = "nobody"
strategy = "ddp"
model = "tests.support.slow:Net"
[[trial]]
name = "late"
strategy = "all_reduce"
model = "mlp"
width = 64
depth = 1
[[trial.bottleneck]]
at = "forward"
ranks = [1]
sleep_ms = {SLEEP_MS}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("culprits")


@pytest.fixture(scope="module")
def results(warm: WarmParent, folder: Path) -> dict[str, Any]:
    results = run_here(warm, folder / "runs", write_preset(folder, PRESET))
    assert results["status"] == "ok"
    return {trial["name"]: trial for trial in results["trials"]}


def test_without_a_delay_nobody_is_named(results: dict[str, Any]) -> None:
    assert results["nobody"]["summary"]["culprit"] is None
    assert results["nobody"]["repeats"][0]["culprit"] is None
    assert results["nobody"]["repeats"][0]["injected"] == []


def test_the_late_rank_is_named_with_its_phase_and_what_it_lost(results: dict[str, Any]) -> None:
    [repeat] = results["late"]["repeats"]
    summary = results["late"]["summary"]
    culprit = summary["culprit"]
    assert culprit is not None, repeat
    injected = repeat["ranks"][1]["bottleneck_s"]
    assert injected > 30 * SLEEP_MS / 1000
    assert repeat["injected"] == [{"rank": 1, "at": "forward", "fired": 30, "s": pytest.approx(injected)}]
    assert (culprit["rank"], culprit["phase"]) == (1, "forward")
    excess = culprit["excess_s"]
    assert 0.9 * injected < excess["low"] < excess["estimate"] < excess["high"] < 1.1 * injected
    assert culprit["share"] > 0.8
    assert culprit["wait_caused_s"] == pytest.approx(injected, rel=0.15)
    assert summary["verdict"] == "skew"
    first, late = repeat["ranks"]
    assert first["wait_s"] > 0.8 * injected
    assert late["wait_s"] < 0.2 * injected
    assert summary["what_if_s"]["without_culprit"] < repeat["train_time_s"] - 0.8 * injected


@pytest.mark.parametrize("trial", ["nobody", "late"])
def test_waits_and_transfers_add_up(trial: str, results: dict[str, Any]) -> None:
    [repeat] = results[trial]["repeats"]
    assert repeat["mismatches"] == []
    for rank in repeat["ranks"]:
        assert rank["collectives"] >= 30
        assert 0 <= rank["exposed_s"] <= repeat["train_time_s"]
        if trial == "late":
            assert rank["wait_s"] + rank["transfer_s"] == pytest.approx(rank["exposed_s"])


def test_the_foot_puts_the_two_side_by_side(folder: Path, results: dict[str, Any]) -> None:
    shown = ddptui(folder / "runs", "show", "last").stdout
    assert shown.count(" on rank 1, in forward; ddptui measured 2") == 1
    assert "rank 1: forward" in shown
