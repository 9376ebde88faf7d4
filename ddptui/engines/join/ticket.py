"""Tickets: a ticket holds what a node needs to join a run, as a line of text or in a file."""

import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from ipaddress import IPv4Address
from pathlib import Path

import msgspec
from zmq.utils import z85

from ddptui import __version__
from ddptui.engines.sockets import ConsoleSocket
from ddptui.host.folders import open_plain
from ddptui.wire.connection import PeerKeys
from ddptui.wire.relay_file import Watching

MARK = "ddptui1:"  # prefix of tickets; the number changes with the fields of a ticket
MARK_OF_ANY_VERSION = re.compile(r"ddptui\d{1,9}:", re.ASCII)
LONGEST = 4096  # characters of a ticket
MOST_BYTES = 2**20  # limit for a file with a ticket
KEY_BYTES = 32  # length of a CURVE key
ENDPOINT = re.compile(r"tcp://([\d.]+):(\d{1,5})", re.ASCII)  # format of the console's endpoint
INSTALL = f"install the console's version on this host, which has {__version__}"


class TicketError(ValueError):
    """A ticket is invalid. The message is one line that says why, and what to do."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The console's address, with the keys and the token of one run. A ticket only permits to take part in that run."""

    run: str
    endpoint: str
    token: str
    keys: PeerKeys
    watching: Watching | None = None  # which steps to report, if the console waits for a training to watch

    def spell(self) -> str:
        """The ticket as a line of text."""
        return MARK + urlsafe_b64encode(msgspec.msgpack.encode(self)).decode()


def ticket_for(run: str, socket: ConsoleSocket, watching: Watching | None = None) -> Ticket:
    """The ticket for connecting to a socket on the network."""
    assert socket.keys is not None  # on the network, the socket is encrypted
    return Ticket(run=run, endpoint=socket.endpoint, token=socket.token, keys=socket.keys, watching=watching)


def read_ticket(text_or_file: str) -> Ticket:
    """Read a ticket from a line of text or from the file of that name. Raises TicketError."""
    text = text_or_file.strip()
    if not MARK_OF_ANY_VERSION.match(text):
        try:
            with open_plain(Path(text), MOST_BYTES) as file:
                text = file.read(LONGEST + 1).decode("ascii", "replace").strip()  # the file may contain anything
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no such file"
            raise TicketError(f"{text[:80]}: neither a ticket ({MARK}…) nor a file that holds one: {why}") from None
    if MARK_OF_ANY_VERSION.match(text) and not text.startswith(MARK):
        raise TicketError(f"this ticket is from another version of ddptui: {INSTALL}")
    if not text.startswith(MARK) or len(text) > LONGEST:
        raise TicketError(f"a ticket begins with {MARK} and is one line: copy the whole line, or name its file")
    try:
        ticket = msgspec.msgpack.decode(urlsafe_b64decode(text.removeprefix(MARK)), type=Ticket)
        endpoint = ENDPOINT.fullmatch(ticket.endpoint)
        if endpoint is None or not 0 < int(endpoint[2]) < 2**16 or not all(map(_is_key, ticket.keys)):
            raise ValueError("no node could connect with it")
        IPv4Address(endpoint[1])
    except ValueError:
        why = "this ticket is damaged or incomplete, or of another version of ddptui"
        raise TicketError(f"{why}: copy the whole line again, or {INSTALL}") from None
    return ticket


def _is_key(text: str) -> bool:
    try:
        return len(z85.decode(text)) == KEY_BYTES
    except (ValueError, KeyError, struct.error):  # invalid characters, or a value out of range
        return False
