"""`ddptui watch`: launches and watches the user's own training, unmodified. `ddptui attach` watches it again."""

import shlex
import shutil
import sys
from typing import TYPE_CHECKING, NoReturn

import click
from click.core import ParameterSource

from ddptui.cli.common import Refusal, check_terminal, interruptible, load_settings, refusing
from ddptui.cli.completion import files, run_names
from ddptui.cli.options import RUNS_OPTION, SET_OPTION

if TYPE_CHECKING:
    from pathlib import Path

    from ddptui.config.preset import Preset
    from ddptui.engines.local.foreign import Terms

LISTENING = ("ddptui", "watch", "--join", "TICKET", "--", "COMMAND")  # the command to type on each host
OF_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}


STEPS_OPTION = click.option(
    "--steps", type=click.IntRange(1), metavar="N", help="Watch N steps, then leave the training alone."
)
SKIP_OPTION = click.option(
    "--skip", type=click.IntRange(0), default=3, metavar="N", help="Steps to leave out first (default: 3)."
)
STALL_OPTION = click.option(
    "--stall",
    type=click.FloatRange(2, 86_400),
    default=20.0,
    metavar="S",
    help="Seconds without a step after which the ranks' positions are reported (default: 20).",
)
EVERY_OPTION = click.option("--every", type=click.IntRange(1), default=1, metavar="N", help="Report one step in N.")
CHECKS_OPTION = click.option(
    "--no-checks", "checks", flag_value=False, default=True, help="Do not compare what the ranks train, and on what."
)
LINES_OPTION = click.option(
    "--no-lines", "lines", flag_value=False, default=True, help="Do not look which lines of code take the time."
)


