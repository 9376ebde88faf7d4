"""A controller that does not answer: an interrupted console says at once that a job may be left, and what ends it."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.runner import QUICK, start, write_preset
from tests.support.slurm_cluster import Cluster
from tests.support.slurm_fakes import Fakes
from tests.support.waiting import until

AT_ONCE_S = 30  # half of what Slurm gets to end a job
HUNG_S = 600
PRESET = f'[[trial]]\nname = "one"\nlaunch = "spawn"\nworld_size = 2\nstrategy = "all_reduce"\n{QUICK}'
SLURM = ("--engine", "slurm", "--no-ui")


@pytest.fixture
def keepers() -> Iterator[list[psutil.Process]]:
    """Those of the consoles; they go on without these, and are killed in the end."""
    found: list[psutil.Process] = []
    yield found
    for process in [each for keeper in found if keeper.is_running() for each in (keeper, *keeper.children())]:
        process.kill()  # with the command of Slurm that hangs


def console(fakes: Fakes, folder: Path, keepers: list[psutil.Process], command: str) -> "subprocess.Popen[str]":
    """One that has called this command of Slurm for its launch."""
    fakes.job("PENDING")
    preset = write_preset(folder, PRESET)
    process = start(folder / "runs", "--preset", str(preset), *SLURM)
    until(lambda: any("--test-only" not in call for call in fakes.calls(command)) or process.poll() is not None)
    keepers += [child for child in psutil.Process(process.pid).children() if is_keeper(child)]
    return process


def is_keeper(process: psutil.Process) -> bool:
    try:
        return "slurm/keeper.py" in " ".join(process.cmdline())
    except psutil.Error:  # a command of Slurm, which has just ended
        return False


def said_when_interrupted(process: "subprocess.Popen[str]") -> str:
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=AT_ONCE_S)
    assert process.returncode == 130
    return said


def test_an_interrupt_says_which_job_may_be_left_and_the_keeper_goes_on(
    fakes: Fakes, tmp_path: Path, keepers: list[psutil.Process]
) -> None:
    process = console(fakes, tmp_path, keepers, "squeue")
    fakes.set(slow={"squeue": HUNG_S})
    said = said_when_interrupted(process)
    assert "interrupted; job 17 may be left (" in said
    assert "squeue has not answered within 3 s" in said
    assert "cancel it with `scancel 17`" in said
    fakes.set(slow={})  # Slurm answers again
    until(lambda: not any(keeper.is_running() for keeper in keepers))
    assert len(fakes.calls("scancel")) == 1


def test_an_interrupt_while_a_controller_does_not_answer_sbatch_names_the_job(
    fakes: Fakes, tmp_path: Path, keepers: list[psutil.Process]
) -> None:
    fakes.set(slow={"sbatch": HUNG_S, "squeue": HUNG_S})
    process = console(fakes, tmp_path, keepers, "sbatch")
    said = said_when_interrupted(process)
    assert "may be left (squeue has not answered within 3 s)" in said
    assert "`scancel --name=ddptui-" in said


def test_a_second_interrupt_does_not_wait_for_the_end_of_the_job_and_says_so(
    fakes: Fakes, tmp_path: Path, keepers: list[psutil.Process]
) -> None:
    process = console(fakes, tmp_path, keepers, "squeue")
    fakes.set(slow={"squeue": 2.0})  # the job's end takes two answers
    process.send_signal(signal.SIGINT)
    until(lambda: any("--format=%T" in call for call in fakes.calls("squeue")))
    said = said_when_interrupted(process)
    assert "interrupted; job 17 may be left (interrupted): a process here tries to end it for 30 minutes" in said
    fakes.set(slow={})
    until(lambda: not any(keeper.is_running() for keeper in keepers))


@pytest.mark.rare
def test_a_real_controller_that_hangs_ends_the_job_once_it_goes_on(
    cluster: Cluster, tmp_path: Path, keepers: list[psutil.Process]
) -> None:
    process = start(tmp_path / "runs", "--preset", str(write_preset(tmp_path, PRESET)), *SLURM)
    until(lambda: cluster.queue() != [])
    [controller] = [daemon for daemon in cluster.left() if daemon.name() == "slurmctld"]
    controller.suspend()
    try:
        said = said_when_interrupted(process)
    finally:
        controller.resume()
    assert "or cancel it with `scancel" in said
    until(lambda: cluster.queue() == [])
