"""Saves, renames, deletes and restores the user's own presets. Deleted presets move to a trash folder beside them."""

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.host.folders import lab_root
from ddptui.store.presets import as_toml, folders, preset_paths
from ddptui.store.trash import STAMP_FORMAT, TRASH

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def path_of(name: str) -> Path:
    """The file of the user's preset with this name."""
    return folders()[1] / f"{name}.toml"


def why_not_own(name: str) -> str:
    """Why the user cannot rename or delete a preset; empty if the preset is the user's own."""
    path = preset_paths().get(name)
    if path is None:
        return f"{name} no longer exists"
    if path.parent == folders()[1]:
        return ""
    shipped = path.parent.resolve() == (lab_root() / "presets").resolve()
    return f"{name} is shipped with ddptui" if shipped else f"{name} belongs to this project: {path}"


def suggested_name(name: str) -> str:
    """The suggested name for a changed preset: the same name if it is the user's own (it is then replaced), otherwise
    `NAME-mine`."""
    return name if path_of(name).is_file() else f"{name}-mine"


def name_problem(name: str) -> str:
    """Why a user's preset cannot have this name; empty if it can."""
    if not NAME.fullmatch(name):
        return "a name may contain a-z, 0-9, - and _, and must begin with a letter or digit"
    taken = preset_paths().get(name)
    if taken is not None and taken.parent != folders()[1]:
        return f"the name is taken by {taken}"
    return ""


def save(preset: Preset, name: str) -> None:
    """Write a preset to the user's folder. A preset that has this name moves to the trash. Raises PresetError."""
    path = path_of(name)
    if path.exists():
        discard(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(as_toml(preset), encoding="utf-8")
    except OSError as error:
        raise PresetError(f"{path}: cannot be written: {error.strerror}") from None


def rename(name: str, new: str) -> None:
    """Rename one of the user's presets. A preset that already has the new name moves to the trash. Raises
    PresetError."""
    if path_of(new).exists():
        discard(new)
    _move(path_of(name), path_of(new))


def discard(name: str) -> None:
    """Move one of the user's presets to the trash. Raises PresetError."""
    stamp = datetime.now(UTC).strftime(STAMP_FORMAT)
    _move(path_of(name), folders()[1] / TRASH / stamp / f"{name}.toml")


def bring_back() -> str:
    """Restore the preset that was deleted last, under a new name if its name is taken by now. Returns the name. Raises
    PresetError."""
    deleted = sorted((folders()[1] / TRASH).glob("*/*.toml"))  # oldest first
    if not deleted:
        raise PresetError(f"{folders()[1] / TRASH}: the trash is empty")
    path, taken = deleted[-1], preset_paths()
    name, number = path.stem, 2
    while name in taken or path_of(name).exists():
        name, number = f"{path.stem}-{number}", number + 1
    _move(path, path_of(name))
    with suppress(OSError):  # the folder contains another file
        path.parent.rmdir()
    return name


def _move(path: Path, to: Path) -> None:
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, to)
    except OSError as error:
        raise PresetError(f"{path}: cannot be moved to {to}: {error.strerror}") from None
