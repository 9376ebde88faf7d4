"""What the doctor says of a machine that lacks something: each thing is made to be missing once, and what mends it is
said. The processes that are asked are real, and some of them die, hang or lie."""

import errno
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from click.testing import CliRunner

from ddptui import doctor
from ddptui.cli import main
from ddptui.config.parser import PresetError
from ddptui.doctor import folders, machine, processes, torch
from ddptui.doctor.finding import COLUMNS, Finding, lines, with_known_cause
from ddptui.engines.local import links
from ddptui.host import gpus
from ddptui.host.network import Interface, NetworkError
from ddptui.host.rank_side import Child, NoAnswer
from tests.support.runner import survivors

GB = 2**30


def only(findings: Iterator[Finding]) -> Finding:
    [finding] = findings
    return finding


def refuse(number: int) -> Callable[..., Any]:
    def refusing(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return refusing


# How findings are printed


@pytest.mark.parametrize(
    ("finding", "begin"),
    [
        (Finding("cores", "2"), "✓ cores        2"),
        (Finding("cores", "1", "take another"), "! cores        1"),
        (Finding("cores", "0", "take another", fatal=True), "✗ cores        0"),
        (Finding("nccl", "not tried", tried=False), "– nccl         not tried"),
    ],
)
def test_a_mark_says_how_bad_it_is_and_the_remedy_stands_below(finding: Finding, begin: str) -> None:
    first, *rest = lines(finding)
    assert first == begin
    assert rest == ([f"{'':15}→ {finding.remedy}"] if finding.remedy else [])


def test_lines_fit_into_80_columns_and_a_path_stays_whole() -> None:
    path = "/a-path/" + "x" * 90
    printed = lines(Finding("runs", "many words " * 20 + path, "and more words " * 20))
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
    assert remedy in with_known_cause(Finding("spawn", found, "as it was")).remedy
    assert with_known_cause(Finding("spawn", found)).remedy == ""


# The whole


def examined(monkeypatch: pytest.MonkeyPatch, *checks: doctor.Check) -> int:
    monkeypatch.setattr(doctor, "groups", lambda _: {"Group": tuple(("what", check) for check in checks)})
    return doctor.examine()


def test_only_what_stands_in_the_way_of_a_run_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warned, fatal = Finding("b", "2", "mend"), Finding("c", "3", "mend", fatal=True)
    assert examined(monkeypatch, lambda: [Finding("a", "1")], lambda: [warned]) == 0
    assert examined(monkeypatch, lambda: [fatal], lambda: [warned]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "Group"


def test_findings_are_printed_as_they_come(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def second() -> Iterator[Finding]:
        seen.append(capsys.readouterr().out)
        yield Finding("b", "2")

    examined(monkeypatch, lambda: [Finding("a", "1")], second)
    assert "✓ a" in seen[0]


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
    def broken() -> Iterator[Finding]:
        yield Finding("a", "1")
        raise error

    assert examined(monkeypatch, broken, lambda: [Finding("b", "2")]) == 0
    output = capsys.readouterr().out
    assert said in output
    assert "! what         cannot be checked" in output
    assert "✓ b" in output


@pytest.mark.usefixtures("signals_given_back")
def test_whoever_ends_it_finds_nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []

    def ended() -> Iterator[Finding]:
        try:
            os.kill(os.getpid(), 15)
            yield Finding("a", "never said")
        finally:
            left.append("put away")

    monkeypatch.setattr(doctor, "groups", lambda _: {"Group": (("what", ended),)})
    code = CliRunner().invoke(main, ["doctor"]).exit_code
    assert (code, left) == (130, ["put away"])


# This machine


def test_this_machine_is_told_without_a_remedy_where_it_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = psutil.virtual_memory()._replace(available=4 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: enough)
    monkeypatch.setattr(machine, "available_cores", lambda: 2)
    assert [finding.remedy for finding in machine.machine()] == ["", "", ""]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: enough._replace(available=GB))
    monkeypatch.setattr(machine, "available_cores", lambda: 1)
    assert [bool(finding.remedy) for finding in machine.machine()] == [False, True, True]


def test_a_compiler_is_missed_by_torch_compile_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "no_compiler", lambda _: "")
    assert only(machine.compiler()) == Finding("compiler", "C++ compiler found: compile = true works")
    monkeypatch.setattr(machine, "no_compiler", lambda _: "install g++")
    assert only(machine.compiler()) == Finding("compiler", "install g++", tried=False)


def test_the_loopback_interface_is_talked_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not only(machine.interfaces()).remedy
    monkeypatch.setattr(socket, "create_server", refuse(errno.EADDRNOTAVAIL))
    finding = only(machine.interfaces())
    assert finding.fatal
    assert "ip link set lo up" in finding.remedy


@pytest.mark.parametrize(
    ("soft", "hard", "remedy"),
    [
        (1024, 4096, ""),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, ""),
        (256, 1024, "for 64 ranks: `ulimit -n 1024`"),
        (256, resource.RLIM_INFINITY, "for 64 ranks: `ulimit -n 4096`"),
        (24, 100_000, "2 ranks need 40: `ulimit -n 4096`"),
        (64, 64, "for 64 ranks: raise `nofile` in /etc/security/limits.conf (a container: --ulimit nofile=4096)"),
    ],
)
def test_a_limit_of_open_files_is_set_against_2_and_64_ranks(
    soft: int, hard: int, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    assert only(machine.open_files()).remedy == remedy


@pytest.mark.parametrize(
    ("by_user", "by_group", "remedy"),
    [
        (None, None, ""),
        (1000, None, ""),
        (None, 1000, ""),
        (100, None, "for 64 ranks: raise `ulimit -u`"),
        (100, 5, "2 ranks need 36: raise the container's limit (docker: --pids-limit)"),
        (5, 100, "2 ranks need 36: raise `ulimit -u`"),
    ],
)
def test_room_for_processes_is_what_the_narrower_limit_leaves(
    by_user: int | None, by_group: int | None, remedy: str
) -> None:
    assert machine.processes_remedy(by_user, by_group) == remedy


def test_the_limits_of_processes_are_read_where_they_stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root is not held to its limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (machine._threads_of_user() + 50, 10_000))
    monkeypatch.setattr(machine, "PIDS_FILES", (str(tmp_path / "pids"),))
    assert "ulimit -u" in only(machine.processes()).remedy
    (tmp_path / "pids.max").write_text("30\n")
    (tmp_path / "pids.current").write_text("20\n")
    finding = only(machine.processes())
    assert finding.text.startswith("room for 10 more")
    assert "--pids-limit" in finding.remedy
    (tmp_path / "pids.max").write_text("max\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert only(machine.processes()).text.startswith("no limit")


def test_a_time_of_day_that_cannot_be_is_said() -> None:
    assert machine.time_remedy(datetime.now(UTC)) == ""
    for year in (1970, 2190):
        assert "timedatectl" in machine.time_remedy(datetime(year, 1, 1, tzinfo=UTC))


# Processes that are asked

FAKE = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    question = line.strip()
    if question == "die":
        print("a traceback", file=sys.stderr)
        sys.exit("SomeError: the last line")
    if question == "crash":
        os.kill(os.getpid(), 11)
    if question == "hang":
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open(os.environ["STARTED"], "w").write(str(started.pid))
        time.sleep(60)
    wrong = {"garbage": "[[", "fail": json.dumps({"error": "it" + chr(27) + " did not work"})}
    print(wrong.get(question, json.dumps({"pid": os.getpid()})), flush=True)
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], str]:
    """Writes a module that a child can be asked to run; returns its name."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "fake_for_doctor.py").write_text(text, encoding="utf-8")
        return "fake_for_doctor"

    return write


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("die", "SomeError: the last line"),
        ("crash", "killed by SIGSEGV"),
        ("fail", r"it\x1b did not work"),
        ("garbage", "could not be started, or its answer not read"),
    ],
)
def test_a_process_that_dies_or_fails_says_why_and_the_next_question_is_answered(
    question: str, why: str, module: Callable[[str], str]
) -> None:
    with Child(module(FAKE)) as asked:
        with pytest.raises(NoAnswer) as no:
            asked.ask(question)
        assert why in str(no.value)
        assert "\n" not in str(no.value)
        assert asked.ask("anything")["pid"] > 0


def test_a_process_that_hangs_is_killed_with_its_family(module: Callable[[str], str], tmp_path: Path) -> None:
    with Child(module(FAKE), STARTED=str(tmp_path / "started")) as asked:
        first = asked.ask("anything")["pid"]
        begin = time.monotonic()
        with pytest.raises(NoAnswer, match=r"no answer within 1\.5 s"):
            asked.ask("hang", within_s=1.5)
        assert time.monotonic() - begin < 10
        assert not psutil.pid_exists(first)
        with suppress(psutil.NoSuchProcess):
            assert not survivors([psutil.Process(int((tmp_path / "started").read_text()))], timeout_s=10)
        assert asked.ask("anything")["pid"] != first


def test_an_unexpected_end_kills_the_process_at_once(module: Callable[[str], str]) -> None:
    def interrupted() -> int:
        with Child(module(FAKE)) as asked:
            pids.append(asked.ask("anything")["pid"])
            raise KeyboardInterrupt

    pids: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not psutil.pid_exists(pids[0])


def test_a_process_that_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", refuse(errno.EAGAIN))
    with Child("workers.doctor.host") as asked, pytest.raises(NoAnswer, match="Resource temporarily unavailable"):
        asked.ask("clock")


def test_what_is_printed_besides_is_no_answer_and_an_error_is_one(module: Callable[[str], str]) -> None:
    text = """
