"""A preset as TOML again: what a run's folder keeps. Every trial is written out, so that nothing depends on what was
overridden, on the files of this machine, or on the folder that one stands in."""

from typing import Any

import msgspec
import tomli_w

from ddptui.config.preset import Preset, Reference
from ddptui.config.rules import meaningless
from ddptui.config.trial import TRIAL_FIELDS, Trial


def as_toml(preset: Preset) -> str:
    """Text that loads as an equal preset."""
    table: dict[str, Any] = {
        "title": preset.title,
        "group": preset.group,
        "kind": preset.kind,
        "about": preset.about,
        "baseline": preset.baseline,
        "repeats": preset.repeats,
        "trial": [_fields(trial) for trial in preset.trials],
        "engine": msgspec.to_builtins(preset.engine),
        "reference": [_reference(reference) for reference in preset.references],
    }
    return tomli_w.dumps({key: value for key, value in table.items() if value not in ([], {})}, multiline_strings=True)


def _reference(reference: Reference) -> dict[str, Any]:
    """TOML has no word for what was not published."""
    return {key: value for key, value in msgspec.to_builtins(reference).items() if value is not None}


def _fields(trial: Trial) -> dict[str, Any]:
    """What a [[trial]] says: the fields off their defaults that mean something in its launch mode."""
    values = msgspec.to_builtins(trial)
    useless = meaningless(trial.launch, trial.strategy, trial.primitives)
    return {
        name: values[name]
        for name, field in TRIAL_FIELDS.items()
        if getattr(trial, name) != field.default and values[name] is not None and name not in useless
    }
