"""`ddptui config`: the user's settings."""

import click

from ddptui.cli.common import load_settings


@click.command()
def config() -> None:
    """Show your settings, and where each comes from.

    They stand in one file, config.toml; this command says where. Options of the command line come before it.
    """
    from ddptui.store import settings

    path = settings.path()
    found = settings.in_force(load_settings())
    click.echo(f"{path}{'' if path.exists() else ' (not there: write it to change a setting)'}\n")
    names = max(map(len, found))
    values = max(len(each.value) for each in found.values())
    for name, (value, source) in found.items():
        click.echo(f"{name:{names}}  {value:{values}}  {source}")