@click.command(context_settings=OF_COMMAND)
@STEPS_OPTION
@SKIP_OPTION
@EVERY_OPTION
@STALL_OPTION
@CHECKS_OPTION
@LINES_OPTION
@click.option("--name", help="Name in the list of runs (default: the script's).")
@click.option("--no-ui", is_flag=True, help="Leave this terminal to the training; the report follows on stderr.")
@click.option("--kill-on-exit", is_flag=True, help="End the training when the console ends.")
@click.option("--listen", is_flag=True, help="Wait for a training on other hosts, started there with --join.")
@click.option("--interface", metavar="NAME", help="With --listen: network interface that other hosts reach.")
@click.option("--port", type=click.IntRange(1024, 65000), help="With --listen (default: from the run's name).")
@click.option(
    "--join", "ticket", metavar="TICKET", help="Report to the listening console: its ticket, or a file with it."
)
@SET_OPTION
@RUNS_OPTION
@click.option("--json", "as_json", is_flag=True, help="With --no-ui: print results.json on stderr, not the report.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, shell_complete=files)
@click.pass_context
def watch(
    context: click.Context,
    /,
    command: tuple[str, ...],
    steps: int | None,
    skip: int,
    every: int,
    stall: float,
    checks: bool,
    lines: bool,
    name: str | None,
    no_ui: bool,
    kill_on_exit: bool,
    listen: bool,
    interface: str | None,
    port: int | None,
    ticket: str | None,
    assignments: tuple[str, ...],
    runs: str | None,
    as_json: bool,
) -> None:
    """Watch your own training, without a change to it.

    COMMAND starts the training: ddptui watch -- torchrun --nproc_per_node=2 train.py
    """
    from ddptui.engines.local.foreign import Terms
    from ddptui.store.runs import runs_folder

    if ticket is not None:
        _join(context, command, ticket)
    _check_listening(command, listen=listen, only_then=(interface, port), kills=kill_on_exit)
    called = name or ("elsewhere" if listen else None)
    preset = _preset(LISTENING if listen else command, called, skip, steps, stall, assignments)
    if listen:
        preset = _listening(preset, interface, port)
    folder = runs_folder(runs)
    in_terminal = no_ui or as_json or not sys.stdout.isatty()
    starts_here = in_terminal and not listen
    terms = Terms(
        in_terminal=starts_here,
        outlives=not kill_on_exit,
        elsewhere=listen,
        every=every,
        checks=checks,
        lines=lines,
    )
    sys.exit(_open(preset, folder, terms, headless=in_terminal, as_json=as_json))


@click.command()
@click.argument("name", metavar="RUN", shell_complete=run_names)
@STEPS_OPTION
@SKIP_OPTION
@EVERY_OPTION
@STALL_OPTION
@CHECKS_OPTION
@LINES_OPTION
@click.option("--no-ui", is_flag=True, help="No screens: print the report when the training ends, or at Ctrl-C.")
@RUNS_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print results.json on stderr, not the report.")
def attach(
    name: str,
    steps: int | None,
    skip: int,
    every: int,
    stall: float,
    checks: bool,
    lines: bool,
    no_ui: bool,
    runs: str | None,
    as_json: bool,
) -> None:
    """Watch a training again that was left running.

    RUN is the run that recorded the training before; its console may have ended since. The steps from now on are
    recorded as a new run.
    """
    from ddptui.config.command_presets import preset_of
    from ddptui.engines.local.foreign import Terms
    from ddptui.engines.local.training import NotRunning, hold, training_of
    from ddptui.store.runs import RunError, find_run, runs_folder
    from ddptui.text.argv import as_argument

    folder = runs_folder(runs)
    with refusing(NotRunning, RunError):
        run = find_run(folder, name)
        terms = Terms(outlives=True, running=hold(training_of(run)), every=every, checks=checks, lines=lines)
    before = run.preset().trials[0]
    command = tuple(map(as_argument, before.command))
    preset = preset_of(command, name=before.name, skip=skip, steps=steps, stall_s=stall, overrides={})
    headless = no_ui or as_json or not sys.stdout.isatty()
    sys.exit(_open(preset, folder, terms, headless=headless, as_json=as_json))


def _open(preset: "Preset", runs: "Path", terms: "Terms", *, headless: bool, as_json: bool) -> int:
    """Watch the training in the console or headless. Returns the exit code."""
    settings = load_settings()
    if not headless:
        check_terminal()
        from ddptui.tui.start import start

        return start(runs, preset, settings=settings, terms=terms)
    from ddptui.run import watch as here

    watch_here = here.watch if terms.in_terminal else here.look_on
    return interruptible(lambda: watch_here(preset, runs, terms, as_json=as_json, usual=settings.columns))


def _preset(
    command: tuple[str, ...],
    name: str | None,
    skip: int,
    steps: int | None,
    stall_s: float,
    assignments: tuple[str, ...],
) -> "Preset":
    """The command as a preset. Raises Refusal."""
    from ddptui.config.command_presets import preset_of
    from ddptui.config.parser import edited, read_changes
    from ddptui.config.trial import TrialError
    from ddptui.engines.checks import check_temporary_folder

    if command != LISTENING:
        _check_command(command)
    with refusing(TrialError):
        overrides, edits = read_changes(assignments)
        preset = preset_of(command, name=name, skip=skip, steps=steps, stall_s=stall_s, overrides=overrides)
        preset = edited(preset, edits)
    check_temporary_folder()
    return preset


def _check_command(command: tuple[str, ...]) -> None:
    from ddptui.engines.local.foreign import NOT_FOUND

    if not command:
        raise Refusal("name the command, e.g. `ddptui watch -- torchrun --nproc_per_node=2 train.py`")
    if command[0].startswith("-"):  # click passes unknown options on as part of the command
        raise Refusal(
            f"watch has no option {command[0]} (`ddptui watch --help` lists them); the command comes after `--`"
        )
    if shutil.which(command[0]) is None:
        raise Refusal(f"{command[0]}: {NOT_FOUND}")


def _check_listening(
    command: tuple[str, ...], *, listen: bool, only_then: tuple[str | int | None, ...], kills: bool
) -> None:
    if listen and command:
        typed = shlex.join(["ddptui", "watch", "--join", "TICKET", "--", *command])
        raise Refusal(f"--listen starts no command: leave it out, and type on each host, also this one: `{typed}`")
    if listen and kills:
        raise Refusal("--kill-on-exit has no effect with --listen: this console does not start the training")
    if not listen and any(option is not None for option in only_then):
        raise Refusal("--interface and --port need --listen: they say how other hosts reach this console")


def _listening(preset: "Preset", interface: str | None, port: int | None) -> "Preset":
    """Returns the preset with the engine of a console that listens for other hosts. Raises Refusal."""
    import msgspec

    from ddptui.config.engine import EngineOptions
    from ddptui.host.network import NetworkError, choose_interface

    with refusing(NetworkError):
        choose_interface(interface)
    return msgspec.structs.replace(preset, engine=EngineOptions(name="join", interface=interface, port=port))


def _join(context: click.Context, command: tuple[str, ...], spelled: str) -> NoReturn:
    """Run a command whose ranks report to another console; exits with the command's code. Raises Refusal."""
    from ddptui.engines.base import LaunchRefused
    from ddptui.engines.join.ticket import TicketError, read_ticket
    from ddptui.run import watch as headless

    for option in context.command.params:
        is_given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if is_given and option.name not in ("command", "ticket", "no_ui"):
            raise Refusal(f"{option.opts[0]} cannot be combined with --join: give it to the console that listens")
    _check_command(command)
    with refusing(TicketError, LaunchRefused):
        ticket = read_ticket(spelled)
        if ticket.watching is None:
            raise Refusal("this ticket is for `ddptui join`: to watch a training, use one from `ddptui watch --listen`")
        sys.exit(interruptible(lambda: headless.join(ticket, command)))
