"""How ranks reach each other: on this host, from other hosts, by Slurm, over slow links."""

import shutil
import socket
from collections.abc import Iterator

import psutil

from ddptui.config.engine import EngineOptions
from ddptui.config.parser import PresetError
from ddptui.doctor.finding import Finding
from ddptui.engines.local import links
from ddptui.engines.slurm.check import check
from ddptui.host.network import NetworkError, choose_interface
from ddptui.text.words import first_line


def interfaces() -> Iterator[Finding]:
    """The interfaces of this host, and a connection over 127.0.0.1, as its ranks make it."""
    addresses = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }
    listed = ", ".join(f"{name} {' '.join(ipv4)}" for name, ipv4 in addresses.items() if ipv4) or "none"
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(5)  # a firewall may drop packets without a word
            with socket.create_connection(server.getsockname(), timeout=5) as client:
                accepted, _ = server.accept()
                with accepted:
                    client.sendall(b"?")
                    accepted.settimeout(5)  # an accepted socket does not take over the server's
                    accepted.recv(1)
    except OSError as error:
        why = f"{listed}; no connection over 127.0.0.1: {first_line(error)}"
        yield Finding("interfaces", why, "ranks connect there: `ip link set lo up`, or allow it in the firewall", True)
    else:
        yield Finding("interfaces", listed)


def join() -> Iterator[Finding]:
    """The address that the console would give to nodes."""
    try:
        interface = choose_interface()
    except NetworkError as error:
        yield Finding("join", f"other hosts cannot reach this one: {error}", tried=False)
    else:
        yield Finding("join", f"other hosts reach this one at {interface.address} ({interface.name}): --engine join")


def slurm() -> Iterator[Finding]:
    """Whether jobs can be submitted from here. A machine without Slurm lacks nothing."""
    if shutil.which("sbatch") is None:
        yield Finding("slurm", "no sbatch here, so no jobs can be submitted", tried=False)
        return
    try:
        check(EngineOptions(name="slurm"))
    except PresetError as error:
        yield Finding("slurm", str(error).removeprefix("--engine slurm: "), "ask the cluster's administrators")
    else:
        yield Finding("slurm", "jobs can be submitted: --engine slurm")


def slow_links() -> Iterator[Finding]:
    """Whether a trial can slow down its ranks' links."""
    why = links.problem()
    yield Finding("slow links", why or 'ranks can have slow links of their own: at = "link"', tried=why is None)
