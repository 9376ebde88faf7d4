"""The engine `slurm`: each launch is a job, submitted by sbatch from a script that is kept in the launch's folder."""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ddptui.config.engine import EngineOptions
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.engines.base import REMOTE_SILENCE_S, LaunchRefused, RemoteLaunch
from ddptui.engines.command import module_folders
from ddptui.engines.hub import Hub
from ddptui.engines.local.engine import LAUNCHER_LOG
from ddptui.engines.slurm import keeper
from ddptui.engines.slurm.keeper import SCRIPT, WIRE_ENV
from ddptui.engines.slurm.queue import JobPoller
from ddptui.engines.slurm.script import ENDED, ScriptError, job_name, meeting, render, wire_env
from ddptui.engines.slurm.states import first_to_go
from ddptui.host.network import NetworkError, choose_interface, port_of
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import LOGS, SILENCE_S
from ddptui.wire.messages import Hello

A_LITTLE_MORE_S = 5.0  # than the keeper takes


class SlurmEngine:
    """Submits launches."""

    is_local = False

    def __init__(self, engine: EngineOptions, run: str) -> None:
        """Raises LaunchRefused."""
        self._engine = engine
        self._run = run
        try:
            self._address = choose_interface(engine.interface).address
        except NetworkError as error:
            raise LaunchRefused(str(error)) from None
        self._port = engine.port or port_of(run)

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        return ["sbatch", str(repeat.folder.absolute() / SCRIPT)]

    def environment(self, trial: Trial) -> dict[str, str]:
        """What ranks want on a node, whose cores are not known here: they share them out themselves."""
        return {"PYTHONPATH": os.pathsep.join(module_folders()), "OMP_NUM_THREADS": str(trial.threads or 1)}

    def open_hub(self, world_size: int) -> Hub:
        return Hub(world_size, at=(self._address, self._port))

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> "SlurmLaunch":
        folder = repeat.folder.absolute()
        # other consoles of this user may begin a run in the same second, and cancel by name, and share a folder
        name = f"{job_name(self._run, trial, repeat.number)}-{secrets.token_hex(4)}"
        variables = self.environment(trial) | hub.rank_environment | {LOGS: str(folder), SILENCE_S: REMOTE_SILENCE_S}
        try:
            script = render(trial, self._engine, folder, name)
        except ScriptError as error:
            raise LaunchRefused(str(error)) from None
        task_is_rank = self._engine.tasks == "rank" and trial.launch not in ONE_PROCESS
        return SlurmLaunch(
            name, script, variables, folder, meeting(self._engine, folder, name), task_is_rank=task_is_rank
        )

    def close(self) -> None:
        """Each job has been ended by itself."""


class SlurmLaunch(RemoteLaunch):
    """One launch. It is kept by slurm/keeper.py: when this process tells it so, or is gone, the job is cancelled."""

    def __init__(
        self,
        name: str,
        script: str,
        variables: Mapping[str, str],
        folder: Path,
        meeting: Path,
        *,
        task_is_rank: bool = False,
    ) -> None:
        """meeting: a file that the ranks may leave behind; task_is_rank: what srun calls a task is the rank of that
        number. Raises OSError, NotStarted."""
        self._log = folder / LAUNCHER_LOG if task_is_rank else None
        self._left = [folder / WIRE_ENV, folder / ENDED, meeting]
        self._troubles: list[str] = []
        self._tidy()
        try:
            write_for_the_user_alone(folder / WIRE_ENV, wire_env(variables))
            (folder / SCRIPT).write_text(script, encoding="utf-8")
            self._keeper = _keeper(folder, name)
            self.number = self._submitted()
        except BaseException:
            self._tidy()
            raise
        self._monitor = JobPoller(self.number, folder)

    def _submitted(self) -> int:
        """The job's number, once sbatch has answered. Raises NotStarted."""
        assert self._keeper.stdout is not None
        try:
            said = self._keeper.stdout.readline().strip()
        except BaseException:  # Ctrl-C: the keeper will cancel what it is about to submit
            self._keeper.communicate(keeper.END)
            raise
        if said.isdecimal():
            return int(said)
        self._keeper.communicate()
        raise LaunchRefused(f"no job was submitted: {said or 'its keeper has died'}")

    @property
    def exit_code(self) -> int | None:
        return self._monitor.standing.exit_code

    @property
    def is_waiting(self) -> bool:
        return self._monitor.standing.is_waiting

    def take_notices(self) -> list[str]:
        troubles, self._troubles = self._troubles, []
        return [*self._monitor.take_notices(), *troubles]

    def end_reason(self) -> str | None:
        """As Slurm says; else as srun says in the log, of a rank that had no time for last words."""
        if (why := self._monitor.standing.why) or self._log is None:
            return why
        try:
            return first_to_go(self._log.read_text(encoding="utf-8", errors="replace"))
        except OSError:  # it never came
            return None

    def add_rank(self, hello: Hello) -> None:
        """So it has begun."""
        if self.is_waiting:
            self._monitor.hurry()

    def stop(self) -> None:
        """Cancel the job if it is not over, and wait until no queue has it; then see how it ended, if it did so of its
        own accord. If it cannot be ended, the news say so."""
        self._monitor.close()
        if trouble := self._let_go():
            self._troubles.append(trouble)
        self._monitor.look_back()
        self._tidy()

    def _let_go(self) -> str:
        """What the keeper has to complain of; without it, its work is done here."""
        assert self._keeper.stdin is not None
        if self._keeper.stdin.closed:  # it has been told so before
            return ""
        try:
            said, _ = self._keeper.communicate(keeper.END, keeper.PATIENT_S + A_LITTLE_MORE_S)
        except subprocess.TimeoutExpired:  # somebody has stopped it
            self._keeper.kill()
            said, _ = self._keeper.communicate()
        if self._keeper.returncode == 0:
            return said.strip()
        return keeper.cancel(self.number, keeper.PATIENT_S) or ""

    def _tidy(self) -> None:
        for path in self._left:
            with suppress(OSError):
                path.unlink()


def _keeper(folder: Path, name: str) -> "subprocess.Popen[str]":
    with (folder / LAUNCHER_LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", keeper.__file__, str(folder), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
            start_new_session=True,
        )


def write_for_the_user_alone(path: Path, text: str) -> None:
    """A file that is not there yet."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
