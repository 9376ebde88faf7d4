"""What the checks of GPUs share: what runs presets and probes on them, and notes what is seen."""

from collections.abc import Callable
from typing import Any

import pytest

from ddptui.engines.gpu_checks import ELSEWHERE
from ddptui.host import gpus
from ddptui.host.machine import describe
from ddptui.host.rank_side import Child, NoAnswer
from tests.gpu.judging import Expect, Observed, Recorded
from tests.gpu.plans import Plan
from tests.gpu.report import REPORT, pytest_runtest_makereport, pytest_terminal_summary, report_of
from tests.gpu.running import RunPlan, run_plan
from tests.gpu.watching import Watch, Watched, run_training

__all__ = ["pytest_runtest_makereport", "pytest_terminal_summary"]
PROBES = "tests.gpu.probes"
PROBED_S = 180.0


@pytest.fixture(scope="session")
def facts() -> dict[str, Any]:
    """What a process with torch knows of it and of its GPUs, of which there is at least one."""
    if gpus.surely_none():
        pytest.skip(f"needs an NVIDIA GPU, but this machine has none: {ELSEWHERE}")
    try:
        with Child(PROBES) as child:
            facts = child.ask("facts", PROBED_S)
    except NoAnswer as why:
        pytest.skip(f"needs torch, which cannot be asked: {why}; `ddptui doctor` says more")
    if not facts["gpus"]:
        pytest.skip("needs a GPU that torch can use: `ddptui doctor` says why it sees none")
    return facts


@pytest.fixture(scope="session", autouse=True)
def noted(facts: dict[str, Any], pytestconfig: pytest.Config) -> None:
    """From now on, what checks come to is written down."""
    pytestconfig.stash[REPORT] = report_of(pytestconfig.rootpath, describe(), facts)


@pytest.fixture
def two_gpus(facts: dict[str, Any]) -> None:
    """Skips a check where there are fewer."""
    if len(facts["gpus"]) < 2:
        pytest.skip(f"needs 2 GPUs; torch sees {len(facts['gpus'])}")


@pytest.fixture(params=["ProcessGroupNCCL", "ProcessGroupNCCL2"])
def implementation(request: pytest.FixtureRequest, facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """One of torch's classes around NCCL, which ranks take, if this torch has it."""
    name = str(request.param)
    if name not in facts["nccl_implementations"]:
        pytest.skip(f"this torch has no {name}")
    monkeypatch.setenv("TORCH_DIST_USE_NCCL2", str(int(name.endswith("2"))))
    return name


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunPlan:
    """Runs a preset."""

    def run(plan: Plan, minutes: float = 3) -> Recorded:
        return run_plan(tmp_path_factory.mktemp("run"), plan, minutes)

    return run


@pytest.fixture
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    """Runs a training, watched or not."""

    def watch(name: str, *options: str, **how: Any) -> Watched:
        return run_training(tmp_path_factory.mktemp(name), name, *options, **how)

    return watch


@pytest.fixture
def probe() -> Callable[[str], dict[str, Any]]:
    """Asks a question of probes.py, in a process of its own."""

    def ask(question: str) -> dict[str, Any]:
        with Child(PROBES) as child:
            return child.ask(question, PROBED_S)

    return ask


@pytest.fixture
def expect(record_property: Callable[[str, object], None]) -> Expect:
    """Reports what was observed, what is not as expected first; of which there must be nothing."""

    def expect(*observed: Observed) -> None:
        seen = "; ".join(text if ok else f"✗ {text}" for ok, text in sorted(observed, key=lambda part: part[0]) if text)
        record_property("seen", seen)
        if not all(ok for ok, _ in observed):
            pytest.fail(seen, pytrace=False)

    return expect
