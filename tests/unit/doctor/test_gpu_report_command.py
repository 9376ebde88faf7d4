"""`ddptui doctor --gpu-report`: when it refuses, what it leaves behind, and that a check that hangs or breaks does not
take the others with it. The checks are made up; presets and processes are real."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from ddptui.cli import main
from ddptui.doctor.gpu_report import bench as bench_module
from ddptui.doctor.gpu_report import command
from ddptui.doctor.gpu_report.bench import Workbench, of_preset, of_probe, run_within
from ddptui.doctor.gpu_report.check import Check, Failure, Impossible, Observed, Recorded
from ddptui.doctor.gpu_report.plans import Plan
from ddptui.host import gpus
from ddptui.host.folders import lab_root
from ddptui.host.rank_side import NoAnswer
from tests.support.descendants import descendants
from tests.support.runner import survivors

FACTS = {"gpus": ["H100"], "nccl_implementations": ["ProcessGroupNCCL"]}
FILE = "ddptui-gpu-report.md"


def check(run: Callable[..., Observed], name: str = "made-up", **fields: Any) -> Check:
    return Check(name=name, question="a question", expected="an answer", run=run, **fields)


def fine(*_: object) -> Observed:
    return Observed(True, "an answer")


def wrong(*_: object) -> Observed:
    return Observed(False, "no answer")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals_given_back: None) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command with these checks, on a machine that has a GPU."""

    def run(checks: Sequence[Check], *words: str) -> Result:
        monkeypatch.setattr(command, "gpu_facts", lambda: FACTS)
        monkeypatch.setattr(command, "CHECKS", tuple(checks))
        return CliRunner().invoke(main, ["doctor", "--gpu-report", *words])

    return run


# Before anything is run


def test_without_a_gpu_one_line_says_so_and_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "surely_none", lambda: True)
    done = CliRunner().invoke(main, ["doctor", "--gpu-report"])
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(
        "Error: --gpu-report needs an NVIDIA GPU, but this machine has none: run it where there is one"
    )
    assert list(Path().iterdir()) == []


