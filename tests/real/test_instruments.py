"""A real run without instruments: its times are known, and nothing else was said."""

import json
from pathlib import Path
from typing import Any

import pytest

from ddptui.engines.local.warm import WarmParent
from tests.support.here import run_here
from tests.support.runner import QUICK, ddptui, write_preset

PRESET = f"""
title = "What looking costs"
[defaults]
{QUICK}
[[trial]]
name = "seen"
[[trial]]
name = "unseen"
instruments = "off"
[[trial.bottleneck]]
at = "aggregate"
ranks = [1]
sleep_ms = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("instruments")


@pytest.fixture(scope="module")
def results(warm: WarmParent, folder: Path) -> dict[str, Any]:
    return run_here(warm, folder / "runs", write_preset(folder, PRESET))


def said(folder: Path, results: dict[str, Any], trial: str) -> list[str]:
    journal = folder / "runs" / results["run"] / f"trial-{trial}" / "repeat-1" / "messages.jsonl"
    return [json.loads(line)["type"] for line in journal.read_text().splitlines()]


def test_no_step_and_no_heartbeat_was_said(folder: Path, results: dict[str, Any]) -> None:
    seen, unseen = said(folder, results, "seen"), said(folder, results, "unseen")
    assert seen.count("Step") == 2 * 8
    assert "Trained" not in seen
    assert unseen.count("Trained") == 2
    assert not {"Step", "Heartbeat", "Pause"} & set(unseen)


def test_times_are_known_and_what_was_not_looked_at_is_null(results: dict[str, Any]) -> None:
    seen, unseen = (trial["repeats"][0] for trial in results["trials"])
    assert unseen["train_time_s"] > 6 * 0.003
    assert unseen["startup_s"] > 0
    assert unseen["steps"] == seen["steps"] == 6
    assert unseen["samples_per_s"] == pytest.approx(6 * 64 / unseen["train_time_s"])
    assert 0 <= unseen["accuracy"] <= 1
    assert unseen["loss"]["last"] > 0
    for figure in ("step_ms", "phases_ms", "wait_ms", "transfer_ms", "overlap", "wait_share", "transfer_share"):
        assert unseen[figure] is None
        assert seen[figure] is not None
    for rank in unseen["ranks"]:
        assert rank["wait_s"] is rank["transfer_s"] is rank["collectives"] is None


def test_its_delays_went_in_all_the_same_and_it_learned_the_same(results: dict[str, Any]) -> None:
    seen, unseen = (trial["repeats"][0] for trial in results["trials"])
    assert [rank["bottleneck_fired"] for rank in unseen["ranks"]] == [0, 6]
    assert unseen["accuracy"] == seen["accuracy"]
    assert unseen["in_sync"] == seen["in_sync"]


def test_the_foot_says_why_there_is_so_little(folder: Path, results: dict[str, Any]) -> None:
    shown = ddptui(folder / "runs", "show", "last").stdout
    assert "unseen: without instruments: only the trial's times are known" in shown
