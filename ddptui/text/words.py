"""Plurals, and the nearest spelling of a word."""

from collections.abc import Iterable
from difflib import get_close_matches


def count(number: int, noun: str, several: str | None = None) -> str:
    """A number with its noun: 1 step, 2 steps."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean 'spawn'?`, with the known word that is spelled most like this one; or `otherwise` if none is."""
    close = get_close_matches(str(word), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise
