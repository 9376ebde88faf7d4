"""Hosts on one machine: network namespaces with a name, an address and a hosts file each, joined by a switch.

They want root, Linux and iproute2. What each host runs is ended with it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import waiting
from tests.support.runner import arguments, environment

HOSTS = 3
SOON_S = 240  # two cores may have much else to do
ETC = Path("/etc/netns")  # what `ip netns exec` lays over /etc


class Host(NamedTuple):
    """name: as its own host name and the others' hosts files have it."""

    name: str
    address: str
    space: str

    def line(self, *words: str) -> list[str]:
        """The command, run on this host."""
        named = ["unshare", "--uts", "--fork", "--kill-child", "sh", "-c", 'hostname "$0"; exec "$@"', self.name]
        return ["ip", "netns", "exec", self.space, *named, *words]

    def cut_off(self) -> None:
        """Pull the cable."""
        run("ip", "-n", self.space, "link", "set", "eth0", "down")

    def plug_in(self) -> None:
        run("ip", "-n", self.space, "link", "set", "eth0", "up")

    def pids(self) -> list[int]:
        found = subprocess.run(["ip", "netns", "pids", self.space], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


def why_not() -> str:
    """What is missing for hosts on this machine; empty: nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts on one machine are network namespaces: they want root on Linux"
    missing = [tool for tool in ("ip", "unshare") if shutil.which(tool) is None]
    if missing:
        return f"hosts on one machine want {' and '.join(missing)} (iproute2, util-linux)"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "here", "type", "veth"], capture_output=True, text=True
    )
    return "" if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.strip()}"


@pytest.fixture(scope="session")
def hosts() -> Iterator[list[Host]]:
    if why := why_not():
        pytest.skip(why)
    found = [Host(f"host-{n}", f"10.97.0.{n + 1}", f"ddptui-{os.getpid()}-{n}") for n in range(HOSTS)]
    switch = f"ddptui-{os.getpid()}-switch"
    try:
        run("ip", "netns", "add", switch)
        run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "switch", "up")
        for number, host in enumerate(found):
            _plug(host, number, switch, found)
        yield found
    finally:
        for host in found:
            for pid in host.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for space in (*(host.space for host in found), switch):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)
            shutil.rmtree(ETC / space, ignore_errors=True)


def _plug(host: Host, number: int, switch: str, everybody: list[Host]) -> None:
    """One host with its address, a cable to the switch, and a hosts file that knows the others."""
    run("ip", "netns", "add", host.space)
    names = "".join(f"{other.address} {other.name}\n" for other in everybody)
    (ETC / host.space).mkdir(parents=True)
    (ETC / host.space / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    port = f"port{number}"
    run("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.space)
    run("ip", "-n", switch, "link", "set", port, "master", "switch", "up")
    run("ip", "-n", host.space, "address", "add", f"{host.address}/24", "dev", "eth0")
    for name in ("lo", "eth0"):
        run("ip", "-n", host.space, "link", "set", name, "up")


until = partial(waiting.until, within_s=SOON_S)


def begin(
    stack: ExitStack, host: Host, words: list[str], variables: dict[str, str], cwd: Path | None = None
) -> "subprocess.Popen[str]":
    """Start a command on a host. It is ended with the stack."""
    process = subprocess.Popen(
        host.line(*words),
        env=variables,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


class Consoles:
    """A console on the first host, and nodes on others."""

    def __init__(self, stack: ExitStack, hosts: list[Host], folder: Path) -> None:
        self._stack = stack
        self._hosts = hosts
        self.runs = folder / "runs"

    def start(self, host: Host, *words: str, cwd: Path | None = None) -> "subprocess.Popen[str]":
        return begin(self._stack, host, arguments(*words), environment(self.runs), cwd)

    def console(self, preset: Path, *words: str) -> "subprocess.Popen[str]":
        return self.start(self._hosts[0], "--preset", str(preset), "--json", "--engine", "join", *words)

    def nodes(self) -> "list[subprocess.Popen[str]]":
        """All hosts but the console's, joined to its run."""
        return [
            self.start(host, "join", self.ticket(), "--node", str(number))
            for number, host in enumerate(self._hosts[1:])
        ]

    def ticket(self) -> str:
        return str(until(lambda: next(self.runs.glob("*/ticket"), None)))

    def steps(self) -> int:
        """How many steps have been told of."""
        return sum(path.read_bytes().count(b'"type":"Step"') for path in self.runs.glob("*/*/*/messages.jsonl"))


@pytest.fixture
def consoles(hosts: list[Host], tmp_path: Path) -> Iterator[Consoles]:
    with ExitStack() as stack:
        yield Consoles(stack, hosts, tmp_path)
        assert not [host for host in hosts if host.pids()], "processes are left on hosts"
