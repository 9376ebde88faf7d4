"""The engine `slurm`: the nodes of a run are the tasks of one job. They join the run, and start its launches."""

import secrets

import msgspec

from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.engines.base import Launch, LaunchRefused
from ddptui.engines.hub import Hub
from ddptui.engines.join.engine import JoinedLaunch, JoinEngine
from ddptui.engines.slurm.job import Job
from ddptui.engines.slurm.script import LOG, SCRIPT, ScriptError, nodes_needed, render, sbatch_options
from ddptui.store.journal import RepeatJournal
from ddptui.store.runs import Run

END_WITHIN_S = 10.0  # for Slurm to end a job that has lost a node, and to say why


class SlurmEngine(JoinEngine):
    """Submits a job with the first launch, and another one only if that is over before the run."""

    def __init__(self, preset: Preset, run: Run) -> None:
        """Raises OSError, and NetworkError."""
        engine, folder = preset.engine, run.folder.absolute()
        needed = nodes_needed(preset.trials, engine.nodes)
        super().__init__(msgspec.structs.replace(engine, nodes=needed, shared=engine.shared or str(folder)), run)
        self._preset = preset
        self._name = f"ddptui-{run.name}"
        self._folder = folder
        self._job: Job | None = None
        self._launch: JoinedLaunch | None = None  # the last one

    def start(self, trial: Trial, command: list[str], repeat: RepeatJournal, hub: Hub) -> Launch:
        if self._job is not None and not self._is_usable(self._job):
            trouble = self._end_job()
            self.node_hub.close()
            self.listen()
            if trouble:
                raise LaunchRefused(trouble)
        job = self._job or self._submit()
        # a node's cores are unknown here: one thread a rank by default
        trial = msgspec.structs.replace(trial, threads=trial.threads or 1)
        self._launch = self.launch_on_nodes(trial, repeat, hub)
        return SlurmLaunch(self._launch, job)

    def _is_usable(self, job: Job) -> bool:
        """Whether the job will run, or runs on all of its nodes."""
        self.node_hub.receive()
        has_begun = self._launch is not None and not self._launch.is_waiting
        return not job.status.is_over and not (has_begun and self.node_hub.missing)

    def _submit(self) -> Job:
        """Raises OSError, and LaunchRefused."""
        # a token, because other consoles of this user may start a run in the same second, and cancel by name
        name = f"{self._name}-{secrets.token_hex(4)}"
        try:
            options = sbatch_options(self._preset.trials, self._preset.engine, self._folder, name)
        except ScriptError as error:
            raise LaunchRefused(str(error)) from None
        script = self._folder / SCRIPT
        script.write_text(render(options, self._folder), encoding="utf-8")
        self._job = Job(name, self.ticket_file, self._folder / LOG)  # first: an interrupted sbatch may have submitted
        self._launch = None
        self._job.submit(options, script)
        return self._job

    def close(self) -> str | None:
        super().close()
        return self._end_job()

    def _end_job(self) -> str | None:
        """Returns why the job may be left."""
        trouble = self._job.close() if self._job else None
        self._job = None
        return trouble


class SlurmLaunch(Launch):
    """A launch on the nodes of a job."""

    def __init__(self, joined: JoinedLaunch, job: Job) -> None:
        self._joined, self._job = joined, job
        self.start, self.start_why = joined.start, joined.start_why

    @property
    def exit_code(self) -> int | None:
        code = self._joined.exit_code
        return 1 if code is None and self._job.status.is_over else code

    @property
    def is_waiting(self) -> bool:
        return self._joined.is_waiting

    def take_notices(self) -> list[str]:
        from_nodes = self._joined.advance()
        if from_nodes:  # one has joined, so the job has started: the state is looked at earlier
            self._job.hurry()
        return self._job.take_notices() + from_nodes

    def end_reason(self) -> str | None:
        """Slurm's reason; else that a node was lost."""
        status = self._job.status
        over = status.text if status.is_over else None
        return over if status.by_slurm else self._joined.lost_node() or over

    def stop(self) -> None:
        self._joined.stop()
        if self._joined.lost_node():
            self._job.wait_for_end(END_WITHIN_S)
