"""`ddptui presets NAME`: describes a preset's trials, with the shell commands that start each trial."""

import shlex

from ddptui.config.catalog import COMMAND, LAUNCH_MODES, ONE_PROCESS
from ddptui.config.preset import OF_SEVERAL_HOSTS, EngineOptions, NodeRanks, Preset
from ddptui.config.trial import Trial
from ddptui.engines import base as launch
from ddptui.engines.join import engine as joined
from ddptui.engines.slurm import job
from ddptui.host.machine import available_cores
from ddptui.report.preset_columns import facts
from ddptui.store.presets import describe_size
from ddptui.text.sanitize import shell_line
from ddptui.text.words import NOTHING

EXAMPLE_PORT = 15_432  # for the printed commands; the console chooses free ports


def one(preset: Preset, typed: str | None = None) -> str:
    """The text of `ddptui presets NAME`: a preset's description and trials, with the command that starts each. typed:
    the preset and --set as typed on the command line."""
    lines = [preset.localized_title, "", *preset.localized_about.strip().splitlines(), ""]
    columns = [fact for fact in facts(preset) if fact.key not in ("trial", "launch")]
    for number, trial in enumerate(preset.trials):
        mark = "  (baseline)" if trial.name == preset.baseline and len(preset.trials) > 1 else ""
        known = [LAUNCH_MODES[trial.launch].label]
        known += [f"{each.header} {each.cells[number]}" for each in columns if each.cells[number] != NOTHING]
        lines += [f"{trial.name}{mark}", f"  {'; '.join(known)}", *_how_to_start(trial, preset.engine), ""]
    if preset.engine.name == "join":
        lines += _how_to_join(preset.engine, typed or preset.name)
    if preset.engine.name == "slurm":
        lines += [*(f"  {line}".rstrip() for line in job.example(preset.trials, preset.engine).splitlines()), ""]
    return "\n".join([*lines, f"{describe_size(preset)} of each, in turn"]) + "\n"


def _how_to_start(trial: Trial, engine: EngineOptions) -> list[str]:
    """The commands that start a trial in a shell: on this host, on each node, or as a job."""
    if trial.launch == COMMAND:
        return [*(f"  {shlex.quote(variable)} \\" for variable in trial.env), f"  {shell_line(trial.command)}"]
    if engine.name == "join":
        parts = joined.parts_of(trial, engine.nodes, port=EXAMPLE_PORT)
        return [line for part in parts for line in (f"  on node {part.node}:", *_command_lines(trial, part))]
    return [] if engine.name == "slurm" else _command_lines(trial)


def _command_lines(trial: Trial, part: NodeRanks | None = None) -> list[str]:
    """The lines of a shell command, with its environment variables in front."""
    if part is None:
        variables, command = launch.rank_environment(trial, available_cores()), launch.rank_command(trial)
    else:  # a node may have a different number of cores and another Python, so neither is spelled out
        alone = trial.launch in ONE_PROCESS
        variables = {} if alone or trial.launch == "launch" else part.environment()
        command = launch.rank_command(trial, "python", None if alone else part)
        if trial.init_method == "file":
            variables["INIT_METHOD"] = "file:///SHARED/FOLDER/A_NEW_NAME"
    return [*(f"  {name}={shlex.quote(value)} \\" for name, value in variables.items()), f"  {shlex.join(command)}"]


def _how_to_join(engine: EngineOptions, typed: str) -> list[str]:
    """Instructions to run the preset on several nodes, with and without the console."""
    given = [(key, value) for key in OF_SEVERAL_HOSTS if (value := getattr(engine, key)) is not None]
    options = " ".join(f"--{key} {shlex.quote(str(value))}" for key, value in given)
    return [
        "With the console, which fills in NODE_0 (the first node's address) and the ports:",
        f"  on this machine:  ddptui run {typed} --engine join {options}",
        "  on each node:     ddptui join TICKET    (the console prints where the ticket is)",
        "Without the console: type the lines above in a checkout of ddptui on each node.",
        "",
    ]
