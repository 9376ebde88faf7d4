"""Options that several commands share, in the order in which help lists them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from ddptui.cli.common import Refusal
from ddptui.cli.completion import assignments, folders, themes

ENGINES = ("local", "join", "slurm")  # EngineName in config/engine.py, whose import would slow down every command


def _named(context: click.Context, parameter: click.Parameter, folder: str | None) -> str | None:
    """The folder, which has a name. Raises Refusal."""
    if folder == "":
        raise Refusal("--runs names no folder: leave it out for the default one")
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
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a trial field.",
    shell_complete=assignments,
)


class EngineOption(click.Option):
    """An option that says where ranks run: help lists it apart from the others."""


class InSections(click.Command):
    """A command whose help lists the options that say where ranks run below the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, in their order."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        engine = [option for option in options if isinstance(option, EngineOption)]
        others = [option for option in options if option not in engine]
        for title, members in (("Options", others), ("Where ranks run", engine)):
            if lines := [line for option in members if (line := option.get_help_record(ctx))]:
                with formatter.section(title):
                    formatter.write_dl(lines)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where ranks run; their keys are the fields of config.engine.EngineOptions."""

    def option(*names: str, **facts: Any) -> Callable[..., Any]:
        return click.option(*names, cls=EngineOption, **facts)

    for add in reversed(
        (
            option("--engine", type=click.Choice(ENGINES), help="Here, on nodes that join, or under Slurm."),
            option("--nodes", type=int, help="Number of nodes."),
            option("--interface", metavar="NAME", help="Network interface by which nodes reach the console."),
            option("--port", type=int, help="Port on which the console listens for nodes."),
            option("--shared", metavar="DIR", help="A folder that all nodes share, for init_method=file."),
            option("--partition", help="Slurm: partition to submit to."),
            option("--account", help="Slurm: account to charge."),
            option("--gres", help="Slurm: generic resources per node, e.g. gpu:2."),
            option("--time", help="Slurm: time limit of the run's job."),
            option("--sbatch", "options", metavar="OPTION", multiple=True, help="Slurm: another option for sbatch."),
        )
    ):
        command = add(command)
    return command


class Whole(click.IntRange):
    """A whole number between two bounds."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Raises BadParameter."""
        try:
            return super().convert(value, parameter, context)
        except click.BadParameter:
            self.fail(f"expected a whole number from {self.min} to {self.max}, got {value}", parameter, context)


class RunOptions(NamedTuple):
    """The options of a run that have been typed. engine: by key of [engine]; runs: the folder of runs."""

    no_ui: bool
    as_json: bool
    assignments: tuple[str, ...]
    repeats: int | None
    wait_quiet: float | None
    theme: str | None
    refresh: float | None
    runs: str | None
    engine: dict[str, Any]

    @property
    def asks_for_headless(self) -> bool:
        """Whether the run is to go without the console's screens, as --no-ui and --json say."""
        return self.no_ui or self.as_json


NOTHING_TYPED = RunOptions(False, False, (), None, None, None, None, None, {})


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a run, which `taken` gathers."""
    for option in reversed(
        (
            click.option("--no-ui", is_flag=True, help="Run headless: progress on stderr, the comparison on stdout."),
            click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table."),
            SET_OPTION,
            click.option("--repeats", metavar="N", type=Whole(1, 1000), help="Launches of each trial."),
            click.option(
                "--wait-quiet",
                metavar="S",
                type=click.FloatRange(0, 86_400),
                help="Headless: on a busy machine, wait up to S seconds before the start. 0: start at once, unasked.",
            ),
            RUNS_OPTION,
            click.option(
                "--theme", metavar="NAME", help="Console: its theme, for this session.", shell_complete=themes
            ),
            click.option(
                "--refresh", metavar="HZ", type=click.FloatRange(0.2, 30), help="Console: screen refreshes per second."
            ),
            engine_options,
        )
    ):
        command = option(command)
    return command


def taken(options: dict[str, Any]) -> RunOptions:
    """The values of the options that `run_options` added."""
    own = {name: options[name] for name in RunOptions._fields if name != "engine"}
    engine = given({name: value for name, value in options.items() if name not in own})
    return RunOptions(**own, engine=engine)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The engine options that were typed, by their key in a preset's [engine]."""
    typed = {key: value for key, value in options.items() if value not in (None, ())}
    return {"name" if key == "engine" else key: value for key, value in typed.items()}
