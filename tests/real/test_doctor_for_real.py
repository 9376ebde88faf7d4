"""`ddptui doctor` as a user runs it: on this machine as it is, and in surroundings that lack something."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runner import ENOUGH_S, arguments, ddptui, environment, family, start, survivors

FINDING = re.compile(r"[✓!✗–] (.{11})  \S")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """An empty folder for temporary files, its path short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_machine_that_can_do_it_all_is_told_so_and_nothing_stays(tmp_path: Path, temporary: Path) -> None:
    done = ddptui(tmp_path / "runs", "doctor", TMPDIR=str(temporary))
    assert (done.returncode, done.stderr) == (0, "")
    marks = {found[1].strip(): line[0] for line in done.stdout.splitlines() if (found := FINDING.match(line))}
    for what in ("interfaces", "runs", "sockets", "clock", "orphans", "torch", "backends", "spawn", "forkserver"):
        assert marks[what] == "✓", done.stdout
    assert len(marks) == len([line for line in done.stdout.splitlines() if line[0] in "✓!✗–"])
    for word in (str(temporary), str(tmp_path / "runs"), "cores", "gloo"):
        assert word in done.stdout
    assert list(tmp_path.iterdir()) == list(temporary.iterdir()) == []


@pytest.mark.rare
def test_too_few_open_files_are_the_reason_that_is_given(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -n 23; exec "$@"', "sh", *arguments("doctor")],
        env=environment(tmp_path / "runs"), capture_output=True, text=True, timeout=ENOUGH_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "Traceback" not in done.stdout
    assert re.search(r"^! open files +23 per process.*\n +→ 2 ranks need 40", done.stdout, re.MULTILINE)
    assert re.search(r"^✗ spawn .*(\n .*)*→ run `ulimit -n 4096`", done.stdout, re.MULTILINE)


@pytest.mark.rare
def test_folders_that_are_files_and_an_interface_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wrong = {"TMPDIR": str(tmp_path / "file"), "GLOO_SOCKET_IFNAME": "nonesuch"}
    done = ddptui(tmp_path / "file" / "runs", "doctor", **wrong)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Traceback" not in done.stdout
    assert "✗ runs" in done.stdout
    assert "! sockets" in done.stdout
    assert re.search(r"^✗ spawn .*(\n .*)*→ `unset GLOO_SOCKET_IFNAME`", done.stdout, re.MULTILINE)


@pytest.mark.rare  # test_ends.py and test_cli.py show that a command ends at a signal
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_while_ranks_meet_it_leaves_no_process(number: int, tmp_path: Path) -> None:
    doctor = start(tmp_path / "runs", "doctor")
    assert doctor.stdout is not None
    for line in doctor.stdout:
        if line.startswith("✓ backends"):  # ranks are being started
            break
    children = family(doctor.pid)
    assert children
    os.kill(doctor.pid, number)
    _, errors = doctor.communicate(timeout=ENOUGH_S)
    assert doctor.returncode == (-number if number == signal.SIGKILL else 130)
    assert errors == ""
    assert survivors(children, timeout_s=10) == []


def test_a_wrong_sum_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from workers.doctor import meeting

    monkeypatch.setattr(meeting.dist, "all_reduce", lambda tensor: tensor.add_(1.0))
    meeting._sum_is_right(torch.ones(3), expected=2.0)
    with pytest.raises(RuntimeError, match="all_reduce gave 2, and 3 is right"):
        meeting._sum_is_right(torch.ones(3), expected=3.0)
