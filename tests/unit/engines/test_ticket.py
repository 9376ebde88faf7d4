"""Tickets: one line, or a file that only the user can read; whatever else is typed is refused in one line."""

import stat
from pathlib import Path

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
        (f"{MARK}!!!", "incomplete, or of another version"),
        (MARK + "A" * 5000, "begins with ddptui1: and is one line"),
    ],
)
def test_what_is_no_ticket_is_refused(text: str, why: str) -> None:
    with pytest.raises(TicketError) as refused:
        read_ticket(text)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"\x00\xff" * 5000)
    with pytest.raises(TicketError, match="begins with ddptui1:"):
        read_ticket(str(tmp_path / "other"))
