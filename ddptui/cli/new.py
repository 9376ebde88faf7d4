"""`ddptui new`: writes the start of the user's own code."""

import shlex
from pathlib import Path

import click

from ddptui.cli.common import Refusal, refusing

START = '''"""Averages the gradients over the ranks. Fill in the line that is missing, then run

    {command}
"""

import torch.distributed as dist
from torch import Tensor


def average(tensors: list[Tensor]) -> None:
    """Replace each tensor with its mean over all ranks, in place.

    tensors: this rank's gradients, or parameters, in the model's order, which is the same on all ranks.
    """
    ranks = dist.get_world_size()
    for tensor in tensors:
        # Missing: sum this tensor over the ranks, e.g. by dist.all_reduce, or by dist.reduce and dist.broadcast.
        tensor /= ranks
'''


@click.command()
@click.argument("what", type=click.Choice(["strategy"]))
@click.argument("file", type=click.Path(path_type=Path))
def new(what: str, file: Path) -> None:
    """Write the start of a strategy of your own: FILE, with a function that averages.

    One collective is left to fill in. The preset own-average grades it: see docs/strategies.md.
    """
    from ddptui.config.parser import PresetError
    from ddptui.store.presets import write_new

    if file.suffix != ".py":
        raise Refusal(f"{file}: the name of a Python file ends in .py, e.g. average.py")
    chosen = "" if str(file) == "average.py" else f" --set {shlex.quote(f'yours:strategy={file}:average')}"
    command = f"ddptui run own-average{chosen}"
    with refusing(PresetError):
        write_new(file, START.format(command=command))
    click.echo(f"Wrote {file}. Fill in the collective, then have it graded:")
    click.echo(f"  {command}")
