"""What several commands share: options, the request for a preset, refusals, and work that an interrupt may end."""

import errno
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ddptui.cli.completion import assignments, folders, themes

if TYPE_CHECKING:
    from ddptui.config.preset import Preset
    from ddptui.config.settings import Settings

USAGE_ERROR = 2
INTERRUPTED = 130  # as a shell reports SIGINT: 128 + 2
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
            option("--tasks", type=click.Choice(("rank", "node", "array")), help="Slurm: what one task runs."),
            option("--partition", help="Slurm: partition to submit to."),
            option("--account", help="Slurm: account to charge."),
            option("--gres", help="Slurm: generic resources per node, e.g. gpu:2."),
            option("--time", help="Slurm: time limit of a job."),
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
    no_retry: bool
    theme: str | None
    refresh: float | None
    runs: str | None
    engine: dict[str, Any]

    @property
    def asks_for_headless(self) -> bool:
        return self.no_ui or self.as_json


NOTHING_TYPED = RunOptions(False, False, (), None, False, None, None, None, {})


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a run, which `taken` gathers."""
    for option in reversed(
        (
            click.option("--no-ui", is_flag=True, help="Run headless: progress on stderr, the comparison on stdout."),
            click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table."),
            SET_OPTION,
            click.option("--repeats", metavar="N", type=Whole(1, 1000), help="Launches of each trial."),
            click.option("--no-retry", is_flag=True, help="Launch no repeat again that other programs have disturbed."),
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
    return RunOptions(**own, engine=given({name: value for name, value in options.items() if name not in own}))


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The engine options that were typed, by their key in a preset's [engine]."""
    typed = {key: value for key, value in options.items() if value not in (None, ())}
    return {"name" if key == "engine" else key: value for key, value in typed.items()}


class PresetRequest(NamedTuple):
    """A preset as the command line asks for it: its name or file, and what to override. engine: by key of [engine].
    retry: repeats that other programs disturb are launched again."""

    name: str | None
    assignments: tuple[str, ...] = ()
    repeats: int | None = None
    engine: dict[str, Any] | None = None
    retry: bool = True


class Refusal(click.ClickException):
    """Bad input: one line on stderr, exit code 2. Nothing was started."""

    exit_code = USAGE_ERROR

    def __init__(self, message: str) -> None:
        from ddptui.text.words import printable

        super().__init__(printable(message))


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn these errors into a Refusal with the same text."""
    try:
        yield
    except errors as error:
        raise Refusal(str(error)) from None


def os_error_line(error: OSError) -> str:
    """What failed, why, and what to do: a name that is too long and a full disk need different remedies."""
    from ddptui.text.words import remedy_of

    unnamed = "the current folder" if error.errno == errno.ENOENT else "stdout"
    what = str(error.filename or unnamed)
    remedy = remedy_of(str(error)) or "name another one, or go to another folder"
    return f"{what}: {error.strerror or error}; {remedy}"


def overrides_of(assignments: tuple[str, ...]) -> dict[str, Any]:
    """The fields that --set overrides. Raises TrialError."""
    from ddptui.config.trial import TrialError
    from ddptui.config.trial_text import parse_assignment

    overrides = [parse_assignment(text) for text in assignments]
    for key, times in Counter(key for key, _ in overrides).items():
        if times > 1:
            raise TrialError(key, f"is given {times} times: leave one")
    return dict(overrides)


def load_settings() -> "Settings":
    """The user's settings. Raises Refusal."""
    from ddptui.config.settings import SettingsError
    from ddptui.store.settings import load

    with refusing(SettingsError):
        return load()


def load_preset(request: PresetRequest, *, to_be_started: bool = True) -> "Preset":
    """The preset, checked for the place where its ranks will run. Raises Refusal."""
    import msgspec

    from ddptui.config.parser import PresetError
    from ddptui.config.trial import TrialError
    from ddptui.engines.preflight import prepare
    from ddptui.store.presets import load

    try:
        preset = load(request.name or "", overrides_of(request.assignments), request.engine)
        preset = msgspec.structs.replace(preset, repeats=request.repeats or preset.repeats)
        return prepare(preset, to_be_started=to_be_started)
    except TrialError as error:
        raise Refusal(f"--set {error}") from None
    except PresetError as error:
        raise Refusal(str(error)) from None


def handle(number: signal.Signals, handler: Callable[..., object]) -> None:
    """Sets a handler, unless the signal is ignored: by nohup, or by a shell for what it starts in the background."""
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, handler)


def interruptible(work: Callable[[], int]) -> int:
    """Call `work`; returns its exit code, or 130 after a signal to end. Raises Refusal."""
    from ddptui.store.journal import RunLost
    from ddptui.store.runs import RunError

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # SIGTERM and SIGHUP, too: ranks and checks are stopped and results written on the way out
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handle(number, interrupt)
    try:
        with refusing(RunError, RunLost):
            return work()
    except KeyboardInterrupt:
        return INTERRUPTED
