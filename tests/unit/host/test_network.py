"""By which interface and port a host is reached: chosen before anything starts, and loopback never."""

import socket
from collections.abc import Callable

import pytest

from ddptui.host import network
from ddptui.host.network import Interface, NetworkError, choose_interface, interface_towards, port_of, resolve

Given = Callable[..., None]
LOOPBACK, ETHERNET, FAST = Interface("lo", "127.0.0.1"), Interface("eth0", "10.1.0.7"), Interface("ib0", "10.2.0.7")


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Given:
    """A host with these interfaces, whose routes lead out by one of them, or nowhere."""

    def given(*interfaces: Interface, outward: Interface | None = None) -> None:
        monkeypatch.setattr(network, "interfaces", lambda: list(interfaces))
        monkeypatch.setattr(network, "source_address", lambda _: outward.address if outward else None)

    return given


def test_the_way_out_is_chosen_or_what_is_named(there: Given) -> None:
    there(LOOPBACK, ETHERNET, FAST, outward=ETHERNET)
    assert choose_interface() == ETHERNET
    assert choose_interface("ib0") == FAST
    there(LOOPBACK, FAST)  # the only one, where no route leads out
    assert choose_interface() == FAST


NO_ETH9 = "no interface 'eth9' is up and has an IPv4 address; choose among lo (127.0.0.1), eth0"


@pytest.mark.parametrize(
    ("interfaces", "name", "why"),
    [
        ((LOOPBACK, ETHERNET), "lo", "no other host can reach 127.0.0.1; choose with --interface among eth0"),
        ((LOOPBACK, ETHERNET), "eth9", NO_ETH9),
        ((LOOPBACK, ETHERNET, FAST), None, "choose an interface with --interface: eth0 (10.1.0.7), ib0 (10.2.0.7)"),
        ((LOOPBACK,), None, "this host has only loopback"),
    ],
)  # fmt: skip
def test_no_unreachable_is_taken(there: Given, interfaces: tuple[Interface, ...], name: str | None, why: str) -> None:
    there(*interfaces)
    with pytest.raises(NetworkError) as refused:
        choose_interface(name)
    assert why in str(refused.value)


def test_the_way_to_another_host_is_no_loopback(there: Given) -> None:
    there(LOOPBACK, ETHERNET, outward=ETHERNET)
    assert interface_towards("10.1.0.9") == ETHERNET
    there(LOOPBACK, ETHERNET, outward=LOOPBACK)
    with pytest.raises(NetworkError, match="goes through loopback"):
        interface_towards("10.1.0.9")
    there(LOOPBACK, ETHERNET)
    with pytest.raises(NetworkError, match=r"^10\.1\.0\.9 cannot be reached: no interface has a route"):
        interface_towards("10.1.0.9")


def test_a_name_that_stands_for_loopback_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Debian's hosts file has it: each node would wait for itself."""
    found = {"node-0": "127.0.1.1", "node-1": "10.1.0.7"}

    def look_up(host: str, *_: object) -> list[tuple[object, object, object, object, tuple[str, int]]]:
        if host not in found:
            raise socket.gaierror(-2, "Name or service not known")
        return [(None, None, None, None, (found[host], 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert resolve("node-1") == "10.1.0.7"
    with pytest.raises(NetworkError, match="'node-0' resolves to 127"):
        resolve("node-0")
    with pytest.raises(NetworkError, match="'node-2' cannot be resolved here"):
        resolve("node-2")


def test_ports_stay_below_those_that_systems_hand_out() -> None:
    ports = {port_of(f"run-{number}", number) for number in range(1000)}
    assert len(ports) > 900
    assert min(ports) >= 1024
    assert max(ports) < 32_768
    assert port_of("run", 1) == port_of("run", 1) != port_of("run", 2)
