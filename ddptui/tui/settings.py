"""The console's settings, kept from one session to the next: the theme."""

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

import msgspec
from textual.theme import BUILTIN_THEMES

from ddptui.host.folders import user_config

DARK, LIGHT = "textual-dark", "textual-light"
LIGHT_BACKGROUNDS = {"7", "15"}  # ANSI colors in COLORFGBG, which some terminals set


class Settings(msgspec.Struct):
    """`theme`: the name of a Textual theme, if the user has chosen one."""

    theme: str | None = None


def theme_names() -> list[str]:
    """Return the names of all themes, sorted."""
    return sorted(BUILTIN_THEMES)


def path() -> Path:
    """Return the file of the settings; it need not exist. Raises OSError: there is no home."""
    return user_config("console.json")


def first_theme(wanted: str | None, known: Container[str]) -> str:
    """Return the first known theme of `wanted`, TEXTUAL_THEME and the saved one; else one for the background."""
    candidates = (wanted, os.environ.get("TEXTUAL_THEME"), load().theme)
    default = LIGHT if os.environ.get("COLORFGBG", "").rpartition(";")[2] in LIGHT_BACKGROUNDS else DARK
    return next((theme for theme in candidates if theme is not None and theme in known), default)


def load() -> Settings:
    """Return the saved settings, or the defaults where they cannot be read."""
    try:
        return msgspec.json.decode(path().read_bytes(), type=Settings)  # skips what a newer console may have added
    except (OSError, ValueError):
        return Settings()


def save(settings: Settings) -> None:
    """Save the settings, if the file can be written."""
    with suppress(OSError):  # a theme is not worth an error
        path().parent.mkdir(parents=True, exist_ok=True)
        path().write_bytes(msgspec.json.encode(settings))
