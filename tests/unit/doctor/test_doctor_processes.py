"""What the doctor says about other processes of this host: real ones, some of which lie or do not answer."""

from collections.abc import Callable

import pytest

from ddptui import doctor
from ddptui.doctor import processes
from tests.support.doctoring import only


def test_this_host_does_what_ranks_ask_of_it() -> None:
    for finding in (*processes.clock(), *processes.orphans()):
        assert finding.remedy == "", finding


@pytest.mark.parametrize(
    ("there", "tick", "said", "remedy"),
    [
        (50, 40, "the same in another process, in steps of 0.04 µs", ""),
        (50, 4_000_000, "in steps of 4e+03 µs", "clock source"),
        (50, 0, "in steps of 0 µs", "clock source"),
        (-10_000_000, 40, "two processes differ by 10 ms", "selftest"),
    ],
)
def test_another_processs_reading_lies_between_two_of_ours(there: int, tick: int, said: str, remedy: str) -> None:
    finding = processes.clock_finding(0, there, 100, tick)
    assert said in finding.text
    assert (remedy in finding.remedy) if remedy else not finding.remedy


LIAR = """
import os, subprocess, sys
from workers.doctor.answers import answer, by_name
def clock():
    return {"ns": 1}
def scheduler():
    raise PermissionError(1, "Operation not permitted")
def dependants():
    alone = [sys.executable, "-c", "import time; time.sleep(60)"]
    return {"parent": subprocess.Popen(alone).pid, "console": subprocess.Popen(alone).pid}
answer(by_name(clock, scheduler, dependants))
"""


def test_a_host_that_does_not_is_found_out(module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MODULE", module(LIAR))
    monkeypatch.setattr(processes, "DEATH_S", 0.1)
    judged: list[dict[str, bool]] = []
    judge = processes.orphans_finding
    monkeypatch.setattr(processes, "orphans_finding", lambda gone, **means: judged.append(gone) or judge(gone, **means))
    assert "processes differ" in only(processes.clock()).text
    refused = only(processes.scheduler())
    assert "Operation not permitted" in refused.text
    assert "sched_batch=false" in refused.remedy
    outlived = only(processes.orphans())
    assert judged == [{"parent": False, "console": False}]
    assert outlived.text == "a rank outlives its parent and its console"
    assert "pgrep" in outlived.remedy


def test_what_watches_over_ranks_is_told_by_system() -> None:
    gone, left = {"parent": True, "console": True}, {"parent": False, "console": True}
    assert "(pidfd)" in processes.orphans_finding(gone, linux=True, pidfd=True).text
    assert "four times a second" in processes.orphans_finding(gone, linux=True, pidfd=False).text
    assert processes.orphans_finding(left, linux=True, pidfd=True).text == "a rank outlives its parent"
    assert not processes.orphans_finding(left, linux=False, pidfd=False).remedy


@pytest.mark.parametrize("check", [processes.clock, processes.scheduler, processes.orphans])
def test_without_an_answer_a_remedy_is_said_all_the_same(
    check: doctor.Look, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MODULE", module("import sys; sys.exit('no such thing')"))
    [finding] = check()
    assert "no such thing" in finding.text
    assert finding.remedy
