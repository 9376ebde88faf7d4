"""Helpers for tests of what the doctor finds."""

from collections.abc import Iterator

from ddptui.doctor.machine import CheckResult

GB = 2**30


def only(findings: Iterator[CheckResult]) -> CheckResult:
    [finding] = findings
    return finding
