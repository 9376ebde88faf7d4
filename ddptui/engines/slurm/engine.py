"""The engine `slurm`: each launch is a job. sbatch submits its script, which stays in the folder of the launch."""

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from ddptui.config.engine import EngineOptions
from ddptui.config.launch_modes import ONE_PROCESS
from ddptui.config.trial import Trial
from ddptui.engines.base import LAUNCHER_LOG, REMOTE_SILENCE_S, Engine, Launch, LaunchRefused
from ddptui.engines.hub import Hub
from ddptui.engines.local.warm import is_readable
from ddptui.engines.slurm import keeper
from ddptui.engines.slurm.keeper import SCRIPT, WIRE_ENV
from ddptui.engines.slurm.queue import JobPoller
from ddptui.engines.slurm.script import ENDED, ScriptError, job_name, meeting, render, wire_env
from ddptui.engines.slurm.states import first_failed_rank
from ddptui.host.folders import python_path, write_private
from ddptui.host.machine import steadying
from ddptui.host.network import choose_interface, port_of
from ddptui.store.journal import RepeatJournal
from ddptui.wire.connection import LOGS, SILENCE_S
from ddptui.wire.messages import Hello

MARGIN_S = 5.0  # over the time that the keeper takes
CHUNK = 4096


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
        return {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": threads, **steadying(os.environ)}

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
        self._output = b""  # of the keeper, not yet read as lines
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
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C in the terminal must not reach it
                )
            self.number = self._submitted(name)
        except BaseException:
            self._delete_files()
            raise
        self._poller = JobPoller(self.number, folder)

    def _submitted(self, name: str) -> int:
        """The job's number, once sbatch has answered. Raises LaunchRefused."""
        try:
            answer = self._line()
        except BaseException as interrupt:  # Ctrl-C: the keeper will cancel what it is about to submit
            if trouble := self._withdraw(name):
                interrupt.add_note(trouble)
            raise
        if answer and answer.isdecimal():
            return int(answer)
        self._collect_keeper()
        raise LaunchRefused(f"no job was submitted: {answer or 'its keeper has died'}")

    def _withdraw(self, name: str) -> str:
        """Has the keeper cancel the job that it submits. Returns why the job may be left."""
        self._tell_end()
        answer = self._line(keeper.PATIENCE_S)
        if answer is None:
            self._leave_keeper()
            return f"job {name} may be left: sbatch has not answered; `scancel --name={name}` ends it"
        if answer.isdecimal():
            self.number = int(answer)
            return self._ended()
        self._collect_keeper()
        return ""

    def _line(self, within_s: float | None = None) -> str | None:
        """The keeper's next line; empty: it has ended. None: none came in time."""
        descriptor = self._stdout().fileno()
        while b"\n" not in self._output:
            if not is_readable(descriptor, within_s):
                return None
            if not (more := os.read(descriptor, CHUNK)):
                return ""
            self._output += more
        line, _, self._output = self._output.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    @property
    def exit_code(self) -> int | None:
        return self._poller.status.exit_code

    @property
    def is_waiting(self) -> bool:
        return self._poller.status.is_waiting

    def take_notices(self) -> list[str]:
        return self._poller.take_notices()

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

    def stop(self) -> str | None:
        self._poller.close()  # first: that the job is cancelled now is no news
        trouble = self._cancel()
        if not trouble:  # else Slurm would not answer now, either
            self._poller.look_after_stop()
        self._delete_files()
        return trouble or None

    def _cancel(self) -> str:
        """Has the keeper cancel the job, or does so here if the keeper has died. Returns why the job may be left."""
        if self._stdin().closed:  # it has cancelled the job before
            return ""
        self._tell_end()
        return self._ended()

    def _ended(self) -> str:
        """Waits until the keeper has ended the job. Returns why the job may be left, as soon as the keeper knows."""
        trouble = self._line(keeper.CANCEL_WITHIN_S + MARGIN_S)
        if trouble:
            self._leave_keeper()
            return trouble
        if trouble is None:  # the keeper was stopped, as by SIGSTOP
            self._keeper.kill()
        if self._collect_keeper() == 0:
            return ""
        return keeper.cancel(self.number, keeper.CANCEL_WITHIN_S) or ""

    def _tell_end(self) -> None:
        with suppress(BrokenPipeError):  # it has died
            self._stdin().write(keeper.END.encode())
        self._stdin().close()

    def _collect_keeper(self) -> int:
        """Waits for its end, so that no zombie stays. Returns its exit code."""
        self._stdin().close()
        self._stdout().close()
        return self._keeper.wait()

    def _leave_keeper(self) -> None:
        """Lets it go on without this console."""
        threading.Thread(target=self._collect_keeper, name="keeper", daemon=True).start()

    def _stdin(self) -> IO[bytes]:
        assert self._keeper.stdin is not None
        return self._keeper.stdin

    def _stdout(self) -> IO[bytes]:
        assert self._keeper.stdout is not None
        return self._keeper.stdout

    def _delete_files(self) -> None:
        for path in self._files:
            with suppress(OSError):
                path.unlink()
