"""What the checks of GPUs share: what runs presets and probes on them, and notes what is seen."""

from collections.abc import Callable
from typing import Any

import pytest

from ddptui.engines.preflight_gpus import ELSEWHERE
from ddptui.host import gpus
from ddptui.host.machine import describe
from ddptui.host.rank_side import Child, NoAnswer
from tests.gpu.judging import Observed, Recorded
from tests.gpu.plans import IMPLEMENTATIONS, Plan
from tests.gpu.report import REPORT, pytest_runtest_makereport, pytest_terminal_summary, report_of
from tests.gpu.running import run_plan

__all__ = ["pytest_runtest_makereport", "pytest_terminal_summary"]
PROBES = "tests.gpu.probes"
Probe = Callable[[str], dict[str, Any]]
Run = Callable[..., Recorded]
Expect = Callable[..., None]


@pytest.fixture(scope="session")
def facts() -> dict[str, Any]:
    """What a process with torch knows of it and of its GPUs, of which there is at least one."""
    if gpus.surely_none():
        pytest.skip(f"needs an NVIDIA GPU, but this machine has none: {ELSEWHERE}")
    try:
        with Child(PROBES) as child:
            facts = child.ask("facts")
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


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, facts: dict[str, Any]) -> str:
    """One of torch's classes around NCCL, if this torch has it."""
    if request.param not in facts["nccl_implementations"]:
        pytest.skip(f"this torch has no {request.param}")
    return str(request.param)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a preset."""

    def run(plan: Plan, minutes: float = 3) -> Recorded:
        return run_plan(tmp_path_factory.mktemp("run"), plan, minutes)

    return run


@pytest.fixture
def probe() -> Probe:
    """Asks a question of probes.py, in a process of its own."""

    def ask(question: str, minutes: float = 3) -> dict[str, Any]:
        with Child(PROBES) as child:
            return child.ask(question, minutes * 60)

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
