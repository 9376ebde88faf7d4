"""Helpers for tests of what the doctor finds."""

from collections.abc import Iterator

from ddptui.doctor.finding import Finding

GB = 2**30


def only(findings: Iterator[Finding]) -> Finding:
    [finding] = findings
    return finding
