"""Simulates slow links: each rank gets a network namespace of its own; a bridge joins them; some links are
rate-limited.

    python links.py LINKS COMMAND...

creates the links and becomes COMMAND. The namespaces have no names or files: they exist as long as this process or a
rank has them open. workers/rank/process.py moves each rank into its own. When the last of these processes ends, the
kernel deletes namespaces, links and limits.
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

from ddptui.config.preset import Links, NodeRanks, links_of
from ddptui.config.trial import Trial
from ddptui.wire.connection import LINKS

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000  # linux/sched.h
NETWORK = "10.77.0"  # any prefix works: no packet leaves these networks
SWITCH = f"{NETWORK}.254"  # the launcher's address, at which the ranks meet
PORT = 29500  # torch's default: in a network namespace of its own, every port is free
# Measured from 1 to 5,000 Mbit/s, one way, both ways and from two ranks at once: with these values a transfer takes
# about bytes / rate. With a larger window, acknowledgements queue behind data; a larger burst passes without the limit.
WINDOW = 64 * 1024  # bytes in flight per connection
BURST_S, SMALLEST_BURST = 0.001, 32 * 1024  # a burst is what the link sends in this time, but at least this many bytes
QUEUE = 16 * 2**20  # bytes that may queue before a slow link: more than all connections have in flight, so none is lost
SLOWEST_BIT = 8  # bits per second: the slowest rate that tc accepts
TOOL_FOLDERS = ("/usr/sbin", "/sbin")  # searched, too, because they are not on every user's PATH
RIGHTS = "root on Linux: `sudo`, or in a container `--cap-add NET_ADMIN --cap-add SYS_ADMIN`"
KERNEL = "the kernel needs veth, bridge and sch_tbf: `modprobe -a veth bridge sch_tbf`"


def part(trial: Trial) -> NodeRanks | None:
    """The rendezvous of a trial with links; None: the trial has no links."""
    return None if links_of(trial) is None else _part(trial.world_size)


def _part(world_size: int) -> NodeRanks:
    # one node, but not localhost: in a network namespace of its own, a rank cannot reach others by localhost
    return NodeRanks(node=0, nodes=1, ranks=range(world_size), address=SWITCH, port=PORT)


def wrapped(command: list[str], links: Links | None) -> list[str]:
    """The command wrapped by links.py, run by the same Python; unchanged if links is None."""
    return [command[0], "-P", __file__, msgspec.json.encode(links).decode(), *command] if links else command


def problem(*, try_it: bool = True) -> str | None:
    """Why no slow link can be created here, and the remedy; None: links work. try_it: find out by creating one in a
    subprocess."""
    if not sys.platform.startswith("linux"):
        return f"a slow link needs {RIGHTS}"
    missing = [tool for tool in ("ip", "tc") if _tool(tool) is None]
    if missing:
        return f"a slow link needs `{'` and `'.join(missing)}`: `apt install iproute2`"
    return _tried() if try_it or is_tried() else None


def is_tried() -> bool:
    """Whether `problem` knows its answer already, so that it returns at once."""
    return _tried.cache_info().currsize > 0


@cache
def _tried() -> str | None:
    # only an attempt shows what the kernel, the user's rights and perhaps a container allow
    command = wrapped([sys.executable, "-c", ""], Links(1, {0: 1.0}))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.splitlines() or ["a slow link cannot be made here"])[-1] if done.returncode else None


def _tool(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *TOOL_FOLDERS]))


def switch_commands(networks: Sequence[str]) -> list[str]:
    """Commands of `ip` in the switch's network: they create a port for each rank, with its other end in the rank's
    network."""
    commands = ["link set lo up", "link add switch type bridge", f"addr add {SWITCH}/24 dev switch"]
    for rank, network in enumerate(networks):
        commands.append(f"link add rank{rank} type veth peer name eth0 address {_card(rank)} netns {network}")
        # addrgenmode none: no IPv6 addresses, which would add a second route
        commands.append(f"link set rank{rank} master switch addrgenmode none up")
    return [*commands, "link set switch addrgenmode none up"]


def rank_commands(rank: int, world_size: int) -> list[str]:
    """Commands of `ip` in a rank's network: they set up its device, route and neighbors."""
    others = [other for other in range(world_size) if other != rank]
    return [
        "link set lo up",
        "link set eth0 addrgenmode none up",
        f"addr add {_address(rank)}/24 dev eth0 noprefixroute",  # the next line adds its route, with a window
        f"route add {NETWORK}.0/24 dev eth0 window {WINDOW}",
        # static entries: the kernel's neighbor table, shared by all namespaces, is too small for 32 ranks
        *(f"neigh add {_address(other)} lladdr {_card(other)} dev eth0 nud permanent" for other in others),
    ]


