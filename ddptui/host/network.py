"""Chooses and checks network interfaces, addresses and ports of this host before anything starts."""

import ipaddress
import socket
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

import psutil

FIRST_PORT, PORTS = 15_000, 15_000  # below 32768, the first of the ephemeral ports on Linux
ANYWHERE = "192.0.2.1"  # TEST-NET-1 (RFC 5737): only its route is looked up; nothing is sent
DISCARD = 9  # any port would do, since nothing is sent; this is the discard service's (RFC 863)


class Interface(NamedTuple):
    """An interface of this host: its name, as `ip address` shows it, and its IPv4 address."""

    name: str
    address: str

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback


class NetworkError(ValueError):
    """One host cannot reach another. The message is one line that says why, and what to do."""


def interfaces() -> list[Interface]:
    """The interfaces of this host that are up and have an IPv4 address, loopback included."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    return [
        Interface(name, address.address)
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if name in up and address.family == socket.AF_INET
    ]


def choose_interface(name: str | None = None) -> Interface:
    """The named interface; without a name, that of the default route, or the only one that is not loopback. Raises
    NetworkError."""
    available = interfaces()
    others = [interface for interface in available if not interface.is_loopback]
    if name is not None:
        named = next((interface for interface in available if interface.name == name), None)
        if named is None:
            raise NetworkError(f"no interface {name!r} is up and has an IPv4 address; choose among {_list(available)}")
        if named.is_loopback:
            why = f"{name} is loopback: no other host can reach {named.address}"
            raise NetworkError(f"{why}; choose with --interface among {_list(others)}")
        return named
    source = source_address(ANYWHERE)
    outward = [interface for interface in available if interface.address == source]
    if outward and not outward[0].is_loopback:
        return outward[0]
    if len(others) == 1:
        return others[0]
    if others:
        raise NetworkError(f"this host has no default route: choose an interface with --interface: {_list(others)}")
    raise NetworkError("this host has only loopback, so no other host can reach it: bring up a network interface")


def interface_towards(address: str) -> Interface:
    """The interface by which this host reaches an address, which may be its own. Raises NetworkError."""
    source = source_address(address)
    available = interfaces()
    matching = [interface for interface in available if interface.address == source]
    if not matching:
        has = _list(available)
        raise NetworkError(f"{address} cannot be reached: no interface has a route to it; this host has {has}")
    if matching[0].is_loopback and not ipaddress.ip_address(address).is_loopback:
        raise NetworkError(f"the route to {address} goes through loopback: correct /etc/hosts, or the routes")
    return matching[0]


def resolve(host: str) -> str:
    """The IPv4 address to which this host resolves a host name. Raises NetworkError, also if it is loopback."""
    try:
        address = socket.getaddrinfo(host, None, socket.AF_INET)[0][4][0]
    except OSError as error:
        why = f"the name {host!r} cannot be resolved here ({error.strerror})"
        raise NetworkError(f"{why}: add it to /etc/hosts or to the DNS") from None
    if ipaddress.ip_address(address).is_loopback:  # Debian's /etc/hosts maps the host's own name to loopback
        why = f"the name {host!r} resolves to {address} here, which is loopback: each host would wait for itself"
        raise NetworkError(f"{why}. Correct /etc/hosts: map the name to the address by which other hosts reach it")
    return str(address)


def source_address(destination: str) -> str | None:
    """The address of this host from which a packet to the destination would be sent; None if there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((destination, DISCARD))  # for UDP this only looks up the route; nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return None


def port_of(name: str, number: int = 0) -> int:
    """A port derived from a run's name and a number, so that two runs rarely collide."""
    return FIRST_PORT + (crc32(name.encode()) + number) % PORTS


def port_holder(port: int) -> str:
    """The process of this host that uses a port, in words; empty if that is not known."""
    with suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.pid and each.laddr and each.laddr.port == port:
                return f"process {each.pid} ({psutil.Process(each.pid).name()})"
    return ""


def _list(interfaces: list[Interface]) -> str:
    return ", ".join(f"{interface.name} ({interface.address})" for interface in interfaces) or "none"
