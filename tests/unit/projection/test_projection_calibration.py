"""Strategies that were measured are calibrated on their own transfers; what rests on a poor fit alone is said to."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ddptui.projection import Point, Projection
from ddptui.projection.calibration import Calibration
from ddptui.projection.command import ProjectOptions, projection
from ddptui.projection.costs import Traffic
from ddptui.projection.report import side_by_side
from tests.support.projected import TENSORS, made, overlapping, ring_ns
from tests.support.projected import journal as launch

MS = 1e6  # ns
BUCKETS = (4_000_000, 1_000_000)  # bytes
TOTAL = (sum(TENSORS),)
SLOW = 5.0  # times


@cache
def asked(runs: Path, **question: Any) -> Projection:
    """The same question is answered once for all tests."""
    return projection(runs, "last", ProjectOptions(**{"ranks": "2,4,64", **question}))


def at(found: Projection, ranks: int, strategy: str) -> Point:
    return next(point for point in found.points if (point.strategy, point.ranks) == (strategy, ranks))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same training under two strategies; calls of the second take far longer than those of the first."""
    folder = tmp_path_factory.mktemp("runs")
    trials = [{"name": "two"}, {"name": "flat", "strategy": "flat", "steps": 77}]
    made(folder, launch("two", 2, seed=1), launch("flat", 2, seed=2, sizes=TOTAL, wire=SLOW), trials=trials)
    return folder


@pytest.mark.parametrize("trial", ["two", "flat"])
def test_each_strategy_that_was_measured_has_its_own_transfers(runs: Path, trial: str) -> None:
    found = asked(runs, trial=trial)
    whole = {"all_reduce": sum(ring_ns(size, 2) for size in TENSORS) / MS, "flat": SLOW * ring_ns(*TOTAL, 2) / MS}
    for strategy, ms in whole.items():
        point = at(found, 2, strategy)
        assert point.calibrated
        assert point.transfer_ms == pytest.approx(ms, rel=0.01)
        assert point.error == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(("trial", "own", "like_it"), [("two", "all_reduce", "ring"), ("flat", "flat", "bucketed")])
def test_a_strategy_that_was_not_measured_is_scaled_as_the_trial_was(
    runs: Path, trial: str, own: str, like_it: str
) -> None:
    """By the formulas, both send as many messages and bytes."""
    found = asked(runs, trial=trial)
    assert not at(found, 64, like_it).calibrated
    assert at(found, 64, like_it).transfer_ms == pytest.approx(at(found, 64, own).transfer_ms)


def test_what_rests_on_a_poor_fit_alone_is_rough_and_nothing_is_fastest_then(runs: Path) -> None:
    found = asked(runs, trial="two")
    assert found.network.worst is not None
    assert found.network.worst > 0.5
    assert {point.strategy for point in found.points if not point.rough} == {"all_reduce", "flat"}
    assert "ring ~" in side_by_side(found, 80).columns[0].cells
    assert not any("fastest" in sentence for sentence in found.said)
    assert "rough" in found.notes[0]
    assert any("fastest" in sentence for sentence in asked(runs, ranks="2,4", alpha=1.0, gbps=10.0).said)
    assert any("fastest" in sentence for sentence in asked(runs, strategies=("flat",)).said)


def test_a_mistake_poisons_nobody(tmp_path: Path) -> None:
    """Its calls never come to the wire."""
    trials = [{"name": "two"}, {"name": "alone", "mistake": "group_of_one"}]
    made(tmp_path, launch("two", 2, seed=1), launch("alone", 2, seed=2, wire=0.01), trials=trials)
    found = asked(tmp_path, ranks="2")
    assert found.network.worst == pytest.approx(0, abs=0.01)


@pytest.fixture(scope="module")
def buckets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("buckets")
    trials = [{"name": "two", "strategy": "ddp"}, {"name": "other", "strategy": "bucketed"}]
    journals = [launch(name, 2, seed=3, sizes=BUCKETS, shape=overlapping) for name in ("two", "other")]
    made(folder, *journals, trials=trials)
    return folder


@pytest.mark.parametrize("strategy", ["ddp", "bucketed"])
def test_with_overlap_a_trial_foretells_itself(buckets: Path, strategy: str) -> None:
    found = asked(buckets, trial="two" if strategy == "ddp" else "other")
    own, transfer = at(found, 2, strategy), sum(ring_ns(size, 2) for size in BUCKETS) / MS
    assert own.transfer_ms == pytest.approx(transfer, rel=0.01)
    assert own.exposed_ms < 0.9 * transfer
    assert any(note.startswith("with overlap, the measured wait was") for note in found.notes)
    assert own.error == pytest.approx(0, abs=0.005)


def test_what_overlap_hides_is_no_matter_of_strategies_without_it() -> None:
    own = Calibration("ddp", Traffic((1.0,), 4), factor=2.0, hides=0.3, wait_factor=0.5)
    assert own.for_strategy("ddp_fp16") == own._replace(strategy="ddp_fp16")
    assert own.for_strategy("ring") == own._replace(strategy="ring", hides=0.0, wait_factor=1.0)


def test_what_more_ranks_send_longer_is_not_hidden(buckets: Path) -> None:
    two, many = (at(asked(buckets, trial="two"), ranks, "ddp") for ranks in (2, 64))
    assert many.exposed_ms - two.exposed_ms == pytest.approx(many.transfer_ms - two.transfer_ms, rel=0.01)
    assert many.transfer_ms > 1.5 * two.transfer_ms