def _address(rank: int) -> str:
    return f"{NETWORK}.{rank + 1}"


def _card(rank: int) -> str:
    return f"02:00:00:00:00:{rank + 1:02x}"  # 02: locally administered, not assigned to a vendor


def limit_command(device: str, mbit: float) -> str:
    """The command of `tc` that limits outgoing traffic of a device, with a token bucket."""
    bits = max(SLOWEST_BIT, round(mbit * 1e6))
    burst = max(SMALLEST_BURST, round(bits / 8 * BURST_S))
    return f"qdisc add dev {device} root tbf rate {bits}bit burst {burst} limit {burst + QUEUE}"


def environment(launcher: int, networks: Sequence[int]) -> dict[str, str]:
    """The environment variables for launcher and ranks: their networks, their rendezvous, and the device to use."""
    return {
        **_part(len(networks)).environment(),
        LINKS: " ".join(map(str, (launcher, *networks))),
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "=eth0",  # = means exactly this name; without it, any interface with this prefix
        # otherwise NCCL would bypass the links, because all ranks are on one host
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
    }


def main() -> None:
    """Creates the links, and becomes the command."""
    spelled, *command = sys.argv[1:]
    networks = make(msgspec.json.decode(spelled, type=Links))
    for network in networks:
        os.set_inheritable(network, True)  # Python opens descriptors close-on-exec
    os.environ.update(environment(os.getpid(), networks))
    os.execvp(command[0], command)  # the same process: the keeper still watches it


def make(links: Links) -> list[int]:
    """Creates the networks, and moves this process into the switch's. Returns the file descriptors of the ranks'
    networks."""
    if os.geteuid() != 0:
        # in a new user namespace, if the kernel allows one, this process is root of the networks that it creates
        uid, gid = os.getuid(), os.getgid()  # read first: inside they are 65534 until they are mapped
        _unshare(CLONE_NEWUSER)
        # setgroups first: an unprivileged process may write gid_map only after that is denied (user_namespaces(7))
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            Path("/proc/self", name).write_text(text, encoding="ascii")
    switch, *networks = [_new_network() for _ in range(links.world_size + 1)]
    enter(switch)
    _run("ip", switch_commands([f"/proc/{os.getpid()}/fd/{network}" for network in networks]))
    # at both ends, because a token bucket limits only outgoing traffic
    _run("tc", [limit_command(f"rank{rank}", mbit) for rank, mbit in links.mbit.items()])
    for rank, network in enumerate(networks):
        enter(network)
        _run("ip", rank_commands(rank, links.world_size))
        if rank in links.mbit:
            _run("tc", [limit_command("eth0", links.mbit[rank])])
    enter(switch)
    return networks


def _new_network() -> int:
    _unshare(CLONE_NEWNET)
    return os.open("/proc/self/ns/net", os.O_RDONLY)  # the open descriptor keeps the network alive


def _unshare(what: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(what):
        sys.exit(f"a slow link needs {RIGHTS}")


def enter(network: int) -> None:
    """Moves this process into the network namespace of a file descriptor. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).setns(network, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


def _run(tool: str, commands: Sequence[str]) -> None:
    script = "\n".join([*commands, ""])  # run all commands in one process
    command = [_tool(tool) or tool, "-batch", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"a slow link cannot be made here ({tool}: {(done.stderr.splitlines() or ['?'])[0]}): {KERNEL}")


if __name__ == "__main__":
    main()
