"""Binds keys to actions by what they mean; ddptui/config/keys.py has the table."""

from collections.abc import Iterable, Mapping

from textual.binding import Binding

from ddptui.config.keys import KEYS


def bound(means: str, action: str, description: str, *others: str, show: bool = True, tooltip: str = "") -> Binding:
    """Bind the key with this meaning, which the user may have changed, and other keys, which stay: arrows, say."""
    usual = KEYS[means].usual
    display = usual if len(usual) == 1 else None
    return Binding(_listed([usual, *others]), action, description, show, display, tooltip=tooltip, id=means)


def shown(means: str, chosen: Mapping[str, tuple[str, ...]]) -> str:
    """Return the key with this meaning, as texts on a screen name it. `chosen`: the user's own keys."""
    return chosen[means][0] if means in chosen else KEYS[means].usual


def keymap(chosen: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the keys that a user has chosen as Textual wants them."""
    return {means: _listed(keys) for means, keys in chosen.items()}


def _listed(keys: Iterable[str]) -> str:
    return ",".join("comma" if each == "," else each for each in keys)