class Answers:
    """A child that gives these answers, or none."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __call__(self, _: str) -> "Answers":
        return self

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def ask(self, question: str, within_s: float | None = None) -> Any:
        if question not in self._answers:
            raise NoAnswer("no module named torch")
        return self._answers[question]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "--gpu-report needs torch, which cannot be asked: no module named torch; `ddptui doctor` says more"),
        (
            {"facts": {"gpus": []}, "versions": {"gpu_build": None}, "gpus": {"gpus": [], "why_none": "x"}},
            "--gpu-report needs a GPU that torch can use: present, but this torch is built without CUDA; `pip install",
        ),
        (
            {"facts": {"gpus": []}, "versions": {"gpu_build": "13"}, "gpus": {"gpus": [], "why_none": "is too old"}},
            "present, but the driver is too old for this torch's CUDA 13; update the driver",
        ),
    ],
)  # fmt: skip
def test_a_gpu_that_torch_cannot_use_is_not_enough(
    answers: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "surely_none", lambda: False)
    monkeypatch.setattr(command, "Child", Answers(**answers))
    done = CliRunner().invoke(main, ["doctor", "--gpu-report"])
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(Path().iterdir()) == []


def test_a_file_that_is_there_stays_as_it_is(doctor: Callable[..., Result]) -> None:
    Path(FILE).write_text("of yesterday")
    done = doctor([check(fine)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"Error: {FILE}: is there already: move it, or name another file: --gpu-report FILE\n"
    assert Path(FILE).read_text() == "of yesterday"


def test_a_file_that_cannot_be_written_is_refused_at_once(doctor: Callable[..., Result]) -> None:
    done = doctor([check(fine)], "nowhere/report.md")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nowhere/report.md: cannot be written: No such file or directory; name another" in done.stderr


@pytest.mark.parametrize("name", ["describe", "TemporaryFolder", "Workbench"])
def test_an_interrupt_before_the_first_check_leaves_no_file(
    name: str, doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, name, interrupted)
    assert doctor([check(fine)]).exit_code == 130
    assert list(Path().iterdir()) == []


def test_a_full_temporary_folder_is_told(doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "TemporaryFolder", raising(OSError(errno.ENOSPC, "No space left on device")))
    done = doctor([check(fine)])
    assert done.exit_code == 2
    assert ": cannot be written: No space left on device; name another folder in TMPDIR" in done.stderr
    assert list(Path().iterdir()) == []


# While checks run


def test_a_disk_that_is_full_is_told_and_leaves_what_was_written(
    doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fills_the_disk(path: Path, text: str, encoding: str) -> int:
        original(path, text[: len(text) // 2], encoding)
        raise OSError(errno.ENOSPC, "No space left on device")

    def then_full(*_: object) -> Observed:
        monkeypatch.setattr(Path, "write_text", fills_the_disk)
        return Observed(True, "an answer")

    original = Path.write_text
    done = doctor([check(fine), check(then_full, "second"), check(fine, "third")])
    assert done.exit_code == 2
    [line] = done.stderr.splitlines()
    assert f"{FILE}: cannot be written: No space left on device; it holds the checks before this one: make room" in line
    assert [path.name for path in Path().iterdir()] == [FILE]
    text = Path(FILE).read_text()
    assert "| made-up |" in text
    assert text.endswith("does not know.\n")


def test_each_check_is_printed_and_the_file_holds_all(doctor: Callable[..., Result]) -> None:
    done = doctor([check(fine), check(fine, "second", gpus=2)], "mine.md")
    assert done.exit_code == 0
    assert "[1/2] made-up: a question\n  expected  an answer\n  observed  an answer\n  ✓ ok" in done.stdout
    assert (
        "[2/2] second: a question\n  expected  an answer\n  because   needs 2 GPUs; torch sees 1\n  – not run"
        in done.stdout
    )
    text = Path("mine.md").read_text()
    assert "1 as expected, 0 not, 1 not run" in text
    assert "Interrupted" not in text


def test_something_that_is_not_as_expected_makes_exit_code_1(doctor: Callable[..., Result]) -> None:
    done = doctor([check(wrong), check(fine, "second")])
    assert done.exit_code == 1
    assert "✗ NOT AS EXPECTED" in Path(FILE).read_text()
    assert "1 as expected, 1 not, 0 not run" in done.stdout


def test_an_interrupt_keeps_what_was_finished(doctor: Callable[..., Result]) -> None:
    def interrupted(*_: object) -> Observed:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
        raise AssertionError

    done = doctor([check(fine), check(interrupted, "second"), check(fine, "third")])
    assert done.exit_code == 130
    text = Path(FILE).read_text()
    assert "Interrupted: 2 checks of 3 not reached." in text
    assert "| made-up |" in text
    assert "second" not in text


def test_a_console_that_is_killed_has_written_what_was_finished(doctor: Callable[..., Result]) -> None:
    seen: list[str] = []

    def looks(*_: object) -> Observed:
        seen.append(Path(FILE).read_text())
        return Observed(True, "")

    assert doctor([check(fine), check(looks, "second")]).exit_code == 0
    assert "| made-up |" in seen[0]
    assert "Interrupted: 1 check of 2 not reached." in seen[0]


def raising(error: Exception) -> Callable[..., Observed]:
    def run(*_: object) -> Observed:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "verdict", "said"),
    [
        (Impossible("no compiler"), "not run", "no compiler"),
        (Failure("it hung"), "NOT AS EXPECTED", "it hung"),
        (KeyError("marks"), "NOT AS EXPECTED", "KeyError: 'marks': this is a bug in the check: please report it"),
    ],
)
def test_a_check_that_raises_does_not_end_the_others(
    error: Exception, verdict: str, said: str, doctor: Callable[..., Result]
) -> None:
    done = doctor([check(raising(error)), check(fine, "second")])
    assert said in " ".join(done.stdout.split())
    assert verdict in done.stdout
    assert "✓ ok" in done.stdout


# What a check starts


@pytest.fixture
def workbench(tmp_path: Path) -> Workbench:
    folder = tmp_path / "bench"
    folder.mkdir()
    return Workbench(folder, 1, FACTS)


def console(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """From now on, this is the console that checks start."""
    (tmp_path / "fake" / "ddptui").mkdir(parents=True)
    (tmp_path / "fake" / "ddptui" / "__init__.py").write_text("")
    (tmp_path / "fake" / "ddptui" / "__main__.py").write_text(text)
    monkeypatch.setattr(bench_module, "python_path", lambda: str(tmp_path / "fake"))


STUBBORN = """
import os, signal, subprocess, sys
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("still busy in /a/b/c", file=sys.stderr, flush=True)
signal.pause()
"""


def test_a_check_that_hangs_is_killed_with_all_that_it_started(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    console(monkeypatch, tmp_path, STUBBORN)
    monkeypatch.setattr(bench_module, "STOP_S", 0.2)
    hanging = check(of_preset(Plan(preset="quickstart"), lambda _: Observed(True, "")), minutes=1.5 / 60)
    result = workbench.perform(hanging)
    assert result.verdict == "NOT AS EXPECTED"
    assert result.observed == "not over after 0.025 min: stopped"
    assert result.log == ("still busy in /a/b/c",)
    assert [process for process in descendants() if "signal.pause" in " ".join(process.cmdline())] == []


def test_an_interrupt_stops_what_a_check_has_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(process: Any, timeout: float | None = None) -> int:
        waits.append(timeout)
        if len(waits) == 1:
            raise KeyboardInterrupt
        return original(process, timeout)

    waits: list[float | None] = []
    console(monkeypatch, tmp_path, "import signal; signal.pause()")
    original = bench_module.subprocess.Popen.wait
    monkeypatch.setattr(bench_module.subprocess.Popen, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_within(["run"], tmp_path / "stderr", {}, 60)
    assert waits[0] == 60


KEEPING = """
import pathlib, signal, sys, time
def keep(*_):
    time.sleep(0.3)  # while its ranks send their last messages
    pathlib.Path("kept").write_text("")
    sys.exit()
