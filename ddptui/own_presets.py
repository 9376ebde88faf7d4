"""Presets of one's own: a changed one is kept in the user's folder, where `--preset NAME` finds it."""

import re
from pathlib import Path

from ddptui.preset import Preset
from ddptui.preset_file import PresetError, folders, shipped_and_own
from ddptui.preset_text import as_toml

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def file_of(name: str) -> Path:
    return folders()[1] / f"{name}.toml"


def usual_name(name: str) -> str:
    """For what was changed of a preset: one's own is replaced."""
    return name if file_of(name).is_file() else f"{name}-mine"


def refusal(name: str) -> str:
    """Why a preset of one's own cannot have this name; empty: it can."""
    if not NAME.fullmatch(name):
        return "a name has small letters, digits, - and _, and begins with a letter or a digit"
    taken = shipped_and_own().get(name)
    if taken is not None and taken.parent != folders()[1]:
        return f"{taken} has this name"
    return ""


def keep(preset: Preset, name: str) -> None:
    """Write it, over whatever is there. Raises PresetError."""
    path = file_of(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_toml(preset), encoding="utf-8")
    except OSError as error:
        raise PresetError(f"{path}: cannot be written: {error.strerror}") from None
