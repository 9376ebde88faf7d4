"""`ddptui config`: the user's settings."""

import click

from ddptui.cli.common import load_settings


@click.command()
@click.option("--keys", is_flag=True, help="List the console's keys instead, with their names in [keys].")
def config(keys: bool) -> None:
    """Show your settings, and where each comes from.

    They are kept in one file, config.toml; this command prints its path. Command-line options override it.
    """
    from ddptui.config.settings import KEYS
    from ddptui.store import settings

    if keys:
        chosen = load_settings().keys
        for name, (usual, meaning) in KEYS.items():
            click.echo(f"{name:10}  {' '.join(chosen.get(name, (usual,))):6}  {meaning}")
        return
    path = settings.path()
    found = settings.in_force(load_settings())
    click.echo(f"{path}{'' if path.exists() else ' (does not exist: create it to change a setting)'}\n")
    names = max(map(len, found))
    values = max(len(each.value) for each in found.values())
    for name, (value, source) in found.items():
        click.echo(f"{name:{names}}  {value:{values}}  {source}")
