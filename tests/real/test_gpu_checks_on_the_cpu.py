"""The presets of the GPU report run here on the CPU, shortened: what does not concern GPUs comes out as expected, so
what runs them and what judges them fit together; and what a CPU cannot give is missed."""

import platform
import re
import sys
from pathlib import Path

import msgspec
import pytest

from ddptui.doctor.gpu_report import plans, training, verdicts
from ddptui.doctor.gpu_report.bench import Workbench, of_preset
from ddptui.doctor.gpu_report.check import Check, Recorded
from ddptui.doctor.gpu_report.plans import Plan
from ddptui.doctor.gpu_report.privacy import own_names
from ddptui.doctor.gpu_report.report import Report, markdown
from ddptui.host.folders import lab_root
from tests.support.gpu_results import missed, on_the_cpu

ENOUGH_S = 300
EVERYWHERE = (training.ended_well, training.losses_alike, training.in_sync, training.averages_right)
FEW = ("ddp", "flat", "reduce_broadcast")  # strategies


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench(tmp_path_factory.mktemp("cpu"), 2, {})


def as_expected(recorded: Recorded) -> None:
    for part in EVERYWHERE:
        assert part(recorded.results).ok, part(recorded.results).text


def test_the_quickstart(workbench: Workbench) -> None:
    plan = on_the_cpu(plans.QUICKSTART, pin_memory=False, epochs=20, width=64)
    recorded = workbench.run(plan, ENOUGH_S)
    as_expected(recorded)
    assert training.every_step_told(recorded).ok
    on_cpu, backends, clocks = missed(verdicts.quickstart(recorded))
    assert "one-process on cpu" in on_cpu
    assert backends == "group-of-one over gloo, two-share-it over gloo"
    assert clocks == "no rank reported how exact the times of its GPU are"
    lacking = missed(verdicts.gpu_figures(recorded))
    assert "one-process: no TFLOP/s" in lacking[0]


@pytest.mark.parametrize("plan", [plans.STRATEGIES, plans.STRATEGIES_SHARED], ids=["alone", "two"])
def test_strategies(plan: Plan, workbench: Workbench) -> None:
    recorded = workbench.run(on_the_cpu(plan, trials=FEW, epochs=2), ENOUGH_S)
    as_expected(recorded)
    [_] = missed(verdicts.over("gloo")(recorded))  # it ran on the CPU
    assert missed(verdicts.over("nccl")(recorded))[1].startswith("ddp over gloo")


def test_primitives(workbench: Workbench) -> None:
    plan = on_the_cpu(plans.PRIMITIVES_SHARED, max_bytes=65536, iterations=5, cell_s=0.1)
    ok, text = verdicts.primitives(workbench.run(plan, ENOUGH_S))
    assert ok
    assert "of 6 operations right and timed" in text


@pytest.mark.rare
def test_what_looking_and_pinning_cost(workbench: Workbench) -> None:
    small = {"model": "net", "dataset": "digits", "batch_size": 64, "steps": 43}
    looked = workbench.run(on_the_cpu(plans.LOOKING, shape=None, **small), ENOUGH_S)
    assert training.ended_well(looked.results).ok
    assert training.costs_at_most(looked.results, "unseen", "seen", factor=10.0).ok
    assert not training.costs_at_most(looked.results, "unseen", "seen", factor=0.01).ok
    alike = msgspec.structs.replace(plans.PINNING, vary={"pageable": {}, "page-locked": {}})  # there is none on the CPU
    pinned = workbench.run(on_the_cpu(alike, pin_memory=False, epochs=5, width=64), ENOUGH_S)
    as_expected(pinned)
    assert "a step of one-process-pageable" in verdicts.pair(verdicts.MOST_FOR_PINNING)(pinned).text


def test_faults(workbench: Workbench) -> None:
    plan = on_the_cpu(plans.FAULTS, trials=("sound", "kill", "hang"), stall_s=5.0)
    ok, text = verdicts.faults(workbench.run(plan, ENOUGH_S))
    assert ok, text
    assert "hang failed: rank 1 has not arrived" in text


def test_a_trial_that_fails_brings_the_end_of_its_logs(workbench: Workbench) -> None:
    fault = [{"kind": "raise", "rank": 1, "step": 3}]
    plan = Plan(preset="overlap", trials=("flat",), set={"steps": 8, "width": 16, "fault": fault})
    check = Check(name="a", question="b", expected="c", run=of_preset(plan, verdicts.trained))
    result = workbench.perform(check)
    assert result.verdict == "NOT AS EXPECTED"
    assert "flat failed: " in result.observed
    assert "flat, rank-1.log:" in result.log
    assert any("Error" in line for line in result.log)
    text = markdown(Report(machine={}, results=(result,), names=own_names(), checks=1))
    for private in (str(lab_root()), str(Path.home()), platform.node(), sys.prefix):
        assert private not in text
    assert not re.search(r"(?<![\w.…])/\w+/\w", text)


@pytest.mark.rare
def test_a_run_that_hangs_is_stopped_and_told_as_such(tmp_path: Path) -> None:
    plan = Plan(preset="overlap", trials=("flat",), set={"steps": 1_000_000, "width": 16})
    for minutes in (0.1, 0.3, 1.0):  # until its ranks have begun to train
        check = Check(name="a", question="b", expected="c", run=of_preset(plan, verdicts.trained), minutes=minutes)
        folder = tmp_path / str(minutes)
        folder.mkdir()
        result = Workbench(folder, 1, {}).perform(check)
        assert result.verdict == "NOT AS EXPECTED"
        assert result.observed == f"not over after {minutes:g} min: stopped"
        if "flat, rank-0.log:" in result.log:
            break
    assert any(line.startswith("rank 0  epoch") for line in result.log)
