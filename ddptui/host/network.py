"""By which interface a host is reached, and at which port. Chosen and checked before anything is started."""

import ipaddress
import socket
from typing import NamedTuple
from zlib import crc32

import psutil

FIRST_PORT, PORTS = 15_000, 15_000  # below 32768, where systems begin to hand out ports of their own accord
ANYWHERE = "192.0.2.1"  # TEST-NET-1 (RFC 5737): nothing is sent there, the route to it is only asked for


class Interface(NamedTuple):
    """name: as `ip address` lists it; address: its IPv4 address."""

    name: str
    address: str

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback


class NetworkError(ValueError):
    """No way from one host to another: one line that says what to do."""


def interfaces() -> list[Interface]:
    """Those of this host that are up and have an IPv4 address, loopback too."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return [
        Interface(name, address.address)
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if name in up and address.family == socket.AF_INET
    ]


def choose_interface(name: str | None = None) -> Interface:
    """The interface that other hosts reach this one by: the named one, or the one that leads out of this host, or the
    only one. Raises NetworkError."""
    there = interfaces()
    if name is not None:
        named = [each for each in there if each.name == name]
        if not named:
            raise NetworkError(f"no interface {name!r} is up and has an IPv4 address; {_list(there)}")
        return _reachable(named[0], there)
    outward = [each for each in there if each.address == source_address(ANYWHERE)]
    others = [each for each in there if not each.is_loopback]
    if outward and not outward[0].is_loopback:
        return outward[0]
    if len(others) == 1:
        return others[0]
    if others:
        raise NetworkError(f"no interface of this host leads out of it: choose one with --interface; {_list(others)}")
    raise NetworkError("this host has no network but loopback, where no other host can reach it: bring up an interface")


def interface_towards(address: str) -> Interface:
    """The interface of this host that an address is reached by, its own one too. Raises NetworkError."""
    source = source_address(address)
    own = [each for each in interfaces() if each.address == source]
    if not own:
        raise NetworkError(f"{address} cannot be reached from here: no interface leads there; {_list(interfaces())}")
    if own[0].is_loopback and not ipaddress.ip_address(address).is_loopback:
        raise NetworkError(f"the way to {address} leads over loopback: the hosts file or the routes are wrong")
    return own[0]


def resolve(host: str) -> str:
    """The IPv4 address of a host, as this host's resolver has it. Raises NetworkError: also for a loopback address,
    which every host would take for itself."""
    try:
        address = socket.getaddrinfo(host, None, socket.AF_INET)[0][4][0]
    except OSError as error:
        raise NetworkError(
            f"the name {host!r} cannot be resolved here ({error.strerror}): put it into /etc/hosts, or the DNS"
        ) from None
    if ipaddress.ip_address(address).is_loopback:
        raise NetworkError(
            f"the name {host!r} stands for {address} here, which is loopback: each host would wait for itself. Correct "
            "/etc/hosts: the name belongs to the address that the others reach it by"
        )
    return str(address)


def source_address(destination: str) -> str | None:
    """From which of this host's addresses a datagram would leave; None: there is no way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((destination, 9))
            return str(asking.getsockname()[0])
        except OSError:
            return None


def port_of(name: str, number: int = 0) -> int:
    """A port that follows from a run's name, and another one for each number; two runs rarely have the same."""
    return FIRST_PORT + (crc32(name.encode()) + number) % PORTS


def is_free(address: str, port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind((address, port))
        except OSError:
            return False
    return True


def _reachable(interface: Interface, there: list[Interface]) -> Interface:
    if interface.is_loopback:
        raise NetworkError(
            f"{interface.name} is loopback: no other host can reach {interface.address}; choose with --interface among "
            f"{_list([each for each in there if not each.is_loopback])}"
        )
    return interface


def _list(there: list[Interface]) -> str:
    return ", ".join(f"{each.name} ({each.address})" for each in there) or "there is none"
