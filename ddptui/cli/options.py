"""Options shared by several commands, in the order in which help lists them."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from ddptui.cli.common import Refusal
from ddptui.cli.completion import assignments, folders, strategies, themes

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
ENGINE_KEYS = (
    "engine", "nodes", "interface", "port", "shared", "partition", "account", "gres", "time", "options",
)  # fmt: skip
ENGINES = ("local", "join", "slurm")  # EngineName in config/engine.py: importing it would slow down every command


def _named(context: click.Context, parameter: click.Parameter, folder: str | None) -> str | None:
    """Returns the folder as typed. Raises Refusal if it is empty."""
    if folder == "":
        raise Refusal("--runs is empty: give a folder, or leave the option out for the default folder")
    return folder


RUNS_OPTION = click.option(
    "--runs",
    metavar="DIR",
    callback=_named,
    help="Folder of runs (default: DDPTUI_RUNS, or your data folder).",
    shell_complete=folders,
)
SET_OPTION = click.option(
    "--set",
    "assignments",
    metavar="[TRIAL:]KEY=VALUE",
    multiple=True,
    help="Set a field of every trial, or of one.",
    shell_complete=assignments,
)
STRATEGY_OPTION = click.option(
    "--strategy", "strategies", metavar="NAME", multiple=True, help="Only this strategy.", shell_complete=strategies
)


def adding(*options: Decorator) -> Decorator:
    """Returns a decorator that adds these options to a command, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


# Where ranks run: fields of config.engine.EngineOptions.
engine_options = adding(
    click.option("--engine", type=click.Choice(ENGINES), help="Run here, on nodes that join, or under Slurm."),
    click.option("--nodes", type=int, help="Number of nodes."),
    click.option("--interface", metavar="NAME", help="Network interface through which nodes reach the console."),
    click.option("--port", type=int, help="Port on which the console listens for nodes."),
    click.option("--shared", metavar="DIR", help="Folder that all nodes share, for init_method=file."),
    click.option("--partition", help="Slurm: partition to submit to."),
    click.option("--account", help="Slurm: account to charge."),
    click.option("--gres", help="Slurm: generic resources per node, e.g. gpu:2."),
    click.option("--time", help="Slurm: time limit of the run's job."),
    click.option("--sbatch", "options", metavar="OPTION", multiple=True, help="Slurm: another option for sbatch."),
)


class Whole(click.IntRange):
    """An option value that is an integer between two bounds."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Returns the integer. Raises BadParameter if it is none, or out of bounds."""
        try:
            return super().convert(value, parameter, context)
        except click.BadParameter:
            self.fail(f"expected a whole number from {self.min} to {self.max}, got {value}", parameter, context)


run_options = adding(
    click.option("--no-ui", is_flag=True, help="Run headless: progress on stderr, the comparison on stdout."),
    click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table."),
    SET_OPTION,
    click.option("--duplicate", "copies", metavar="TRIAL=NEW", multiple=True, help="Add a copy of a trial."),
    click.option("--remove", "removed", metavar="TRIAL", multiple=True, help="Leave a trial out."),
    click.option("--repeats", metavar="N", type=Whole(1, 1000), help="Launches of each trial."),
    click.option(
        "--wait-quiet",
        metavar="S",
        type=click.FloatRange(0, 86_400),
        help="Headless: on a busy machine, wait up to S seconds before the start. Console: 0 starts at once.",
    ),
    RUNS_OPTION,
    click.option("--theme", metavar="NAME", help="Console: theme for this session.", shell_complete=themes),
    click.option(
        "--refresh", metavar="HZ", type=click.FloatRange(0.2, 30), help="Console: screen refreshes per second."
    ),
    engine_options,
)


def changes_of(options: dict[str, Any]) -> dict[str, Any]:
    """Returns those of the options of a run that change a preset, as `load_preset` takes them."""
    names = ("assignments", "copies", "removed", "repeats")
    return {name: options[name] for name in names} | {"engine": engine_of(options)}


def engine_of(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the engine options that the user typed, by their key in a preset's [engine]."""
    typed = {key: value for key in ENGINE_KEYS if (value := options[key]) not in (None, ())}
    return {"name" if key == "engine" else key: value for key, value in typed.items()}
