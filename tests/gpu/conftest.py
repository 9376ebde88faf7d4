"""Where the checks of `ddptui doctor --gpu-report` run as tests; what they observed is printed at the end."""

from pathlib import Path

import pytest

from ddptui.doctor.gpu_report.bench import Workbench
from ddptui.doctor.gpu_report.check import Check, Result
from ddptui.doctor.gpu_report.command import NoReport, gpu_facts
from ddptui.doctor.gpu_report.report import after, before, summary

Performed = list[tuple[Check, Result]]
PERFORMED = pytest.StashKey[Performed]()


@pytest.fixture(scope="session")
def performed(pytestconfig: pytest.Config) -> Performed:
    """The checks that have been performed, and their results."""
    return pytestconfig.stash.setdefault(PERFORMED, [])


@pytest.fixture(scope="session")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    try:
        facts = gpu_facts()
    except NoReport as why:
        pytest.skip(str(why).removeprefix("--gpu-report "))
    folder: Path = tmp_path_factory.mktemp("gpu")
    return Workbench(folder, len(facts["gpus"]), facts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was expected and observed."""
    if performed := config.stash.get(PERFORMED, []):
        terminalreporter.section("what GPUs were expected to do, and did")
        for number, (check, result) in enumerate(performed, start=1):
            lines = [*before(check, number, len(performed)), *after(result, {}), *result.log]
            terminalreporter.write_line("\n".join(lines))
        terminalreporter.write_line(summary([result for _, result in performed]))
