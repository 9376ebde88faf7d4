"""The fields in which the trials of a preset differ, and their values in words."""

from collections.abc import Sequence

from ddptui.config.preset import Preset
from ddptui.config.trial import TRIAL_FIELDS
from ddptui.text.words import listed

NAMES = {"average": "averaging {}", "launch": "launch = {}", "model": "the {} model"}  # of values that are words


def differ(preset: Preset) -> list[str]:
    """The fields that do not have the same value in all trials, but the name."""
    fields = [name for name in TRIAL_FIELDS if name != "name"]
    return [field for field in fields if len({repr(getattr(trial, field)) for trial in preset.trials}) > 1]


def named(field: str, value: object) -> str:
    """One value by itself: all_reduce; averaging parameters; dataset = digits."""
    if field == "strategy":
        return str(value)
    return NAMES.get(field, f"{field} = {{}}").format(value)


def valued(field: str, values: Sequence[object]) -> str:
    """One value or several, after `with`: 1 rank; 2 and 4 ranks; every = 4 and 16."""
    words = listed([str(value).lower() if isinstance(value, bool) else str(value) for value in values])
    if field == "world_size":
        return f"{words} {'rank' if words == '1' else 'ranks'}"
    return f"{field} = {words}"