signal.signal(signal.SIGTERM, keep)
signal.pause()
"""


def test_a_console_that_is_stopped_may_keep_what_its_ranks_have_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    console(monkeypatch, tmp_path, KEEPING)
    assert run_within(["run"], tmp_path / "stderr", {}, 1.5) is None
    assert (tmp_path / "kept").exists()


WAITING = """
import os, pathlib, signal
pathlib.Path("started").write_text(str(os.getpid()))  # a pipe: writing waits for the reader
signal.pause()
"""
DOCTOR = """
import pathlib, sys
from ddptui.doctor.gpu_report import bench
bench.python_path = lambda: sys.argv[1]
bench.run_within(["run"], pathlib.Path("stderr").absolute(), {}, 60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux's kernel ends a process with its parent")
def test_what_a_check_has_started_ends_with_a_doctor_that_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    console(monkeypatch, tmp_path, WAITING)
    os.mkfifo(tmp_path / "started")
    words = [sys.executable, "-P", "-c", DOCTOR, str(tmp_path / "fake")]
    with subprocess.Popen(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(lab_root())}) as parent:
        started = psutil.Process(int((tmp_path / "started").read_text()))
        parent.kill()
    try:
        assert survivors([started], timeout_s=10) == []
    finally:
        for process in survivors([started], timeout_s=0):
            process.kill()


def test_what_the_console_refuses_is_not_run_and_says_why(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    console(monkeypatch, tmp_path, "import sys; sys.exit('Error: device: no GPU here')")
    refused = workbench.perform(check(of_preset(Plan(preset="quickstart"), fine)))
    assert (refused.verdict, refused.observed) == ("not run", "device: no GPU here")
    unknown = workbench.perform(check(of_preset(Plan(preset="quickstart", set={"nonesuch": 1}), fine)))
    assert unknown.verdict == "not run"
    assert "nonesuch" in unknown.observed


def test_results_that_cannot_be_read_are_a_failure(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = (
        "import pathlib\nrun = pathlib.Path('20260101-000000-x')\nrun.mkdir()\n(run / 'preset.toml').write_text('')\n"
    )
    console(monkeypatch, tmp_path, made)
    result = workbench.perform(check(of_preset(Plan(preset="quickstart"), fine)))
    assert result.verdict == "NOT AS EXPECTED"
    assert result.observed.startswith("its results cannot be read: ")


def test_variables_of_a_plan_reach_the_console(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    console(monkeypatch, tmp_path, "import os, sys; sys.exit(int(os.environ['WANTED']))")
    assert run_within([], tmp_path / "stderr", {"WANTED": "7"}, 60) == 7


def test_the_same_plan_is_run_once(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Plan] = []
    recorded: Recorded = Recorded(None, {})  # type: ignore[arg-type]

    def once(plan: Plan, _: float) -> Recorded:
        runs.append(plan)
        return recorded

    monkeypatch.setattr(workbench, "_run", once)
    for steps in (1, 1, 2):
        assert workbench.run(Plan(preset="overlap", set={"steps": steps}), 1) is recorded
    assert [plan.set["steps"] for plan in runs] == [1, 2]


def test_nor_is_one_that_failed_run_again(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Plan] = []

    def fails(plan: Plan, _: float) -> Recorded:
        runs.append(plan)
        raise Failure("it hung")

    monkeypatch.setattr(workbench, "_run", fails)
    twice = [workbench.perform(check(of_preset(Plan(preset="overlap"), fine))) for _ in range(2)]
    assert [result.observed for result in twice] == ["it hung", "it hung"]
    assert len(runs) == 1


def test_a_probe_that_fails_or_hangs_is_told_as_such(
    workbench: Workbench, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import json, signal, sys\nfor line in sys.stdin:\n    if line == 'hangs\\n': signal.pause()\n"
    name = module(text + "    print(json.dumps({'error': 'no NCCL'}), flush=True)\n")
    monkeypatch.setattr(bench_module, "PROBE", name)
    hangs = workbench.perform(check(of_probe("hangs", fine), minutes=0.5 / 60))
    assert (hangs.verdict, hangs.observed) == ("NOT AS EXPECTED", "no answer within 0.5 s")
    fails = workbench.perform(check(of_probe("fails", fine)))
    assert (fails.verdict, fails.observed) == ("NOT AS EXPECTED", "no NCCL")
