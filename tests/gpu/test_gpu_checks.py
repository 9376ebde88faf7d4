"""Each check of `ddptui doctor --gpu-report`, as a test: `make test-gpu`. Skipped where a GPU is missing."""

from typing import TYPE_CHECKING

import pytest

from ddptui.doctor.gpu_report.bench import Workbench
from ddptui.doctor.gpu_report.check import Check
from ddptui.doctor.gpu_report.checks import CHECKS

if TYPE_CHECKING:
    from tests.gpu.conftest import Performed


@pytest.mark.parametrize("check", CHECKS, ids=[check.name.replace(", ", "-").replace(" ", "-") for check in CHECKS])
def test_a_gpu_does_as_expected(check: Check, workbench: Workbench, performed: "Performed") -> None:
    result = workbench.perform(check)
    performed.append((check, result))
    if result.verdict == "not run":
        pytest.skip(result.observed)
    assert result.verdict == "ok", "\n".join([result.observed, *result.log])
