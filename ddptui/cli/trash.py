"""Commands that delete runs and restore them: delete, restore."""

import click

from ddptui.cli.common import Refusal, refusing
from ddptui.cli.completion import run_names
from ddptui.cli.options import RUNS_OPTION


@click.command()
@click.argument("names", metavar="RUN…", nargs=-1, shell_complete=run_names)
@click.option("--empty-trash", is_flag=True, help="Delete all runs in the trash permanently.")
@RUNS_OPTION
def delete(names: tuple[str, ...], empty_trash: bool, runs: str | None) -> None:
    """Move runs to the trash.

    `ddptui restore` brings back the runs that were deleted last. The trash is in the folder of runs and occupies disk
    space until --empty-trash deletes it permanently.
    """
    from ddptui.store.runs import RunError, find_run, runs_folder
    from ddptui.store.trash import discard, empty
    from ddptui.text.words import count

    folder = runs_folder(runs)
    if bool(names) == empty_trash:
        raise Refusal("name the runs to delete (`ddptui runs` lists them), or give --empty-trash alone")
    with refusing(RunError):
        if empty_trash:
            return click.echo(f"deleted permanently: {count(empty(folder), 'run')}", err=True)
        found = {run.folder: run for run in (find_run(folder, name) for name in names)}  # a run named twice counts once
    moved = discard(folder, [*found.values()])
    for run in moved.runs:
        click.echo(f"moved to the trash: {run.name}", err=True)
    if moved.runs:
        click.echo("`ddptui restore` brings back the runs that were deleted last", err=True)
    if moved.problems:
        raise Refusal("; ".join(moved.problems))


@click.command()
@click.argument("run", required=False)
@RUNS_OPTION
def restore(run: str | None, runs: str | None) -> None:
    """Restore runs from the trash.

    RUN is a run's name; without it, the runs of the last deletion are restored. `ddptui runs --trash` lists the trash.
    """
    from ddptui.store.runs import runs_folder
    from ddptui.store.trash import restore

    moved = restore(runs_folder(runs), run)
    for back in moved.runs:
        click.echo(f"restored: {back.name}", err=True)
    if moved.problems:
        raise Refusal("; ".join(moved.problems))
