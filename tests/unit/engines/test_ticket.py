"""Tickets: one line, or a file that only the user can read; whatever else is typed is refused in one line."""

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.engines.join.ticket import MARK, Ticket, TicketError, read_ticket
from ddptui.host.folders import write_private
from ddptui.wire.connection import Keys

TICKET = Ticket(run="r", endpoint="tcp://10.0.0.1:15000", token="t" * 32, keys=Keys("s" * 40, "p" * 40, "x" * 40))


def test_a_ticket_is_read_from_its_line_and_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ticket"
    write_private(path, TICKET.spell() + "\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_ticket(str(path)) == read_ticket(f"  {TICKET.spell()}\n") == TICKET
    path.write_bytes(b"\x00\xff" * 5000)
    with pytest.raises(TicketError, match="begins with ddptui1:"):
        read_ticket(str(path))


@given(st.integers(1, 300))
def test_a_ticket_that_was_cut_short_is_refused(length: int) -> None:
    spelled = TICKET.spell()
    with pytest.raises(TicketError):
        read_ticket(spelled[: max(len(MARK), len(spelled) - length)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nowhere", "nowhere: neither a ticket (ddptui1:…) nor a file that holds one: No such file or directory"),
        ("", "neither a ticket"),
        (f"{MARK}!!!", "damaged or incomplete, or of another version"),
        (MARK + "A" * 5000, "begins with ddptui1: and is one line"),
    ],
)
def test_what_is_no_ticket_is_refused(text: str, why: str) -> None:
    with pytest.raises(TicketError) as refused:
        read_ticket(text)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "damage",
    [
        *({"endpoint": endpoint} for endpoint in (
            "", "ipc:///tmp/x", "inproc://x", "udp://10.0.0.1:5", "tcp://10.0.0.1", "tcp://10.0.0.1:x", "tcp://:15000",
            "tcp://10.0.0.1:0", "tcp://10.0.0.1:65536", "tcp://10.0.0.1:15000/x", "tcp://[:15000",
            "tcp://localhost:15000", "tcp://10.0.0.256:15000",
            "tcp://10.0.0.1:15000\n", "tcp://a\x1b]0;x:1",
        )),
        *({"keys": keys} for keys in (
            Keys("s", "p", "x"), Keys("é" * 40, "p" * 40, "x" * 40), Keys("s" * 40, "#" * 40, "x" * 40),
            Keys("s" * 40, "p" * 40, "x" * 39 + " "),
        )),
    ],
)  # fmt: skip
def test_a_ticket_with_which_no_node_can_connect_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(TicketError, match="this ticket is damaged or incomplete"):
        read_ticket(msgspec.structs.replace(TICKET, **damage).spell())
