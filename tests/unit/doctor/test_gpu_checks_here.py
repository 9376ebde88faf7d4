"""The checks of the GPU report that depend on what else there is: a compiler, torch's NCCL, the doctor's findings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ddptui.doctor.finding import Finding
from ddptui.doctor.gpu_report import checks, plans
from ddptui.doctor.gpu_report.bench import Workbench
from ddptui.doctor.gpu_report.check import Check, Observed, Recorded
from ddptui.doctor.gpu_report.plans import Plan

NOTHING = Recorded(None, {})  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    """One that runs nothing, and has one GPU and the stock NCCL."""
    bench = Workbench(tmp_path, 1, {"nccl_implementations": ["ProcessGroupNCCL"]})
    monkeypatch.setattr(bench, "run", lambda plan, within_s: NOTHING)
    return bench


def outcome(bench: Workbench, run: Callable[..., Observed]) -> tuple[str, str]:
    result = bench.perform(Check(name="a", question="b", expected="c", run=run))
    return result.verdict, result.observed


def test_an_implementation_of_nccl_that_torch_lacks_is_not_run(bench: Workbench) -> None:
    def judge(recorded: Recorded) -> Observed:
        return Observed(recorded is NOTHING, "judged")

    plan = plans.alone(newer=True)
    assert outcome(bench, checks.with_nccl("ProcessGroupNCCL2", plan, judge)) == (
        "not run",
        "this torch has no ProcessGroupNCCL2",
    )
    assert outcome(bench, checks.with_nccl("ProcessGroupNCCL", plan, judge)) == ("ok", "judged")


@pytest.mark.parametrize("make", [plans.alone, plans.backends, plans.overlap])
def test_each_implementation_is_asked_for(make: Callable[[bool], Plan]) -> None:
    assert [make(newer).env for newer in (False, True)] == [
        {"TORCH_DIST_USE_NCCL2": "0"},
        {"TORCH_DIST_USE_NCCL2": "1"},
    ]


def test_without_a_compiler_nothing_is_compiled(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "no_compiler", lambda environ: "no C++ compiler")
    assert outcome(bench, checks.compiled) == ("not run", "no C++ compiler")


@pytest.mark.parametrize(("fatal", "verdict"), [(False, "ok"), (True, "NOT AS EXPECTED")])
def test_what_the_doctor_finds(fatal: bool, verdict: str, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Finding("python", "3.12"), Finding("disk", "full", "delete runs", fatal=fatal)]
    monkeypatch.setattr(checks, "groups", lambda runs: {"Group": (("what", lambda: found),)})
    assert outcome(bench, checks.doctor) == (verdict, "2 findings; 1 to mend; disk: full")
