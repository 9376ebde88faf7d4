"""`ddptui watch`: launches and watches the user's own training, unmodified. `ddptui attach` watches it again."""

import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from ddptui.cli.common import (
    RUNS_OPTION,
    SET_OPTION,
    Refusal,
    adding,
    check_terminal,
    interruptible,
    load_settings,
    refusing,
)
from ddptui.cli.completion import files, run_names

if TYPE_CHECKING:
    from ddptui.config.preset import Preset
    from ddptui.engines.local.command import WatchMode

LISTENING = ("ddptui", "watch", "--join", "TICKET", "--", "COMMAND")  # the command to type on each host
OF_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}


# The options that `watch` and `attach` share: the fields of the preset, then those of Terms, then where it is shown.
OF_PRESET, OF_TERMS = ("steps", "skip", "stall_s"), ("every", "checks", "lines")
shared_options = adding(
    click.option("--steps", type=click.IntRange(1), metavar="N", help="Watch N steps, then leave the training alone."),
    click.option("--skip", type=click.IntRange(0), default=3, metavar="N", help="Leave out the first steps (3)."),
    click.option("--every", type=click.IntRange(1), default=1, metavar="N", help="Report one step in N."),
    click.option(
        "--stall",
        "stall_s",
        type=click.FloatRange(2, 86_400),
        default=20.0,
        metavar="S",
        help="Seconds without a step after which the ranks' positions are reported (20).",
    ),
    click.option("--no-checks", "checks", flag_value=False, default=True, help="Do not compare models and samples."),
    click.option("--no-lines", "lines", flag_value=False, default=True, help="Do not look for lines of code."),
    click.option("--no-ui", is_flag=True, help="No screens; the report follows on stderr at the end, or at Ctrl-C."),
    click.option("--json", "as_json", is_flag=True, help="With --no-ui: print results.json on stderr."),
    RUNS_OPTION,
)


@click.command(context_settings=OF_COMMAND)
@shared_options
@click.option("--name", help="Name in the list of runs (default: the script's).")
@click.option("--kill-on-exit", is_flag=True, help="End the training when the console ends.")
@click.option("--listen", is_flag=True, help="Wait for a training on other hosts, started there with --join.")
@click.option("--interface", metavar="NAME", help="With --listen: network interface that other hosts reach.")
@click.option("--port", type=click.IntRange(1024, 65000), help="With --listen (default: from the run's name).")
@click.option(
    "--join", "ticket", metavar="TICKET", help="Report to the console of this ticket, or of the file with it."
)
@SET_OPTION
@click.argument("command", nargs=-1, type=click.UNPROCESSED, shell_complete=files)
@click.pass_context
def watch(
    context: click.Context,
    /,
    command: tuple[str, ...],
    name: str | None,
    kill_on_exit: bool,
    listen: bool,
    interface: str | None,
    port: int | None,
    ticket: str | None,
    assignments: tuple[str, ...],
    **shared: Any,
) -> None:
    """Watch your own training, without a change to it.

    COMMAND starts the training: ddptui watch -- torchrun --nproc_per_node=2 train.py
    """
    from ddptui.engines.local.command import WatchMode
    from ddptui.wire.relay_file import Watching

    if ticket is not None:
        _join(context, command, ticket)
    _check_listening(command, listen=listen, only_then=(interface, port), kills=kill_on_exit)
    called = name or ("elsewhere" if listen else None)
    preset = _preset(LISTENING if listen else command, called, assignments, shared)
    if listen:
        preset = _listening(preset, interface, port)
    options = Watching(**{key: shared[key] for key in OF_TERMS})
    starts_here = _is_headless(shared) and not listen
    mode = WatchMode(in_terminal=starts_here, outlives=not kill_on_exit, elsewhere=listen, options=options)
    sys.exit(_open(preset, mode, shared))


@click.command()
@click.argument("name", metavar="RUN", shell_complete=run_names)
@shared_options
def attach(name: str, **shared: Any) -> None:
    """Watch a training again that was left running.

    RUN is the run that recorded the training before; its console may have ended since. The steps from now on are
    recorded as a new run.
    """
    from ddptui.config.command_presets import preset_of
    from ddptui.engines.local.command import WatchMode
    from ddptui.engines.local.training import NotRunning, hold, training_of
    from ddptui.store.runs import RunError, find_run, runs_folder
    from ddptui.text.sanitize import as_argument
    from ddptui.wire.relay_file import Watching

    with refusing(NotRunning, RunError):
        run = find_run(runs_folder(shared["runs"]), name)
        options = Watching(**{key: shared[key] for key in OF_TERMS})
        mode = WatchMode(outlives=True, running=hold(training_of(run)), options=options)
    before = run.preset().trials[0]
    command = tuple(map(as_argument, before.command))
    preset = preset_of(command, name=before.name, overrides={}, **{key: shared[key] for key in OF_PRESET})
    sys.exit(_open(preset, mode, shared))


def _is_headless(shared: dict[str, Any]) -> bool:
    return shared["no_ui"] or shared["as_json"] or not sys.stdout.isatty()


def _open(preset: "Preset", mode: "WatchMode", shared: dict[str, Any]) -> int:
    """Watch the training in the console or headless. Returns the exit code."""
    from ddptui.store.runs import runs_folder

    settings, folder = load_settings(), runs_folder(shared["runs"])
    if not _is_headless(shared):
        check_terminal()
        from ddptui.tui.start import start

        return start(folder, preset, settings=settings, terms=mode)
    from ddptui.run import headless as here

    how: dict[str, Any] = {"as_json": shared["as_json"], "pinned": settings.columns}
    return interruptible(lambda: here.watch(preset, folder, mode, **how))


def _preset(
    command: tuple[str, ...], name: str | None, assignments: tuple[str, ...], shared: dict[str, Any]
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
        preset = preset_of(command, name=name, overrides=overrides, **{key: shared[key] for key in OF_PRESET})
        preset = edited(preset, edits)
    check_temporary_folder()
    return preset


def _check_command(command: tuple[str, ...]) -> None:
    from ddptui.engines.local.command import NOT_FOUND

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

    from ddptui.config.preset import EngineOptions
    from ddptui.host.network import NetworkError, choose_interface

    with refusing(NetworkError):
        choose_interface(interface)
    return msgspec.structs.replace(preset, engine=EngineOptions(name="join", interface=interface, port=port))


def _join(context: click.Context, command: tuple[str, ...], spelled: str) -> NoReturn:
    """Run a command whose ranks report to another console; exits with the command's code. Raises Refusal."""
    from ddptui.engines.base import LaunchRefused
    from ddptui.engines.join.ticket import TicketError, read_ticket
    from ddptui.run import headless

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
