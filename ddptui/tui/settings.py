"""What the console remembers from one time to the next: the theme."""

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

DARK, LIGHT = "textual-dark", "textual-light"
LIGHT_BACKGROUNDS = {"7", "15"}  # in COLORFGBG, which some terminals set: the number of the colour behind the text


class Settings(msgspec.Struct):
    theme: str | None = None


def path() -> Path:
    return platformdirs.user_config_path("ddptui") / "console.json"


def first_theme(wanted: str | None, known: Container[str]) -> str:
    """As the command line says, or TEXTUAL_THEME, or as it was last time, or as the terminal's background wants it."""
    usual = LIGHT if os.environ.get("COLORFGBG", "").rpartition(";")[2] in LIGHT_BACKGROUNDS else DARK
    for theme in (wanted, os.environ.get("TEXTUAL_THEME"), load().theme):
        if theme is not None and theme in known:
            return theme
    return usual


def load() -> Settings:
    """What was kept; as good as nothing where it cannot be read."""
    try:
        return msgspec.json.decode(path().read_bytes(), type=Settings)
    except (OSError, ValueError):
        return Settings()


def save(settings: Settings) -> None:
    """Keep it; a console that cannot write there goes on all the same."""
    with suppress(OSError):
        path().parent.mkdir(parents=True, exist_ok=True)
        path().write_bytes(msgspec.json.encode(settings))
