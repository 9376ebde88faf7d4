"""The engine `slurm`: the nodes of a run are the tasks of one Slurm job, which join the run and start its launches."""

import secrets
from dataclasses import dataclass

import msgspec

from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.engines.base import LaunchRefused
from ddptui.engines.join.agent import ENDED_BY_CONSOLE
from ddptui.engines.join.engine import JoinedLaunch, JoinEngine
from ddptui.engines.rank_server import RankServer
from ddptui.engines.slurm.job import LOG, PREFIX, SCRIPT, Job, nodes_needed, render, sbatch_options
from ddptui.engines.slurm.keeper import SlurmError
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run

END_WITHIN_S = 10.0  # time for Slurm to end a job that has lost a node, and to report why


class SlurmEngine(JoinEngine):
    """Submits a job with the first launch. Submits another one only if the job ends before the run."""

    def __init__(self, preset: Preset, run: Run) -> None:
        """Listens for nodes, and writes the ticket; submits no job yet. Raises OSError, and NetworkError."""
        engine, shared = preset.engine, preset.engine.shared or str(run.folder.absolute())
        options = msgspec.structs.replace(engine, nodes=nodes_needed(preset.trials, engine.nodes), shared=shared)
        super().__init__(options, run, new_ticket())
        self._preset = preset
        self._job: Job | None = None
        self._last: JoinedLaunch | None = None  # the last launch
        self._left: list[str] = []  # sentences about jobs that may still be running

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: RankServer) -> JoinedLaunch:
        if self._job is not None and not self._is_usable(self._job):
            self._end_job()
            self.listen(self.ticket_file.with_name(new_ticket()))
        job = self._job or self._submit()
        # the number of a node's cores is not known here, so the default is one thread per rank
        trial = msgspec.structs.replace(trial, threads=trial.threads or 1)
        self._last = SlurmLaunch(self, trial, repeat, hub, job=job)
        return self._last

    def _is_usable(self, job: Job) -> bool:
        """Whether launches can use the job: it is waiting, or running on all of its nodes."""
        self.node_hub.receive()
        has_begun = self._last is not None and not self._last.is_waiting
        return not job.status.is_over and not (has_begun and self.node_hub.missing)

    def _submit(self) -> Job:
        """Submits a job. Raises OSError, and LaunchRefused."""
        # the token makes the name unique, because jobs are canceled by name
        folder, token = self.ticket_file.parent, self.ticket_file.name.removeprefix(PREFIX)
        name = f"ddptui-{folder.name}-{token}"
        try:
            options = sbatch_options(self._preset.trials, self._preset.engine, folder, name)
        except SlurmError as error:
            raise LaunchRefused(str(error)) from None
        script = folder / SCRIPT
        script.write_text(render(options, self.ticket_file), encoding="utf-8")
        self._job = Job(name, self.ticket_file, folder / LOG)  # before sbatch, which may submit even if interrupted
        self._last = None
        self._job.submit(options, script)
        return self._job

    def close(self) -> str | None:
        self._end_job()
        return "; ".join(self._left) or None

    def _end_job(self) -> None:
        """Sends a Farewell to the nodes, and waits for the end of their job."""
        job, self._job = self._job, None
        try:
            super().close()
            if job and (why := job.close()):
                self._left.append(why)
        except KeyboardInterrupt as interrupt:  # the user does not want to wait
            if job:
                interrupt.add_note(job.leave("interrupted"))
            raise


def new_ticket() -> str:
    """A unique file name for a job's ticket, so that another job's nodes cannot find it, nor its keeper delete it."""
    return PREFIX + secrets.token_hex(4)


@dataclass(kw_only=True)
class SlurmLaunch(JoinedLaunch):
    """A launch on the nodes of a Slurm job."""

    job: Job

    @property
    def exit_code(self) -> int | None:
        code = super().exit_code
        return 1 if code is None and self.job.status.is_over else code

    def take_notices(self) -> list[str]:
        from_nodes = self.advance()
        if from_nodes:  # a node has joined, so the job has started: check its state at once
            self.job.hurry()
        return self.job.take_notices() + from_nodes

    def end_reason(self) -> str | None:
        """Why the job ended according to Slurm, or else that a node was lost."""
        status = self.job.status
        over = status.text if status.is_over else None
        return over if status.by_slurm else self.lost_node() or over

    def stop(self) -> None:
        # Slurm may end a node before the console does, and the node's Leave may arrive later or never
        was_ended = self.exit_code == ENDED_BY_CONSOLE
        super().stop()
        if was_ended or self.lost_node():
            self.job.wait_for_end(END_WITHIN_S)
