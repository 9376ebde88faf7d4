"""Binds keys to actions by what they mean; ddptui/config/settings.py has the table."""

from collections.abc import Iterable, Mapping
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.content import Content
from textual.style import Style

from ddptui.config.settings import KEYS, NO_SETTINGS


def bound(means: str, action: str, description: str, *, show: bool = True, tooltip: str = "") -> Binding:
    """Bind the key with this meaning. The user may have chosen another key."""
    key = KEYS[means].default
    display = key if len(key) == 1 else None
    return Binding(_listed([key]), action, description, show, display, tooltip=tooltip, id=means)


def moves(means: str, action: str, description: str, *, tooltip: str = "") -> list[Binding]:
    """Bind an arrow key (up, down, left or right), and the letter with the same meaning."""
    letter = bound(means, action, description, show=False, tooltip=tooltip)
    return [Binding(means, action, description, show=False, tooltip=tooltip), letter]


def name_of(means: str, app: App[Any]) -> str:
    """Return the name of the key with this meaning, for texts on screens."""
    chosen: Mapping[str, tuple[str, ...]] = getattr(app, "settings", NO_SETTINGS).keys
    return chosen[means][0] if means in chosen else KEYS[means].default


def clickable(key: str, what: str, action: str) -> Content:
    """Return a key with its description; a click on it performs the screen's action."""
    part = Content.assemble((key, "bold $footer-key-foreground"), f" {what}" if what else " ")
    return part.stylize(Style.from_meta({"@click": f"screen.{action}"}))


def keymap(chosen: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the user's keys as a Textual keymap."""
    return {means: _listed(keys) for means, keys in chosen.items()}


def _listed(keys: Iterable[str]) -> str:
    return ",".join("comma" if each == "," else each for each in keys)
