"""Finds out what the terminal can show."""

import os

DUMB = ("dumb", "unknown")  # values of TERM for terminals that take plain lines only, such as a shell in Emacs


def is_dumb() -> bool:
    """Whether the terminal takes plain lines only: no escape sequences, no full-screen program."""
    return os.environ.get("TERM") in DUMB
