"""Commands that test this machine and the lab itself: doctor, selftest."""

import sys
from typing import Any

import click

from ddptui.cli.common import RUNS_OPTION, Refusal, interruptible

SELFTEST_MODES = ("spawn", "process", "launch", "dp")


@click.command()
@click.pass_obj
def doctor(obj: dict[str, Any]) -> None:
    """Check what this machine can run, and how to mend the rest.

    Exit code 1 if something keeps every run from starting.
    """
    from ddptui.doctor import examine

    sys.exit(examine(obj["runs"]))


@click.command()
@click.option("--launch", "modes", type=click.Choice(SELFTEST_MODES), multiple=True, help="Test only this launch mode.")
@click.option("--strategy", "strategies", metavar="NAME", multiple=True, help="Test only this strategy.")
@RUNS_OPTION
@click.pass_obj
def selftest(obj: dict[str, Any], modes: tuple[str, ...], strategies: tuple[str, ...], runs: str | None) -> None:
    """Check that ddptui finds delays of known length.

    Injects them at every site, under every strategy and launch mode. Takes some minutes. Exit code 1 if any is wrong.
    """
    from ddptui.run import selftest

    known = selftest.known_strategies()
    for name in strategies:
        if name not in known:
            raise Refusal(f"--strategy {name}: not one of {', '.join(known)}")
    sys.exit(
        interruptible(
            lambda folder: selftest.run(modes or SELFTEST_MODES, strategies or known, folder), runs or obj["runs"]
        )
    )
