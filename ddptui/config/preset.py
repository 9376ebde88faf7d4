"""A preset: one question, answered by a few trials; and how it fits the engine that starts it."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ddptui.config.engine import LOCAL, OF_SBATCH, EngineOptions
from ddptui.config.launch_modes import COMMAND, LAUNCH_MODES
from ddptui.config.trial import Trial, TrialError

PresetKind = Literal["training", "primitives", "command"]  # command: a training of the user's own, watched


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published figure for one of the trials, with its source."""

    trial: str
    train_time_s: Annotated[float, Meta(gt=0, lt=1e9)]
    step_ms: Annotated[float, Meta(gt=0, lt=1e9)] | None = None  # of a step, if that was published, too
    source: str = ""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One question, answered by a few trials."""

    name: str
    title: str
    group: str
    about: str
    baseline: str
    repeats: int
    trials: tuple[Trial, ...]
    kind: PresetKind = "training"
    references: tuple[Reference, ...] = ()
    columns: tuple[str, ...] = ()  # of the comparison: those that its question is about, so that they show first
    engine: EngineOptions = LOCAL

    @property
    def base(self) -> Trial:
        """The baseline."""
        return next(trial for trial in self.trials if trial.name == self.baseline)

    @property
    def has_no_end(self) -> bool:
        """Whether a trial trains until the user stops it."""
        return any(trial.trains_until_stopped for trial in self.trials)


OF_SLURM = (*OF_SBATCH, "options")
OF_SEVERAL_HOSTS = ("nodes", "interface", "port", "shared")


def fit_to_engine(preset: Preset) -> Preset:
    """The preset, if its engine can start it. Raises TrialError for options that do not go together."""
    engine = preset.engine
    meant = {"local": (), "join": OF_SEVERAL_HOSTS, "slurm": (*OF_SEVERAL_HOSTS, *OF_SLURM)}[engine.name]
    for key in (*OF_SEVERAL_HOSTS, *OF_SLURM):
        if key not in meant and getattr(engine, key) != getattr(LOCAL, key):
            which = "slurm" if key in OF_SLURM else "join or slurm"
            raise TrialError(f"engine.{key}", f"means nothing with the engine {engine.name!r}: --engine {which}")
    for trial in preset.trials:
        if refused := _refused(trial, is_local=engine.name == "local"):
            raise TrialError(refused[0], f"trial {trial.name}: {refused[1]}")
    return preset


def _refused(trial: Trial, *, is_local: bool) -> tuple[str, str] | None:
    """The field for which the engine cannot start a trial, and why; None if it can."""
    if trial.launch == COMMAND:
        why = "a command runs here: let it start what runs elsewhere, as srun and torchrun do"
        return None if is_local else ("engine.name", why)
    if not LAUNCH_MODES[trial.launch].by_console:
        why = "'task' is a rank that is started by hand: `srun python -m workers.task …`, in a checkout of ddptui"
        return "launch", why
    if not is_local and any(bottleneck.at == "link" for bottleneck in trial.bottleneck):
        return "bottleneck", "a slow link is made on this host alone: --engine local"
    if not is_local and trial.save:
        return "save", "checkpoints would stay on the nodes: leave it out"
    return None
