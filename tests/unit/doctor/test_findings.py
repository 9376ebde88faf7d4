"""How the doctor prints what it finds, and what it does where a check itself fails."""

import errno
import os
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from ddptui import doctor
from ddptui.cli import main
from ddptui.doctor.machine import COLUMNS, CheckResult, lines, with_known_cause

# How findings are printed


@pytest.mark.parametrize(
    ("finding", "begin"),
    [
        (CheckResult("cores", "2"), "✓ cores        2"),
        (CheckResult("cores", "1", "take another"), "! cores        1"),
        (CheckResult("cores", "0", "take another", fatal=True), "✗ cores        0"),
        (CheckResult("nccl", "not tried", tried=False), "– nccl         not tried"),
    ],
)
def test_a_mark_says_how_bad_it_is_and_the_remedy_stands_below(finding: CheckResult, begin: str) -> None:
    first, *rest = lines(finding)
    assert first == begin
    assert rest == ([f"{'':15}→ {finding.remedy}"] if finding.remedy else [])


def test_lines_fit_into_80_columns_and_a_path_stays_whole() -> None:
    path = "/a-path/" + "x" * 90
    printed = lines(CheckResult("runs", "many words " * 20 + path, "and more words " * 20))
    assert [line for line in printed if len(line) > COLUMNS] == [f"{'':15}{path}"]


@pytest.mark.parametrize(
    ("found", "remedy"),
    [
        ("OSError: [Errno 24] Too many open files", "ulimit -n"),
        ("RuntimeError: can't start new thread", "ulimit -u"),
        ("Resource temporarily unavailable", "ulimit -u"),
        ("libtorch_cpu.so: failed to map segment from shared object", "ulimit -v"),
        ("No space left on device", "disk is full"),
        ("something else", "as it was"),
    ],
)
def test_where_the_cause_is_known_the_remedy_is_its_own(found: str, remedy: str) -> None:
    assert remedy in with_known_cause(CheckResult("spawn", found, "as it was")).remedy
    assert with_known_cause(CheckResult("spawn", found)).remedy == ""


# The whole


def examined(monkeypatch: pytest.MonkeyPatch, *checks: doctor.Look) -> int:
    monkeypatch.setattr(doctor, "groups", lambda _: {"Group": tuple(("what", check) for check in checks)})
    return doctor.examine()


def test_findings_are_printed_as_they_come_and_only_what_stands_in_the_way_of_a_run_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def second() -> Iterator[CheckResult]:
        seen.append(capsys.readouterr().out)
        yield CheckResult("b", "2", "mend")

    assert examined(monkeypatch, lambda: [CheckResult("a", "1")], second) == 0
    assert seen[0].splitlines()[0] == "Group"
    assert "✓ a" in seen[0]
    assert examined(monkeypatch, lambda: [CheckResult("c", "3", "mend", fatal=True)], second) == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("oh"), "ZeroDivisionError: oh"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (AssertionError(), "please report"),
    ],
)
def test_a_check_that_fails_itself_is_a_finding_and_the_others_go_on(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterator[CheckResult]:
        yield CheckResult("a", "1")
        raise error

    assert examined(monkeypatch, broken, lambda: [CheckResult("b", "2")]) == 0
    output = capsys.readouterr().out
    assert said in output
    assert "! what         cannot be checked" in output
    assert "✓ b" in output


@pytest.mark.usefixtures("signals_given_back")
def test_whoever_ends_it_finds_nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []

    def ended() -> Iterator[CheckResult]:
        try:
            os.kill(os.getpid(), 15)
            yield CheckResult("a", "never said")
        finally:
            left.append("put away")

    monkeypatch.setattr(doctor, "groups", lambda _: {"Group": (("what", ended),)})
    code = CliRunner().invoke(main, ["doctor"]).exit_code
    assert (code, left) == (130, ["put away"])
