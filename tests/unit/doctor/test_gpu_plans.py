"""The presets of the GPU report are ones that a machine with so many GPUs starts, and that one with fewer refuses."""

from pathlib import Path

import pytest

from ddptui.config.parser import PresetError
from ddptui.doctor.gpu_report import plans
from ddptui.doctor.gpu_report.checks import CHECKS
from ddptui.doctor.gpu_report.plans import PLANS, QUICKSTART, Plan, planned
from ddptui.engines.preflight_gpus import GpuInfo, problem
from ddptui.host.gpus import Build, Driver, Gpu
from ddptui.store.presets import as_toml, load
from tests.support.builders import write_preset

ONE_GPU = [
    plans.QUICKSTART, plans.DELAYS, plans.STRATEGIES, plans.STRATEGIES_SHARED, plans.PRIMITIVES_SHARED, plans.AMP,
    plans.COMPILED, plans.LOOKING, plans.PINNING, plans.alone(False), plans.alone(True),
]  # fmt: skip


def refused(plan: Plan, gpus: int) -> list[str]:
    every = tuple(Gpu("H100", f"GPU-{index}") for index in range(gpus))
    machine = GpuInfo(False, Driver("580.65", (13, 0), every), Build("13.0", None), None)
    return [trial.name for trial in planned(plan).trials if problem(trial, machine, "")]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.preset)
def test_a_plan_starts_with_the_gpus_that_it_needs(plan: Plan) -> None:
    assert refused(plan, 2) == []
    assert bool(refused(plan, 1)) == (plan not in ONE_GPU)
    assert all(trial.device == "cuda" for trial in planned(plan).trials)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.preset)
def test_a_plan_is_a_preset_that_can_be_read_again(plan: Plan, tmp_path: Path) -> None:
    path = write_preset(tmp_path, as_toml(planned(plan)), f"{plan.preset}.toml")
    assert load(str(path)).trials == planned(plan).trials


def test_a_plan_takes_some_trials_and_varies_them() -> None:
    plan = Plan(preset="overlap", trials=("flat",), set={"steps": 9}, vary={"on": {}, "off": {"instruments": "off"}})
    preset = planned(plan)
    assert [(trial.name, trial.instruments, trial.steps) for trial in preset.trials] == [
        ("flat-on", "on", 9),
        ("flat-off", "off", 9),
    ]
    assert (preset.baseline, preset.repeats) == ("flat-on", 1)


def test_a_preset_of_the_users_does_not_take_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_preset(tmp_path / "presets", "[[trial]]\nname = 'other'\n", "gpu-quickstart.toml")
    monkeypatch.chdir(tmp_path)
    assert [trial.name for trial in load("gpu-quickstart").trials] == ["other"]
    assert "other" not in [trial.name for trial in planned(QUICKSTART).trials]


def test_a_plan_that_no_longer_fits_is_refused() -> None:
    with pytest.raises(PresetError, match="nonesuch"):
        planned(Plan(preset="overlap", set={"nonesuch": 1}))


def test_faults_are_run_with_a_flight_recorder() -> None:
    assert plans.FAULTS.env == {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}


def test_checks_have_names_of_their_own_and_an_end() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(0 < check.minutes <= 6 for check in CHECKS)
    assert {check.gpus for check in CHECKS} == {1, 2}
