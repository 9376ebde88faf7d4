"""A preset: one question, answered by a few trials; and the engine that starts their ranks: here, on nodes that
join, or by Slurm.

A preset is checked against its engine, and says how its ranks start.
"""

from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, field

from ddptui.config.catalog import COMMAND, LAUNCH_MODES
from ddptui.config.trial import StartKind, Trial, TrialError, TrialKind
from ddptui.text.words import localized

MOST_REPEATS = 1000
EngineName = Literal["local", "join", "slurm"]
# Printable characters only, since options are written into a Slurm script.
Option = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]*\Z")]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The options of an engine, from `[engine]` in a preset or the command line."""

    name: EngineName = "local"  # join: nodes on which a user runs `ddptui join TICKET`; slurm: the nodes of a job
    nodes: Annotated[int, Meta(ge=1, le=1024)] = 1  # the ranks of a trial are spread over them in blocks
    interface: Option | None = None  # of this host, by which nodes reach the console; None: that of the default route
    # The console's port. None: derived from the run's name, below the ephemeral range.
    port: Annotated[int, Meta(ge=1024, le=65000)] | None = None
    shared: Option | None = None  # a folder that all nodes see, for init_method = "file"; None (slurm): the run's
    partition: Option | None = None  # this and the fields below are options of sbatch
    account: Option | None = None
    gres: Option | None = None
    time: Option | None = None
    options: tuple[Option, ...] = ()  # more options of sbatch, e.g. "--exclusive"


LOCAL = EngineOptions()
OF_SBATCH = ("partition", "account", "gres", "time")  # passed on to sbatch under the same names


class NodeRanks(NamedTuple):
    """The ranks of one node, and the address and port on node 0 where all ranks meet."""

    node: int
    nodes: int
    ranks: range
    address: str
    port: int

    def environment(self) -> dict[str, str]:
        """The environment variables that the node's entry point reads (workers/rank/group.py)."""
        return {
            "NNODES": str(self.nodes),
            "NODE_RANK": str(self.node),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
        }


def spread(world_size: int, nodes: int) -> list[range]:
    """The ranks of each node, in blocks as even as possible, larger blocks first; at most as many nodes as ranks."""
    nodes = min(nodes, world_size)
    small, larger = divmod(world_size, nodes)
    starts = [node * small + min(node, larger) for node in range(nodes + 1)]
    return [range(first, end) for first, end in pairwise(starts)]


class Links(msgspec.Struct, frozen=True):
    """The slow links of a trial. mbit: Mbit/s (1e6 bits per second) each way, by rank; other links have no limit."""

    world_size: int
    mbit: dict[int, float]


def links_of(trial: Trial) -> Links | None:
    """The slow links of a trial; None if it has none and its ranks can use the host's network."""
    slow = {rank: link.mbit for link in trial.bottleneck for rank in link.ranks if link.mbit is not None}
    return Links(trial.world_size, slow) if slow else None


class Reference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Published figures for one of the trials, with their source."""

    trial: str
    train_time_s: Annotated[float, Meta(gt=0, lt=1e9)]
    step_ms: Annotated[float, Meta(gt=0, lt=1e9)] | None = None  # the length of a step; None: not published
    source: str = ""


class LessonQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question of a lesson, and the cells of the table that answer it. Students answer it in their own words."""

    text: str
    zh: str = ""  # the text in Chinese
    columns: tuple[str, ...] = ()  # keys of the columns whose cells answer it: figures and the checks' lights
    trials: tuple[str, ...] = ()  # the trials whose cells they are; empty: all

    @property
    def localized_text(self) -> str:
        """The text in the chosen language."""
        return localized(self.text, self.zh)


class Chinese(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A preset's texts in Chinese; empty: those in English."""

    title: str = ""
    about: str = ""


class PresetKeys(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The keys of a preset's file, without its trials."""

    title: str = ""
    kind: TrialKind = "training"
    group: str = "other"
    about: str = ""
    baseline: str = ""
    repeats: Annotated[int, Meta(ge=1, le=MOST_REPEATS)] = 1
    columns: tuple[str, ...] = ()  # keys of the columns that the question is about; tables show them first
    references: tuple[Reference, ...] = field(default=(), name="reference")
    questions: tuple[LessonQuestion, ...] = field(default=(), name="question")
    zh: Chinese = Chinese()
    engine: EngineOptions = LOCAL


class Preset(PresetKeys, frozen=True, kw_only=True):
    """One question, answered by a few trials."""

    name: str
    trials: tuple[Trial, ...] = field(name="trial")

    @property
    def localized_title(self) -> str:
        """The title in the chosen language."""
        return localized(self.title, self.zh.title)

    @property
    def localized_about(self) -> str:
        """What it is about, in the chosen language."""
        return localized(self.about, self.zh.about)

    @property
    def base(self) -> Trial:
        """The trial that the others are compared with."""
        return next(trial for trial in self.trials if trial.name == self.baseline)

    @property
    def has_no_end(self) -> bool:
        """Whether a trial trains until the user stops it."""
        return any(trial.trains_until_stopped for trial in self.trials)


OF_SLURM = (*OF_SBATCH, "options")
OF_SEVERAL_HOSTS = ("nodes", "interface", "port", "shared")


def fit_to_engine(preset: Preset) -> Preset:
    """The preset, if its engine can start it. Raises TrialError if options or trials do not fit the engine."""
    engine, elsewhere = preset.engine, preset.engine.name != "local"
    for key in (*OF_SEVERAL_HOSTS, *OF_SLURM):
        engines = ("slurm",) if key in OF_SLURM else ("join", "slurm")
        if engine.name not in engines and getattr(engine, key) != getattr(LOCAL, key):
            remedy = f"--engine {' or '.join(engines)}"
            raise TrialError(f"engine.{key}", f"has no effect with the engine {engine.name!r}; use {remedy}")
    for trial in preset.trials:
        # fmt: off
        for is_refused, key, why in (
            (elsewhere and trial.launch == COMMAND, "engine.name",
             "a command runs on this host only; use a command that starts the other nodes itself, e.g. srun"),
            (not LAUNCH_MODES[trial.launch].by_console, "launch",
             "ranks of 'task' are started by hand: `srun python -m workers.task …`, in a checkout of ddptui"),
            (elsewhere and links_of(trial), "bottleneck", "slow links work on this host only; use --engine local"),
            (elsewhere and trial.save, "save", "checkpoints would stay on the nodes; leave it out"),
        ):
            if is_refused:
                raise TrialError(key, f"trial {trial.name}: {why}")
        # fmt: on
    return preset


def start_of(trial: Trial, nodes: int = 1) -> tuple[StartKind, str]:
    """How ranks of this trial start: warm (forked from a process that has imported torch) or cold (as new processes);
    and the reason for a cold start that the trial does not ask for, else an empty text."""
    method = f"start_method = {trial.start_method!r} applies only to new processes"
    reasons = (  # the first one that applies is given
        (trial.start == "cold", ""),
        (trial.start_method != "spawn", method),
        (trial.compile, "torch.compile starts compilers that need a new process"),
        (links_of(trial) is not None, "on slow links each rank has its own network namespace"),
        (trial.launch == "launch" and nodes > 1, "torch.distributed.launch first waits for the other nodes"),
    )
    return next((("cold", why) for is_so, why in reasons if is_so), ("warm", ""))


def needs_warm_parent(preset: Preset) -> bool:
    """Whether this host forks the ranks of any of the preset's trials."""
    return preset.engine.name == "local" and any(start_of(trial)[0] == "warm" for trial in preset.trials)
