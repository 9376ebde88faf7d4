"""What the terminal can show."""

import os

DUMB = ("dumb", "unknown")  # in TERM: it takes lines of text only, such as a shell in Emacs


def is_dumb() -> bool:
    """Whether the terminal takes lines of text only: no sequence, and no screen."""
    return os.environ.get("TERM") in DUMB
