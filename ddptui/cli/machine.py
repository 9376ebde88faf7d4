"""Commands about machines: doctor and selftest check this one; join, manifest and place serve the nodes of a run."""

import os
import sys
from typing import Any

import click

from ddptui.cli.common import RUNS_OPTION, SET_OPTION, STRATEGY_OPTION, Refusal, interruptible, load_preset, refusing
from ddptui.cli.completion import presets_and_files

SELFTEST_MODES = ("spawn", "process", "launch", "dp")


@click.command()
@RUNS_OPTION
def doctor(runs: str | None) -> None:
    """Check what this machine can run, and how to fix the rest.

    Exit code 1 if a problem keeps every run from starting.
    """
    from ddptui.doctor import examine

    # interruptible: a signal must not leave processes and folders of the checks behind
    sys.exit(interruptible(lambda: examine(runs)))


@click.command()
@click.option("--launch", "modes", type=click.Choice(SELFTEST_MODES), multiple=True, help="Test only this launch mode.")
@STRATEGY_OPTION
@RUNS_OPTION
def selftest(modes: tuple[str, ...], strategies: tuple[str, ...], runs: str | None) -> None:
    """Check that ddptui finds delays of known length.

    Injects delays at every site, under every strategy and launch mode, and checks what is measured. Takes some minutes.
    Exit code 1 if any result is wrong.
    """
    from ddptui.config.catalog import AGGREGATING
    from ddptui.run import verify
    from ddptui.store.runs import runs_folder

    if unknown := [name for name in strategies if name not in AGGREGATING]:
        raise Refusal(f"--strategy {unknown[0]}: not one of {', '.join(AGGREGATING)}")
    wanted = modes or SELFTEST_MODES, strategies or AGGREGATING
    sys.exit(interruptible(lambda: verify.run_selftest(*wanted, runs_folder(runs))))


@click.command()
@click.argument("ticket", envvar="DDPTUI_TICKET")
@click.option("--node", type=click.IntRange(0, 1023), help="This node's number (default: the platform's, or any).")
@click.option("--as", "kind", metavar="KIND", help="Platform to read: env, torchrun, slurm, dlc, …")
def join(ticket: str, node: int | None, kind: str | None) -> None:
    """Let this host take part in another console's run.

    TICKET is the line that a console printed for --engine join. Other users of this host can read command lines: better
    give the file that holds the ticket, or set DDPTUI_TICKET.
    """
    from ddptui.engines.join.agent import JoinError, node_here
    from ddptui.engines.join.agent import join as join_run
    from ddptui.engines.join.ticket import TicketError, read_ticket
    from ddptui.host.network import NetworkError
    from ddptui.host.rank_place import PlaceError
    from ddptui.text.words import printable

    def report(text: str) -> None:
        click.echo(printable(text), err=True)

    with refusing(JoinError, NetworkError, PlaceError, TicketError):
        read = read_ticket(ticket)
        if read.watching is not None:
            raise Refusal("this ticket is for watching a training: use `ddptui watch --join TICKET -- COMMAND`")
        sys.exit(interruptible(lambda: join_run(read, node_here(node, kind, report), report)))


@click.command()
@click.argument("name", shell_complete=presets_and_files)
@click.option("--kind", type=click.Choice(("trainjob", "pytorchjob", "dlc")), required=True, help="Kind of job.")
@click.option("--nodes", type=click.IntRange(1, 1024), default=2, show_default=True, help="Number of pods that join.")
@click.option("--image", required=True, help="The container's image; it must contain ddptui.")
@click.option("--gpus", type=click.IntRange(0, 64), default=0, help="GPUs per node.")
@click.option("--cpus", type=click.IntRange(1, 1024), help="CPUs per node.")
@click.option("--memory", help="Memory per node, e.g. 8Gi.")
@click.option("--ticket", metavar="TICKET", help="The ticket, or its file (default: the job reads it from a Secret).")
@click.option("--workspace", help="dlc: workspace of the job.")
@click.option("--quota", help="dlc: quota from which its nodes are taken.")
@click.option("--ecs", help="dlc: machine type, instead of a quota.")
@SET_OPTION
def manifest(name: str, assignments: tuple[str, ...], ticket: str | None, **options: Any) -> None:
    """Print the job that joins a platform's nodes to a run.

    The job (a Kubeflow TrainJob or PyTorchJob, or a PAI-DLC job) starts `ddptui join` for a run of the preset NAME.
    """
    from ddptui.engines.join.ticket import TicketError, read_ticket
    from ddptui.engines.manifest import ManifestError, Options, render

    engine = {"name": "join", "nodes": options["nodes"]}
    load_preset(name, assignments, engine, to_be_started=False)
    with refusing(ManifestError, TicketError):
        spelled = read_ticket(ticket).spell() if ticket is not None else None
        click.echo(render(name, Options(ticket=spelled, **options)), nl=False)


@click.command()
@click.option("--as", "kind", metavar="KIND", help="Platform to read: env, torchrun, slurm, slurm_array, dlc, …")
def place(kind: str | None) -> None:
    """Print this process's rank, as read from its environment."""
    from ddptui.host.platforms import explanation
    from ddptui.host.rank_place import PlaceError

    with refusing(PlaceError):
        click.echo(explanation(os.environ, kind))
