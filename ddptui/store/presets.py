"""Finds and loads presets: those shipped with ddptui, the project's and the user's."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import tomli_w

from ddptui.config.parser import NO_EDITS, Edits, PresetError, edited, parse
from ddptui.config.preset import LOCAL, EngineOptions, Preset
from ddptui.config.trial import TrialError
from ddptui.config.values import convert, off_default
from ddptui.host import machine
from ddptui.host.folders import lab_root, user_config
from ddptui.host.source import located
from ddptui.store.settings import TomlFileError, read_table, replace_file
from ddptui.text.sanitize import brief
from ddptui.text.words import count, did_you_mean, in_a_row, remedy_of


def write_new(path: Path, text: str) -> None:
    """Write a new preset file; an existing one is not replaced. Raises PresetError."""
    if os.path.lexists(path):
        raise PresetError(f"{path}: already exists; remove it, or choose another name")
    try:
        replace_file(path, text.encode())
    except OSError as error:
        is_missing = path.parent.name and not path.parent.is_dir()
        other = f"create the folder {path.parent}" if is_missing else "go to a folder in which you may write"
        remedy = remedy_of(str(error)) or other
        raise PresetError(f"{path}: cannot be written: {error.strerror}; {remedy}") from None


FIRST = ("playground", "quickstart")
# In the order of a lab sheet: what each collective does, two ways to average, one's own way, where a delay hurts, who
# waits for whom; then two published tutorials, and mistakes.
LESSONS = (
    "primitives-see", "allreduce-vs-reduce-broadcast", "own-average", "bottleneck-where", "who-waits", "three-demos",
    "average-twice", "mistakes",
)  # fmt: skip
LESSONS_SHELF, YOURS, MORE = "Lessons", "Your own", "More"
SHELVES = {"Start here": FIRST, LESSONS_SHELF: LESSONS}


class BrokenPreset(NamedTuple):
    """A preset that cannot be read, and why."""

    name: str
    why: str


def all_presets() -> tuple[dict[str, list[Preset]], list[BrokenPreset]]:
    """All presets, on named shelves in the order of the list; and those that cannot be read."""
    presets: dict[str, Preset] = {}
    broken: list[BrokenPreset] = []
    paths = preset_paths()
    for name, path in paths.items():
        try:
            presets[name] = load(str(path))
        except PresetError as error:
            broken.append(BrokenPreset(name, brief(str(error))))
    shelves = {shelf: [presets.pop(name) for name in names if name in presets] for shelf, names in SHELVES.items()}
    users = [presets.pop(name) for name in [*presets] if paths[name].parent == folders()[1]]
    return shelves | {YOURS: users, MORE: sorted(presets.values(), key=lambda each: (each.group, each.name))}, broken


def describe_size(preset: Preset) -> str:
    """The size of a preset in words: `3 trials, 2 repeats`."""
    return f"{count(len(preset.trials), 'trial')}, {count(preset.repeats, 'repeat')}"


def folders() -> list[Path]:
    """The folders in which presets are searched, in order: the project's, the user's, ddptui's own.

    Raises OSError if the user has no home.
    """
    return [Path("presets"), user_config("presets"), lab_root() / "presets"]


def preset_paths() -> dict[str, Path]:
    """The file of every preset, keyed by name. If several folders have a name, the first one wins."""
    paths: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob("*.toml")):
            paths.setdefault(path.stem, path)
    return paths


def find(name_or_file: str) -> Path:
    """The file of a preset, given by its name or path. Raises PresetError."""
    path = Path(name_or_file)
    if path.suffix == ".toml" or os.sep in name_or_file:
        return path
    known = preset_paths()
    if name_or_file not in known:
        hint = did_you_mean(name_or_file, known)
        raise PresetError(in_a_row([f"no preset {name_or_file!r}", hint, "`ddptui presets` lists them"], ";"))
    return known[name_or_file]


def load(
    name_or_file: str,
    overrides: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
    edits: Edits = NO_EDITS,
) -> Preset:
    """Read a preset. overrides: fields of every trial to replace (--set). engine: fields of [engine] to replace. edits:
    changes to single trials. Raises PresetError."""
    path = find(name_or_file)
    try:
        preset = parse(path.stem, read_table(path, "a preset"), overrides or {}, machine.available_cores())
        preset = edited(preset, edits)
        trials = tuple(located(trial, path.absolute().parent) for trial in preset.trials)
        preset = msgspec.structs.replace(preset, trials=trials)
        if engine:
            base = preset.engine if engine.get("name", preset.engine.name) == preset.engine.name else LOCAL
            options = convert(msgspec.to_builtins(base) | engine, EngineOptions, "engine.")
            preset = msgspec.structs.replace(preset, engine=options)
        return preset
    except TomlFileError as error:
        raise PresetError(str(error)) from None
    except TrialError as error:
        raise PresetError(f"{path}: {error}") from None


def as_toml(preset: Preset) -> str:
    """A preset as TOML that loads as an equal preset. Every trial is spelled out, so that it depends on no override."""
    table = msgspec.to_builtins(preset) | {"trial": [off_default(trial) for trial in preset.trials]}
    table = {key: value for key, value in table.items() if key != "name" and value != {}}
    text = tomli_w.dumps(table)
    return text if r"\r" in text else tomli_w.dumps(table, multiline_strings=True)  # which would write \r\n as \n
