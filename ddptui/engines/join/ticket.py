"""What a node needs to join a run: where its console is, and the keys to it. A line of text, or a file with it."""

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

import msgspec

from ddptui import __version__
from ddptui.wire.connection import Keys

MARK = "ddptui1:"  # the number changes with what a ticket holds
OTHER_MARK = re.compile(r"ddptui\d{1,9}:", re.ASCII)
LONGEST = 4096  # characters
INSTALL = f"install the console's version on this host, which has {__version__}"


class TicketError(ValueError):
    """No ticket: one line."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whoever has it can take part in this run, and see what is said in it; nothing else."""

    run: str
    endpoint: str
    token: str
    keys: Keys

    def spell(self) -> str:
        return MARK + urlsafe_b64encode(msgspec.msgpack.encode(self)).decode()

    def write(self, path: Path) -> None:
        """A file that only this user can read. Raises OSError."""
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(self.spell() + "\n")


def read_ticket(text_or_file: str) -> Ticket:
    """Raises TicketError."""
    text = text_or_file.strip()
    if not OTHER_MARK.match(text):
        try:
            with open(text, encoding="ascii", errors="replace") as file:
                text = file.read(LONGEST + 1).strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no such file"
            raise TicketError(f"{text[:80]}: neither a ticket ({MARK}…) nor a file that holds one: {why}") from None
    if OTHER_MARK.match(text) and not text.startswith(MARK):
        raise TicketError(f"this ticket is from another version of ddptui: {INSTALL}")
    if not text.startswith(MARK) or len(text) > LONGEST:
        raise TicketError(f"a ticket begins with {MARK} and is one line: copy the whole line, or name its file")
    try:
        return msgspec.msgpack.decode(urlsafe_b64decode(text.removeprefix(MARK)), type=Ticket)
    except ValueError:
        raise TicketError(
            f"this ticket is incomplete, or of another version of ddptui: copy the whole line again, or {INSTALL}"
        ) from None
