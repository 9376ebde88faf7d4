"""The user's settings, as config.toml has them. Pure: ddptui/store/settings.py reads and writes the file."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from ddptui.config.columns import MEANINGS
from ddptui.config.keys import KEYS, problem
from ddptui.config.toml import quoted
from ddptui.text.words import did_you_mean

# Textual's themes. Spelled out: only the screens may import Textual. A test compares them.
THEMES = (
    "ansi-dark", "ansi-light", "atom-one-dark", "atom-one-light", "catppuccin-frappe", "catppuccin-latte",
    "catppuccin-macchiato", "catppuccin-mocha", "dracula", "flexoki", "gruvbox", "monokai", "nord", "rose-pine",
    "rose-pine-dawn", "rose-pine-moon", "solarized-dark", "solarized-light", "textual-dark", "textual-light",
    "tokyo-night",
)  # fmt: skip
LEAST_REFRESH, MOST_REFRESH = 0.2, 30  # a second


class SettingsError(ValueError):
    """The settings cannot be used. One line: the key, what is expected there, and what to do."""


class Settings(msgspec.Struct, frozen=True):
    """What the user has set. theme: None means one for the terminal's background. refresh: screen refreshes per second;
    None means the default. columns: keys of columns to keep in sight. keys: by action, its keys."""

    theme: str | None = None
    refresh: float | None = None
    columns: tuple[str, ...] = ()
    keys: dict[str, tuple[str, ...]] = {}


NO_SETTINGS = Settings()


def parse(table: Mapping[str, Any]) -> Settings:
    """The settings of a file's table. Raises SettingsError."""
    for key in table:
        if key not in READ:
            raise _unknown(f"{key}: unknown key", key, READ, f"there are {', '.join(READ)}")
    return Settings(**{key: read(table[key]) for key, read in READ.items() if key in table})


def _theme(value: object) -> str:
    if not isinstance(value, str):
        raise _expected("theme", 'the name of a theme, as "nord"', value)
    if value not in THEMES:
        raise _unknown(f"theme: no theme {quoted(value)}", value, THEMES, f"there are {', '.join(THEMES)}")
    return value


def _refresh(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and LEAST_REFRESH <= value <= MOST_REFRESH:
        return float(value)
    raise _expected("refresh", f"a number from {LEAST_REFRESH} to {MOST_REFRESH}, in refreshes a second", value)


def _columns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _expected("columns", 'a list of keys of columns, as ["startup"]', value)
    for index, key in enumerate(value):
        if not isinstance(key, str) or key not in MEANINGS:
            what = f"columns[{index}]: no column {quoted(key)}"
            raise _unknown(what, key, MEANINGS, "`ddptui columns` lists them")
    return tuple(value)


def _keys(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _expected("keys", "a table of actions, each with its key", value)
    for action in value:
        if action not in KEYS:
            raise _unknown(f"keys.{action}: no such action", action, KEYS, "`ddptui config --keys` lists them")
    chosen = {action: tuple(keys if isinstance(keys, list) else [keys]) for action, keys in value.items()}
    for action, keys in chosen.items():
        if not keys or not all(isinstance(key, str) and key for key in keys):
            raise _expected(f"keys.{action}", 'a key, as "x", or a list of keys', value[action])
    if wrong := problem(chosen):
        raise SettingsError(f"keys.{wrong[0]}: {wrong[1]}")
    return chosen


READ: dict[str, Callable[[object], Any]] = {"theme": _theme, "refresh": _refresh, "columns": _columns, "keys": _keys}


def _expected(key: str, what: str, value: object) -> SettingsError:
    return SettingsError(f"{key}: expected {what}, got {quoted(value)}; correct it, or remove it for the default")


def _unknown(what: str, word: object, known: Iterable[str], otherwise: str) -> SettingsError:
    return SettingsError(f"{what}; {did_you_mean(word, known, otherwise)}")
