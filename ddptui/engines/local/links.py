"""Slow links: every rank in a network of its own, all joined to one switch; some links let through only so much.

    python links.py LINKS COMMAND...

makes them and becomes COMMAND. Nothing of them has a name or is on a disk: the networks are held by descriptors of this
process and by the ranks, which workers/rank/process.py takes inside. When the last of these has ended, however it
ended, the kernel takes networks, links and limits away.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from ddptui.config.engine import Links, Part, links_of
from ddptui.config.trial import Trial
from ddptui.wire.connection import LINKS

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000  # linux/sched.h
NETWORK = "10.77.0"  # any would do: no way leads out of it
SWITCH = f"{NETWORK}.254"  # the launcher's address: the ranks meet there
PORT = 29500  # in a network of one's own every port is free
# Chosen by what came out near bytes / rate, from 1 to 5,000 Mbit/s, one way, both ways and from two at once: sooner or
# later a larger window has the answers of one direction queue behind the other's data, and a larger burst comes free.
WINDOW = 64 * 1024  # bytes that a connection has under way
BURST_S, SMALLEST_BURST = 0.001, 32 * 1024  # what a link sends in so long may go at once, or so many bytes
QUEUE = 16 * 2**20  # bytes that wait before a slow link: more than all connections have under way, so nothing is lost
TOOLS_ARE_IN = ("/usr/sbin", "/sbin")  # which is not on everybody's PATH
RIGHTS = "root on Linux: `sudo`, or in a container `--cap-add NET_ADMIN --cap-add SYS_ADMIN`"
KERNEL = "the kernel has to have veth, bridge and sch_tbf: `modprobe -a veth bridge sch_tbf`"


def part(trial: Trial) -> Part | None:
    """Where the ranks meet: in a network of their own, localhost is a rank alone. None: as without links."""
    return None if links_of(trial) is None else _part(trial.world_size)


def _part(world_size: int) -> Part:
    return Part(node=0, nodes=1, ranks=range(world_size), address=SWITCH, port=PORT)


def wrapped(command: list[str], trial: Trial) -> list[str]:
    """The command that starts a trial: on links as it wants them."""
    links = links_of(trial)
    return command if links is None else _on_links(links, command)


def problem() -> str | None:
    """Why no slow link can be made here, and what mends that. Nothing stays of what is tried."""
    if not sys.platform.startswith("linux"):
        return f"a slow link wants {RIGHTS}"
    missing = [tool for tool in ("ip", "tc") if _tool(tool) is None]
    if missing:
        return f"a slow link is made with `{'` and `'.join(missing)}`: `apt install iproute2`"
    return _tried()


@cache
def _tried() -> str | None:
    """Only who makes one knows what the kernel, the rights and perhaps a container allow."""
    command = _on_links(Links(1, {0: 1.0}), [sys.executable, "-c", ""])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.splitlines() or ["a slow link cannot be made here"])[-1] if done.returncode else None


def _on_links(links: Links, command: list[str]) -> list[str]:
    """By the same Python as the command."""
    return [command[0], "-P", __file__, msgspec.json.encode(links).decode(), *command]


def _tool(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *TOOLS_ARE_IN]))


def switch_commands(networks: Sequence[str]) -> list[str]:
    """For `ip`, in the switch's network: a port a rank, whose other end is in the rank's. No IPv6 addresses: they would
    be one more way to go."""
    commands = ["link set lo up", "link add switch type bridge", f"addr add {SWITCH}/24 dev switch"]
    for rank, network in enumerate(networks):
        commands.append(f"link add rank{rank} type veth peer name eth0 address {_card(rank)} netns {network}")
        commands.append(f"link set rank{rank} master switch addrgenmode none up")
    return [*commands, "link set switch addrgenmode none up"]


def rank_commands(rank: int, world_size: int) -> list[str]:
    """For `ip`, in a rank's network. The others are made known to it: Linux has one table for all that are found out,
    and the neighbours of 32 ranks are too many for it."""
    return [
        "link set lo up",
        "link set eth0 addrgenmode none up",
        f"addr add {_address(rank)}/24 dev eth0 noprefixroute",
        f"route add {NETWORK}.0/24 dev eth0 window {WINDOW}",
        *(
            f"neigh add {_address(other)} lladdr {_card(other)} dev eth0 nud permanent"
            for other in range(world_size)
            if other != rank
        ),
    ]


def _address(rank: int) -> str:
    return f"{NETWORK}.{rank + 1}"


def _card(rank: int) -> str:
    return f"02:00:00:00:00:{rank + 1:02x}"


def limit_command(device: str, mbit: float) -> str:
    """For `tc`: a limit to what leaves by `device`, a token bucket."""
    bits = max(8, round(mbit * 1e6))  # tc has no slower one
    burst = max(SMALLEST_BURST, round(bits / 8 * BURST_S))
    return f"qdisc add dev {device} root tbf rate {bits}bit burst {burst} limit {burst + QUEUE}"


def environment(launcher: int, networks: Sequence[int]) -> dict[str, str]:
    """What launcher and ranks have to know: their networks, where they meet, and by which device. NCCL would go past
    the links, since all ranks are on one host."""
    devices = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0"}
    no_other_way = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}
    return _part(len(networks)).environment() | {
        LINKS: " ".join(map(str, (launcher, *networks))),
        **devices,
        **no_other_way,
    }


def main() -> None:
    spelled, *command = sys.argv[1:]
    networks = make(msgspec.json.decode(spelled, type=Links))
    for network in networks:
        os.set_inheritable(network, True)
    os.environ.update(environment(os.getpid(), networks))
    os.execvp(command[0], command)


def make(links: Links) -> list[int]:
    """Descriptors of the ranks' networks. This process is in the switch's from now on."""
    if os.geteuid() != 0:
        _become_root_of_its_own()
    switch, *networks = [_new_network() for _ in range(links.world_size + 1)]
    enter(switch)
    _run("ip", switch_commands([f"/proc/{os.getpid()}/fd/{network}" for network in networks]))
    _run("tc", [limit_command(f"rank{rank}", mbit) for rank, mbit in links.mbit.items()])
    for rank, network in enumerate(networks):
        enter(network)
        _run("ip", rank_commands(rank, links.world_size))
        if rank in links.mbit:
            _run("tc", [limit_command("eth0", links.mbit[rank])])
    enter(switch)
    return networks


def _become_root_of_its_own() -> None:
    """Who is not root may be allowed a namespace of users, and is root there, of what is made in it."""
    uid, gid = os.getuid(), os.getgid()
    _unshare(CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")


def _new_network() -> int:
    _unshare(CLONE_NEWNET)
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _unshare(what: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(what):
        sys.exit(f"a slow link wants {RIGHTS}")


def enter(network: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(network, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


def _run(tool: str, commands: Sequence[str]) -> None:
    path = _tool(tool) or tool
    done = subprocess.run(
        [path, "-batch", "-"], input="\n".join([*commands, ""]), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"no slow link can be made here ({tool}: {(done.stderr.splitlines() or ['?'])[0]}): {KERNEL}")


if __name__ == "__main__":
    main()
