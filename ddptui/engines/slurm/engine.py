"""The engine `slurm`: each launch is a job. sbatch submits its script, which stays in the folder of the launch."""

import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ddptui.config.engine import EngineOptions
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.engines.base import REMOTE_SILENCE_S, Engine, Launch, LaunchRefused
from ddptui.engines.hub import Hub
from ddptui.engines.local.engine import LAUNCHER_LOG
from ddptui.engines.slurm import keeper
from ddptui.engines.slurm.keeper import SCRIPT, WIRE_ENV
from ddptui.engines.slurm.queue import JobPoller
from ddptui.engines.slurm.script import ENDED, ScriptError, job_name, meeting, render, wire_env
from ddptui.engines.slurm.states import first_failed_rank
from ddptui.host.folders import python_path, write_private
from ddptui.host.network import choose_interface, port_of
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import LOGS, SILENCE_S
from ddptui.wire.messages import Hello

MARGIN_S = 5.0  # over the time that the keeper takes


class SlurmEngine(Engine):
    """Submits launches as jobs. Each launch ends its own, so there is nothing to close."""

    def __init__(self, engine: EngineOptions, run: str) -> None:
        """Raises NetworkError."""
        self._engine = engine
        self._run = run
        self._address = choose_interface(engine.interface).address
        self._port = engine.port or port_of(run)

    def command(self, trial: Trial, repeat: RepeatJournal) -> list[str]:
        return ["sbatch", str(repeat.folder.absolute() / SCRIPT)]

    def environment(self, trial: Trial) -> dict[str, str]:
        """The variables of the ranks on a node."""
        threads = str(trial.threads or 1)  # a node's cores are unknown here: one thread a rank by default
        return {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": threads}

    def open_hub(self, world_size: int) -> Hub:
        return Hub(world_size, at=(self._address, self._port))

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> "SlurmLaunch":
        folder = repeat.folder.absolute()
        # a token, because other consoles of this user may start a run in the same second, cancel by name, and share
        # a folder
        name = f"{job_name(self._run, trial, repeat.number)}-{secrets.token_hex(4)}"
        variables = self.environment(trial) | hub.rank_environment | {LOGS: str(folder), SILENCE_S: REMOTE_SILENCE_S}
        try:
            script = render(trial, self._engine, folder, name)
        except ScriptError as error:
            raise LaunchRefused(str(error)) from None
        task_is_rank = self._engine.tasks == "rank" and trial.launch not in ONE_PROCESS
        meeting_file = meeting(self._engine, folder, name)
        return SlurmLaunch(name, script, variables, folder, meeting_file, task_is_rank=task_is_rank)


class SlurmLaunch(Launch):
    """One launch. slurm/keeper.py submits the job, and cancels it when this process wants that, or dies."""

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
        """`meeting`: a file that the ranks may leave behind. Raises OSError, and LaunchRefused."""
        self._log = folder / LAUNCHER_LOG if task_is_rank else None  # its task numbers are ranks
        self._files = [folder / WIRE_ENV, folder / ENDED, meeting]
        self._notices: list[str] = []
        self._delete_files()
        try:
            write_private(folder / WIRE_ENV, wire_env(variables))  # the keys are in it
            (folder / SCRIPT).write_text(script, encoding="utf-8")
            with (folder / LAUNCHER_LOG).open("ab") as log:  # the job appends to the same file
                self._keeper = subprocess.Popen(
                    [sys.executable, "-P", keeper.__file__, str(folder), name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    encoding="utf-8",
                    start_new_session=True,  # Ctrl-C in the terminal must not reach it
                )
            self.number = self._submitted()
        except BaseException:
            self._delete_files()
            raise
        self._poller = JobPoller(self.number, folder)

    def _submitted(self) -> int:
        """The job's number, once sbatch has answered. Raises LaunchRefused."""
        assert self._keeper.stdout is not None
        try:
            answer = self._keeper.stdout.readline().strip()
        except BaseException:  # Ctrl-C: the keeper will cancel what it is about to submit
            self._keeper.communicate(keeper.END)
            raise
        if answer.isdecimal():
            return int(answer)
        self._keeper.communicate()  # collects it: no zombie stays
        raise LaunchRefused(f"no job was submitted: {answer or 'its keeper has died'}")

    @property
    def exit_code(self) -> int | None:
        return self._poller.status.exit_code

    @property
    def is_waiting(self) -> bool:
        return self._poller.status.is_waiting

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return [*self._poller.take_notices(), *notices]

    def end_reason(self) -> str | None:
        """Slurm's reason; else the rank that failed first, as srun reports it in the log."""
        if (why := self._poller.status.why) or self._log is None:
            return why
        try:
            return first_failed_rank(self._log.read_text(encoding="utf-8", errors="replace"))
        except OSError:  # the job has not started
            return None

    def add_rank(self, hello: Hello) -> None:
        if self.is_waiting:  # a rank has connected, so the job has started: the state is looked at earlier
            self._poller.hurry()

    def stop(self) -> None:
        """Cancels the job, and waits until it has left the queue. A notice says so if it does not."""
        self._poller.close()  # first: that the job is cancelled now is no news
        if trouble := self._cancel():
            self._notices.append(trouble)
        self._poller.look_after_stop()
        self._delete_files()

    def _cancel(self) -> str:
        """Has the keeper cancel the job, or does so here if the keeper has died. Returns why the job is still there."""
        assert self._keeper.stdin is not None
        if self._keeper.stdin.closed:  # it has cancelled the job before
            return ""
        try:
            output, _ = self._keeper.communicate(keeper.END, keeper.CANCEL_WITHIN_S + MARGIN_S)
        except subprocess.TimeoutExpired:  # the keeper was stopped, as by SIGSTOP
            self._keeper.kill()
            output, _ = self._keeper.communicate()
        if self._keeper.returncode == 0:
            return output.strip()
        return keeper.cancel(self.number, keeper.CANCEL_WITHIN_S) or ""

    def _delete_files(self) -> None:
        for path in self._files:
            with suppress(OSError):
                path.unlink()
