"""Where else ranks could be started from here: on nodes that join, by Slurm, on links that are slowed down."""

import shutil
from collections.abc import Iterator

from ddptui.config.engine import EngineOptions
from ddptui.config.parser import PresetError
from ddptui.doctor.finding import Finding
from ddptui.engines.local import links
from ddptui.engines.slurm.check import check
from ddptui.host.network import NetworkError, choose_interface


def join() -> Iterator[Finding]:
    """The address that nodes would be told."""
    try:
        way = choose_interface()
    except NetworkError as error:
        yield Finding("join", f"other hosts cannot reach this one: {error}", tried=False)
    else:
        yield Finding("join", f"other hosts reach this one at {way.address} ({way.name}): --engine join")


def slurm() -> Iterator[Finding]:
    """A machine without Slurm is no worse for it."""
    if shutil.which("sbatch") is None:
        yield Finding("slurm", "no sbatch here: this is no machine that jobs are submitted from", tried=False)
        return
    try:
        check(EngineOptions(name="slurm"))
    except PresetError as error:
        yield Finding("slurm", str(error).removeprefix("--engine slurm: "), "ask whoever keeps the cluster")
    else:
        yield Finding("slurm", "jobs can be submitted: --engine slurm")


def slow_links() -> Iterator[Finding]:
    why = links.problem()
    yield Finding("slow links", why or 'ranks can be given links of their own: at = "link"', tried=why is None)
