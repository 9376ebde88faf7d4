"""The user's settings, as config.toml has them. Pure: ddptui/store/settings.py reads and writes the file."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ddptui.config.columns import MEANINGS
from ddptui.config.keys import KEYS, problem
from ddptui.text.words import did_you_mean

# Textual's themes. Spelled out: only the screens may import Textual. A test compares them.
THEMES = (
    "ansi-dark", "ansi-light", "atom-one-dark", "atom-one-light", "catppuccin-frappe", "catppuccin-latte",
    "catppuccin-macchiato", "catppuccin-mocha", "dracula", "flexoki", "gruvbox", "monokai", "nord", "rose-pine",
    "rose-pine-dawn", "rose-pine-moon", "solarized-dark", "solarized-light", "textual-dark", "textual-light",
    "tokyo-night",
)  # fmt: skip
LEAST_REFRESH, MOST_REFRESH = 0.2, 30  # a second
LONGEST_QUOTE = 40  # characters of a value in an error


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
    known = Settings.__struct_fields__
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known, f"there are {', '.join(known)}")
            raise SettingsError(f"{key}: unknown key; {hint}")
    return Settings(
        theme=_theme(table["theme"]) if "theme" in table else None,
        refresh=_refresh(table["refresh"]) if "refresh" in table else None,
        columns=tuple(_columns(table.get("columns", []))),
        keys=_keys(table.get("keys", {})),
    )


def _theme(value: object) -> str:
    if not isinstance(value, str):
        raise _expected("theme", 'the name of a theme, as "nord"', value)
    if value not in THEMES:
        hint = did_you_mean(value, THEMES, f"there are {', '.join(THEMES)}")
        raise SettingsError(f"theme: no theme {_quoted(value)}; {hint}")
    return value


def _refresh(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not LEAST_REFRESH <= value <= MOST_REFRESH:  # type: ignore[operator]
        raise _expected("refresh", f"a number from {LEAST_REFRESH} to {MOST_REFRESH}, in refreshes a second", value)
    return float(value)  # type: ignore[arg-type]


def _columns(value: object) -> Iterable[str]:
    if not isinstance(value, list):
        raise _expected("columns", 'a list of keys of columns, as ["startup"]', value)
    for index, key in enumerate(value):
        if not isinstance(key, str) or key not in MEANINGS:
            hint = did_you_mean(key, MEANINGS, "`ddptui columns` lists them")
            raise SettingsError(f"columns[{index}]: no column {_quoted(key)}; {hint}")
        yield key


def _keys(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _expected("keys", "a table of actions, each with its key", value)
    for action in value:
        if action not in KEYS:
            hint = did_you_mean(action, KEYS, "`ddptui config --keys` lists them")
            raise SettingsError(f"keys.{action}: no such action; {hint}")
    chosen = {action: _keys_of(action, keys) for action, keys in value.items()}
    if wrong := problem(chosen):
        action, why = wrong
        raise SettingsError(f"keys.{action}: {why}")
    return chosen


def _keys_of(action: str, value: object) -> tuple[str, ...]:
    keys = value if isinstance(value, list) else [value]
    if not keys or not all(isinstance(key, str) and key for key in keys):
        raise _expected(f"keys.{action}", 'a key, as "x", or a list of keys', value)
    return tuple(keys)


def _expected(key: str, what: str, value: object) -> SettingsError:
    return SettingsError(f"{key}: expected {what}, got {_quoted(value)}; correct it, or remove it for the default")


def _quoted(value: object) -> str:
    """A value as JSON spells it, which is nearly as TOML does, on one line."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