from workers.doctor.answers import answer, by_name
def noisy():
    print("a note of NCCL's", flush=True)
    return {"right": 1}
def broken():
    raise ValueError("first line\\nsecond line")
def rank():
    raise RuntimeError("\\n-- Process 1:\\nTraceback (most recent call last):\\n  a line\\nKeyError: 'x'\\n")
answer(by_name(noisy, broken, rank))
"""
    with Child(module(text)) as asked:
        assert asked.ask("noisy") == {"right": 1}
        for question, why in (("broken", "ValueError: first line"), ("rank", "KeyError: 'x'")):
            with pytest.raises(NoAnswer) as no:
                asked.ask(question)
            assert str(no.value) == why


# What another process of this host does


def test_this_host_does_what_ranks_ask_of_it() -> None:
    for finding in (*processes.clock(), *processes.orphans()):
        assert finding.remedy == "", finding


@pytest.mark.parametrize(
    ("there", "tick", "said", "remedy"),
    [
        (50, 40, "the same in another process, in steps of 0.04 µs", ""),
        (50, 4_000_000, "in steps of 4e+03 µs", "clock source"),
        (50, 0, "in steps of 0 µs", "clock source"),
        (10_000_200, 40, "two processes differ by 10 ms", "selftest"),
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
    check: doctor.Check, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MODULE", module("import sys; sys.exit('no such thing')"))
    [finding] = check()
    assert "no such thing" in finding.text
    assert finding.remedy


# Folders


def test_the_runs_folder_is_written_to_and_nothing_stays(tmp_path: Path) -> None:
    kept, disk = folders.runs(str(tmp_path / "not" / "there"))
    assert (kept.remedy, disk.name) == ("", "disk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/below", "dangling", "dangling/below"])
def test_runs_that_cannot_be_kept_are_fatal(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    finding = only(folders.runs(str(tmp_path / name)))
    assert finding.fatal
    assert "--runs" in finding.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file"]


def test_a_disk_that_fails_half_way_is_fatal_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refuse(errno.ENOSPC))
    [finding] = doctor.findings([("runs", lambda: folders.runs(str(tmp_path)))])
    assert finding.fatal
    assert "disk is full" in finding.remedy
    assert list(tmp_path.iterdir()) == []


def test_less_than_a_gigabyte_of_disk_is_warned_about() -> None:
    assert folders.disk_remedy(1.0) == ""
    assert "delete runs" in folders.disk_remedy(0.9)


def test_the_wire_is_tried() -> None:
    assert not only(folders.sockets()).fatal


def test_without_a_folder_for_sockets_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "Hub", refuse(errno.ENOENT))
    finding = only(folders.sockets())
    assert finding.fatal
    assert "export TMPDIR=" in finding.remedy


@pytest.mark.parametrize("heard", [False, NoAnswer("killed by SIGABRT")])
def test_a_wire_on_which_nobody_is_heard_is_fatal(heard: bool | NoAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    def hello(_: object) -> bool:
        if isinstance(heard, NoAnswer):
            raise heard
        return heard

    monkeypatch.setattr(folders, "_hello", hello)
    finding = only(folders.sockets())
    assert finding.fatal
    assert "export TMPDIR=" in finding.remedy


def test_sockets_elsewhere_than_wanted_are_said() -> None:
    where = Path("/tmp")
    for wanted in (None, "/tmp", "/tmp/"):
        assert folders.socket_folder_finding(where, wanted, "/tmp") == Finding("sockets", "ZeroMQ (ipc) works in /tmp")
    long = folders.socket_folder_finding(where, "/a/long/path", "/a/long/path")
    assert "too long" in long.text
    assert not long.remedy
    refused = folders.socket_folder_finding(where, "/nowhere", "/tmp")
    assert "TMPDIR (/nowhere) cannot be written" in refused.text
    assert refused.remedy == "`export TMPDIR=/tmp`"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/shm is Linux's own")
def test_shared_memory_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "SHARED", tmp_path)
    assert "NCCL" in only(folders.shared_memory()).text
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(folders, "SHARED", tmp_path / "none")
    finding = only(folders.shared_memory())
    assert not finding.fatal
    assert "--shm-size" in finding.remedy


def test_little_shared_memory_matters_where_there_is_a_gpu() -> None:
    assert folders.shared_remedy(0.06, no_gpu=True) == ""
    assert folders.shared_remedy(1.0, no_gpu=False) == ""
    assert "--shm-size=1g" in folders.shared_remedy(0.06, no_gpu=False)


# torch


class Gpu(NamedTuple):
    """What a case of `gpus_finding` is told."""

    why: str = ""
    build: str | None = "13.2"
    visible: str | None = None
    none: bool = False


@pytest.mark.parametrize(
    ("case", "found", "remedy"),
    [
        (Gpu(none=True), "none: ranks run on the CPU", ""),
        (Gpu(visible=""), "hidden: CUDA_VISIBLE_DEVICES is ''", "unset CUDA_VISIBLE_DEVICES"),
        (Gpu(visible="-1"), "hidden: CUDA_VISIBLE_DEVICES is '-1'", "unset CUDA_VISIBLE_DEVICES"),
        (Gpu(visible="", none=True), "hidden: CUDA_VISIBLE_DEVICES is ''", ""),
        (Gpu(build=None), "built without CUDA", "pip install --force-reinstall torch"),
        (Gpu("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."), "CUDA 13.2", "older"),
        (Gpu("RuntimeError: Found no NVIDIA driver on your system."), "without a driver", "install NVIDIA's driver"),
        (Gpu("RuntimeError: No CUDA GPUs are available", visible="7"), "No CUDA GPUs", "CUDA_VISIBLE_DEVICES is '7'"),
    ],
)
def test_gpus_that_torch_does_not_see_are_told_apart(case: Gpu, found: str, remedy: str) -> None:
    finding = torch.gpus_finding({"gpus": [], "why_none": case.why}, case.build, case.visible, case.none)
    assert found in finding.text
    assert (remedy in finding.remedy) if remedy else not finding.remedy
    assert not finding.fatal


def test_gpus_are_told_by_name_and_memory() -> None:
    told = {"gpus": [["H200", 139 * GB], ["H200", 139 * GB]], "why_none": ""}
    finding = torch.gpus_finding(told, "13.2", None, False)
    assert finding == Finding(
        "GPUs", "H200 (139 GB), H200 (139 GB): for 2 ranks, or more that share them (share_gpu = true)"
    )
    alone = torch.gpus_finding({"gpus": told["gpus"][:1], "why_none": ""}, "13.2", None, False)
    assert alone.text == "H200 (139 GB): for one rank, or more that share it (share_gpu = true)"


# NVIDIA's driver

H100 = gpus.Gpu("H100", "GPU-aa", 80 * GB, GB, 0)
DRIVER = gpus.Driver("580.65", (13, 0), (H100, H100._replace(uuid="GPU-bb", used_bytes=None, busy_percent=None)))


def told_by_nvml(monkeypatch: pytest.MonkeyPatch, driver: gpus.Driver | None, visible: str | None) -> list[Finding]:
    monkeypatch.setattr(gpus, "surely_none", lambda: False)
    monkeypatch.setattr(gpus, "ask", lambda: driver)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    return list(torch.driver_and_gpus())


def test_the_driver_and_its_gpus_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, first, second = told_by_nvml(monkeypatch, DRIVER, None)
    assert driver.text.startswith("580.65, up to CUDA 13.0; this torch is built for")
    assert first == Finding("GPU 0", "H100, 80 GB (1.0 used), 0 % busy")
    assert second == Finding("GPU 1", "H100, 80 GB")


def test_a_gpu_that_is_hidden_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, second = told_by_nvml(monkeypatch, DRIVER, "1")
    assert first.text.endswith("; hidden: CUDA_VISIBLE_DEVICES is '1'")
    assert "hidden" not in second.text


@pytest.mark.parametrize("others", [{"busy_percent": 40}, {"used_bytes": 30 * GB}])
def test_a_gpu_that_others_use_spoils_times(others: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    used = DRIVER._replace(gpus=(H100._replace(**others),))
    _, finding = told_by_nvml(monkeypatch, used, None)
    assert "other programs use it, which distorts times" in finding.remedy
    assert not finding.fatal


def test_instances_of_a_gpu_are_said_and_not_called_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = DRIVER._replace(gpus=(H100._replace(is_cut=True),))
    _, finding = told_by_nvml(monkeypatch, cut, "MIG-4e2a")
    assert finding.text == "H100, 80 GB (1.0 used), 0 % busy, cut into instances (MIG)"


def test_a_driver_that_is_too_old_has_its_remedy() -> None:
    new, old = gpus.Build("13.2", None), gpus.Build("12.6", None)
    assert torch.driver_finding(DRIVER, new).remedy == torch.driver_finding(DRIVER, None).remedy == ""
    too_old = torch.driver_finding(DRIVER._replace(version="550.54", cuda=(12, 4)), new)
    assert too_old.text == "550.54, up to CUDA 12.4; this torch is built for CUDA 13.2"
    assert "update the driver, or install a torch for an older CUDA" in too_old.remedy
    assert not torch.driver_finding(DRIVER._replace(cuda=(12, 4)), old).remedy


def test_without_gpus_or_nvml_there_is_little_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    [finding] = told_by_nvml(monkeypatch, None, None)
    assert (finding.name, finding.tried) == ("driver", False)
    monkeypatch.setattr(gpus, "surely_none", lambda: True)
    assert list(torch.driver_and_gpus()) == []


@pytest.mark.parametrize("name", ["torch", "torchvision"])
def test_without_torch_it_is_one_finding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "find_spec", lambda wanted: None if wanted == name else object())
    finding = only(torch.torch())
    assert finding == Finding(name, "not installed", f"`pip install {name}`", fatal=True)


def test_without_a_folder_for_sockets_torch_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "Hub", refuse(errno.ENOENT))
    finding = only(torch.torch())
    assert (finding.tried, finding.fatal) == (False, False)


class Told(Child):
    """Answers as it is told to, without a process."""

    def __init__(self, **answers: dict[str, Any] | str) -> None:
        versions = {"torch": "2", "torchvision": "1", "backends": ["gloo", "nccl"], "group_hooks": True}
        sums = {name: {"sum_s": 0.001} for name in ("spawn", "forkserver")}
        self._answers: dict[str, Any] = {
            "versions": versions | {"gpu_build": "13.2"},
            "gpus": {"gpus": [["H200", 139 * GB]], "why_none": ""},
            "nccl": {"sum_s": 0.001, "version": "2.28.9"},
        }
        self._answers |= sums | answers

    def ask(self, question: str, within_s: float | None = None) -> dict[str, Any]:
        told = self._answers[question]
        if isinstance(told, str):
            raise NoAnswer(told)
        return dict(told)


def found_by(asked: Child) -> dict[str, Finding]:
    return {finding.name: finding for finding in torch.torch_findings(asked)}


def test_a_torch_that_can_do_everything_has_no_remedy() -> None:
    found = found_by(Told())
    assert not [finding for finding in found.values() if finding.remedy or not finding.tried]
    assert found["nccl"].text == "2.28.9, summed on the first GPU in 1.0 ms"


def test_a_torch_that_cannot_be_imported_is_fatal() -> None:
    found = found_by(Told(versions="ImportError: libfoo.so"))
    assert list(found) == ["torch"]
    assert found["torch"].fatal
    assert "ImportError: libfoo.so" in found["torch"].text
    assert "--force-reinstall" in found["torch"].remedy


@pytest.mark.parametrize(("interface", "remedy"), [(None, "firewall"), ("eth9", "unset GLOO_SOCKET_IFNAME")])
def test_ranks_that_do_not_meet_are_fatal(interface: str | None, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    if interface:
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", interface)
    found = found_by(Told(spawn="no answer within 60 s"))
    assert found["spawn"].fatal
    assert remedy in found["spawn"].remedy
    assert not found["forkserver"].tried


def test_a_forkserver_that_does_not_start_and_an_nccl_that_does_not_sum_are_warned_about() -> None:
    found = found_by(Told(forkserver="AF_UNIX path too long", nccl="killed by SIGSEGV"))
    assert "start_method" in found["forkserver"].remedy
    assert "NCCL_DEBUG=INFO" in found["nccl"].remedy
    assert "SIGSEGV" in found["nccl"].text
    assert not [finding for finding in found.values() if finding.fatal]


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (["gloo", "nccl", "mpi"], "gloo, nccl, mpi"),
        (["gloo"], "gloo; mpi: only in a torch built from source beside an MPI library"),
    ],
)
def test_mpi_is_told_to_be_rare(there: list[str], found: str) -> None:
    assert torch.backends_finding(there, gpu=True) == Finding("backends", found)


def test_backends_that_are_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "surely_none", lambda: True)
    plain = {"torch": "2", "torchvision": "1", "group_hooks": False, "gpu_build": None}
    found = found_by(Told(versions=plain | {"backends": ["gloo"]}))
    assert "with NCCL" in found["nccl"].remedy
    found = found_by(Told(versions=plain | {"backends": []}, gpus="AssertionError"))
    assert found["backends"].fatal
    assert "spawn" not in found
    assert found["nccl"] == Finding("nccl", "not tried: needs a GPU", tried=False)
    assert found["collectives"].text == "observed by wrapping torch's functions"


# Where else ranks could run


def test_the_address_that_other_hosts_would_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "choose_interface", lambda: Interface("eth7", "10.1.0.7"))
    assert only(machine.join()) == Finding("join", "other hosts reach this one at 10.1.0.7 (eth7): --engine join")
    monkeypatch.setattr(machine, "choose_interface", refuse_with(NetworkError("no network but loopback")))
    assert only(machine.join()) == Finding(
        "join", "other hosts cannot reach this one: no network but loopback", tried=False
    )


def test_slurm_is_missed_by_nobody_who_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not only(machine.slurm()).tried
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/sbatch")
    monkeypatch.setattr(machine, "check", refuse_with(PresetError("--engine slurm: no controller")))
    assert only(machine.slurm()) == Finding("slurm", "no controller", "ask the cluster's administrators")
    monkeypatch.setattr(machine, "check", lambda _: None)
    assert only(machine.slurm()) == Finding("slurm", "jobs can be submitted: --engine slurm")


def test_slow_links_or_what_they_want(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "problem", lambda: "a slow link wants root")
    assert only(machine.slow_links()) == Finding("slow links", "a slow link wants root", tried=False)
    monkeypatch.setattr(links, "problem", lambda: None)
    assert only(machine.slow_links()).tried


def refuse_with(error: Exception) -> Callable[..., Any]:
    def refusing(*_: object) -> Any:
        raise error

    return refusing
